#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 1800
# long: both two minutes, a quarter of an hour on the debug kernel
"""A connection is handed off with its first segment, and the front-end never has a socket of it."""
import contextlib
import errno
import os
import socket
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from early import EARLY, REQUEST, Early, Hand, answers, early_ioctl, over       # noqa: E402
from hof import DONE, E, TOP, VIP4, batch, claim, main, rounds, run, stalled, wait    # noqa: E402
from kit import Skip                                                            # noqa: E402
from mallory import ABORT, ACK, COMMIT, HANDOFF, HEAD, LIFE, NAK, RECORD, Mallory   # noqa: E402
from syns import Raw                                                            # noqa: E402

FLOOD = os.path.join(TOP, "build/tests/handoff-flood")
SYNS = int(os.environ.get("SYNS", rounds(50000, 3000)))
FEATURE = 1 << 11
LINGER_RST = struct.pack("ii", 1, 0)


def served(c, **more):
    """One request, which a back-end gets: which."""
    client = c.ask(**more)
    index, there = c.where()
    assert index >= 0, ("the front-end's listener has it", c.fe.stats())
    answers(client, there)
    over(client, there)
    return index


def left(c, client, request=REQUEST):
    """The front-end's listener gets the connection, and it works."""
    index, there = c.where()
    assert index == -1, (index, c.fe.stats())
    answers(client, there, request)
    over(client, there)


@claim
def the_request_is_served_and_the_front_end_has_no_socket():
    with Early() as c:
        seen = []
        for number in range(4):
            client = c.ask()
            index, there = c.where()
            assert index >= 0, "the front-end's listener has it"
            assert not c.fe.sockets(), c.fe.sockets()
            answers(client, there)
            seen.append(index)
            over(client, there)
            wait(lambda n=number: c.fe.stat("HandoffClosed") == n + 1)
        assert sorted(seen) == [0, 0, 1, 1], seen
        assert c.count("Syns") >= 4 and c.count("Given") == 4 and c.count("Left") == 0, c.fe.stats()


@claim
def a_kept_connection_goes_on_there_with_large_answers():
    with Early(1) as c:
        client = c.ask()
        index, there = c.where()
        assert index == 0
        answers(client, there)
        for request, size in (REQUEST, 70000), (REQUEST, 3000000), (REQUEST + b"y" * 400000, 2):
            with ThreadPoolExecutor(1) as writer:
                writer.submit(client.sendall, request)
                answers(client, there, request, b"x" * size, writer)
        over(client, there)


@claim
def a_port_that_is_used_again_is_served_so_too():
    with Early() as c:
        for number in range(3):
            assert served(c, source=("", 4711)) >= 0
            wait(lambda n=number: c.fe.stat("HandoffClosed") == n + 1)
        assert c.fe.stat("ForwardSynReuse") == 2 and c.count("Left") == 0, c.fe.stats()


@claim
def options_of_the_client_survive_as_far_as_a_cookie_holds_them():
    with Early(1) as c:
        for timestamps, scaling, sack in (1, 1, 1), (1, 0, 1), (1, 1, 0), (0, 1, 1):
            c.client.sysctl("net.ipv4.tcp_timestamps", timestamps)
            c.client.sysctl("net.ipv4.tcp_window_scaling", scaling)
            c.client.sysctl("net.ipv4.tcp_sack", sack)
            client = c.ask()
            index, there = c.where()
            assert index == 0
            answers(client, there, REQUEST, b"x" * 200000)
            info = there.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)
            got = tuple(int(bool(info[5] & bit)) for bit in (1, 4, 2))
            assert got == (timestamps, timestamps & scaling, timestamps & sack), (timestamps, scaling, sack, info)
            over(client, there)


@claim
def what_is_not_one_whole_request_is_the_listeners():
    with Early() as c:
        for first, rest in ((b"GET /one HT", b"TP/1.1\r\nHost: a\r\n\r\n"),
                            (b"GET /one HTTP/1.1\r\nHost: a\r\n\r\nGET /two HTTP/1.1\r\nHost: a\r\n\r\n", b""),
                            (b"GET /one HTTP/1.1\r\nUpgrade: h2c\r\n\r\n", b""),
                            (b"POST /one HTTP/1.1\r\nContent-Length: 5\r\n\r\nab", b"cde"),
                            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b""),
                            (b"\x16\x03\x01 what TLS begins with", b""),
                            (b"GET /%s HTTP/1.1\r\n\r\n" % (b"x" * 9000), b"")):
            client = c.ask(first)
            wait(lambda: c.front_waits())
            client.sendall(rest)
            left(c, client, first + rest)
        assert c.count("Given") == 0 and c.fe.stat("ForwardEntries") == 0, c.fe.stats()


