#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# kernel: debug
# long: debug each call is made as often as it has allocations
# timeout: 600
"""Whichever allocation or copy from user space fails, a call fails with an errno that says so, what it was
about is as before, and the same call works the next time.

Each command of each netlink family and each ioctl of handoff about a node, with the n-th fault for n = 1, 2, ...
until a call reaches its end without one. fault_devices has those of the other devices.
"""
import contextlib
import errno
import os
import socket
import struct
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))
for room in ("handoff", "card", "kmod", "tools/testing"):
    sys.path.insert(0, os.path.join(TOP, room, "tests", "lib"))
import fltnl                                            # noqa: E402
import hof                                              # noqa: E402
import move                                             # noqa: E402
from card import MIB, Disk                              # noqa: E402
from chain import Chain, Wanderer                       # noqa: E402
from cluster import Cluster                             # noqa: E402
from early import Early, answers                        # noqa: E402
from early_table import CREATE, call, put               # noqa: E402
from faults import each_fault, modules_unload           # noqa: E402
from kit import claim, main, wait                       # noqa: E402
from netns import inside, run                           # noqa: E402
from pair import handed_off, takeover_ioctl             # noqa: E402
from relocate import relocate                           # noqa: E402

CARD = fltnl.enums(os.path.join(TOP, "card/uapi/flotilla/card.h"))


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
        print("# REPORT_SET")
        each_fault(asking(node), lambda nl: nl.do("REPORT_SET", report_faults=1, report_warnings=2, report_wrong="x"),
                   closed)
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
def an_early_handoff():
    """Asked for, in vain or not: what follows is served by whoever it is then for."""
    with Early(1, begun=False) as c:
        def over(_, _got, code):
            client = c.ask()
            index, there = c.where()
            assert index == (-1 if code else 0), (index, code)
            answers(client, there)
            there.close()
            client.close()
            if not code:
                c.end()

        print("# EARLY")
        each_fault(lambda: None, lambda _: c.begin(), over)


@claim
def a_table_of_early_handoffs():
    """It is there with all of a batch, or its descriptor ends with what there is of it."""
    def fill(fd):
        call(fd, CREATE, 64)
        put(fd, *((key, 1) for key in range(20)))

    with Early(1, begun=False):
        print("# EARLY_TABLE")
        each_fault(lambda: os.open("/dev/handoff", os.O_RDWR | os.O_CLOEXEC), fill, lambda fd, *_: os.close(fd))


@claim
def and_the_modules_unload():
    modules_unload()


if __name__ == "__main__":
    main()
