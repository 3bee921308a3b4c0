#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
# long: debug minutes there
# cpus: 2
"""Whoever takes a socket over, before, during or after a transfer: nothing is held for ever."""
import ctypes
import errno
import os
import select
import socket
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
sys.path.insert(1, os.path.join(HERE, "..", "..", "..", "kmod", "tests", "lib"))
from ssp import (AUTORELEASE, BIDIR, KEEPCOPY, PATIENCE, Device, Proxy, Thread, claim, connection,  # noqa: E402
                 equal, fails, load, loaded, main, recv_exactly, refs, unload, wait_for)
from stacktest import Sockmap, set_ktls  # noqa: E402
from stall import Stall  # noqa: E402

TCP_ULP = 31
libc = ctypes.CDLL(None, use_errno=True)


def ulp(*socks):
    for sock in socks:
        sock.setsockopt(socket.SOL_TCP, TCP_ULP, b"tls")
        set_ktls(sock, 1)
        set_ktls(sock, 2)


def free(device):
    """Nothing of a transfer is left: the module could go."""
    wait_for("no transfer", lambda: device.info()["active"] == 0)
    device.close()
    wait_for("the module is free", lambda: refs() == 0)


@claim
def ktls_before_a_transfer_is_refused():
    device = Device()
    for which in ("src", "dst"):
        with Proxy() as p:
            ulp(getattr(p, which))
            fails(errno.EOPNOTSUPP, device.splice, p.src, p.dst)
    free(device)


@claim
def ktls_on_either_socket_during_a_transfer_ends_and_releases_it():
    for which in ("src", "dst"):
        for flags in (0, AUTORELEASE, BIDIR, KEEPCOPY, KEEPCOPY | AUTORELEASE):
            device = Device()
            with Proxy() as p:
                device.splice(p.src, p.dst, flags=flags)
                p.server.sendall(b"plain")
                equal("plain", recv_exactly(p.client, 5), b"plain")
                mine = getattr(p, which)
                far = p.server if which == "src" else p.client
                ulp(mine, far)
                equal("cause", device.result(p.dst).cause, "taken")
                far.sendall(b"secret")
                equal("TLS", recv_exactly(mine, 6), b"secret")
            free(device)


@claim
def ktls_between_the_end_and_the_release_holds_nothing():
    for which in ("src", "dst"):
        device = Device()
        with Proxy() as p:
            device.splice(p.src, p.dst, limit=5)
            p.server.sendall(b"12345")
            equal("all", recv_exactly(p.client, 5), b"12345")
            wait_for("end", lambda: device.result(p.src).cause == "limit")
            ulp(getattr(p, which))
        free(device)


@claim
def ktls_above_an_unread_copy_holds_nothing():
    device = Device()
    with Proxy() as p:
        device.splice(p.src, p.dst, limit=100000, flags=KEEPCOPY | AUTORELEASE)
        p.server.sendall(b"c" * 5000)
        recv_exactly(p.client, 5000)
        device.unsplice(p.src, p.dst)
        ulp(p.src)
    free(device)


@claim
def a_sockmap_during_a_transfer_holds_nothing():
    for which in ("src", "dst"):
        for flags in (0, AUTORELEASE, BIDIR, KEEPCOPY):
            device = Device()
            sockmap = Sockmap()
            with Proxy() as p:
                device.splice(p.src, p.dst, flags=flags)
                sockmap.add(getattr(p, which))
                p.server.sendall(b"x" * 100)
            sockmap.close()
            free(device)


@claim
def a_listener_of_mptcp_whose_client_has_none_gives_ordinary_sockets():
    try:
        ear = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
    except OSError:
        return
    ear.bind(("127.0.0.1", 0))
    ear.listen(1)
    device = Device()
    with Proxy() as p:
        far = socket.create_connection(ear.getsockname())
        near = ear.accept()[0]
        try:
            device.splice(p.src, near)
            p.server.sendall(b"on")
            equal("spliced", recv_exactly(far, 2), b"on")
        except OSError as err:
            equal("refused", err.errno, errno.EOPNOTSUPP)
        far.close()
        near.close()
        ear.close()
    free(device)


def in_setsockopt(sock, stall):
    if libc.setsockopt(sock.fileno(), socket.SOL_TCP, TCP_ULP, ctypes.c_void_p(stall.page), 4):
        raise OSError(ctypes.get_errno(), "TCP_ULP")


def asleep(tid):
    with open(f"/proc/self/task/{tid}/stat", encoding="ascii") as f:
        return f.read().rsplit(")", 1)[1].split()[0] in "SD"


@claim
def a_call_that_was_inside_before_the_transfer_takes_nothing_along():
    """setsockopt(TCP_ULP) sleeps while the socket gets our operations: kTLS must not copy them."""
    if loaded("tls"):
        subprocess.run(["rmmod", "tls"], check=False)
    load("flotilla", "sksplice")
    subprocess.run(["modprobe", "tls"], check=True)
    device = Device()
    with Proxy() as p:
        stall = Stall()
        caller = Thread(in_setsockopt, p.dst, stall)
        stall.wait()
        device.splice(p.src, p.dst)
        stall.fill(b"tls")
        caller.join()
        set_ktls(p.dst, 1)
        set_ktls(p.dst, 2)
    free(device)
    equal("rmmod sksplice", unload("sksplice"), True)
    wait_for("rmmod flotilla", lambda: unload("flotilla"))
    # Whose functions these are shows now.
    far, near = connection()
    ulp(far, near)
    far.sendall(b"secret")
    equal("TLS", recv_exactly(near, 6), b"secret")
    far.close()
    near.close()
    load("flotilla", "sksplice")


if __name__ == "__main__":
    main()