@claim
def a_client_that_closes_at_once_is_the_listeners():
    with Early() as c:
        client = c.client.connect(c.port)
        client.shutdown(socket.SHUT_WR)
        index, there = c.where()
        assert index == -1 and there.recv(1) == b""
        over(client, there)


@claim
def a_node_that_refuses_leaves_it_to_the_listener():
    with Early() as c:
        for sock in c.back:
            sock.close()
        c.back = []
        for number in range(3):
            left(c, c.ask())
            assert c.count("Given") == c.count("Left") == number + 1, c.fe.stats()
            assert c.fe.stat("HandoffRefusedNoListener") == number + 1, c.fe.stats()
        assert c.fe.stat("ForwardEntries") == 0


@claim
def who_is_left_a_connection_may_hand_it_off_at_once():
    """Even while the last of what waited for the node is on its way to the socket."""
    with Early() as c, contextlib.closing(c.fe.handoff()) as dev:
        c.begin(c.be[0])
        c.fe.sysctl("net.flotilla.handoff_timeout_ms", 3000)
        c.be[0].run("ip", "link", "set", "eth0", "down")
        client = c.ask()
        wait(lambda: c.count("Given") == 1)
        client.sendall(b"more")
        wait(lambda: c.fe.stat("HoldQueued") == 2)
        with stalled("dev_get_by_index_rcu", 0.2, busy=True):
            index, there = c.where()
            assert index == -1, index
            dev.submit(there, c.fe.id["be2"])
        dev.expect(DONE)
        index, there = c.where()
        assert index == 1, index
        answers(client, there, REQUEST + b"more")
        over(client, there)


@claim
def a_node_that_is_silent_leaves_it_to_the_listener():
    with Early(1) as c:
        c.fe.sysctl("net.flotilla.handoff_timeout_ms", 300)
        c.be[0].run("ip", "link", "set", "eth0", "down")
        left(c, c.ask())
        assert c.fe.stat("HandoffRefusedTimeout") == 1, c.fe.stats()


@claim
def nodes_that_may_get_nothing_get_nothing():
    with Early() as c:
        c.fe.nl.do("NODE_SET", node_name="be1", node_admin=1)
        assert [served(c) for _ in range(3)] == [1, 1, 1]
        c.fe.nl.do("NODE_SET", node_name="be2", node_admin=1)
        left(c, c.ask())
        c.fe.nl.do("NODE_SET", node_name="be1", node_admin=0)
        assert served(c) == 0
        c.fe.nl.do("NODE_DEL", node_name="be1")
        left(c, c.ask())


