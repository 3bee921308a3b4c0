#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
# long: debug minutes there
# cpus: 2
"""What a user without any right can take of the machine by transfers, and who may start them."""
import contextlib
import ctypes
import errno
import os
import socket
import stat
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
sys.path.insert(1, os.path.join(HERE, "..", "..", "..", "kmod", "tests", "lib"))
from ssp import (BIDIR, KEEPCOPY, PATIENCE, Device, Proxy, claim, connection, equal, fails, main,  # noqa: E402
                 recv_exactly, same, wait_for)

NOBODY = 65534


@contextlib.contextmanager
def parameter(name, value):
    path = f"/sys/module/sksplice/parameters/{name}"
    with open(path, encoding="ascii") as f:
        before = f.read().strip()
    with open(path, "w", encoding="ascii") as f:
        f.write(str(value))
    try:
        yield
    finally:
        with open(path, "w", encoding="ascii") as f:
            f.write(before)


@contextlib.contextmanager
def nobody():
    """The device was opened by root; the calls are made by a user without rights."""
    os.setresuid(-1, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(-1, 0, 0)


@claim
def the_device_is_root_s_and_its_group_s():
    mode = os.stat("/dev/sksplice").st_mode
    equal("mode", stat.S_IMODE(mode), 0o660)


@claim
def a_socket_spliced_into_its_own_peer_is_refused():
    device = Device()
    for family in (4, 6):
        for flags in (BIDIR, 0):
            far, near = connection(family)
            fails(errno.ELOOP, device.splice, far, near, flags=flags)
            far.close()
            near.close()
    wait_for("nothing is left", lambda: device.info()["active"] == 0)
    device.close()


@claim
def circles_through_several_transfers_are_refused():
    device = Device()
    for number in (2, 3, 5):
        links = [connection(4 if i % 2 else 6) for i in range(number)]
        for (_, near), (far, _) in zip(links, links[1:]):
            device.splice(near, far)
        fails(errno.ELOOP, device.splice, links[-1][1], links[0][0])
        fails(errno.ELOOP, device.splice, links[-1][1], links[0][0], flags=BIDIR)
        # It is as before: bytes come out at the end.
        links[0][0].sendall(b"through")
        equal("through", recv_exactly(links[-1][1], 7), b"through")
        for link in links:
            for sock in link:
                sock.close()
    wait_for("nothing is left", lambda: device.info()["active"] == 0)
    device.close()


@claim
def a_user_has_so_many_transfers_and_no_more():
    device = Device()
    with contextlib.ExitStack() as stack, parameter("max_per_user", 3):
        proxies = [stack.enter_context(Proxy()) for _ in range(5)]
        with nobody():
            for p in proxies[:3]:
                device.splice(p.src, p.dst)
            fails(errno.EUSERS, device.splice, proxies[3].src, proxies[3].dst)
            proxies[3].still_ordinary()
        device.splice(proxies[4].src, proxies[4].dst)        # another user's
        with nobody():
            device.unsplice(proxies[0].src, proxies[0].dst)
            device.splice(proxies[3].src, proxies[3].dst)
    wait_for("nothing is left", lambda: device.info()["active"] == 0)
    device.close()


def as_user(maker, work, first=None, inside=0):
    """work() as a user; with @first in a user namespace that he makes, whose uids begin with that one, as @inside."""
    made, mapped = os.pipe(), os.pipe()
    pid = os.fork()
    if not pid:
        status = 1
        try:
            os.setresuid(maker, maker, maker)
            if first is not None:
                if ctypes.CDLL(None).unshare(0x10000000):       # CLONE_NEWUSER
                    raise OSError("unshare")
                os.write(made[1], b"x")
                os.read(mapped[0], 1)
                os.setresuid(inside, inside, inside)
            work()
            status = 0
        except BaseException as err:    # pylint: disable=broad-except
            print(f"# {inside} in a namespace of {maker}: {err!r}", flush=True)
        finally:
            os._exit(status)
    if first is not None:
        os.read(made[0], 1)
        with open(f"/proc/{pid}/uid_map", "w", encoding="ascii") as f:
            f.write(f"0 {first} 1000")
        os.write(mapped[1], b"x")
    status = os.waitpid(pid, 0)[1]
    for fd in made + mapped:
        os.close(fd)
    equal("status", status, 0)


def splice(device, p):
    return lambda: device.splice(p.src, p.dst)


def refused(device, p):
    return lambda: fails(errno.EUSERS, device.splice, p.src, p.dst)


@claim
def the_users_of_a_user_namespace_count_as_its_maker():
    device = Device()
    with contextlib.ExitStack() as stack, parameter("max_per_user", 3):
        proxies = [stack.enter_context(Proxy()) for _ in range(4)]

        as_user(NOBODY, splice(device, proxies[0]))
        as_user(NOBODY, splice(device, proxies[1]), 100000, 7)
        as_user(NOBODY, splice(device, proxies[2]), 200000, 0)
        for inside in (0, 7, 8):
            as_user(NOBODY, refused(device, proxies[3]), 100000, inside)
        as_user(NOBODY, refused(device, proxies[3]))
        proxies[3].still_ordinary()
        as_user(NOBODY - 1, splice(device, proxies[3]), 100000, 7)      # another user's
    wait_for("nothing is left", lambda: device.info()["active"] == 0)
    device.close()


@claim
def a_container_that_root_made_counts_as_its_own_root():
    """Two of them, with uids of their own, do not take each other's."""
    device = Device()
    with contextlib.ExitStack() as stack, parameter("max_per_user", 1):
        proxies = [stack.enter_context(Proxy()) for _ in range(2)]

        as_user(0, splice(device, proxies[0]), 100000, 7)
        as_user(0, refused(device, proxies[1]), 100000, 8)
        as_user(0, splice(device, proxies[1]), 200000, 8)
    wait_for("nothing is left", lambda: device.info()["active"] == 0)
    device.close()


@claim
def the_copies_of_a_user_have_a_bound_and_wait_for_their_reader():
    device = Device()
    with contextlib.ExitStack() as stack, parameter("copy_kb_per_user", 256):
        proxies = [stack.enter_context(Proxy()) for _ in range(20)]
        sent = b"c" * 60000
        with nobody():
            for p in proxies:
                device.splice(p.src, p.dst, flags=KEEPCOPY)
        for p in proxies:
            p.server.sendall(sent)
        wait_for("copies", lambda: sum(device.result(p.src).unread for p in proxies))
        time.sleep(1)           # in which more of them might come
        copied = sum(device.result(p.src).unread for p in proxies)
        print(f"# {copied} bytes of {len(sent) * len(proxies)} are copied", flush=True)
        if not 0 < copied <= 256 << 10:
            raise AssertionError(f"{copied} bytes of copies")
        for p in proxies:
            p.src.settimeout(0.2)
        left = {p: len(sent) for p in proxies}
        end = time.monotonic() + PATIENCE
        while any(left.values()) and time.monotonic() < end:
            for p in [q for q in proxies if left[q]]:
                with contextlib.suppress(TimeoutError):
                    left[p] -= len(p.src.recv(left[p]))
        equal("unread in the end", sum(left.values()), 0)
        for p in proxies:
            same("client", recv_exactly(p.client, len(sent)), sent)
    device.close()


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def connect_through_veth():
    """A connection between this namespace and another one, which loop_check cannot follow."""
    out = []
    ear = socket.socket()
    ear.bind(("10.77.0.1", 0))
    ear.listen(1)
    r, w = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    pid = os.fork()
    if not pid:
        fd = os.open("/run/netns/circle", os.O_RDONLY)
        ctypes.CDLL(None).setns(fd, 0x40000000)
        sock = socket.create_connection(ear.getsockname())
        socket.send_fds(w, [b"x"], [sock.fileno()])
        os._exit(0)
    out.append(ear.accept()[0])
    fds = socket.recv_fds(r, 1, 1)[1]
    os.waitpid(pid, 0)
    out.append(socket.socket(fileno=fds[0]))
    r.close()
    w.close()
    ear.close()
    for sock in out:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return out


def busy():
    """Ticks that were not idle, of all processors."""
    with open("/proc/stat", encoding="ascii") as f:
        fields = [int(x) for x in f.readline().split()[1:]]
    return sum(fields) - fields[3] - fields[4], sum(fields)


@claim
def a_circle_that_nobody_sees_takes_no_more_than_its_user_s_share():
    device = Device()
    links = []
    run("ip", "netns", "add", "circle")
    try:
        run("ip", "link", "add", "ci0", "type", "veth", "peer", "name", "ci1", "netns", "circle")
        run("ip", "addr", "add", "10.77.0.1/24", "dev", "ci0")
        run("ip", "link", "set", "ci0", "up")
        run("ip", "-n", "circle", "addr", "add", "10.77.0.2/24", "dev", "ci1")
        run("ip", "-n", "circle", "link", "set", "ci1", "up")
        links = [connect_through_veth() for _ in range(4)]
        # What goes round has to be there before.
        for here, there in links:
            here.sendall(b"r" * 200000)
        with nobody():
            for here, there in links:
                device.splice(here, there, flags=BIDIR)
        time.sleep(1)
        begin = busy()
        time.sleep(4)
        end = busy()
        share = (end[0] - begin[0]) / (end[1] - begin[1])
        results = [device.result(here) for here, _ in links]
        moved = sum(r.moved01 + r.moved10 for r in results)
        print(f"# {share:.0%} of all processors are busy, {moved} bytes went round", flush=True)
        if moved < 1000000:
            raise AssertionError(f"it does not go round: {moved}")
        if share > 0.6:
            raise AssertionError(f"{share:.0%} of the machine")
    finally:
        for link in links:
            for sock in link:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.close()
        run("ip", "netns", "del", "circle")
    wait_for("nothing is left", lambda: device.info()["active"] == 0)
    device.close()


@claim
def an_ordinary_user_cannot_open_it():
    pid = os.fork()
    if not pid:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        try:
            Device()
        except PermissionError:
            os._exit(0)
        os._exit(1)
    equal("status", os.waitpid(pid, 0)[1], 0)


@claim
def errors_of_a_connection_are_not_lost_by_asking_for_permission():
    with Proxy() as p:
        device = Device()
        p.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        p.client.close()
        wait_for("the reset", lambda: p.dst.getsockopt(socket.SOL_TCP, socket.TCP_INFO, 1)[0] == 7)
        fails(errno.ENOTCONN, device.splice, p.src, p.dst)
        equal("error", p.dst.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), errno.ECONNRESET)
        device.close()


if __name__ == "__main__":
    main()
