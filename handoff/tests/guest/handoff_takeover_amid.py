#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
# long: both minutes on either kernel
"""Whatever happens amid an ask for connections of a service address, nothing is left of it and the next has all."""
import atexit
import contextlib
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from chain import CLAIM, GRANT, NEW, TAIL, Other            # noqa: E402
from fltnl import NlError                                   # noqa: E402
from hof import VIP4, E, claim, main, rounds, run, usable, wait   # noqa: E402
from mallory import RECORD, unheard  # noqa: E402
from netns import SysfsView                                 # noqa: E402
from pair import ASK, TAKEN, TAKEOVER, Conns, Pair, handed_off, takeover_ioctl   # noqa: E402

KNOWS = NEW | E["FLT_FEATURE_TAKEOVER"]
QUESTION, SAID = struct.Struct("!QIHH16s"), struct.Struct("!QIIII")
VIP = socket.inet_aton(VIP4).ljust(16, b"\0")
NOBODY = socket.inet_aton("10.9.0.99").ljust(16, b"\0")


def begins(c):
    """The command, which waits for mallory."""
    return c.fe2.spawn("flotilla", "-j", "takeover", VIP4, "--wait", "60", stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE)


def asked(line):
    """proof, page"""
    return QUESTION.unpack(line.await_kind(TAKEOVER)[1])[:2]


def half(line, proof, page, more):
    """One claim is granted, and then all is not said, or more is to come."""
    line.send(CLAIM, RECORD.pack(0, 4, 0, 7, 80, NOBODY, VIP) + TAIL.pack(77, proof, 1, 0))
    line.await_kind(GRANT)
    if more:
        line.send(TAKEN, SAID.pack(proof, page, 0, 1, 1))
        while asked(line) != (proof, page + 1):     # it may have been asked twice
            pass


def is_killed(c, child, other):
    child.send_signal(signal.SIGKILL)


def link_ends(c, child, other):
    other.lines["fe2"].sock.close()
    time.sleep(0.2)
    child.send_signal(signal.SIGTERM)


def node_is_deleted(c, child, other):
    c.fe2.nl.do("NODE_DEL", node_name="mallory")
    time.sleep(0.2)
    child.send_signal(signal.SIGTERM)


def service_is_deleted(c, child, other):
    c.fe2.nl.do("SERVICE_DEL", service_addr4=VIP4)
    child.send_signal(signal.SIGTERM)
    child.wait(60)
    c.fe2.nl.do("SERVICE_NEW", service_addr4=VIP4)


def all_links_blink(c, child, other):
    before = c.fe2.nl.stat("LinkUp")
    c.fe2.output("ss", "-K", "( sport = :7471 or dport = :7471 )")
    wait(lambda: c.fe2.nl.stat("LinkUp") > before)
    child.send_signal(signal.SIGINT)


def command_is_stopped(c, child, other):
    child.send_signal(signal.SIGSTOP)
    time.sleep(0.5)
    other.lines["fe2"].sock.close()
    child.send_signal(signal.SIGTERM)
    child.send_signal(signal.SIGCONT)


def forget(c, other):
    """Mallory is a node no more."""
    with contextlib.suppress(NlError):
        c.fe2.nl.do("NODE_DEL", node_name="mallory")
    other.lines.pop("fe2").sock.close()
    while select.select([other.listener], [], [], 0)[0]:        # the link was being made anew
        other.listener.accept()[0].close()


@claim
def whatever_happens_amid_an_ask_the_next_has_all():
    with handed_off() as (c, _, _, client, there):
        c.fails_over()
        other = Other(c)
        for event in (is_killed, link_ends, node_is_deleted, service_is_deleted, all_links_blink, command_is_stopped):
            for stage in ("asked", "half", "more"):
                line = other.meet(c.fe2, "BACKEND", KNOWS)
                child = begins(c)
                proof, page = asked(line)
                if stage != "asked":
                    half(line, proof, page, stage == "more")
                event(c, child, other)
                child.communicate(timeout=60)
                forget(c, other)
                assert c.taken() == {"be1": 1}, (event.__name__, stage)
                usable(there, client)
                print("# %s, %s" % (event.__name__, stage), flush=True)
        wait(lambda: [x.get("CONN_NODE") for x in c.fe2.conns() if x["CONN_STATE"] != "LINGER"] == ["be1"],
             name="what mallory claimed is over")
        other.close()