@claim
def a_flood_of_syns_leaves_nothing_and_clients_are_served():
    with Early() as c:
        c.fe.run("ip", "route", "add", "198.18.0.0/15", "via", c.net.ip4(c.client.number))
        served(c)
        before, slabs = c.count("Syns"), c.slabs()
        flood = c.client.spawn(FLOOD, str(SYNS), VIP4, str(c.port), stdout=subprocess.PIPE)
        while flood.poll() is None:
            served(c)
        sent = int(flood.stdout.read())
        assert sent == SYNS
        # Some are lost in the queues of devices.
        wait(lambda: c.count("Syns") - before >= SYNS * 3 // 4)
        assert not c.fe.sockets(), c.fe.sockets()[:5]
        grown = {name: c.slabs()[name] - slabs[name] for name in slabs}
        print("# %d SYNs, %d answered, %d connections served meanwhile; objects more: %s" % (
            SYNS, c.count("Syns") - before, c.count("Given") - 1, grown))
        # What has been served lingers, and no more than that.
        assert max(grown.values()) < 100 + 2 * c.count("Given"), grown
        assert c.fe.stat("ForwardEntries") <= c.count("Given") and c.fe.stat("HoldBytes") == 0, c.fe.stats()
        assert c.count("Given") == c.fe.stat("HandoffDone") and c.count("Left") == 0, c.fe.stats()


@claim
def acks_of_no_cookie_begin_nothing():
    with Early() as c:
        raw = Raw(c.client)
        for at in range(rounds(2000, 500)):
            raw.send("10.9.3.%d" % (1 + at % 250), VIP4, 16, 1024 + at, seq=7 * at, ack=at * 7919, data=REQUEST)
        wait(lambda: c.count("Strangers") >= rounds(2000, 500))
        assert c.count("Given") == 0 and c.fe.stat("ForwardEntries") == 0 and not c.fe.sockets(), c.fe.stats()
        raw.close()


@claim
def what_is_lost_on_the_way_comes_again():
    with Early() as c:
        c.disturb(c.client)
        answer = b"x" * 50000
        for _ in range(rounds(30, 10)):
            client = c.ask()
            index, there = c.where(120)
            answers(client, there, REQUEST, answer)
            over(client, there)
        assert c.count("Given") > 0, c.fe.stats()


@claim
def what_comes_before_the_first_segment_does_not_end_the_connection():
    with Early() as c:
        c.fe.run("ip", "route", "add", "198.18.0.0/15", "via", c.net.ip4(c.client.number))
        hand = Hand(c)
        hand.shake()
        wait(lambda: c.count("Acks") == 1)
        hand.send(24, 20, REQUEST[20:])     # the first part is late
        hand.send(17, len(REQUEST))
        got = hand.heard(1)
        assert got is None, "flags %d" % got[0]
        hand.send(24, 0, REQUEST[:20])
        wait(c.front_waits)
        hand.send(24, 20, REQUEST[20:])
        index, there = c.where()
        assert index == -1 and there.recv(1000) in (REQUEST, REQUEST[:20])
        there.close()
        # Later, and to who has not been here, it is what it was.
        hand.port += 1
        hand.send(24, 20, REQUEST[20:])
        assert hand.heard(30)[0] & 4, "no RST"
        hand.close()


@claim
def what_comes_behind_is_not_reset_though_the_ack_is_lost():
    with Early(1) as c:
        for node in c.fe, c.be[0]:
            node.run("ip", "route", "add", "198.18.0.0/15", "via", c.net.ip4(c.client.number))
        hand = Hand(c)
        hand.shake(acked=False)
        hand.send(16, len(REQUEST))         # what a client answers to a SYN-ACK that comes twice
        wait(lambda: c.count("Strangers") == 1)
        got = hand.heard(1)
        assert got is None, "flags %d" % got[0]
        hand.send(24, 0, REQUEST)
        index, there = c.where()
        assert index == 0 and there.recv(1000) == REQUEST
        there.close()
        # A stranger is not kept waiting, whoever was here before.
        hand.port += 1
        hand.shake()
        hand.ack += 100                     # the next one is a cookie, too, of another MSS
        hand.send(24, 20, REQUEST[20:])
        assert hand.heard(30)[0] & 4, "no RST"
        hand.close()


@claim
def it_lasts_as_long_as_the_descriptor_and_cookies_stay_good():
    with Early() as c:
        waiting = [c.client.connect(c.port) for _ in range(3)]
        wait(lambda: c.count("Acks") >= 3)
        waiting[0].sendall(REQUEST)
        assert c.where()[0] >= 0
        c.end()
        waiting[1].sendall(REQUEST)
        left(c, waiting[1])
        left(c, c.ask())
        c.begin()
        assert served(c) >= 0
        c.dev.close()
        waiting[2].sendall(REQUEST)
        left(c, waiting[2])
        left(c, c.ask())
        c.dev = c.fe.handoff()
        c.begin()
        assert served(c) >= 0


@claim
def without_a_listener_nothing_is_answered():
    with Early() as c:
        c.front.close()
        try:
            c.client.connect(c.port)
            raise AssertionError("there is nobody")
        except ConnectionRefusedError:
            pass
        c.front = c.fe.listen(c.port)
        c.front.settimeout(0)

        def early():
            client = c.ask()
            index, there = c.where()
            answers(client, there)
            over(client, there)
            return index >= 0
        wait(early)         # it is looked for ten times a second


@claim
def the_call_refuses_what_it_does_not_know():
    with Early(begun=False) as c:
        def refused(code, nodes=(1,), **more):
            try:
                early_ioctl(c.dev.fd, [c.fe.id["be%d" % n] if n < 100 else n for n in nodes], c.port, **more)
            except OSError as error:
                assert error.errno == code, (error, more)
                return
            raise AssertionError(more)
        refused(errno.EINVAL, flags=2)
        refused(errno.ENOENT, flags=1)      # there is no table
        refused(errno.EINVAL, size=EARLY.size - 1)
        refused(errno.EINVAL, size=EARLY.size + 8)
        refused(errno.EINVAL, tail=b"\1")
        refused(errno.EINVAL, nodes=[1] * 65)
        refused(errno.EAFNOSUPPORT, family=socket.AF_INET6)
        refused(errno.ENOENT, nodes=(1, 4711))
        refused(errno.ENOENT, nodes=())
        assert c.dev.info()[1] & FEATURE
        c.begin()
        other = c.fe.handoff()
        try:
            c.begin(dev=other)
            raise AssertionError("two have it")
        except OSError as error:
            assert error.errno == errno.EBUSY
        other.close()
        assert served(c) >= 0


@claim
def a_node_that_dies_has_its_clients_reset():
    with Early(1, heartbeat_ms=200, grace_ms=300) as c:
        client = c.ask()
        index, there = c.where()
        assert index == 0
        c.be[0].run("ip", "link", "set", "eth0", "down")
        try:
            assert client.recv(1) == b"", "an answer"
            raise AssertionError("end of file")
        except ConnectionResetError:
            pass
        there.close()
        left(c, c.ask())


@claim
def no_room_for_what_waits_leaves_it_to_the_listener():
    with Early() as c:
        c.fe.sysctl("net.flotilla.hold_max_kb", 0)
        left(c, c.ask())
        assert c.count("Given") == 0 and c.fe.stat("HoldDropped") == 0, c.fe.stats()
        c.fe.sysctl("net.flotilla.hold_max_kb", 1024)
        assert served(c) >= 0 and c.fe.stat("HoldBytes") == 0


@claim
def a_way_that_was_changed_is_not_taken_any_more():
    with Early(1) as c:
        assert served(c) == 0
        c.fe.nl.do("NODE_SET", node_name="be1", node_fwd_addr4="203.0.113.9")
        left(c, c.ask())
        c.fe.nl.do("NODE_SET", node_name="be1", node_fwd_addr4=c.net.ip4(2))
        assert served(c) == 0


@claim
def what_comes_by_a_vrf_is_not_for_a_listener_outside():
    with Early() as c:
        run("modprobe", "vrf")
        batch(c.fe.ns, "link add red type vrf table 77", "link set red up", "addr add %s/32 dev red" % VIP4,
              "link add in0 type veth peer name out0", "link set in0 master red", "link set in0 up",
              "addr add 10.77.0.1/24 dev in0", "link set out0 netns %s" % c.client.ns)
        # What the hook would answer finds its way back.
        batch(c.fe.ns, "route add 10.77.0.2/32 via %s dev eth0" % c.net.ip4(c.client.number))
        batch(c.client.ns, "link set out0 up", "addr add 10.77.0.2/24 dev out0", "rule add from 10.77.0.2 lookup 77",
              "route add default via 10.77.0.1 dev out0 table 77")
        for item in "all", "eth0", "out0":
            c.client.sysctl("net.ipv4.conf.%s.rp_filter" % item, 0)
        try:
            c.client.connect(c.port, source=("10.77.0.2", 0))
            raise AssertionError("it is another network's")
        except ConnectionRefusedError:
            pass
        assert c.count("Syns") == 0, c.fe.stats()
        assert served(c) >= 0


@claim
def what_must_come_encrypted_is_not_taken_in_clear():
    with Early() as c:
        if subprocess.run(("modprobe", "xfrm_user"), check=False).returncode:
            raise Skip("this kernel has no IPsec")
        client = c.net.ip4(c.client.number)
        c.fe.run("ip", "xfrm", "policy", "add", "src", client, "dst", VIP4, "dir", "in", "tmpl", "src", client,
                 "dst", VIP4, "proto", "esp", "mode", "transport", "level", "required")
        try:
            c.client.connect(c.port, timeout=2)
            raise AssertionError("in clear text")
        except TimeoutError:
            pass
        assert c.count("Syns") == 0, c.fe.stats()
        c.fe.run("ip", "xfrm", "policy", "flush")
        assert served(c) >= 0


@claim
def what_is_ended_before_the_descriptor_is_closed_has_ended():
    with Early() as c:
        for _ in range(rounds(200, 30)):
            clients = [c.client.connect(c.port) for _ in range(4)]
            with ThreadPoolExecutor(4) as senders:
                for client in clients:
                    senders.submit(client.sendall, REQUEST)
                c.end()
                c.dev.close()
            found = []

            def all_have_come(found=found):
                found += [conn for conn in map(c.taken, [c.front] + c.back) if conn]
                return len(found) == len(clients)
            wait(all_have_come)
            for sock in found + clients:
                sock.close()
            c.dev = c.fe.handoff()
            c.begin()


@claim
def it_ends_while_its_node_offers_it_back():
    """No program has a ticket of it: its entry knows by itself that a node has had it."""
    with Early(1) as c:
        for what in 0, 3:       # it has ended there; its node has lost it
            other = Mallory(c, number=9 + what)
            line = other.meet(c.fe)
            early_ioctl(c.dev.fd, [c.fe.id["mallory"]], c.port)
            client = c.ask()
            _, body = line.await_kind(HANDOFF)
            ident = HEAD.unpack_from(body)[0]
            line.send(ACK, HEAD.pack(ident, other.epoch, 0))
            line.await_kind(COMMIT)
            wait(lambda: c.fe.nl.node("mallory")["NODE_LOAD"] == 1)
            line.send(HANDOFF, HEAD.pack(4711, 0, 0) + body[HEAD.size:])
            assert line.await_kind(ACK, NAK)[0] == ACK
            line.send(LIFE, RECORD.pack(ident, 4, what, client.getsockname()[1], c.port, socket.inet_aton(
                client.getsockname()[0]).ljust(16, b"\0"), socket.inet_aton(VIP4).ljust(16, b"\0")))
            line.send(ABORT, HEAD.pack(4711, E["FLT_REFUSE_ABORTED"], 0))
            wait(lambda: c.fe.nl.node("mallory")["NODE_LOAD"] == 0)
            client.close()
            other.leave(c.fe)
            other.close()


@claim
def what_is_too_long_for_a_request_is_not_copied():
    with Early(1) as c, stalled("flt_opening_checkpoint", 0, busy=True) as copies:
        request = b"GET /%s HTTP/1.1\r\n\r\n" % (b"x" * 9000)
        left(c, c.ask(request), request)
        assert copies() == 0, copies()
        assert served(c) == 0 and copies() == 1, copies()


@claim
def a_copy_of_the_first_segment_begins_nothing_again():
    with Early(1) as c:
        for node in c.fe, c.be[0]:
            node.run("ip", "route", "add", "198.18.0.0/15", "via", c.net.ip4(c.client.number))
        c.fe.sysctl("net.flotilla.forward_linger_ms", 100)
        c.fe.sysctl("net.flotilla.forward_linger_rst_ms", 100)
        hand = Hand(c)
        hand.shake()
        hand.send(24, 0, REQUEST)
        index, there = c.where()
        assert index == 0 and there.recv(1000) == REQUEST
        there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RST)
        there.close()
        wait(lambda: c.fe.stat("ForwardEntries") == 0)
        for flags in 24, 25:
            before = c.count("Again")
            hand.send(flags, 0, REQUEST)
            wait(lambda: c.count("Again") > before or c.count("Given") > 1 or c.count("Left"))
        assert c.count("Given") == 1 and c.count("Left") == 0 and not c.front_waits(), c.fe.stats()
        # With other numbers it is another connection.
        while hand.heard(1):
            pass
        hand.seq += 1000000
        hand.shake()
        hand.send(24, 0, REQUEST)
        index, there = c.where()
        assert index == 0 and there.recv(1000) == REQUEST and c.count("Given") == 2
        there.close()
        hand.close()


