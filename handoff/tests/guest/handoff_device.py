#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 120
"""The device's contract: who may do what, every errno, no event lost; and nonsense changes nothing."""
import ctypes
import errno
import fcntl
import os
import random
import select
import socket
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import (BUSY, CLOSED, DONE, EVENT, IDLE, IOC_INFO, IOC_SUBMIT, PATIENCE, SUBMIT,  # noqa: E402
                 TELL_LATER, WANT_IDLE, Cluster, Refused, accept, claim, main, peek, receive, rounds, usable)

CLONE_NEWUSER = 0x10000000
LIBC = ctypes.CDLL(None, use_errno=True)
SEED = int(os.environ.get("SEED", "7"))
CLUSTER = None


def setup():
    global CLUSTER
    CLUSTER = CLUSTER or Cluster(1)
    c = CLUSTER
    front, back = c.fe.listen(), c.be[0].listen()
    client = c.client.connect()
    client.sendall(b"GET")
    here = accept(front)
    peek(here, 3)
    return c, c.fe.handoff(), front, back, client, here


def error_of(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except Refused as error:
        return error.errno, error.refusal
    except OSError as error:
        return error.errno, "none"
    return 0, "none"


@claim
def each_error_has_its_cause():
    c, dev, front, back, client, here = setup()
    node = c.fe.id["be1"]
    version, features = dev.info()[:2]
    # Early handoffs depend on the kernel.
    assert version == 1 and features & ~(3 << 11) == 10171
    with open("/dev/null", encoding="ascii") as null:
        assert error_of(dev.submit, null.fileno(), node)[0] == errno.ENOTSOCK
    assert error_of(dev.submit, 9999, node)[0] == errno.EBADF
    assert error_of(dev.submit, -1, node)[0] == errno.EBADF
    assert error_of(dev.submit, here, 0)[0] == errno.ENOENT
    assert error_of(dev.submit, here, 4711)[0] == errno.ENOENT
    assert error_of(dev.submit, here, node, flags=4)[0] == errno.EINVAL
    assert error_of(dev.submit, here, node, timeout_ms=600001)[0] == errno.EINVAL
    with c.fe.inside():
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        fresh = socket.socket()
    unix = socket.socketpair()
    assert error_of(dev.submit, udp, node) == (errno.EOPNOTSUPP, "nottcp")
    assert error_of(dev.submit, unix[0], node)[0] in (errno.EXDEV, errno.EOPNOTSUPP)
    assert error_of(dev.submit, fresh, node) == (errno.EOPNOTSUPP, "state")
    assert error_of(dev.submit, front, node) == (errno.EOPNOTSUPP, "state")
    assert error_of(dev.submit, client, node)[0] == errno.EXDEV
    twin = here.dup()
    assert error_of(dev.submit, here, node) == (errno.EOPNOTSUPP, "shared")
    twin.close()
    c.fe.sysctl("net.flotilla.forward_max", 0)
    assert error_of(dev.submit, here, node) == (errno.ENOSPC, "tablefull")
    c.fe.sysctl("net.flotilla.forward_max", 1000)
    here.sendall(b"x" * 10)
    receive(client, 10)
    assert receive(here, 3) == b"GET"
    usable(here, client)
    for thing in (dev, front, back, client, here, udp, fresh, *unix):
        thing.close()


@claim
def size_of_the_argument_is_checked():
    c, dev, front, back, client, here = setup()
    node = c.fe.id["be1"]
    good = SUBMIT.pack(SUBMIT.size, here.fileno(), node, 0, 1, 0, 0)

    def submit(size, tail=b""):
        fcntl.ioctl(dev.fd, IOC_SUBMIT, bytearray(size.to_bytes(4, "little") + good[4:] + tail))

    for size in (0, 1, SUBMIT.size - 1, 4097, 0xffffffff):
        assert error_of(submit, size, bytes(4096))[0] == errno.EINVAL, size
    assert error_of(submit, SUBMIT.size + 16, bytes(8) + b"\0\0\0\0\0\0\0\1")[0] == errno.E2BIG
    assert error_of(submit, SUBMIT.size + 8, (1).to_bytes(8, "little"))[0] == errno.EFAULT
    assert error_of(fcntl.ioctl, dev.fd, 0xF1FF, 0)[0] == errno.ENOTTY
    for cmd in (IOC_SUBMIT, IOC_INFO):
        for bad in (1, 0x7ffffffff000):
            assert LIBC.ioctl(dev.fd, ctypes.c_ulong(cmd), ctypes.c_void_p(bad)) == -1
            assert ctypes.get_errno() == errno.EFAULT
    submit(SUBMIT.size + 16, bytes(16))         # a newer program that asks for nothing new
    dev.expect(DONE, 1)
    for thing in (dev, front, back, client, here):
        thing.close()


@claim
def capability_is_asked_for_in_the_sockets_namespace():
    _, dev, front, back, client, here = setup()
    node = CLUSTER.fe.id["be1"]
    child = os.fork()
    if not child:
        # Full powers, but only in a user namespace of its own: these do not count.
        code = 1
        try:
            assert LIBC.unshare(CLONE_NEWUSER) == 0
            code = 0 if error_of(dev.submit, here, node)[0] == errno.EPERM else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    child = os.fork()
    if not child:
        os.setuid(65534)
        fd = os.open("/dev/handoff", os.O_RDWR)         # opening needs nothing
        fcntl.ioctl(fd, IOC_INFO, bytes(16))
        os._exit(0 if error_of(dev.submit, here, node)[0] == errno.EPERM else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    usable(here, client) if receive(here, 3) == b"GET" else None
    for thing in (dev, front, back, client, here):
        thing.close()


@claim
def events_wait_for_a_reader_and_survive_a_bad_buffer():
    c, dev, front, back, client, here = setup()
    assert error_of(os.read, dev.fd, EVENT.size)[0] == errno.EAGAIN
    assert error_of(os.read, dev.fd, EVENT.size - 1)[0] == errno.EINVAL
    dev.submit(here, c.fe.id["be1"], 1 << 63)
    assert select.select([dev.fd], [], [], PATIENCE)[0]
    there = accept(back)
    there.close()
    client.close()
    while dev.info()[3] < 2:
        select.select([], [], [], 0.01)
    for _ in range(3):
        assert LIBC.read(dev.fd, ctypes.c_void_p(1), 100) == -1
        assert ctypes.get_errno() == errno.EFAULT
    assert [dev.event()[:2] for _ in range(2)] == [(DONE, 1 << 63), (CLOSED, 1 << 63)]
    assert dev.info()[2:] == (0, 0)
    for thing in (dev, front, back, here):
        thing.close()


@claim
def idle_and_busy_are_told_when_asked_for():
    c, dev, front, back, client, here = setup()
    dev.submit(here, c.fe.id["be1"], 3, flags=WANT_IDLE)
    dev.expect(DONE, 3)
    there = accept(back)
    dev.no_event(0.3)                           # a request is unread: busy
    receive(there, 3)
    there.sendall(b"answer")
    receive(client, 6)
    dev.expect(IDLE, 3)
    client.sendall(b"next")
    dev.expect(BUSY, 3)
    receive(there, 4)
    there.sendall(b"answer")
    receive(client, 6)
    dev.expect(IDLE, 3)
    there.close()
    client.close()
    dev.expect(CLOSED, 3)
    for thing in (dev, front, back, here):
        thing.close()


@claim
def events_that_may_come_later_do_come_and_ring():
    c, dev, front, back, client, here = setup()
    dev.submit(here, c.fe.id["be1"], 5, flags=TELL_LATER)
    # Nothing else rings for them: eight are not to come.
    assert select.select([dev.fd], [], [], PATIENCE)[0]
    dev.expect(DONE, 5)
    there = accept(back)
    there.close()
    client.close()
    assert select.select([dev.fd], [], [], PATIENCE)[0]
    dev.expect(CLOSED, 5)
    for thing in (dev, front, back, here):
        thing.close()


@claim
def submission_says_how_many_wait_to_be_read():
    c, dev, front, back, client, here = setup()
    other = c.client.connect()
    other.sendall(b"GET")
    second = accept(front)
    peek(second, 3)
    # 1: over before the call was.
    assert dev.submit(here, c.fe.id["be1"], 1, flags=TELL_LATER) in (0, 1)
    while dev.info()[3] < 1:
        select.select([], [], [], 0.01)
    assert dev.submit(second, c.fe.id["be1"], 2, flags=TELL_LATER) >= 1
    assert sorted(dev.event()[1] for _ in range(2)) == [1, 2]
    for thing in (dev, front, back, client, other, here, second):
        thing.close()


@claim
def random_calls_do_no_harm():
    c, dev, front, back, client, here = setup()
    print("# seed %d" % SEED)
    draw = random.Random(SEED)
    fds = [here.fileno(), front.fileno(), back.fileno(), client.fileno(), dev.fd, 0, 1, -1, 1 << 30]
    for _ in range(rounds(10000, 2000)):
        words = [draw.choice((SUBMIT.size, 0, 31, 33, 40, draw.getrandbits(32))),
                 draw.choice(fds[1:]), draw.choice((0, 1, 2, draw.getrandbits(32))),
                 draw.choice((0, 1, draw.getrandbits(32))), draw.getrandbits(64),
                 draw.choice((0, 1, draw.getrandbits(32))), draw.getrandbits(32)]
        raw = bytearray(SUBMIT.pack(*words) + bytes(draw.choices((0, 1), (9, 1), k=16)))
        cmd = draw.choice((IOC_SUBMIT, IOC_INFO, draw.getrandbits(32)))
        if draw.random() < 0.2:
            raw = bytearray(draw.randbytes(4096))
        try:
            fcntl.ioctl(dev.fd, cmd, raw)
            assert cmd != IOC_SUBMIT, raw.hex()
        except OSError:
            pass
    assert dev.info()[2:] == (0, 0)
    assert receive(here, 3) == b"GET"
    usable(here, client)
    for thing in (dev, front, back, client, here):
        thing.close()


if __name__ == "__main__":
    main()