@claim
def one_descriptor_asks_once_at_a_time():
    """Of two threads, and of a child that has inherited it."""
    with handed_off() as (c, _, _, client, there):
        other = Other(c)
        line = other.meet(c.fe2, "BACKEND", KNOWS)
        c.fails_over()
        dev = c.fe2.handoff()
        said = []

        def asks():
            try:
                said.append(takeover_ioctl(dev.fd, ASK, 60000))
            except OSError as error:
                said.append(error.errno)
        thread = threading.Thread(target=asks)
        thread.start()
        proof, page = asked(line)
        for _ in range(3):
            try:
                takeover_ioctl(dev.fd, ASK, 1000)
                assert False, "two at a time"
            except OSError as error:
                assert error.errno == 16, error
        pid = os.fork()
        if not pid:
            try:
                takeover_ioctl(dev.fd, ASK, 1000)
            except OSError as error:
                os._exit(error.errno)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 16
        # Closed by one thread while another asks: that has it still.
        dev.close()
        line.send(TAKEN, SAID.pack(proof, page, 0, 0, 0))
        thread.join(60)
        assert not thread.is_alive() and isinstance(said[0], list), said
        usable(there, client)
        other.close()


def unloads():
    """As soon as the connections are closed."""
    begin = time.monotonic()
    wait(lambda: not subprocess.run(("rmmod", "handoff"), capture_output=True, check=False).returncode)
    print("# unloaded in %.1f s" % (time.monotonic() - begin), flush=True)
    run("modprobe", "handoff")


@claim
def front_end_that_never_grants_keeps_neither_module_nor_connection():
    """Its claims wait; the module goes, and so does the namespace."""
    for end in ("module", "namespace"):
        with Pair(1) as c:
            conns, be = Conns(c), c.be[0]
            for _ in range(4):
                conns.open(be)
            other = Other(c)
            line = other.meet(be, "FRONTEND", KNOWS)
            line.send(TAKEOVER, QUESTION.pack(4711, 0, 4, 0, VIP))
            line.await_kind(CLAIM)
            assert be.stat("ClaimPending") == 4
            conns.close()
            other.close()
            if end == "module":
                unloads()
            else:
                c.nodes.remove(be)
                be.nl.close()
                view = SysfsView.views.pop(be.ns, None)
                if view:
                    atexit.unregister(view.close)
                    view.close()
                c.net.delete(be.ns)
    unloads()


@claim
def front_end_gone_bad_may_ask_without_end():
    """Thousands of questions, answered or not: what others do goes on, and nothing piles up."""
    with Pair(1) as c:
        conns, be = Conns(c), c.be[0]
        for _ in range(rounds(100, 20)):
            conns.open(be)
        other = Other(c)
        line = other.meet(be, "FRONTEND", KNOWS)
        with unheard(line):
            begin, took = time.monotonic(), []
            for number in range(rounds(5000, 1000)):
                line.send(TAKEOVER, QUESTION.pack(number + 1, number % 3, 4, number % 7 * 40, VIP))
                if number % 200 == 0:
                    at = time.monotonic()
                    usable(conns.all[number % len(conns.all)][1], conns.all[number % len(conns.all)][0])
                    took.append(time.monotonic() - at)
            print("# %.1f s for the questions; an exchange beside them took %.3f s at most" %
                  (time.monotonic() - begin, max(took)))
            assert c.taken() == {"be1": len(conns.all)}, "who asks honestly beside it"
            for client, there in conns.all:
                usable(there, client)
        other.close()
        assert be.stat("ClaimPending") <= len(conns.all), "one for each connection, however often it asks"
        be.nl.do("NODE_DEL", node_name="mallory")
        wait(lambda: be.stat("ClaimPending") == 0, name="what it was offered is forgotten")
        conns.close()


if __name__ == "__main__":
    main()
