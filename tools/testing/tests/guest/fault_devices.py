#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# kernel: debug
# long: debug each call is made as often as it has allocations
# timeout: 600
"""As fault_calls, of the devices of a machine: connections that change their listener, splice, uselect, iolite, afpa.

iolite_faults has more of iolite.
"""
import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import select
import socket
import struct
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))
for room in ("splice", "handoff", "kmod", "kmod/afpa", "tools/testing"):
    sys.path.insert(0, os.path.join(TOP, room, "tests", "lib"))
import afpa                                             # noqa: E402
import hof                                              # noqa: E402
import move                                             # noqa: E402
import ssp                                              # noqa: E402
from cluster import cluster                             # noqa: E402
from faults import each_fault, modules_unload, no_socket_stays  # noqa: E402
from kit import claim, equal, main                      # noqa: E402
from netns import inside, run                                   # noqa: E402

NODE, REMOTE = struct.Struct("=IIII32s"), struct.Struct("=IIII")


@claim
@no_socket_stays()
def a_move():
    """Of a connection to another listener of this machine; the connection is as it was, with and without faults."""
    move.loopback_up()
    old = move.listen()
    client = move.connect()
    served, new = hof.accept(old), move.listen()

    def begun():
        one = move.Move()
        one.give(move.TO, new)
        return one

    def over(one, *_):
        one.close()
        hof.usable(served, client)

    print("# MOVE")
    each_fault(lambda: None, lambda _: move.Move(), lambda _, got, code: code or got.close())
    # TO, FROM and KEEP have nothing that can fail: the move has room for its listeners.
    print("# TO, FROM, KEEP")
    each_fault(move.Move, lambda one: one.give(move.TO, new), over, least=0)
    each_fault(begun, lambda one: one.give(move.FROM, old), over, least=0)
    each_fault(begun, lambda one: one.keep(), over, least=0)
    print("# CONN, STATUS")
    each_fault(begun, lambda one: one.give(move.CONN, served), over)
    each_fault(begun, lambda one: one.status(), over)
    for sock in (client, served, old, new):
        sock.close()


@claim
@no_socket_stays()
def a_splice():
    ssp.load("flotilla", "sksplice")
    dev = ssp.Device()

    def check(proxy, _got, _code, copy=b""):
        with contextlib.suppress(OSError):
            dev.unsplice(proxy.src, proxy.dst)
        assert ssp.recv_exactly(proxy.src, len(copy)) == copy
        proxy.still_ordinary()
        proxy.__exit__()

    def passed(proxy, _got, code, flags):
        if not code:
            proxy.server.sendall(b"passed on")
            assert ssp.recv_exactly(proxy.client, 9) == b"passed on"
        check(proxy, _got, code, b"passed on" if flags & ssp.KEEPCOPY and not code else b"")

    def spliced():
        proxy = ssp.Proxy()
        dev.splice(proxy.src, proxy.dst, flags=ssp.BIDIR)
        return proxy

    for flags in (0, ssp.BIDIR, ssp.KEEPCOPY):
        print("# SPLICE, flags %d" % flags)
        each_fault(ssp.Proxy, lambda p, flags=flags: dev.splice(p.src, p.dst, flags=flags),
                   lambda p, got, code, flags=flags: passed(p, got, code, flags))
    print("# SPLICE with data of the caller's")
    each_fault(ssp.Proxy, lambda p: dev.splice(p.src, p.dst, data=b"x" * 5000),
               lambda p, got, code: p.__exit__())
    print("# UNSPLICE, RESULT, INFO, open")
    each_fault(spliced, lambda p: dev.unsplice(p.src, p.dst), check)
    each_fault(spliced, lambda p: dev.result(p.src), check)
    each_fault(lambda: None, lambda _: dev.info())
    each_fault(lambda: None, lambda _: ssp.Device(), lambda _, new, code: None if code else new.close())
    dev.close()


USEL_SETUP = struct.Struct("8I8I")


def usel(number, size=4):
    direction, size = (3, USEL_SETUP.size) if number == 0x90 else (1, size)
    return direction << 30 | size << 16 | ord("u") << 8 | number