@claim
def more_than_can_be_remembered_are_the_listeners():
    with Early(1, begun=False) as c:
        c.fe.sysctl("net.flotilla.forward_max", 16)
        c.begin()
        where = []
        for _ in range(50):
            client = c.ask()
            index, there = c.where()
            answers(client, there)
            over(client, there)
            where.append(index)
        wait(lambda: not c.fe.stat("HandoffInFlight"))
        assert where[:16] == [0] * 16 and 16 < c.count("Given") == where.count(0) <= 32, where
        assert c.count("Full") == c.count("Left") == where.count(-1), c.fe.stats()


@claim
def a_node_that_refuses_is_not_taken_for_one_that_has_had_it():
    """The listener had no room for it either: the client sends it again, and is served."""
    with Early(1) as c:
        for node in c.fe, c.be[0]:
            node.run("ip", "route", "add", "198.18.0.0/15", "via", c.net.ip4(c.client.number))
        c.back[0].close()
        hand = Hand(c)
        hand.shake()
        c.front.listen(0)
        filler = [c.client.connect(c.port) for _ in range(2)]
        for client in filler:
            client.sendall(b"GET")
        wait(lambda: len(c.fe.sockets()) >= 1)
        hand.send(24, 0, REQUEST)
        wait(lambda: c.fe.stat("HandoffFailed") == 1)
        c.back[0] = c.be[0].listen(c.port)
        c.back[0].settimeout(0)
        hand.send(24, 0, REQUEST)
        wait(lambda: c.fe.stat("HandoffDone") == 1)
        assert c.count("Again") == 0, c.fe.stats()
        conn = wait(lambda: c.taken(c.back[0]))
        assert conn.recv(1000) == REQUEST
        for sock in filler + [conn]:
            sock.close()
        hand.close()


