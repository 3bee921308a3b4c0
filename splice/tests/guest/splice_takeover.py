#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
# long: debug minutes there
# cpus: 2
"""Whoever takes a socket over, before, during or after a transfer: nothing is held for ever."""
import contextlib
import ctypes
import errno
import os
import select
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
sys.path.insert(1, os.path.join(HERE, "..", "..", "..", "kmod", "tests", "lib"))
from ssp import (AUTORELEASE, BIDIR, DONE, KEEPCOPY, Device, Proxy, Thread, claim,  # noqa: E402
                 connection, equal, fails, load, loaded, main, recv_exactly, refs, reset, unload, wait_event,
                 wait_for)
from kit import Skip  # noqa: E402
from stacktest import Sockmap, set_ktls  # noqa: E402
from stall import Stall  # noqa: E402

TCP_REPAIR = 19
TCP_ULP = 31
libc = ctypes.CDLL(None, use_errno=True)


def ulp(*socks):
    for sock in socks:
        sock.setsockopt(socket.SOL_TCP, TCP_ULP, b"tls")
        set_ktls(sock, 1)
        set_ktls(sock, 2)


@contextlib.contextmanager
def nothing_left():
    """The device; in the end nothing of a transfer is left, and the module could go."""
    device = Device()
    try:
        yield device
        wait_for("no transfer", lambda: device.info()["active"] == 0)
    finally:
        device.close()
    wait_for("the module is free", lambda: refs() == 0)


def released(device, p):
    """Done, and let go of, by who took the socket and not by who closes one: both are open."""
    equal("status", device.result(p.dst).status, DONE)
    fails(errno.ENOENT, device.unsplice, p.src, p.dst)


def only_the_device_is_left():
    """Neither a transfer nor a copy holds the module any more, though sockets may be open."""
    wait_for("nothing but the device holds the module", lambda: refs() == 1)


@claim
def ktls_before_a_transfer_is_refused():
    with nothing_left() as device:
        for which in ("src", "dst"):
            for spliced_before in (False, True):
                with Proxy() as p:
                    # The stack refuses a new layer, but is not asked where one is already.
                    if spliced_before:
                        device.splice(p.src, p.dst, limit=0)
                    ulp(getattr(p, which))
                    fails(errno.EOPNOTSUPP, device.splice, p.src, p.dst)


@claim
def ktls_on_either_socket_during_a_transfer_ends_and_releases_it():
    for which in ("src", "dst"):
        for flags in (0, AUTORELEASE, BIDIR, KEEPCOPY, KEEPCOPY | AUTORELEASE):
            with nothing_left() as device, Proxy() as p:
                device.splice(p.src, p.dst, flags=flags)
                p.server.sendall(b"plain")
                equal("plain", recv_exactly(p.client, 5), b"plain")
                mine = getattr(p, which)
                far = p.server if which == "src" else p.client
                ulp(mine, far)
                equal("cause", device.result(p.dst).cause, "taken")
                released(device, p)
                far.sendall(b"secret")
                equal("TLS", recv_exactly(mine, 6), b"secret")


@claim
def ktls_between_the_end_and_the_release_releases_it():
    for which in ("src", "dst"):
        with nothing_left() as device, Proxy() as p:
            device.splice(p.src, p.dst, limit=5)
            p.server.sendall(b"12345")
            equal("all", recv_exactly(p.client, 5), b"12345")
            wait_for("end", lambda p=p, device=device: device.result(p.src).cause == "limit")
            ulp(getattr(p, which))
            released(device, p)


@claim
def ktls_above_an_unread_copy_takes_it_along():
    with nothing_left() as device, Proxy() as p:
        device.splice(p.src, p.dst, limit=100000, flags=KEEPCOPY | AUTORELEASE)
        p.server.sendall(b"c" * 5000)
        recv_exactly(p.client, 5000)
        # It is copied when it has been passed on.
        wait_for("copied", lambda: device.result(p.src).copied == 5000)
        equal("unread", device.unsplice(p.src, p.dst).unread, 5000)
        ulp(p.src)
        only_the_device_is_left()


