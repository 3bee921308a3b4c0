#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# kernel: debug
# long: debug each call is made as often as it has allocations
# timeout: 600
"""Whichever allocation or copy from user space fails, a call fails with an errno that says so, what it was
about is as before, and the same call works the next time.

Each command of each netlink family and each ioctl of handoff, splice, uselect, iolite and afpa, with the n-th fault for
n = 1, 2, ... until a call reaches its end without one. iolite_faults has more of iolite.
"""
import contextlib
import errno
import fcntl
import gc
import mmap
import os
import select
import socket
import struct
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))
for room in ("splice", "handoff", "card", "kmod", "kmod/afpa"):
    sys.path.insert(0, os.path.join(TOP, room, "tests", "lib"))
import afpa                                             # noqa: E402
import fltnl                                            # noqa: E402
import hof                                              # noqa: E402
import move                                             # noqa: E402
import ssp                                              # noqa: E402
from card import MIB, Disk                              # noqa: E402
from chain import Chain, Wanderer                       # noqa: E402
from cluster import Cluster                             # noqa: E402
from kit import Skip, claim, equal, main, wait          # noqa: E402
from netns import inside, run                           # noqa: E402
from pair import handed_off, takeover_ioctl             # noqa: E402
from relocate import relocate                           # noqa: E402

MOST = 400
# What a fault may look like from outside.
HONEST = (errno.ENOMEM, errno.EFAULT, errno.ENOBUFS, errno.EAGAIN, errno.ENFILE, errno.EMSGSIZE)
CARD = fltnl.enums(os.path.join(TOP, "card/uapi/flotilla/card.h"))


class Faults:
    """The n-th fault of this thread, by /proc/thread-self/fail-nth."""

    def __init__(self):
        try:
            self.fd = os.open("/proc/thread-self/fail-nth", os.O_RDWR)
        except FileNotFoundError:
            raise Skip("the kernel has no fault injection") from None
        for kind in ("failslab", "fail_page_alloc", "fail_usercopy"):
            place = "/sys/kernel/debug/%s/" % kind
            assert os.path.isdir(place), "no %s in this kernel" % kind
            for name, value in (("ignore-gfp-wait", "N"), ("ignore-gfp-highmem", "N"), ("min-order", "0"),
                                ("verbose", "0")):
                if os.path.exists(place + name):
                    with open(place + name, "w", encoding="ascii") as file:
                        file.write(value)

    def nth(self, number, call):
        """(whether the fault came, what the call gave, its errno)"""
        text = b"%d" % number
        got, code = None, 0
        os.pwrite(self.fd, text, 0)
        try:
            got = call()
        except OSError as err:
            code = err.errno
        except MemoryError:
            code = errno.ENOMEM
        came = self.is_over()
        self.disarm()
        return came, got, code

    def is_over(self):
        """Has it come? Copies of this question count, too: a fault in its answer was still to come."""
        try:
            return int(os.pread(self.fd, 16, 0)) == 0
        except OSError as err:
            if err.errno != errno.EFAULT:
                raise
            return False

    def disarm(self):
        """No fault from here on; one may hit this very write, and is the last then."""
        try:
            os.pwrite(self.fd, b"0", 0)
        except OSError as err:
            if err.errno != errno.EFAULT:
                raise
            os.pwrite(self.fd, b"0", 0)


def sockets():
    """How many there are in this network namespace, of whatever family."""
    with open("/proc/thread-self/net/sockstat", encoding="ascii") as file:
        return int(file.readline().split()[2])


@contextlib.contextmanager
def no_socket_stays():
    """Who lost a reference to a socket's file has lost it for ever."""
    before = sockets()
    yield
    gc.collect()
    wait(lambda: sockets() <= before, name="the end of %d sockets" % (sockets() - before))


