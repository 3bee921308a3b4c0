#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
# cpus: 2
"""What a protocol says of itself is looked at, and one that errs costs its own connections and nobody a CPU."""
import contextlib
import os
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
from afpa import (SOFTIRQ, Client, Device, Server, body, claim, counted, equal, main, same, unload,      # noqa: E402
                  wait_for, waiting, wire)
from ssp import counters, refs                  # noqa: E402
import kmsg                                     # noqa: E402

MODULE = "afpa_protocol_test"
OK, MORE, _FOREIGN, HIT = range(4)
# States, and what is none.
SECOND, SEND = 1, 2
NEXT, AWAIT, LEAVE = 0xF0, 0xF1, 0xF2
WRONG = ({"without": "name"}, {"name": ""}, {"name": "Upper"}, {"name": "a-b"}, {"name": "a/b"}, {"name": "\xe4"},
         {"name": "x" * 16}, {"without": "key"}, {"without": "head"}, {"without": "states"}, {"without": "next"},
         {"without": "act"}, {"without": "row"}, {"states": 0}, {"states": 17}, {"data": 4}, {"request": 4},
         {"data": 248, "request": 16}, {"request": 65528}, {"tail": 1}, {"tail_last": 1}, {"first": 3},
         {"second": 0xEF}, {"second": LEAVE + 1}, {"second": 0xFF})


def insmod(**what):
    """What it says, on one line."""
    words = [f"{name}={value}" for name, value in what.items()]
    done = subprocess.run(["insmod", f"{os.environ['FLT_MODULES']}/{MODULE}.ko", *words], capture_output=True,
                          check=False, text=True)
    return done.stderr.strip().rpartition(": ")[2] if done.returncode else ""


@contextlib.contextmanager
def registered(**what):
    equal(f"insmod {what}", insmod(**what), "")
    try:
        yield
    finally:
        wait_for("rmmod", lambda: unload(MODULE))


@contextlib.contextmanager
def served(**what):
    """(device, server) with a site of the protocol, and "/k" put."""
    with registered(**what), Device() as device, contextlib.closing(Server()) as server:
        equal("listeners, refused, errno", device.listen(server.site, "test"), (1, 0, 0))
        server.pass_one()
        try:
            device.put(server.site, "/k", b"object", kind="")
            yield device, server
        finally:
            device.info(mode=SOFTIRQ)
            device.site_del(server.site)


@claim
def what_breaks_the_rules_is_refused():
    for what in WRONG:
        said = insmod(**what)
        if not said:
            unload(MODULE)
        equal(what, said, "Invalid parameters")
    for right in ({}, {"name": "x" * 15}, {"name": "7"}, {"states": 16}, {"data": 128, "request": 128},
                  {"data": 248, "request": 8}):
        with registered(**right):
            pass


@claim
def a_name_is_taken_once():
    before = refs("afpa")
    equal("http", insmod(name="http"), "Device or resource busy")
    equal("references", refs("afpa"), before)
    with registered(name="http7"):
        pass


@claim
def a_protocol_of_bodies_alone_is_answered():
    with served() as (device, server), server.client() as client:
        with counted(Hits=2, HitsSoftirq=lambda n: n > 0, Bytes=12):
            for _ in range(2):
                client.sock.sendall(b"?")
                equal("the answer", client.file.read(6), b"object")
        # An answer without a byte, and one in many pieces.
        for text in (b"", body(300000)):
            device.put(server.site, "/k", text, kind="")
            with counted(Hits=1):
                client.sock.sendall(b"?")
                same("the answer", client.file.read(len(text)), text)
                wait_for("the hit", lambda: device.query(server.site, "/k")["hits"] == 1)
        equal("what the server has read", server.read, [])
        equal("rmmod", unload(MODULE), False)


ERRS = (({"says": OK, "first": SECOND, "second": SECOND}, "goes in circles"),
        ({"says": OK, "first": NEXT, "used": 0}, "takes no request out"),
        ({"says": OK, "first": NEXT}, "takes no request out"),
        ({"says": HIT, "first": NEXT}, "begins a request amid an answer"))


@claim
def one_that_makes_no_progress_loses_its_connections():
    for what, said in ERRS:
        with served(**what) as (_device, server):
            last = kmsg.last()
            with counted(Hits=0, Deferred=2, Bursts=0, OutsideBytes=0):
                for path in ("/a", "/b"):
                    with Client(server.site) as client:
                        equal(what, client.get(path), b"server " + path.encode())
            equal("what the server has read", server.read[-2:], [wire("/a"), wire("/b")])
        texts = b"".join(kmsg.records(last)).decode()
        if f"protocol test {said}" not in texts:
            raise AssertionError(f"{what}: not said: {said}")


@claim
def one_that_does_not_take_its_request_out_answers_it_once():
    with served(used=0) as (_device, server), Client(server.site) as client:
        with counted(Hits=0, Deferred=1, Bursts=0, Bytes=6):
            client.ask("/a")
            equal("the kernel's", client.file.read(6), b"object")
            equal("the server's", client.answer()[1], b"server /a")


@claim
def one_that_waits_for_ever_has_as_much_as_the_engine_looks_at():
    with served(says=MORE, first=AWAIT) as (_device, server):
        most = 8192
        text = wire("/a", fields="A: %s\r\n" % ("b" * (most - len(wire("/a", fields="A: \r\n")))))
        with Client(server.site) as client, counted(Hits=0, Deferred=1):
            client.sock.sendall(text[:-1])
            wait_for("what is waited for", lambda: waiting(server.site) == most - 1)
            equal("what the server has read", server.read, [])
            client.sock.sendall(text[-1:])
            equal("the server's", client.answer()[1], b"server /a")
            same("what the server has read", server.read[0], text)


@claim
def an_answer_that_is_given_up_is_given_back():
    with served(pending=NEXT) as (device, server):
        device.put(server.site, "/k", body(3000000), kind="")
        with Client(server.site, rcvbuf=20000) as client:
            client.sock.sendall(b"?")
            wait_for("the answer", lambda: client.sock.recv(1, socket.MSG_PEEK))
            equal("objects", device.flush(server.site), 1)
            wait_for("the object's memory", lambda: counters("Afpa")["AfpaOutsideBytes"] == 0)


main(MODULE)