@claim
def a_sockmap_during_a_transfer_ends_and_releases_it():
    for which in ("src", "dst"):
        for flags in (0, AUTORELEASE, BIDIR, KEEPCOPY):
            with nothing_left() as device, contextlib.closing(Sockmap()) as sockmap, Proxy() as p:
                device.splice(p.src, p.dst, flags=flags)
                p.server.sendall(b"before")
                equal("before", recv_exactly(p.client, 6), b"before")
                sockmap.add(getattr(p, which))
                p.server.sendall(b"after")
                if which == "src":
                    # Its program passes them on, to who reads the socket.
                    wait_event(p.src, select.POLLIN)
                else:
                    # The pass that forwards them has both sockets, and sees it.
                    equal("after", recv_exactly(p.client, 5), b"after")
                wait_for("taken", lambda p=p, device=device: device.result(p.src).cause == "taken")
                if flags & KEEPCOPY and which == "dst":
                    equal("the copy", recv_exactly(p.src, 11), b"beforeafter")
                released(device, p)
                if which == "src":
                    equal("after", recv_exactly(p.src, 5), b"after")


@claim
def a_repair_during_a_transfer_ends_and_releases_it():
    for which in ("src", "dst"):
        for flags in (0, AUTORELEASE, BIDIR, KEEPCOPY):
            with nothing_left() as device, Proxy() as p:
                device.splice(p.src, p.dst, flags=flags)
                getattr(p, which).setsockopt(socket.SOL_TCP, TCP_REPAIR, 1)
                wait_for("taken", lambda p=p, device=device: device.result(p.src).cause == "taken")
                released(device, p)


@claim
def a_listener_of_mptcp_whose_client_has_none_gives_ordinary_sockets():
    try:
        ear = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
    except OSError as err:
        raise Skip("no MPTCP") from err
    ear.bind(("127.0.0.1", 0))
    ear.listen(1)
    with nothing_left() as device, Proxy() as p:
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


class Inside:
    """A call of setsockopt(TCP_ULP) that has begun, as TCP's, and takes the socket when it is told to."""

    def __init__(self, sock):
        self.sock = sock
        self.stall = Stall()
        self.caller = Thread(self.call)
        self.stall.wait()

    def call(self):
        if libc.setsockopt(self.sock.fileno(), socket.SOL_TCP, TCP_ULP, ctypes.c_void_p(self.stall.page), 4):
            raise OSError(ctypes.get_errno(), "TCP_ULP")

    def take(self):
        self.stall.fill(b"tls")
        self.caller.join()


@claim
def a_socket_that_nobody_tells_us_the_loss_of_is_found_during_a_transfer():
    for which in ("src", "dst"):
        with nothing_left() as device, Proxy() as p:
            inside = Inside(getattr(p, which))
            device.splice(p.src, p.dst)
            inside.take()
            only_the_device_is_left()
            equal("cause", device.result(p.src).cause, "taken")


@claim
def a_socket_that_nobody_tells_us_the_loss_of_is_found_after_a_transfer():
    for closed in (False, True):
        with nothing_left() as device, Proxy() as p:
            inside = Inside(p.dst)
            device.splice(p.src, p.dst, limit=5)
            p.server.sendall(b"12345")
            equal("all", recv_exactly(p.client, 5), b"12345")
            wait_for("end", lambda p=p, device=device: device.result(p.src).cause == "limit")
            inside.take()
            if closed:
                # By kTLS, of which nothing is on it any more once the reset has gone out.
                reset(p.dst)
            only_the_device_is_left()
            equal("cause", device.result(p.src).cause, "limit")


@claim
def a_socket_that_nobody_tells_us_the_loss_of_takes_its_unread_copy_along():
    with nothing_left() as device:
        with Proxy() as p:
            inside = Inside(p.src)
            device.splice(p.src, p.dst, limit=100000, flags=KEEPCOPY)
            p.server.sendall(b"c" * 5000)
            recv_exactly(p.client, 5000)
            wait_for("copied", lambda: device.result(p.src).copied == 5000)
            equal("unread", device.unsplice(p.src, p.dst).unread, 5000)
            inside.take()
        only_the_device_is_left()


@claim
def a_call_that_was_inside_before_the_transfer_takes_nothing_along():
    """setsockopt(TCP_ULP) sleeps while the socket gets our operations: kTLS must not copy them."""
    if loaded("tls"):
        subprocess.run(["rmmod", "tls"], check=False)
    load("flotilla", "sksplice")
    subprocess.run(["modprobe", "tls"], check=True)
    with nothing_left() as device, Proxy() as p:
        inside = Inside(p.dst)
        device.splice(p.src, p.dst)
        inside.take()
        set_ktls(p.dst, 1)
        set_ktls(p.dst, 2)
    wait_for("rmmod sksplice", lambda: unload("sksplice"))
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