@claim
@no_socket_stays()
def uselect():
    run("modprobe", "uselect")
    opened = []

    def fresh():
        while opened:
            os.close(opened.pop())
        opened.append(os.open("/dev/uselect", os.O_RDWR))
        return opened[0]

    def setup(fd):
        fields = bytearray(USEL_SETUP.pack(1, 0, 256, 0, *[0] * 12))
        fcntl.ioctl(fd, usel(0x90), fields)
        return USEL_SETUP.unpack(fields)

    def registered():
        fd = fresh()
        setup(fd)
        return fd

    near, far = ssp.connection()
    print("# open, SETUP")
    each_fault(lambda: None, lambda _: os.open("/dev/uselect", os.O_RDWR),
               lambda _, fd, code: None if code else os.close(fd))
    each_fault(fresh, setup)
    print("# mmap, TRACK, FORGET, WATCH, KICK")
    size = setup(fresh())[5]
    each_fault(registered, lambda fd: mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ),
               lambda _, area, code: None if code else area.close())
    each_fault(registered, lambda fd: fcntl.ioctl(fd, usel(0x91), struct.pack("i", near.fileno())))

    def tracked():
        fd = registered()
        fcntl.ioctl(fd, usel(0x91), struct.pack("i", near.fileno()))
        return fd

    # FORGET, WATCH and KICK have nothing that can fail: no allocation, and get_user() is not among the copies.
    each_fault(tracked, lambda fd: fcntl.ioctl(fd, usel(0x92), struct.pack("i", near.fileno())), least=0)
    with select.epoll() as epoll:
        each_fault(registered, lambda fd: fcntl.ioctl(fd, usel(0x94), struct.pack("i", epoll.fileno())), least=0)
    each_fault(registered, lambda fd: fcntl.ioctl(fd, ord("u") << 8 | 0x93), least=0)
    print("# MOVE")
    text = ctypes.create_string_buffer(b"hello")
    one = ctypes.create_string_buffer(struct.pack("iIQIi", near.fileno(), 1, ctypes.addressof(text), 5, 0))
    each_fault(registered, lambda fd: fcntl.ioctl(fd, 1 << 30 | 16 << 16 | ord("u") << 8 | 0x95,
                                                  struct.pack("QII", ctypes.addressof(one), 1, 0)))
    while opened:
        os.close(opened.pop())
    far.sendall(b"still")
    assert ssp.recv_exactly(near, 5) == b"still"
    near.close()
    far.close()


IOL_INIT, IOL_POOL, IOL_ALLOC = struct.Struct("IIQQQQQiI"), struct.Struct("QQQIIQQQQ"), struct.Struct("QIIQQ")


@claim
def iolite_calls_that_only_copy():
    run("modprobe", "iolite")
    fd = os.open("/dev/iolite", os.O_RDWR)

    def ask(number, fields, direction=3):
        fcntl.ioctl(fd, direction << 30 | len(fields) << 16 | 0xf5 << 8 | number, fields)
        return fields

    init = IOL_INIT.unpack(ask(1, bytearray(IOL_INIT.pack(1, 0, 0, 0, 0, 0, 0, -1, 0))))
    pool, window = init[6], mmap.mmap(fd, init[3], mmap.MAP_SHARED, mmap.PROT_READ)
    for name, number, fields in (("POOL_STAT", 5, IOL_POOL.pack(pool, *[0] * 8)),
                                 ("POOL_CREATE", 2, IOL_POOL.pack(*[0] * 9)),
                                 ("ALLOC", 6, IOL_ALLOC.pack(pool, 4096, 0, 0, 0))):
        print("# %s" % name)
        each_fault(lambda fields=fields: bytearray(fields), lambda f, number=number: ask(number, f))
    window.close()
    os.close(fd)


class Elsewhere:
    """
    afpa's server, in a process of its own. Had it threads here, a fault might hit a futex of ours while they take
    turns at the interpreter, which the C library answers with abort().
    """

    def __init__(self):
        self.line, line = socket.socketpair()
        self.pid = os.fork()
        if not self.pid:
            self.line.close()
            line.send(b"%d" % afpa.Server().site[1])
            line.recv(1)
            os._exit(0)
        line.close()
        self.site = ("127.0.0.1", int(self.line.recv(16)))

    def close(self):
        self.line.close()
        os.waitpid(self.pid, 0)


@contextlib.contextmanager
def in_memory(data):
    """A descriptor of a file in a tmpfs that nobody has open for writing."""
    with tempfile.TemporaryDirectory() as path:
        run("mount", "-t", "tmpfs", "tmpfs", path)
        with open(path + "/file", "wb") as file:
            file.write(data)
        fd = os.open(path + "/file", os.O_RDONLY)
        try:
            yield fd
        finally:
            os.close(fd)
            run("umount", "-l", path)


def is_free(fd):
    """To be written to."""
    with contextlib.suppress(OSError):
        os.close(os.open("/proc/self/fd/%d" % fd, os.O_RDWR))
        return True
    return False