def each_fault(arrange, call, check=None, also=(), least=1):
    """ARRANGE makes what CALL is about; CHECK looks at both after each (thing, what it gave, its errno)."""
    faults, hit = Faults(), 0
    for number in range(1, MOST):
        thing = arrange()
        came, got, code = faults.nth(number, lambda t=thing: call(t))
        if code and not came:
            raise AssertionError("without a fault: %s" % errno.errorcode[code])
        if code and code not in HONEST + also:
            raise AssertionError("fault %d: %s" % (number, errno.errorcode[code]))
        hit += came
        if check:
            check(thing, got, code)
        if not came:
            print("# %d faults" % hit)
            assert hit >= least, "nothing was hit"
            return
    raise AssertionError("no end after %d faults" % MOST)


def chosen_attr(number, value):
    return fltnl.attr(number, value if isinstance(value, bytes) else value.encode() + b"\0")


class Card(fltnl.Flotilla):
    """The family of card.ko, which has no groups."""
    FAMILY = CARD_NAME = b"flotilla_card\0"

    def __init__(self):
        self.sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, fltnl.NETLINK_GENERIC)
        self.sock.settimeout(fltnl.PATIENCE)
        self.seq, self.interrupted = 0, False
        row = self.talk(fltnl.GENL_ID_CTRL, fltnl.CTRL_CMD_GETFAMILY, fltnl.attr(2, self.FAMILY))
        self.family = struct.unpack("=H", dict(fltnl.split(row[0]))[fltnl.CTRL_ATTR_FAMILY_ID])[0]

    def ask(self, cmd, flags=fltnl.NLM_F_ACK, **values):
        payload = b"".join(chosen_attr(CARD["CARD_A_" + name.upper()], value) for name, value in values.items())
        return self.talk(self.family, CARD["CARD_CMD_" + cmd], payload, flags)


@contextlib.contextmanager
def nodes():
    """Two nodes that know each other."""
    run("modprobe", "-a", "flotilla", "handoff", "card", "loop")
    c = Cluster(2)
    try:
        yield c
    finally:
        c.close()


def asking(node, kind=fltnl.Flotilla):
    """A socket of its own for each try: half an answer must not be the next one's."""
    def arrange():
        with inside(node.ns):
            return kind()
    return arrange


def closed(nl, *_):
    nl.close()


@claim
def netlink_reads_of_flotilla():
    with nodes() as c:
        for cmd, dump in (("LOCAL_GET", False), ("NODE_GET", True), ("CONN_GET", True), ("STATS_GET", True),
                          ("SERVICE_GET", True), ("POLICY_GET", True), ("REDIRECT_GET", True)):
            print("# %s" % cmd)
            each_fault(asking(c.nodes[0]), lambda nl, cmd=cmd, dump=dump: (nl.dump if dump else nl.do)(cmd), closed)
        print("# NODE_GET of one")
        each_fault(asking(c.nodes[0]), lambda nl: nl.node("n2"), closed)


@claim
def netlink_writes_of_flotilla():
    with nodes() as c:
        node = c.nodes[0]

        def gone(nl, *_):
            nl.close()
            if "x" in [n["NODE_NAME"] for n in node.nl.nodes()]:
                node.nl.do("NODE_DEL", node_name="x")
            assert node.nl.node("n2")["NODE_NAME"] == "n2"

        def there():
            if "x" not in [n["NODE_NAME"] for n in node.nl.nodes()]:
                node.nl.do("NODE_NEW", node_name="x", node_addr4="10.9.0.77")
            return asking(node)()

        print("# NODE_NEW")
        each_fault(asking(node), lambda nl: nl.do("NODE_NEW", node_name="x", node_addr4="10.9.0.77"), gone)
        print("# NODE_SET")
        each_fault(there, lambda nl: nl.do("NODE_SET", node_name="x", node_weight=7), closed)
        print("# NODE_DEL")
        each_fault(there, lambda nl: nl.do("NODE_DEL", node_name="x"), gone)
        print("# LOCAL_SET")
        each_fault(asking(node), lambda nl: nl.do("LOCAL_SET", local_name="n1", local_addr4=node.ip), closed)
        node.nl.do("LOCAL_SET", local_name="n1", local_addr4=node.ip)
        c.wait_up()