@claim
def a_client_that_has_sent_nothing_may_ask_whether_it_is_still_there():
    with Early(1) as c:
        for timestamps in 1, 0:
            c.client.sysctl("net.ipv4.tcp_timestamps", timestamps)
            before = c.count("Probes")
            client = c.client.connect(c.port, options=((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
                                                       (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1),
                                                       (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1),
                                                       (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 60)))
            wait(lambda: c.count("Probes") >= before + 2 or client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
            # Probes that nobody has answered.
            assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[3] <= 1
            client.sendall(REQUEST)
            index, there = c.where()
            assert index == 0
            answers(client, there)
            over(client, there)
        c.fe.run("ip", "route", "add", "198.18.0.0/15", "via", c.net.ip4(c.client.number))
        hand = Hand(c)
        hand.shake()
        for data in b"", b"?":
            hand.send(16, -1, data)
            assert hand.heard(30) == (16, hand.ack)
        before, strangers = c.count("Probes"), c.count("Strangers")
        hand.send(16, -1, b"??")
        wait(lambda: c.count("Strangers") > strangers)
        assert c.count("Probes") == before, "that is no probe"
        hand.close()


@claim
def a_rule_that_redirects_another_service_leaves_it_alone():
    with Early(1) as c:
        c.fe.nl.do("REDIRECT_SET", policy_args="", service_addr4=VIP4, service_port=c.port + 1)
        before = c.count("Syns")
        assert served(c) == 0 and c.count("Syns") > before
        # Its port is used again, while the entry of the last one lingers.
        assert served(c, source=("", 4711)) == 0
        wait(lambda: c.fe.stat("HandoffClosed") == 2)
        assert served(c, source=("", 4711)) == 0 and c.fe.stat("ForwardSynReuse") == 1
        c.fe.nl.do("REDIRECT_DEL", service_addr4=VIP4, service_port=c.port + 1)


@claim
def one_service_is_opened_early_or_redirected():
    with Early(1) as c:
        at = {"service_addr4": VIP4, "service_port": c.port}
        try:
            c.fe.nl.do("REDIRECT_SET", policy_args="", **at)
            raise AssertionError("both")
        except OSError as error:
            assert error.errno == errno.EBUSY, error
        c.end()
        c.fe.nl.do("REDIRECT_SET", policy_args="", **at)
        try:
            c.begin()
            raise AssertionError("both")
        except OSError as error:
            assert error.errno == errno.EBUSY, error
        c.fe.nl.do("REDIRECT_SET", policy_args="above=5", **at)     # what is there may be changed
        c.fe.nl.do("REDIRECT_DEL", **at)
        c.begin()
        assert served(c) == 0


@claim
def the_module_goes_under_load():
    for _ in range(rounds(3, 2)):
        with Early() as c:
            clients = [c.client.connect(c.port) for _ in range(20)]
            for client in clients:
                client.setblocking(False)
                client.send(REQUEST)
            c.dev.close()
            c.dev = None
            run("rmmod", "handoff")
            for client in clients:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RST)
                client.close()
            run("modprobe", "handoff")


if __name__ == "__main__":
    main()
