#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 90
# kernel: stock
"""A security module (BPF programs on its hooks, tests/lib/deny.bpf.c) that says no to receiving or sending."""
import contextlib
import ctypes
import errno
import os
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from ssp import (BIDIR, KEEPCOPY, Device, Proxy, claim, counters, equal, fails, main,  # noqa: E402
                 recv_exactly, wait_for)

NO_RECEIVER, NO_SENDER, ANYBODY = 65011, 65012, 65013
BPFFS = "/run/splice-bpf"


@contextlib.contextmanager
def user(uid):
    os.setresuid(uid, uid, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def bpf(command, attr):
    """bpf(2); the descriptor that it returns."""
    fd = ctypes.CDLL(None, use_errno=True).syscall(321, command, attr, len(attr))
    if fd < 0:
        raise OSError(ctypes.get_errno(), f"bpf {command}")
    return fd


def attach(path):
    """The pinned program works on its hook as long as the descriptor is open."""
    name = ctypes.create_string_buffer(path.encode())
    program = bpf(7, struct.pack("QII", ctypes.addressof(name), 0, 0))      # BPF_OBJ_GET
    link = bpf(17, struct.pack("QII", 0, program, 0))                       # BPF_RAW_TRACEPOINT_OPEN
    os.close(program)
    return link


@contextlib.contextmanager
def security_module():
    os.makedirs(BPFFS, exist_ok=True)
    subprocess.run(["mount", "-t", "bpf", "none", BPFFS], check=True)
    try:
        subprocess.run(["bpftool", "prog", "loadall", f"{os.environ['FLT_TOP']}/build/gen/splice_deny.bpf.o",
                        f"{BPFFS}/deny"], check=True)
        links = [attach(f"{BPFFS}/deny/{name}") for name in ("deny_receive", "deny_send")]
        yield
        for link in links:
            os.close(link)
    finally:
        subprocess.run(["umount", BPFFS], check=True)


def denied():
    return counters()["SpliceRefusedDenied"]


@claim
def who_may_not_receive_or_send_may_not_splice():
    device = Device()
    # What fails in between must not deny whatever comes after: the descriptors end with the process.
    with security_module():
        for uid in (NO_RECEIVER, NO_SENDER):
            with Proxy() as p:
                # That it is in force is seen by the calls themselves.
                p.server.sendall(b"headers")
                with user(uid):
                    fails(errno.EACCES, *((p.src.recv, 1) if uid == NO_RECEIVER else (p.dst.send, b"x")))
                before = denied()
                for flags in (0, BIDIR, KEEPCOPY):
                    with user(uid):
                        fails(errno.EACCES, device.splice, p.src, p.dst, flags=flags)
                equal("SpliceRefusedDenied", denied() - before, 3)
                equal("nothing is read", recv_exactly(p.src, 7), b"headers")
                p.still_ordinary()
        with Proxy() as p, user(ANYBODY):
            device.splice(p.src, p.dst, limit=5)
            p.server.sendall(b"moved")
            equal("moved", recv_exactly(p.client, 5), b"moved")
    wait_for("nothing is left", lambda: device.info()["active"] == 0)
    device.close()


if __name__ == "__main__":
    main()
