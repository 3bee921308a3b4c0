#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# long: both a minute, and on the debug kernel it takes two minutes
# timeout: 280
"""Whatever goes wrong, a connection is here or there, never nowhere, and the dispatcher is told."""
import errno
import os
import select
import socket
import struct
import sys
import threading
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import (CLOSED, DONE, E, FAILED, PATIENCE, SLOW, VIP4, Cluster, Refused, accept,  # noqa: E402
                 acknowledged, claim, main, peek, receive, run, stalled, usable, wait)

CLUSTER = None
# The longer of both ends' counts. What each says when a link comes up is short, for who wants one lost.
SHORT, HEARTBEAT = 1000, 5000


def cluster():
    """One for all tests; each closes its sockets."""
    global CLUSTER
    if not CLUSTER:
        # A node that is lost is lost at once here; handoff_blink is about those that come back.
        CLUSTER = Cluster(2, heartbeat_ms=SHORT, grace_ms=0)
    return CLUSTER


class Case:
    """An accepted connection, its client, a device, a listener on the first back-end."""

    def __init__(self, request=b"GET", listen=True, backlog=128):
        self.c = cluster()
        self.fe, self.be = self.c.fe, self.c.be[0]
        self.mend()
        self.dev = self.fe.handoff()
        self.front = self.fe.listen()
        self.back = self.be.listen(backlog=backlog) if listen else None
        self.node = self.fe.id["be1"]
        self.client, self.here = self.connect(request)

    def connect(self, request=b"GET"):
        client = self.c.client.connect()
        client.sendall(request)
        here = accept(self.front)
        peek(here, len(request))
        return client, here

    def mend(self):
        """What a test that failed may have left."""
        self.c.heartbeat(HEARTBEAT)
        for node in self.c.nodes:
            if "mute" in node.output("nft", "list", "tables"):
                self.unblock_links(node)
        wait(lambda: self.fe.nl.node("be1")["NODE_STATE"] == E["FLT_NODE_UP"])

    def usable(self, request=b"GET"):
        """The descriptor is as before: its request unread, both directions alive."""
        assert receive(self.here, len(request)) == request
        usable(self.here, self.client)
        assert not self.live(), self.live()

    def live(self):
        """Entries, without those of connections that are over."""
        return [x for x in self.fe.conns() if x["CONN_STATE"] != "LINGER"]

    def links_are_quiet(self):
        """Nothing is under way on them: they do not still suffer from the last time they were blocked."""
        states = "".join(n.output("ss", "-Htin", "( sport = :7471 or dport = :7471 )")
                         for n in (self.fe, self.be))
        return "unacked:" not in states and "backoff:" not in states

    def block_links(self, node=None):
        """Nothing of the links reaches the back-end any more."""
        wait(self.links_are_quiet)
        node = node or self.be
        # However long it takes here, the node must not be lost.
        self.c.heartbeat(2 * HEARTBEAT)
        node.run("nft", "table inet mute { chain c { type filter hook input priority -400; "
                        "tcp dport 7471 drop; tcp sport 7471 drop; }; }")

    def unblock_links(self, node=None):
        (node or self.be).run("nft", "delete table inet mute")

    def close(self):
        for thing in (self.client, self.here, self.front, self.back, self.dev):
            if thing:
                thing.close()
        wait(lambda: not self.live())


@claim
def full_accept_queue_refuses():
    case = Case(backlog=0)
    extra = []
    while True:
        client, here = case.connect()
        case.dev.submit(here, case.node)
        kind, _, _, why, _ = case.dev.event()
        extra += [client, here]
        if kind == FAILED:
            assert why == "full", why
            break
        assert len(extra) < 20
    usable_case = here, client
    assert receive(usable_case[0], 3) == b"GET"
    usable(*usable_case)
    for sock in extra:
        sock.close()
    case.close()


@claim
def silent_node_times_out_and_the_descriptor_is_usable():
    case = Case()
    case.block_links()
    begin = time.monotonic()
    case.dev.submit(case.here, case.node, 5, timeout_ms=200)
    case.dev.expect(FAILED, 5, "timeout")
    assert time.monotonic() - begin > 0.19
    case.usable()
    case.unblock_links()
    # It hears HANDOFF and ABORT now: nothing must be left there.
    wait(lambda: case.be.stat("AdoptPending") == 0 and not case.be.sockets())
    case.close()


