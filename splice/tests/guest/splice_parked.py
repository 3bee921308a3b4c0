#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
# long: debug minutes there
# cpus: 2
"""A program that keeps one socket of a pair locked, by sending memory whose pages do not come, keeps nobody else waiting."""
import os
import resource
import select
import signal
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
    for flags in (0, BIDIR, KEEPCOPY):
        for locked, closed in (("src", "dst"), ("dst", "src")):
            # Who sends is refused where the pair rules: the lock is older.
            with Proxy() as p:
                stall = Stall()
                mine = getattr(p, locked)
                if flags & BIDIR or locked == "dst":
                    mine = None
                device.splice(p.src, p.dst, flags=flags)
                stall.lock(mine or p.src)
                pid, tell = left_to_another(getattr(p, closed) if mine else p.dst)
                try:
                    tell.send(b"x")
                    wait_for(f"flags {flags}: the close of {closed}", lambda i=pid: ends(i))
                finally:
                    stall.fill()
                    tell.close()
                wait_for("no transfer", lambda: device.info()["active"] == 0)
    device.close()
    wait_for("the module is free", lambda: refs() == 0)


if __name__ == "__main__":
    main()