@claim
def services_of_flotilla():
    with nodes() as c:
        node = c.nodes[0]

        def listed():
            return "10.9.0.80" in [row.get("SERVICE_ADDR4") for row in node.nl.dump("SERVICE_GET")]

        def arranged(there):
            if listed() != there:
                node.nl.do("SERVICE_NEW" if there else "SERVICE_DEL", service_addr4="10.9.0.80")
            return asking(node)()

        def becomes(there):
            """So it is, or it failed and nothing has changed; where only the answer was lost, it was done."""
            def check(nl, _got, code):
                nl.close()
                assert listed() == there or code, "it said that it was done"
            return check

        print("# SERVICE_NEW")
        each_fault(lambda: arranged(False), lambda nl: nl.do("SERVICE_NEW", service_addr4="10.9.0.80"), becomes(True))
        print("# SERVICE_DEL")
        each_fault(lambda: arranged(True), lambda nl: nl.do("SERVICE_DEL", service_addr4="10.9.0.80"), becomes(False))


@claim
def policies_of_flotilla():
    """Of a service with a listener; it has the policy or not, and one that failed has changed nothing."""
    service = {"service_addr4": "10.9.0.80", "service_port": 80}
    with nodes() as c:
        node = c.nodes[0]
        with inside(node.ns), socket.create_server(("", 80)):
            node.nl.do("SERVICE_NEW", service_addr4="10.9.0.80")

            def named():
                return {row["POLICY_NAME"] for row in node.nl.dump("POLICY_GET")}

            def arranged(has):
                if named() != has and has:
                    node.nl.do("POLICY_SET", policy_name="stay", **service)
                elif named() != has:
                    node.nl.do("POLICY_DEL", **service)
                return asking(node)()

            def becomes(before, after):
                def check(nl, _got, code):
                    nl.close()
                    assert named() == after or code and named() == before, (named(), code)
                return check

            sets = {"policy_name": "hash", "policy_args": "self n2 admit=3", **service}
            print("# POLICY_SET")
            each_fault(lambda: arranged(set()), lambda nl: nl.do("POLICY_SET", **sets), becomes(set(), {"hash"}))
            print("# POLICY_SET of another")
            each_fault(lambda: arranged({"stay"}), lambda nl: nl.do("POLICY_SET", **sets), becomes({"stay"}, {"hash"}))
            print("# POLICY_DEL")
            each_fault(lambda: arranged({"stay"}), lambda nl: nl.do("POLICY_DEL", **service), becomes({"stay"}, set()))


@claim
def redirection_of_flotilla():
    with nodes() as c:
        node, service = c.nodes[0], {"service_addr4": "10.9.0.80", "service_port": 80}

        def has():
            return {row["STAT_VALUE"] for row in node.nl.dump("REDIRECT_GET") if row["STAT_NAME"] == "above"}

        def arranged(above):
            if has() != above and above:
                node.nl.do("REDIRECT_SET", policy_args="above=%d" % next(iter(above)), **service)
            elif has() != above:
                node.nl.do("REDIRECT_DEL", **service)
            return asking(node)()

        def becomes(before, after):
            def check(nl, _got, code):
                nl.close()
                assert has() == after or code and has() == before, (has(), code)
            return check

        sets = {"policy_args": "above=7 hint=3", **service}
        print("# REDIRECT_SET")
        each_fault(lambda: arranged(set()), lambda nl: nl.do("REDIRECT_SET", **sets), becomes(set(), {7}))
        print("# REDIRECT_SET of what is there")
        each_fault(lambda: arranged({5}), lambda nl: nl.do("REDIRECT_SET", **sets), becomes({5}, {7}))
        print("# REDIRECT_DEL")
        each_fault(lambda: arranged({5}), lambda nl: nl.do("REDIRECT_DEL", **service), becomes({5}, set()))


