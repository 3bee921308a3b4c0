#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
# long: debug minutes there
# cpus: 2
"""A program that keeps one socket of a pair locked, by memory whose pages do not come, keeps nobody else waiting."""
import os
import resource
import select
import socket
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from ssp import (BIDIR, KEEPCOPY, PATIENCE, Device, Proxy, claim, equal, main, refs, reset,  # noqa: E402
                 wait_for)
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


if __name__ == "__main__":
    main()
