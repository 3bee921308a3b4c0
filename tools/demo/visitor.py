#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""visitor ADDRESS SITE [--kept N] [--slow N] [--half N] TARGET...: clients that tell what became of each connection.

None opens a second connection. Kept ones ask again and again; slow ones take one document for some seconds; half ones
have begun a request. Says "ready" when all are under way. Takes lines: "more N" (answers of each kept one), "half",
"end"; answers with the number of slow ones that have not all yet, at the end with a list in JSON.
"""
import argparse
import itertools
import json
import socket
import sys
import threading
import time
from pathlib import Path

PATIENCE, SLOW_SECONDS, BIT = 60, 6, 4096


class Visitor(threading.Thread):
    """One connection; who answered first and last, and what went wrong."""

    def __init__(self, args, turn):
        super().__init__(daemon=True)
        self.site, self.targets = args.site, itertools.islice(itertools.cycle(args.targets), turn, None)
        self.sock, self.rest = socket.socket(), b""
        self.prepare()
        self.sock.settimeout(PATIENCE)
        self.sock.connect((args.address, 80))
        self.nodes, self.done, self.error, self.ends, self.begun = [], 0, None, False, False

    def prepare(self):
        pass

    def work(self):
        raise NotImplementedError

    def run(self):
        try:
            self.work()
        except (OSError, ValueError) as error:
            self.error = str(error) or type(error).__name__

    def ask(self):
        target = next(self.targets)
        self.sock.sendall(f"GET {target} HTTP/1.1\r\nHost: demo\r\n\r\n".encode())
        return (self.site / target[1:]).read_bytes()

    def read(self):
        data = self.sock.recv(BIT)
        if not data:
            raise ValueError("closed by the other side")
        return data

    def answer(self, want, pause=0.0):
        """It must be these bytes."""
        while b"\r\n\r\n" not in self.rest:
            self.rest += self.read()
        head, _, body = self.rest.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        if " 200 " not in lines[0]:
            raise ValueError(lines[0])
        self.begun = True
        while len(body) < len(want):
            time.sleep(pause)
            body += self.read()
        if body != want:
            raise ValueError("other bytes than on disk")
        node = next((line[8:] for line in lines if line.lower().startswith("x-node: ")), "nobody")
        self.nodes = [self.nodes[0] if self.nodes else node, node]
        self.rest, self.done = b"", self.done + 1

    def report(self):
        return {"kind": type(self).__name__.lower(), "error": self.error, "requests": self.done,
                "first": self.nodes[0] if self.nodes else None, "last": self.nodes[-1] if self.nodes else None}


class Kept(Visitor):
    """Asks until the end."""

    def work(self):
        while not self.ends:
            self.answer(self.ask())
            time.sleep(0.05)


class Slow(Visitor):
    """Takes its time, and leaves no room for what it has not read."""

    def prepare(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BIT)

    def work(self):
        want = self.ask()
        self.answer(want, SLOW_SECONDS * BIT / max(len(want), 1))


class Half(Visitor):
    """Has connected, begins a request when told to, ends it at the end."""

    def begin(self):
        self.sock.sendall(b"GET / HTTP/1.1\r\n")

    def work(self):
        self.sock.sendall(b"Host: demo\r\n\r\n")
        self.answer((self.site / "index.html").read_bytes())


def until(visitors, reached):
    while any(v.error is None and not reached(v) for v in visitors):
        time.sleep(0.05)


def main(argv):
    p = argparse.ArgumentParser(prog="visitor", description=__doc__)
    p.add_argument("address")
    p.add_argument("site", type=Path)
    p.add_argument("targets", nargs="+")
    for kind in ("kept", "slow", "half"):
        p.add_argument(f"--{kind}", type=int, default=0)
    args = p.parse_args(argv)
    made = {kind: [kind(args, turn) for turn in range(number)]
            for kind, number in ((Kept, args.kept), (Slow, args.slow), (Half, args.half))}
    moving = made[Kept] + made[Slow]
    for visitor in moving:
        visitor.start()
    until(moving, lambda v: v.begun)
    print("ready", flush=True)
    for line in sys.stdin:
        word, _, number = line.strip().partition(" ")
        if word == "end":
            break
        if word == "half":
            for visitor in made[Half]:
                visitor.begin()
        else:
            goal = {v: v.done + int(number) for v in made[Kept]}
            until(made[Kept], lambda v, goal=goal: v.done >= goal[v])
        print(sum(not v.done for v in made[Slow]), flush=True)
    for visitor in moving:
        visitor.ends = True
    for visitor in made[Half]:
        visitor.start()
    everybody = moving + made[Half]
    for visitor in everybody:
        visitor.join(PATIENCE)
        if visitor.is_alive() and not visitor.error:
            visitor.error = "no answer"
    print(json.dumps([v.report() for v in everybody]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