@claim
def netlink_of_card():
    with nodes() as c:
        one, two = c.nodes
        with inside(one.ns):
            owner = Card()
        with inside(two.ns):
            user = Card()
        disk = Disk(MIB)
        new = {"export_name": "data", "export_path": disk.device, "export_node": "n2"}

        def made(nl, got, code):
            nl.close()
            try:
                owner.ask("EXPORT_DEL", export_name="data")
            except OSError as err:
                assert code and err.errno == errno.ENOENT, (code, err)

        def unmade(nl, got, code):
            nl.close()
            try:
                owner.ask("EXPORT_DEL", export_name="data")
                assert code, "it said that it was gone"
            except OSError as err:
                # It was done, and the answer found no memory, or its reader was not to get it.
                assert err.errno == errno.ENOENT and code in (0, errno.ENOBUFS, errno.EFAULT), (code, err)

        def exported():
            with contextlib.suppress(OSError):
                owner.ask("EXPORT_NEW", **new)
            return asking(one, Card)()

        def detached():
            """Who looks for partitions may have it open still."""
            try:
                user.ask("DISK_DEL", disk_node="n1", disk_export="data")
            except OSError as err:
                return err.errno != errno.EBUSY
            return True

        def attached(nl, _got, _code):
            nl.close()
            wait(detached)

        def deleted(nl):
            """Not before who looks for partitions has closed it."""
            until = time.monotonic() + fltnl.PATIENCE
            while True:
                try:
                    return nl.ask("DISK_DEL", disk_node="n1", disk_export="data")
                except OSError as err:
                    if err.errno != errno.EBUSY or time.monotonic() > until:
                        raise
                time.sleep(0.1)

        def there():
            with contextlib.suppress(OSError):
                user.ask("DISK_NEW", disk_node="n1", disk_export="data")
            return asking(two, Card)()

        try:
            print("# EXPORT_NEW")
            each_fault(asking(one, Card), lambda nl: nl.ask("EXPORT_NEW", **new), made)
            print("# EXPORT_SET")
            exported().close()
            each_fault(asking(one, Card), lambda nl: nl.ask("EXPORT_SET", export_name="data", export_serve=b"\0"),
                       closed)
            print("# EXPORT_GET")
            each_fault(asking(one, Card), lambda nl: nl.ask("EXPORT_GET", fltnl.NLM_F_DUMP), closed)
            print("# DISK_NEW")
            # EINVAL: device_add_disk() does not look whether dev_set_name() had memory, and device_add() finds no name.
            each_fault(asking(two, Card), lambda nl: nl.ask("DISK_NEW", disk_node="n1", disk_export="data"), attached,
                       also=(errno.EINVAL,))
            user.ask("DISK_NEW", disk_node="n1", disk_export="data")
            print("# DISK_GET")
            each_fault(asking(two, Card), lambda nl: nl.ask("DISK_GET", fltnl.NLM_F_DUMP), closed)
            print("# DISK_DEL")
            each_fault(there, deleted, attached)
            print("# EXPLAIN")
            user.ask("EXPORT_NEW", export_name="known", export_path=disk.device, export_node="n1", export_policy="hscc")
            each_fault(asking(two, Card), lambda nl: nl.ask("EXPLAIN", explain_name="known", explain_block=bytes(8)),
                       closed)
            user.ask("EXPORT_DEL", export_name="known")
            print("# EXPORT_DEL")
            each_fault(exported, lambda nl: nl.ask("EXPORT_DEL", export_name="data"), unmade)
        finally:
            owner.close()
            user.close()
            disk.close()


@claim
def a_handoff():
    with hof.Cluster(1) as c:
        dev, front, back = c.fe.handoff(), c.fe.listen(), c.be[0].listen()

        def arrange():
            client = c.client.connect()
            client.sendall(b"GET")
            here = hof.accept(front)
            hof.peek(here, 3)
            return client, here

        def check(ends, _got, code):
            client, here = ends
            if code:
                assert hof.receive(here, 3) == b"GET"
                hof.usable(here, client)
            else:
                kind = dev.event()[0]
                # What failed behind the call comes as an event, and the connection is ours again.
                server = hof.accept(back) if kind == hof.DONE else here
                assert hof.receive(server, 3) == b"GET"
                hof.usable(server, client)
                server.close()
                if kind == hof.DONE:
                    dev.expect(hof.CLOSED)
            here.close()
            client.close()

        print("# SUBMIT")
        each_fault(arrange, lambda ends: dev.submit(ends[1], c.fe.id["be1"], 1), check)
        print("# INFO, an open device")
        each_fault(lambda: None, lambda _: dev.info())

        def open_it(_):
            with c.fe.inside():
                return os.open("/dev/handoff", os.O_RDWR)

        each_fault(lambda: None, open_it, lambda _, fd, code: None if code else os.close(fd))

        def begun():
            with c.fe.inside():
                return move.Move()

        def to_node():
            one = begun()
            one.node(c.fe.id["be1"])
            return one

        print("# NODE, PASSED of a move")
        each_fault(begun, lambda one: one.node(c.fe.id["be1"]), lambda one, *_: one.close())
        each_fault(to_node, lambda one: one.passed(), lambda one, *_: one.close())
        dev.close()
        front.close()
        back.close()