@claim
def same_connection_goes_to_another_node_after_a_timeout():
    case = Case()
    other = cluster().be[1].listen()
    case.block_links()
    case.dev.submit(case.here, case.node, timeout_ms=200)
    case.dev.expect(FAILED, refusal="timeout")
    case.dev.submit(case.here, case.fe.id["be2"])
    case.dev.expect(DONE)
    there = accept(other)
    assert receive(there, 3) == b"GET"
    usable(there, case.client)
    case.unblock_links()
    wait(lambda: case.be.stat("AdoptPending") == 0)
    usable(there, case.client)
    there.close()
    other.close()
    case.close()


@claim
def who_reads_or_writes_meanwhile_finds_nothing_and_no_room():
    """Its bytes are read at the node that gets it, or here when none does."""
    for taken in (True, False):
        case = Case()
        case.block_links()
        case.dev.submit(case.here, case.node, timeout_ms=8000 * SLOW if taken else 500)
        case.here.setblocking(False)
        for call in (lambda case=case: case.here.recv(1), lambda case=case: case.here.send(b"x")):
            try:
                raise AssertionError(call())
            except BlockingIOError:
                pass
        case.here.settimeout(PATIENCE)
        if not taken:
            assert case.here.recv(1) == b"G"     # waits
            case.dev.expect(FAILED, refusal="timeout")
            case.unblock_links()
            case.usable(b"ET")
            case.close()
            continue
        case.unblock_links()
        case.dev.expect(DONE)
        assert case.here.recv(1) == b""
        with accept(case.back) as there:
            assert receive(there, 3) == b"GET"
            usable(there, case.client)
            case.client.close()     # so that nothing of it waits on the node
            assert there.recv(1) == b""
        case.close()


@claim
def ended_meanwhile_it_stays():
    """shutdown() is not held up, and what it says is not said twice."""
    case = Case()
    case.block_links()
    case.dev.submit(case.here, case.node, timeout_ms=8000 * SLOW)
    case.here.shutdown(socket.SHUT_WR)
    case.unblock_links()
    case.dev.expect(FAILED, refusal="changed")
    assert case.client.recv(1) == b""
    assert receive(case.here, 3) == b"GET"
    case.client.sendall(b"more")
    assert receive(case.here, 4) == b"more"
    case.close()


@claim
def close_meanwhile_takes_it_back():
    case = Case()
    case.block_links()
    case.dev.submit(case.here, case.node, timeout_ms=8000 * SLOW)
    case.here.close()
    case.unblock_links()
    case.dev.expect(FAILED, refusal="aborted")
    wait(lambda: case.be.stat("AdoptPending") == 0 and not case.be.sockets())
    case.close()


@claim
def closing_the_device_takes_back_what_is_not_done():
    case = Case()
    case.block_links()
    before = case.fe.stat("HandoffRefusedAborted")
    case.dev.submit(case.here, case.node, timeout_ms=60000)
    assert case.dev.info()[2:] == (1, 0)
    case.dev.close()
    case.dev = None
    assert case.fe.stat("HandoffRefusedAborted") == before + 1
    case.usable()
    case.unblock_links()
    case.close()


@claim
def second_submission_is_busy_and_a_third_is_too_late():
    case = Case()
    case.block_links()
    case.dev.submit(case.here, case.node, timeout_ms=10000 * SLOW)
    for node in ("be1", "be2"):
        try:
            case.dev.submit(case.here, case.fe.id[node])
            assert False, "submitted twice"
        except Refused as error:
            assert (error.errno, error.refusal) == (errno.EBUSY, "busy"), error
    case.unblock_links()
    case.dev.expect(DONE)
    try:
        case.dev.submit(case.here, case.node)
        assert False, "submitted after it was given"
    except Refused as error:
        assert error.errno == errno.EALREADY, error
    case.close()


