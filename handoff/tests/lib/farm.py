# SPDX-License-Identifier: GPL-2.0
"""Unmodified servers that are emptied to other nodes, and clients whose one connection has to last."""
import hashlib
import json
import os
import socket
import subprocess
import threading
import time

from hof import PATIENCE, TOP, VIP4, wait
from chain import Chain
from lasting import Lasting
from move import FLOTILLA
from servers import COMMANDS, SIZES, Site, installed

installed("nginx")
COMMANDS["nginx"] = (COMMANDS["nginx"][0].replace("keepalive_requests 100;", "keepalive_requests 1000000;")
                     .replace("keepalive_timeout 60s;", "keepalive_timeout 3600s;"),
                     COMMANDS["nginx"][1])
LARGE = 24 << 20
FLASH = (os.path.join(TOP, "build/bin/flash"), "--user", "root", "--workers", "2", "--listen", VIP4 + ":80")


class Kept(Lasting):
    """A client of the farm."""

    def __init__(self, farm, pause=0.01, files=(3, 6, 9), to="client"):
        super().__init__(next(n for n in farm.clients + farm.nodes if n.name == to).connect(), files, pause)
        self.farm, self.took = farm, []

    def ask(self, number):
        self.sock.sendall(b"GET /0/f%d HTTP/1.1\r\nHost: x\r\n\r\n" % number)

    def gets(self, number):
        self.answered(self.farm.bodies[number])

    def exchange(self, number=3):
        begin = time.monotonic()
        self.ask(number)
        self.gets(number)
        self.took.append(time.monotonic() - begin)


class Farm(Chain):
    """A front-end with the dispatcher of the tests, which gives to be1 if it can; servers on the back-ends."""

    def __init__(self, kind="nginx", backends=2, serving=None):
        super().__init__(backends, names=("client", "direct"))
        # A client that comes to be1 and not to the front-end.
        self.clients[1].run("ip", "route", "add", VIP4 + "/32", "via", self.net.ip4(self.be[0].number))
        self.site = Site(self)
        self.bodies = []
        os.makedirs(os.path.join(self.site.root, "0"))
        for number in range(len(SIZES)):
            place = os.path.join(self.site.root, "f%d" % number)
            os.link(place, os.path.join(self.site.root, "0/f%d" % number))
            with open(place, "rb") as file:
                self.bodies.append(file.read())
        self.kind, self.server, self.kept = kind, {}, []
        for be in self.be[:serving]:
            self.serve(be)
        self.site.dispatch(self.be)

    def serve(self, be):
        if self.kind == "nginx":
            self.server[be.name] = self.site.serve(be, "nginx")
            return
        self.server[be.name] = be.spawn(*FLASH, "--root", self.site.root)
        wait(lambda: "LISTEN" in be.output("ss", "-Htln", "sport = :80"))

    def clients_of(self, number, **more):
        made = [Kept(self, **more) for _ in range(number)]
        self.kept += made
        return made

    @staticmethod
    def has(node):
        """Established connections of its server."""
        return len(node.output("ss", "-Htn", "state", "established", "sport = :80").splitlines())

    def unacknowledged(self):
        """Bytes of the only connection of be1's server."""
        return int(self.be[0].output("ss", "-Htn", "sport = :80").split()[2])

    def command(self, *words, to="be2", at=None, **more):
        """About be1's server; typed `at` another node that is no good."""
        return subprocess.Popen(("ip", "netns", "exec", (at or self.be[0]).ns, FLOTILLA, "-j", "process", "drain",
                                 str(self.server["be1"].pid), "--to", to) + words, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)

    def drain(self, *words, check=0, **more):
        tool = self.command(*words, **more)
        out, err = tool.communicate(timeout=4 * PATIENCE)
        assert tool.returncode == check, (tool.returncode, out, err)
        result = json.loads(out)
        print("# moved %(moved)d, ended %(ended)d, left %(left)d, through %(through)d, forwarded %(forwarded)d, "
              "stuck by %(stuck_by)s, put off %(put_off)s" % result, flush=True)
        return result

    def loaded(self, number, **more):
        """Clients that never pause for long, and one that does, all at be1."""
        made = self.clients_of(number, **more) + self.clients_of(1, pause=0.2, files=(3,))
        for kept in made:
            kept.start()
        self.more(1)
        assert self.has(self.be[0]) == len(made)
        return len(made)

    def drained(self):
        """Until the command has come so far, new ones are given to be1."""
        def refused():
            self.clients_of(1)[0].exchange()
            return self.be[0].stat("AdoptDrained")
        wait(refused)

    def check(self):
        errors = [repr(k.error) for k in self.kept if k.error]
        assert not errors, errors

    def more(self, times=2):
        """Each has had so many more answers."""
        goal = [(k, k.done + times) for k in self.kept]
        wait(lambda: all(k.done >= n for k, n in goal) or any(k.error for k in self.kept))
        self.check()

    def __exit__(self, kind, *_):
        for kept in self.kept:
            kept.close()
        if kind is None:
            self.check()
        self.close()


class Download(threading.Thread):
    """A large answer, of which half is read until it may go on; then small ones on the same connection."""

    def __init__(self, f, body):
        super().__init__(daemon=True)
        self.sock, self.body = f.client.connect(options=((socket.SOL_SOCKET, socket.SO_RCVBUF, 65536),)), body
        self.half, self.on, self.error, self.right = threading.Event(), threading.Event(), None, False

    def get(self, path, length):
        self.sock.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path)
        head = b""
        while b"\r\n\r\n" not in head:
            head += self.sock.recv(1)
        assert head.startswith(b"HTTP/1.1 200"), head
        digest, got = hashlib.sha256(), 0
        while got < length:
            part = self.sock.recv(min(65536, length - got))
            assert part, "end of file after %d bytes" % got
            digest.update(part)
            got += len(part)
            if got > length // 2 and not self.half.is_set():
                self.half.set()
                assert self.on.wait(4 * PATIENCE)
        return digest.digest()

    def run(self):
        try:
            self.right = self.get(b"/0/large", LARGE) == hashlib.sha256(self.body).digest()
        except Exception as error:              # pylint: disable=broad-except
            self.error = error


def large(f):
    body = os.urandom(1 << 20) * (LARGE >> 20)
    place = os.path.join(f.site.root, "0/large")
    with open(place + ".new", "wb") as file:
        file.write(body)
    os.replace(place + ".new", place)       # who reads the one before goes on with it
    made = Download(f, body)
    made.start()
    assert made.half.wait(PATIENCE)
    return made