@claim
@no_socket_stays()
def afpa_calls():
    ssp.load("flotilla", "afpa")
    old, new = b"old", b"new" * 3000
    print("# open")
    each_fault(lambda: None, lambda _: afpa.Device(), lambda _, dev, code: None if code else os.close(dev.fd))
    with contextlib.closing(Elsewhere()) as server, afpa.Device() as dev:
        where = server.site
        equal("listeners, refused, errno", dev.site_add(where), (1, 0, 0))
        # The accept() that waits already ends as if there were no site.
        socket.create_connection(where).close()

        def put():
            return dev.put(where, "/x", old)

        def is_one_of(*bodies):
            """What a client gets afterwards; the server's answer where there is none."""
            with afpa.Client(where) as client:
                got = client.get("/x")
            assert got in bodies, got[:20]

        def becomes(after):
            """As before, if it failed; where only its answer could not be written, it was done. Room for an update
            may have been made of the very object."""
            def check(_before, _got, code):
                is_one_of(*[old] * bool(code), *[after] * (code in (0, errno.EFAULT)),
                          *[b"server /x"] * (code == errno.ENOENT))
            return check

        print("# INFO, SET, POLICY, NEXT_SITE, SITE_ADD of one that is there")
        each_fault(lambda: None, lambda _: dev.info())
        each_fault(lambda: None, lambda _: dev.info(budget=64 << 20))
        each_fault(put, lambda _: dev.policy(afpa.LRU), lambda *_: is_one_of(old))
        each_fault(lambda: None, lambda _: dev.next_site(0))
        each_fault(lambda: None, lambda _: dev.site_add(where))
        print("# LISTEN, PROTOCOL of one that is there")
        each_fault(lambda: None, lambda _: dev.listen(where, "http"))
        each_fault(lambda: None, lambda _: dev.protocol(where))
        print("# PUT, and once more as an update")
        each_fault(put, lambda _: dev.put(where, "/x", new), becomes(new), least=3)
        each_fault(put, lambda _: dev.put(where, "/x", new, update=True), becomes(new), also=(errno.ENOENT,), least=3)
        print("# PUT of a file, which is free afterwards")
        with in_memory(new) as fd:
            each_fault(put, lambda _: dev.put(where, "/x", b"", fd=fd), becomes(new), least=3)
            dev.flush(where)
            ssp.wait_for("the file", lambda: is_free(fd))
        print("# QUERY, EXPLAIN, TTL, NEXT")
        each_fault(put, lambda _: dev.explain(where, "/x"), lambda *_: is_one_of(old))
        each_fault(put, lambda _: dev.query(where, "/x"), lambda *_: is_one_of(old))
        each_fault(put, lambda _: dev.ttl(where, "/x", 0), lambda *_: is_one_of(old))
        each_fault(put, lambda _: dev.names(), lambda *_: is_one_of(old))
        print("# TICKET, BAN")
        each_fault(put, lambda _: dev.ticket(), lambda *_: is_one_of(old))
        each_fault(put, lambda _: dev.ban(where, "/x"), becomes(b"server /x"))
        print("# LOG")
        each_fault(afpa.Device, lambda own: own.log(), lambda own, _got, _code: os.close(own.fd))
        print("# REMOTE, NODE, and a PUT at that node")
        each_fault(lambda: None, lambda _: dev.call(18, REMOTE, 0, 0, 0))
        with cluster() as nodes:
            here, there = nodes.nodes
            for node in (here, there):
                node.nl.do("LOCAL_SET", local_insecure=1)
            with inside(there.ns), afpa.Device() as far:
                distant = ("0.0.0.0", 80)
                far.site_add(distant)
                far.call(18, REMOTE, 1, 2, 0)

                def named():
                    with inside(here.ns):
                        own = afpa.Device()
                    own.call(19, NODE, 0, 20000, 0, there.name.encode())
                    return own

                def opened():
                    with inside(here.ns):
                        return afpa.Device()

                def over(own, _got, _code):
                    os.close(own.fd)
                    assert far.names() in ([], [("*", "/far")]), far.names()
                each_fault(opened, lambda own: own.call(19, NODE, 0, 0, 0, there.name.encode()), over)
                each_fault(named, lambda own: own.put(distant, "/far", new), over, least=3)
                each_fault(named, lambda own: own.names(), over, least=3)
                far.site_del(distant)
        print("# DEL, FLUSH")
        each_fault(put, lambda _: dev.delete(where, "/x"), becomes(b"server /x"))
        each_fault(put, lambda _: dev.flush(where), becomes(b"server /x"))

        def forgotten(another, _got, _code):
            with contextlib.suppress(FileNotFoundError):
                dev.site_del(another.site)
            another.close()
            assert dev.info()["sites"] == 1, dev.info()

        print("# SITE_ADD, LISTEN, SITE_DEL")
        each_fault(Elsewhere, lambda another: dev.site_add(another.site), forgotten)
        each_fault(Elsewhere, lambda another: dev.listen(another.site, "http"), forgotten)

        def added():
            another = Elsewhere()
            dev.site_add(another.site)
            return another

        each_fault(added, lambda another: dev.site_del(another.site), forgotten)
        dev.site_del(where)


@claim
def and_the_modules_unload():
    modules_unload()


if __name__ == "__main__":
    main()