@claim
def packets_that_come_meanwhile_are_held_and_delivered_in_order():
    case = Case()
    case.block_links()
    case.dev.submit(case.here, case.node, timeout_ms=10000 * SLOW)
    before = case.fe.stats()
    case.client.setsockopt(6, 1, 1)     # TCP_NODELAY: a packet each
    sent = b""
    for i in range(40):
        part = b"%04d" % i * (1 + i % 7)
        case.client.sendall(part)
        sent += part
    wait(lambda: case.fe.stat("HoldQueued") > before["HoldQueued"] + 5)
    case.unblock_links()
    case.dev.expect(DONE)
    there = accept(case.back)
    assert receive(there, 3 + len(sent)) == b"GET" + sent
    usable(there, case.client)
    after = case.fe.stats()
    assert after["HoldForwarded"] > before["HoldForwarded"]
    there.close()
    case.close()


@claim
def packets_that_were_held_come_back_in_order_when_it_fails():
    case = Case()
    case.block_links()
    case.client.setsockopt(6, 1, 1)
    before = case.fe.stats()
    case.dev.submit(case.here, case.node, timeout_ms=4000 * SLOW)
    sent = b""
    for i in range(30):
        part = b"%04d" % i
        case.client.sendall(part)
        sent += part
    case.dev.expect(FAILED, refusal="timeout")
    case.usable(b"GET" + sent)
    after = case.fe.stats()
    assert after["HoldReinjected"] >= before["HoldReinjected"] + 10, (before, after)
    case.unblock_links()
    case.close()


@claim
def more_than_the_limit_is_dropped_counted_and_sent_again_by_the_client():
    case = Case()
    case.fe.sysctl("net.flotilla.hold_max", 4)
    case.block_links()
    case.client.setsockopt(6, 1, 1)
    before = case.fe.stats()
    case.dev.submit(case.here, case.node, timeout_ms=4000 * SLOW)
    for _ in range(9):
        case.client.sendall(b"x" * 100)
    case.dev.expect(FAILED, refusal="timeout")
    case.usable(b"GET" + b"x" * 900)
    after = case.fe.stats()
    assert after["HoldDropped"] > before["HoldDropped"]
    case.fe.sysctl("net.flotilla.hold_max", 64)
    case.unblock_links()
    case.close()


@claim
def memory_of_what_is_held_is_bounded_and_nothing_is_lost():
    case = Case()
    case.block_links()
    fe, kilobytes = case.fe, 16
    fe.sysctl("net.flotilla.hold_max_kb", kilobytes)
    dropped = fe.stat("HoldDropped")
    case.dev.submit(case.here, case.node, timeout_ms=4000 * SLOW)
    body = os.urandom(60000)
    sender = threading.Thread(target=case.client.sendall, args=(body,))
    sender.start()
    most = 0
    while not case.dev.waiting and not select.select([case.dev.fd], [], [], 0.02)[0]:
        most = max(most, fe.stat("HoldBytes"))
    case.dev.expect(FAILED, refusal="timeout")
    assert most <= kilobytes << 10, most
    assert fe.stat("HoldDropped") > dropped
    assert receive(case.here, 3 + len(body)) == b"GET" + body
    sender.join()
    assert fe.stat("HoldBytes") == 0
    fe.sysctl("net.flotilla.hold_max_kb", 65536)
    case.unblock_links()
    case.close()


def memory():
    with open("/proc/meminfo", encoding="ascii") as file:
        return int(file.readline().split()[1]) << 10


