#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
# long: debug minutes there
# cpus: 2
"""
A program that keeps a socket locked, by memory whose pages do not come, keeps nobody else waiting: no other program,
and not who removes the module.
"""
import contextlib
import os
import resource
import select
import socket
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from ssp import (BIDIR, KEEPCOPY, PATIENCE, Device, Proxy, Thread, claim, equal, load, loaded, main,  # noqa: E402
                 recv_exactly, refs, reset, wait_for)
from stall import Stall  # noqa: E402

# More than the places of a work queue on two processors.
CROWD = 600


def left_to_another(sock):
    """A process that has the last descriptor, and closes it when it is told: its id, and a pipe to tell."""
    tell, told = socket.socketpair()
    pid = os.fork()
    if not pid:
        tell.close()
        told.recv(1)
        sock.close()
        os._exit(0)
    told.close()
    sock.close()
    return pid, tell


def ends(pid):
    return os.waitpid(pid, os.WNOHANG)[0] == pid


@claim
def a_close_does_not_wait_for_the_other_end():
    device = Device()
    for flags, locked in ((0, "src"), (0, "dst"), (KEEPCOPY, "src")):
        with Proxy() as p:
            stall = Stall()
            closed = p.src if locked == "dst" else p.dst
            device.splice(p.src, p.dst, flags=flags)
            if locked == "src":
                stall.lock(p.src)
            else:
                p.client.sendall(b"x" * 100)
                stall.lock(p.dst, receive=True)
            pid, tell = left_to_another(closed)
            try:
                tell.send(b"x")
                wait_for(f"flags {flags}, {locked} locked: the close", lambda i=pid: ends(i))
            finally:
                stall.fill()
                tell.close()
        wait_for("no transfer", lambda: device.info()["active"] == 0)
    device.close()
    wait_for("the module is free", lambda: refs() == 0)


@claim
def a_crowd_of_locked_sockets_keeps_no_other_pair_waiting():
    resource.setrlimit(resource.RLIMIT_NOFILE, (8 * CROWD, 8 * CROWD))
    device = Device()
    stall = Stall()
    crowd = [Proxy() for _ in range(CROWD)]
    try:
        for p in crowd:
            device.splice(p.src, p.dst)
            stall.lock(p.src)
        # What becomes of the destination needs the source's lock, too.
        for p in crowd:
            reset(p.client)
        with Proxy() as p:
            device.splice(p.src, p.dst, flags=BIDIR)
            reset(p.client)
            readable = select.select([p.server], [], [], PATIENCE)[0]
            equal("the server hears of the reset", readable, [p.server])
    finally:
        stall.fill()
        for p in crowd:
            p.__exit__()
    wait_for("no transfer", lambda: device.info()["active"] == 0)
    device.close()
    wait_for("the module is free", lambda: refs() == 0)


@contextlib.contextmanager
def once_spliced(flags=0):
    """A proxy whose transfer has ended; with KEEPCOPY what it passed on can be read still."""
    device = Device()
    with Proxy() as p:
        device.splice(p.src, p.dst, limit=10, flags=flags)
        p.server.sendall(b"0123456789")
        equal("what was passed on", recv_exactly(p.client, 10), b"0123456789")
        device.unsplice(p.src, p.dst)
        device.close()
        try:
            yield p
        finally:
            load("sksplice")


def rmmod():
    """Its exit status; it must end."""
    with subprocess.Popen(["rmmod", "sksplice"], stderr=subprocess.DEVNULL) as process:
        try:
            wait_for("the end of rmmod", lambda: process.poll() is not None)
        except AssertionError:
            # It cannot be killed where it waits, and would keep us here.
            process.returncode = -1
            raise
    return process.returncode


def goes():
    """The module is removed, which never waits; it may be held by what is on its way out."""
    wait_for("the module is gone", lambda: rmmod() == 0)
    equal("loaded", loaded("sksplice"), False)


def thread_waits(thread, state):
    """It sleeps so: D for a lock, S for data."""
    with open(f"/proc/self/task/{thread.native_id}/stat", encoding="ascii") as f:
        return f.read().rpartition(") ")[2][0] == state


@claim
def the_module_goes_while_a_call_waits_for_its_memory():
    for receive in (False, True):
        with once_spliced() as p:
            stall = Stall()
            if receive:
                p.server.sendall(b"to the program")
                wait_for("the data", lambda i=p: select.select([i.src], [], [], 0)[0])
            stall.lock(p.src, receive, socket.MSG_DONTWAIT)
            try:
                goes()
            finally:
                stall.fill(b"from the program")
            if receive:
                equal("received", (stall.returned, stall.text(14)), ([14], b"to the program"))
            else:
                equal("sent", stall.returned, [4096])
                equal("arrived", recv_exactly(p.server, 4096).rstrip(b"\0"), b"from the program")
            p.src.settimeout(PATIENCE)
            p.still_ordinary()


@claim
def the_module_goes_while_a_shutdown_waits_for_who_has_the_socket_locked():
    with once_spliced() as p:
        stall = Stall()
        stall.lock(p.src, flags=socket.MSG_DONTWAIT)
        thread = Thread(p.src.shutdown, socket.SHUT_WR)
        try:
            wait_for("shutdown() waits", lambda: thread_waits(thread, "D"))
            goes()
        finally:
            stall.fill(b"before the end")
        thread.join()
        equal("arrived", recv_exactly(p.server, 4096).rstrip(b"\0"), b"before the end")
        equal("the end", p.server.recv(1), b"")


@claim
def the_module_goes_while_a_splice_waits_for_data():
    """SPLICE_F_NONBLOCK is said of the pipe, not of the socket."""
    with once_spliced() as p:
        out, into = os.pipe()
        p.src.setblocking(True)
        begun = threading.Event()

        def run():
            begun.set()
            return os.splice(p.src.fileno(), into, 100, flags=os.SPLICE_F_NONBLOCK)
        thread = Thread(run)
        begun.wait()
        try:
            wait_for("splice() waits", lambda: thread_waits(thread, "S"))
            goes()
        finally:
            p.server.sendall(b"at last")
        equal("spliced", (thread.join(), os.read(out, 100)), (7, b"at last"))
        os.close(out)
        os.close(into)
        p.src.settimeout(PATIENCE)
        p.still_ordinary()


@claim
def a_copy_that_is_being_read_holds_the_module():
    """It is the module's own to give: rmmod says so at once."""
    with once_spliced(KEEPCOPY) as p:
        stall = Stall()
        stall.lock(p.src, True, socket.MSG_DONTWAIT)
        try:
            equal("rmmod", rmmod(), 1)
        finally:
            stall.fill()
        equal("received", (stall.returned, stall.text(10)), ([10], b"0123456789"))
        goes()
        p.src.settimeout(PATIENCE)
        p.still_ordinary()


if __name__ == "__main__":
    main()