@claim
def a_takeover():
    """Of a connection whose front-end is gone; it goes on whenever it has been taken over."""
    with handed_off() as (c, _, _, client, there):
        c.fails_over()
        with c.fe2.inside():
            dev = os.open("/dev/handoff", os.O_RDWR | os.O_CLOEXEC)

        def over(*_):
            assert c.taken()["be1"] == 1 and c.fe2.stat("ForwardEntries") == 1
            hof.usable(there, client)

        # PREPARE, ASK, RELEASE
        for op in (1, 2):
            print("# TAKEOVER %d" % op)
            each_fault(lambda: None, lambda _, op=op: takeover_ioctl(dev, op), over)
        takeover_ioctl(dev, 1)
        print("# TAKEOVER 3")
        each_fault(lambda: takeover_ioctl(dev, 1), lambda _: takeover_ioctl(dev, 3), least=0)
        os.close(dev)


@claim
def a_relocation():
    """Of a connection that is not between two requests: it goes on where it is."""
    with Chain() as c:
        w = Wanderer(c)
        w.go(c.be[0])
        w.begins()
        with c.fe.inside():
            dev = os.open("/dev/handoff", os.O_RDWR | os.O_CLOEXEC)
        print("# RELOCATE")
        each_fault(lambda: None, lambda _: relocate(dev, node=c.fe.id["be1"], to=(c.fe.id["be2"],), timeout=10000),
                   lambda *_: w.works())
        os.close(dev)
        w.close()


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

        print("# INFO, SET, NEXT_SITE, SITE_ADD of one that is there")
        each_fault(lambda: None, lambda _: dev.info())
        each_fault(lambda: None, lambda _: dev.info(budget=64 << 20))
        each_fault(lambda: None, lambda _: dev.next_site(0))
        each_fault(lambda: None, lambda _: dev.site_add(where))
        print("# LISTEN, PROTOCOL of one that is there")
        each_fault(lambda: None, lambda _: dev.listen(where, "http"))
        each_fault(lambda: None, lambda _: dev.protocol(where))
        print("# PUT, and once more as an update")
        each_fault(put, lambda _: dev.put(where, "/x", new), becomes(new), least=3)
        each_fault(put, lambda _: dev.put(where, "/x", new, update=True), becomes(new), also=(errno.ENOENT,), least=3)
        print("# QUERY, TTL, NEXT")
        each_fault(put, lambda _: dev.query(where, "/x"), lambda *_: is_one_of(old))
        each_fault(put, lambda _: dev.ttl(where, "/x", 0), lambda *_: is_one_of(old))
        each_fault(put, lambda _: dev.names(), lambda *_: is_one_of(old))
        print("# TICKET, BAN")
        each_fault(put, lambda _: dev.ticket(), lambda *_: is_one_of(old))
        each_fault(put, lambda _: dev.ban(where, "/x"), becomes(b"server /x"))
        print("# LOG")
        each_fault(afpa.Device, lambda own: own.log(), lambda own, _got, _code: os.close(own.fd))
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
    for module in ("afpa", "card_hscc", "card", "handoff", "sksplice", "uselect", "iolite", "flotilla"):
        if os.path.isdir("/sys/module/" + module):
            wait(lambda m=module: os.spawnlp(os.P_WAIT, "rmmod", "rmmod", m) == 0, name="rmmod " + module)


if __name__ == "__main__":
    main()