@claim
def no_namespace_has_more_held_than_a_share_of_the_memory():
    """Whatever limits it has set itself, and whoever sends what no TCP would."""
    case = Case()
    case.block_links()
    c, fe, size = case.c, case.fe, 60000
    for name in ("hold_max", "hold_max_kb"):
        fe.sysctl("net.flotilla." + name, 1024 if name == "hold_max" else 1 << 20)
    for node in (c.client, fe):
        node.run("ip", "link", "set", "eth0", "mtu", "65000")
    for port in ("p1", "p100", "br0"):
        run("ip", "-n", c.net.bridge, "link", "set", port, "mtu", "65000")
    source, port = case.client.getsockname()
    packet = struct.pack(">BBHHHBBH4s4sHHIIBBHHH", 0x45, 0, 40 + size, 1, 0, 64, 6, 0,
                         socket.inet_aton(source), socket.inet_aton(VIP4), port, 80, 1, 1, 0x50, 0x10, 100, 0, 0)
    with c.client.inside():
        raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    case.dev.submit(case.here, case.node, timeout_ms=60000)
    before = fe.stats()
    for _ in range(900):
        raw.sendto(packet + bytes(size), (VIP4, 0))
    after = fe.stats()
    most = after["HoldBytes"]
    print("# held at most %d KB of %d" % (most >> 10, memory() >> 10))
    assert after["HoldQueued"] > before["HoldQueued"] and after["HoldDropped"] > before["HoldDropped"]
    assert 0 < most <= memory() // 32 + size * 4, most
    raw.close()
    case.here.close()
    case.unblock_links()
    case.dev.expect(FAILED, refusal="aborted")
    wait(lambda: fe.stat("HoldBytes") == 0)
    for node in (c.client, fe):
        node.run("ip", "link", "set", "eth0", "mtu", "1500")
    fe.sysctl("net.flotilla.hold_max", 64)
    fe.sysctl("net.flotilla.hold_max_kb", 65536)
    case.close()


@claim
def a_port_used_again_while_it_is_undecided_waits_for_the_decision():
    """A SYN held behind the old connection's RST would find the new owner's listener: it is not held."""
    case = Case()
    case.block_links()
    case.dev.submit(case.here, case.node, timeout_ms=10000 * SLOW)
    before = case.fe.stats()
    source = case.client.getsockname()
    case.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    case.client.close()
    wait(lambda: case.fe.stat("HoldQueued") == before["HoldQueued"] + 1)
    got = []
    again = threading.Thread(target=lambda: got.append(case.c.client.connect(source=source)))
    again.start()
    wait(lambda: case.fe.stat("ForwardSynEarly") > before["ForwardSynEarly"])
    assert case.fe.stat("HoldQueued") == before["HoldQueued"] + 1
    case.unblock_links()
    case.dev.expect(DONE)
    if select.select([case.back], [], [], 1)[0]:    # if it was given to the server before the RST
        accept(case.back).close()
    case.dev.expect(CLOSED)
    here = accept(case.front)
    again.join()
    assert not select.select([case.back], [], [], 0.5)[0]
    usable(here, got[0])
    for thing in (here, got[0]):
        thing.close()
    case.close()


@claim
def asking_about_an_undecided_one_changes_nothing():
    """ACK does not arrive for a while; the taker asks; then all goes its way."""
    case = Case()
    case.be.sysctl("net.flotilla.adopt_query_ms", 50)
    before = case.be.stat("AdoptQueried")
    case.block_links(case.fe)       # the answers do not reach the giver
    case.dev.submit(case.here, case.node, timeout_ms=10000 * SLOW)
    wait(lambda: case.be.stat("AdoptQueried") > before)
    assert case.be.stat("AdoptPending") == 1
    case.unblock_links(case.fe)
    case.dev.expect(DONE)
    there = accept(case.back)
    assert receive(there, 3) == b"GET"
    usable(there, case.client)
    case.be.sysctl("net.flotilla.adopt_query_ms", 1000)
    there.close()
    case.close()


@claim
def dead_node_resets_its_clients_and_only_those():
    case = Case()
    other = cluster().be[1].listen()
    client2, here2 = case.connect()
    case.dev.submit(case.here, case.node, 1)
    case.dev.submit(here2, case.fe.id["be2"], 2)
    assert {case.dev.event()[:2], case.dev.event()[:2]} == {(DONE, 1), (DONE, 2)}
    there, there2 = accept(case.back), accept(other)
    there.sendall(b"first")
    assert receive(case.client, 5) == b"first"
    case.c.heartbeat(SHORT)
    case.be.run("ip", "link", "set", "eth0", "down")
    case.dev.expect(CLOSED, 1, "nodedown")
    # It waits for an answer and sends nothing: it is told all the same.
    try:
        assert case.client.recv(1) and False, "no reset"
    except ConnectionResetError:
        pass
    assert case.fe.stat("ForwardResets") >= 1 and case.fe.stat("HandoffNodeLost") >= 1
    assert receive(there2, 3) == b"GET"
    usable(there2, client2)
    assert case.fe.nl.node("be1")["NODE_LOAD"] == 0
    try:
        client3, here3 = case.connect()
        case.dev.submit(here3, case.node)
        assert False, "given to a dead node"
    except Refused as error:
        assert (error.errno, error.refusal) == (errno.EHOSTUNREACH, "nodedown"), error
    case.be.run("ip", "link", "set", "eth0", "up")
    wait(lambda: case.fe.nl.node("be1")["NODE_STATE"] == E["FLT_NODE_UP"])
    for sock in (there, there2, client2, here2, client3, here3, other):
        sock.close()
    case.close()


@claim
def deleted_node_resets_its_clients():
    case = Case()
    case.dev.submit(case.here, case.node, 1)
    case.dev.expect(DONE, 1)
    case.fe.nl.do("NODE_DEL", node_name="be1")
    case.dev.expect(CLOSED, 1, "nodedown")
    try:
        assert case.client.recv(1) and False, "no reset"
    except ConnectionResetError:
        pass
    cluster().list(case.fe, case.be)
    wait(lambda: case.fe.nl.node("be1")["NODE_STATE"] == E["FLT_NODE_UP"])
    case.close()


@claim
def node_that_leaves_meanwhile_is_no_target_any_more():
    """Who has found it in the table may come with it later: nothing is kept of it anew."""
    case, refused = Case(), []

    def submit():
        try:
            case.dev.submit(case.here, case.node, 1)
        except Refused as error:
            refused.append(error.refusal)
    thread = threading.Thread(target=submit)
    with stalled("hof_peer_get", 10 * SLOW) as hits:
        thread.start()
        wait(hits)
        case.fe.nl.do("NODE_DEL", node_name="be1")
        assert not refused, "it was over before the node was gone"
        thread.join()
    assert refused == ["noroute"], refused
    case.dev.no_event()
    case.usable()
    cluster().list(case.fe, case.be)
    wait(lambda: case.fe.nl.node("be1")["NODE_STATE"] == E["FLT_NODE_UP"])
    case.close()


@claim
def connection_comes_back_to_the_front_end_and_goes_out_again():
    """Request by request to another node, by way of the front-end: three moves of one connection."""
    case = Case()
    dev2 = case.be.handoff()
    other = cluster().be[1].listen()
    case.dev.submit(case.here, case.node, 1)
    case.dev.expect(DONE, 1)
    there = accept(case.back)
    assert receive(there, 3) == b"GET"
    usable(there, case.client)
    wait(lambda: acknowledged(there))
    dev2.submit(there, case.be.id["fe"], 2)
    dev2.expect(DONE, 2)
    case.dev.expect(CLOSED, 1)
    again = accept(case.front)
    usable(again, case.client)
    wait(lambda: acknowledged(again))
    case.client.sendall(b"NEXT")
    peek(again, 4)
    case.dev.submit(again, case.fe.id["be2"], 3)
    case.dev.expect(DONE, 3)
    again.close()                       # the back-end hears of the end when the socket goes
    dev2.expect(CLOSED, 2)
    last = accept(other)
    assert receive(last, 4) == b"NEXT"
    usable(last, case.client)
    last.close()
    assert case.client.recv(1) == b""
    case.client.close()
    case.dev.expect(CLOSED, 3)
    for thing in (there, other, dev2):
        thing.close()
    case.close()


@claim
def switched_off_it_refuses_on_either_side():
    case = Case()
    case.be.sysctl("net.flotilla.adopt", 0)
    case.dev.submit(case.here, case.node)
    case.dev.expect(FAILED, refusal="policy")
    case.be.sysctl("net.flotilla.adopt", 1)
    case.fe.sysctl("net.flotilla.handoff", 0)
    try:
        case.dev.submit(case.here, case.node)
        assert False, "submitted"
    except Refused as error:
        assert (error.errno, error.refusal) == (errno.EOPNOTSUPP, "policy"), error
    case.fe.sysctl("net.flotilla.handoff", 1)
    case.usable()
    case.close()


if __name__ == "__main__":
    main()
