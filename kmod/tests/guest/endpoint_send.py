#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
"""A connection moves in the middle of an answer: sent and not acknowledged, written and not sent."""
import contextlib
import hashlib
import os
import random
import select
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from endpoint import (ACK, CLIENT, FIN, RST, Capture, Difference, Endpoint, Refused,  # noqa: E402
                      Suite, Wire, answers_lost, answers_of_b_lost, client_cut_off, exchange, fill, listen, move, noise,
                      pair, patient, receive, refuses_all, reset, tcp_info, unread, until)
from patience import CHECKING, PATIENCE, rounds         # noqa: E402

suite = Suite()
MOST = Endpoint.MOST
SEND, SENDDATA = 7, 8

# What the target must know exactly, and the queues packet by packet.
SAME = ("state options snd_wscale rcv_wscale snd_mss advmss pmtu rtt rttvar min_rtt rto "
        "snd_wnd unacked notsent_bytes").split()


def settled(client, server):
    """The client has taken what it takes and a has heard of it."""
    until(lambda: not tcp_info(server)["unacked"] and unread(client), "nothing is under way")


def accepted(world, server, port, v=4, **options):
    """Move a's socket to b with all that it has, accept it there."""
    with listen(world.b, port, v, **options) as at_b:
        wire = move(world, server, world.b, send=MOST)
        child = at_b.accept()[0]
    child.settimeout(PATIENCE)
    return child, wire


class Flight:
    """An answer of which the client has got nothing."""

    def __init__(self, world, port, count, v=4, fin=False, **options):
        self.client, self.server = pair(world, port, v, **options)
        self.server.setsockopt(socket.SOL_SOCKET, 32, 32 << 20)  # SO_SNDBUFFORCE
        self.answer = noise(count, count)
        self.client.sendall(b"request")
        if fin:
            self.client.shutdown(socket.SHUT_WR)
        until(lambda: unread(self.server) == 7 and (tcp_info(self.server)["state"] == 8) == fin,
              "the request is on a")
        until(lambda: not tcp_info(self.client)["unacked"], "the delayed acknowledgment of a is there")
        self.lost = contextlib.ExitStack()
        # A probe of the loss would send what comes next, between two looks.
        before = world.a.sysctl(tcp_early_retrans=0)
        self.lost.callback(lambda: world.a.sysctl(**before))
        self.lost.enter_context(answers_lost(world))
        self.server.sendall(self.answer)
        assert tcp_info(self.server)["unacked"], "nothing is under way"

    def heal(self):
        """From here on the client gets what a sends."""
        self.lost.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.heal()
        self.client.close()
        self.server.close()


class Moved(Flight):
    """The same, on b."""

    def __init__(self, world, port, count, v=4, fin=False, **options):
        super().__init__(world, port, count, v, fin, **options)
        with listen(world.b, port, v) as at_b, answers_of_b_lost(world):
            self.old = tcp_info(self.server)
            self.wire = move(world, self.server, world.b, send=MOST)
            self.child = at_b.accept()[0]
            self.new = tcp_info(self.child)
        self.child.settimeout(PATIENCE)

    def __exit__(self, *_):
        super().__exit__()
        self.child.close()


@suite.each([f"v{v}_{count}{'_fin' if fin else ''}" for v, count, fin in
             ((4, 1, False), (4, 10000, False), (6, 10000, False), (4, 300000, False),
              (4, 10000, True), (6, 300000, True), (4, MOST, False))])
def lost_answer_is_sent_again_by_b(world, which):
    """The client has got none of it. Whatever it wrote is in b's queues, as it was in a's, and arrives once."""
    v, count = int(which[1]), int(which.split("_")[1])
    fin = which.endswith("fin")
    with Moved(world, 8501, count, v, fin) as case:
        una = case.wire["snd_una"]
        nxt, end, data = case.wire.send()
        assert (end - una) & 0xffffffff == count == len(data)
        assert data == case.answer, "other bytes are in the checkpoint"
        for name in SAME:
            old, new = case.old[name], case.new[name]
            if name == "rto":   # how often it has run out is of the giver
                old, new = old >> case.old["backoff"], new >> case.new["backoff"]
            if name == "unacked" and count > 20000:
                continue    # in packets, and b may have sent more at once
            if name == "notsent_bytes":
                assert new <= old, f"{name}: {old} -> {new}"
                continue
            assert old == new, f"{name}: {old} -> {new}"
        assert (nxt - una) & 0xffffffff == count - case.old["notsent_bytes"]
        assert case.server.recv(1) == b"", "the giver does not read end of file"
        assert receive(case.child, 7 + fin) == b"request"
        assert receive(case.client, count) == case.answer
        if not fin:
            exchange(case.client, case.child, noise(20000, 1), noise(200000, 2))
        else:
            case.child.sendall(b"the end")
            case.child.shutdown(socket.SHUT_WR)
            assert receive(case.client, 100) == b"the end"


@suite.each((4, 6))
def window_is_shut_and_much_is_not_sent(world, v):
    """The client reads nothing for a while: none of what waits for its window is lost, or sent early."""
    with patient(world):    # no probe of the window while it moves
        shut_window(world, v)


def shut_window(world, v):
    client, server = pair(world, 8502, v, listener={"SO_SNDBUF": 200000}, SO_RCVBUF=20000)
    answer = noise(1 << 20, 3)
    done = fill(server, answer)
    settled(client, server)
    old = tcp_info(server)
    assert old["notsent_bytes"] > 100000 and old["snd_wnd"] < 10000, old
    with client, server:
        child, wire = accepted(world, server, 8502, v)
        with child:
            assert len(wire.send()[2]) == old["notsent_bytes"] and wire.send()[0] == wire["snd_una"]
            new = tcp_info(child)
            assert new["notsent_bytes"] <= old["notsent_bytes"] <= new["notsent_bytes"] + old["snd_wnd"]
            writer = threading.Thread(target=child.sendall, args=(answer[done:],))
            writer.start()
            got = hashlib.sha256(receive(client, len(answer))).digest()
            writer.join()
            assert got == hashlib.sha256(answer).digest(), "the answer is not what was written"
            exchange(client, child, noise(20000, 1), noise(20000, 2))


@suite.claim
def nobody_sees_the_move(world):
    """No FIN, no RST, no repeated acknowledgment, no window that shrinks, no byte before its turn."""
    with Flight(world, 8503, 10000) as case, Endpoint() as endpoint, listen(world.b, 8503) as at_b, \
            Capture(world.c) as capture:
        wire = endpoint.checkpoint(case.server, MOST)
        assert endpoint.adopt(world.b, wire) == "NONE"
        counts = [Difference(ns) for ns in (world.c, world.a, world.b)]
        world.steer(world.b)
        assert endpoint.unchanged(case.server, wire)
        endpoint.release(case.server)
        case.heal()
        capture.segments()  # it sees those, too, that a has sent to nobody
        assert endpoint.commit() == "NONE"
        time.sleep(0.5)     # longer than the retransmission timer
        assert not capture.segments(), "it was not accepted yet"
        assert counts[2]["OutSegs"] == 0, "a child in the accept queue has sent something"
        with at_b.accept()[0] as child:
            child.settimeout(PATIENCE)
            assert receive(case.client, 10000) == case.answer
            seen = [s for s in capture.segments() if s[0][1] == 8503]
            assert not [s for s in seen if s[2] & (FIN | RST)], seen
            assert not [s for s in seen if s[2] == ACK and not s[5]], f"bare: {seen}"
            begins = {(s[3] - wire["snd_una"]) & 0xffffffff for s in seen}
            assert max(begins) < 10000 and 0 in begins, begins
            assert receive(child, 7) == b"request"
            exchange(case.client, child, noise(1000, 1), noise(1000, 2))
        for count in counts:
            count.quiet()


@suite.claim
def acknowledged_on_the_way_is_not_sent_again(world):
    """The client got the answer and its acknowledgment comes to b, before or after accept."""
    with patient(world):
        acknowledged_on_the_way(world)


def acknowledged_on_the_way(world):
    client, server = pair(world, 8504)
    answer = noise(5000, 4)
    with client, server, Endpoint() as endpoint, listen(world.b, 8504) as at_b:
        with client_cut_off(world):
            server.sendall(answer)
            assert receive(client, 5000) == answer
            wire = endpoint.checkpoint(server, MOST)
            assert len(wire.send()[2]) == 5000
            assert endpoint.adopt(world.b, wire) == "NONE"
            world.steer(world.b)
            endpoint.release(server)
        client.sendall(b"next")
        assert endpoint.commit() == "NONE"
        count = Difference(world.b)
        with at_b.accept()[0] as child:
            child.settimeout(PATIENCE)
            assert receive(child, 4) == b"next"
            until(lambda: not tcp_info(child)["unacked"], "acknowledged")
            assert tcp_info(child)["total_retrans"] == 0 or CHECKING, tcp_info(child)["total_retrans"]
            exchange(client, child, noise(1000, 1), noise(1000, 2))
        count.quiet()


@suite.claim
def three_hops(world):
    """a to b, back to a, and to b again, each time with more that the client has not got."""
    with patient(world):
        hop_thrice(world)


def hop_thrice(world):
    client, server = pair(world, 8505, SO_RCVBUF=20000)
    answer, done = noise(600000, 5), 0
    with client, listen(world.a, 8505, SO_SNDBUF=100000) as at_a, \
            listen(world.b, 8505, SO_SNDBUF=100000) as at_b:
        for node, listener in ((world.b, at_b), (world.a, at_a), (world.b, at_b)):
            done += fill(server, answer[done:])
            settled(client, server)
            move(world, server, node, send=MOST)
            server.close()
            server = listener.accept()[0]
            server.settimeout(PATIENCE)
        writer = threading.Thread(target=server.sendall, args=(answer[done:],))
        writer.start()
        assert receive(client, len(answer)) == answer
        writer.join()
        server.close()


@suite.claim
def under_loss_and_reordering(world):
    """A client that is far away and loses packets; it is cut off from a for the time of the move."""
    if subprocess.run(["modprobe", "-q", "sch_netem"], check=False).returncode:
        print("# no netem in this kernel: without loss")
        netem = None
    else:
        netem = ["netem", "loss", "3%", "delay", "5ms", "3ms", "reorder", "10%"]

    def shape(words):
        for device, node in (("port", world.a), ("port", world.b), ("n1", world.c), ("n2", world.c)):
            subprocess.run(["tc", "-n", node.name, "qdisc"] + words + ["dev", device, "root"] +
                           (netem if words[0] == "add" else []), check=True)

    if netem:
        shape(["add"])
    try:
        for seed in range(rounds(6, 2)):
            moved_under_way(world, seed)
    finally:
        if netem:
            shape(["del"])


def moved_under_way(world, seed):
    client, server = pair(world, 8506, listener={"SO_SNDBUF": 150000})
    world.steer(world.a)
    question, answer = noise(rounds(100000, 30000), seed), noise(rounds(600000, 150000), seed + 100)
    got = []
    reader = threading.Thread(target=lambda: got.append(receive(client, len(answer))))
    reader.start()
    done = 0
    with client, server, listen(world.b, 8506) as at_b:
        while done < len(answer) // 3:
            select.select([], [server], [], PATIENCE)
            done += fill(server, answer[done:len(answer) // 2])
        with Endpoint() as endpoint:
            with client_cut_off(world):
                # What is on its way yet changes it; then it is not given.
                for _ in range(100):
                    wire = endpoint.checkpoint(server, MOST)
                    assert endpoint.adopt(world.b, wire) == "NONE"
                    if endpoint.release(server, wire):
                        break
                    endpoint.abort()
                else:
                    raise AssertionError("it does not come to rest")
                world.steer(world.b)
                assert endpoint.commit() == "NONE"
        with at_b.accept()[0] as child:
            child.settimeout(PATIENCE)
            asker = threading.Thread(target=client.sendall, args=(question,))
            asker.start()
            writer = threading.Thread(target=child.sendall, args=(answer[done:],))
            writer.start()
            assert receive(child, len(question)) == question, f"seed {seed}: the question"
            for thread in (asker, writer, reader):
                thread.join()
            assert got[0] == answer, f"seed {seed}: the answer, {len(got[0])} bytes"
    world.steer(world.a)


@suite.claim
def who_takes_none_is_given_none(world):
    """Refused by name, and nothing is different for what could be given before."""
    with Flight(world, 8507, 10000) as case, Endpoint() as endpoint:
        for limit, name in ((0, "SENDQUEUE"), (1, "TOOMUCH")):
            try:
                endpoint.checkpoint(case.server, limit)
                raise AssertionError("taken")
            except Refused as why:
                assert str(why) == name, why
        case.heal()
        assert receive(case.client, 10000) == case.answer
        until(lambda: not tcp_info(case.server)["unacked"], "acknowledged")
        with_it, without = endpoint.checkpoint(case.server, MOST), endpoint.checkpoint(case.server)
        assert len(with_it) == len(without) == Wire.HEADER + 7, (len(with_it), len(without))
        assert with_it.send() is None


@suite.claim
def more_than_a_checkpoint_holds(world):
    """One byte too many."""
    with patient(world):
        one_byte_too_many(world)


def one_byte_too_many(world):
    client, server = pair(world, 8508, SO_RCVBUF=4096)
    with client, server, Endpoint() as endpoint:
        server.setsockopt(socket.SOL_SOCKET, 32, 32 << 20)  # SO_SNDBUFFORCE
        server.sendall(noise(200000, 1))
        settled(client, server)
        server.sendall(noise(MOST + 1 - tcp_info(server)["notsent_bytes"], 2))
        try:
            wire = endpoint.checkpoint(server, MOST)
            raise AssertionError(f"{len(wire)} bytes")
        except Refused as why:
            assert str(why) == "TOOMUCH", why


@suite.claim
def urgent_answer_is_refused(world):
    """A byte out of band that the client has not acknowledged."""
    client, server = pair(world, 8509)
    with client, server, Endpoint() as endpoint, answers_lost(world):
        server.send(b"!", socket.MSG_OOB)
        try:
            endpoint.checkpoint(server, MOST)
            raise AssertionError("taken")
        except Refused as why:
            assert str(why) == "URGENT", why


@suite.claim
def changes_are_seen(world):
    """Written, sent or acknowledged since the checkpoint; a retransmission is no change."""
    with Flight(world, 8510, 3000) as case, Endpoint() as endpoint:
        wire = endpoint.checkpoint(case.server, MOST)
        before = tcp_info(case.server)["total_retrans"]
        until(lambda: tcp_info(case.server)["total_retrans"] > before, "sent again")
        assert endpoint.unchanged(case.server, wire)
        case.server.sendall(b"x")
        assert not endpoint.unchanged(case.server, wire), "written"
        wire = endpoint.checkpoint(case.server, MOST)
        assert endpoint.unchanged(case.server, wire)
        case.heal()
        assert receive(case.client, 3001) == case.answer + b"x"
        until(lambda: not tcp_info(case.server)["unacked"], "acknowledged")
        assert not endpoint.unchanged(case.server, wire), "acknowledged"


@suite.claim
def given_away_it_holds_no_memory(world):
    """The giver's program keeps its descriptor open, not the bytes."""
    with Moved(world, 8511, 300000) as case:
        info = tcp_info(case.server)
        assert info["state"] == 7 and not info["unacked"] and not info["notsent_bytes"], info
        # SO_MEMINFO: wmem_queued is the sixth.
        memory = struct.unpack("9I", case.server.getsockopt(socket.SOL_SOCKET, 55, 36))
        assert memory[5] == 0, memory
        assert receive(case.client, 300000) == case.answer


@suite.claim
def listener_ends_before_accept(world):
    """The client is told, and nothing is left of it."""
    with Flight(world, 8512, 10000) as case, Endpoint() as endpoint:
        at_b = listen(world.b, 8512)
        wire = endpoint.checkpoint(case.server, MOST)
        assert endpoint.adopt(world.b, wire) == "NONE"
        world.steer(world.b)
        endpoint.release(case.server)
        assert endpoint.commit() == "NONE"
        at_b.close()
        try:
            while case.client.recv(1 << 16):
                pass
            raise AssertionError("the client was not told")
        except ConnectionResetError:
            pass
        # Its place is free again: this fails with DUPLICATE as long as it is parked.
        with listen(world.b, 8512):
            assert endpoint.adopt(world.b, wire) == "NONE"
            endpoint.abort()


@contextlib.contextmanager
def waiting_room(pages):
    """Half of so many pages is for what waits to be accepted; of all else there is as much as before."""
    name = "/proc/sys/net/ipv4/tcp_mem"
    with open(name, "r+", encoding="ascii") as file:
        before = file.read()
        file.seek(0)
        file.write(" ".join([str(pages)] + before.split()[1:]))
    try:
        yield
    finally:
        with open(name, "w", encoding="ascii") as file:
            file.write(before)


@suite.claim
def only_so_much_waits_for_accept(world):
    """Accepted, aborted or ended with its listener it has left its room to others."""
    count = 1000000
    with contextlib.ExitStack() as stack:
        pairs = [pair(world, 8521 + n) for n in range(3)]
        for sock in sum(pairs, ()):
            stack.enter_context(sock)
        first, second, third = (server for _, server in pairs)
        stack.enter_context(answers_lost(world))
        for server in (first, second, third):
            server.setsockopt(socket.SOL_SOCKET, 32, 8 << 20)   # SO_SNDBUFFORCE
            server.sendall(noise(count, 1))
        at_b = [stack.enter_context(listen(world.b, 8521 + n)) for n in range(3)]
        stack.enter_context(answers_of_b_lost(world))
        stack.enter_context(waiting_room(5 * count // os.sysconf("SC_PAGE_SIZE")))
        endpoint = stack.enter_context(Endpoint())
        wire = endpoint.checkpoint(third, MOST)

        def room():
            why = endpoint.adopt(world.b, wire)
            if why == "NONE":
                endpoint.abort()
            return why
        assert room() == room() == "NONE"
        move(world, first, world.b, send=MOST)
        assert room() == "NOMEM"
        stack.enter_context(at_b[0].accept()[0])
        assert room() == room() == "NONE"
        move(world, second, world.b, send=MOST)
        assert room() == "NOMEM"
        at_b[1].close()
        assert room() == room() == "NONE"


def with_sent(good, client_port, server_port, size):
    """As if another client of another service had come with so many unacknowledged bytes."""
    wire = good.but(client_port=client_port, server_port=server_port)
    una = wire["snd_una"]
    return Wire.of(wire.sections() + [[SEND, 1, struct.pack(">II", una, (una + size) & 0xffffffff)],
                                      [SENDDATA, 1, bytes(size)]])


@suite.each(("givers that do not decide", "services that do not accept"))
def nobody_takes_all_that_may_wait(world, who):
    """Each that wants all gets less than the one before, and leaves something to the next and to other namespaces."""
    size = 100000
    client, server = pair(world, 8530)
    with contextlib.ExitStack() as stack:
        stack.enter_context(client)
        stack.enter_context(server)
        with Endpoint() as endpoint:
            good = endpoint.checkpoint(server)
        for node in (world.a, world.b):
            for n in range(3):
                stack.enter_context(listen(node, 8531 + n))
        stack.enter_context(waiting_room(20 * size // os.sysconf("SC_PAGE_SIZE")))
        number = 20000

        def take(node, giver, service):
            """As much as there is, in connections of @size."""
            nonlocal number
            for taken in range(20):
                number += 1
                endpoint = Endpoint()
                stack.enter_context(endpoint)
                why = endpoint.adopt(node, with_sent(good, number, 8531 + service, size), giver)
                if why != "NONE":
                    assert why == "NOMEM", why
                    return taken
                if who.startswith("services"):
                    assert endpoint.commit() == "NONE"
            raise AssertionError("there is no end of it")

        if who.startswith("givers"):
            got = [take(world.b, n, 0) for n in range(3)]
            assert take(world.b, 0, 1) == 0, "the first giver goes on with another service"
        else:
            got = [take(world.b, 0, n) for n in range(3)]
        elsewhere = take(world.a, 0, 0)
        assert got[0] <= 5 and got == sorted(got, reverse=True) and got[2] and elsewhere, (got, elsewhere)


@suite.claim
def another_of_the_group_gets_it(world):
    """Its listener ends while it waits in the queue, and the group's connections migrate."""
    before = world.b.sysctl(tcp_migrate_req=1)
    try:
        with Flight(world, 8513, 10000) as case, Endpoint() as endpoint:
            first = listen(world.b, 8513, SO_REUSEPORT=1)
            wire = endpoint.checkpoint(case.server, MOST)
            assert endpoint.adopt(world.b, wire) == "NONE"
            world.steer(world.b)
            endpoint.release(case.server)
            assert endpoint.commit() == "NONE"
            with listen(world.b, 8513, SO_REUSEPORT=1) as second:
                first.close()
                with second.accept()[0] as child:
                    child.settimeout(PATIENCE)
                    assert receive(child, 7) == b"request"
                    assert receive(case.client, 10000) == case.answer
                    exchange(case.client, child, noise(1000, 1), noise(1000, 2))
    finally:
        world.b.sysctl(**before)


@suite.claim
def killed_before_accept(world):
    """ss -K does not wait; who accepts it finds it reset."""
    with Flight(world, 8514, 10000) as case, Endpoint() as endpoint, listen(world.b, 8514) as at_b:
        wire = endpoint.checkpoint(case.server, MOST)
        assert endpoint.adopt(world.b, wire) == "NONE"
        world.steer(world.b)
        endpoint.release(case.server)
        assert endpoint.commit() == "NONE"
        subprocess.run(["ip", "netns", "exec", world.b.name, "ss", "-K", "-tn", "sport", "=", ":8514",
                        "and", "dst", CLIENT[4]], check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE)
        with at_b.accept()[0] as child:
            reset(child)


def hostile(good, rng):
    """(what, checkpoint): its send sections say what cannot be."""
    rest = [s for s in good.sections() if s[0] not in (SEND, SENDDATA)]
    una = good["snd_una"]

    def of(nxt, end, data):
        numbers = struct.pack(">II", (una + nxt) & 0xffffffff, (una + end) & 0xffffffff)
        return Wire.of(rest + [[SEND, 1, numbers], [SENDDATA, 1, data]])

    data = rng.randbytes(rng.choice((1, 7, 1460, 70000)))
    size = len(data)
    yield "sent more than written", of(size + 1, size, data)
    yield "sent before acknowledged", of(-1, size, data)
    yield "written before acknowledged", of(0, -size, data)
    yield "both before", of(-size, -1, data)
    yield "half the space", of(0, 1 << 31, data)
    yield "more bytes than said", of(0, size - 1, data)
    yield "fewer bytes than said", of(0, size + 1, data)
    yield "none of them", of(0, size, b"")
    yield "more than may be", of(0, MOST + 1, bytes(MOST + 1))
    yield "no bytes' section", Wire.of(rest + [[SEND, 1, struct.pack(">II", una, (una + size) & 0xffffffff)]])
    yield "no numbers", Wire.of(rest + [[SENDDATA, 1, data]])
    yield "numbers cut", Wire.of(rest + [[SEND, 1, struct.pack(">I", una) + b"\0\0\0"], [SENDDATA, 1, data]])
    twice = of(0, size, data).sections()
    yield "numbers twice", Wire.of(twice + [s for s in twice if s[0] == SEND])
    yield "bytes twice", Wire.of(twice + [s for s in twice if s[0] == SENDDATA])
    for lie in (size - 1, size + 1, size + 8, 1 << 20, 0x7fffffff, 0xfffffff8, 0xffffffff,
                rng.getrandbits(32) | 1 << 24):
        for what, right, at in (("bytes", size, 4), ("numbers", 8, 20)):
            wire = of(0, size, data)
            struct.pack_into(">I", wire, len(wire) - size - at, lie)
            if lie != right:
                yield f"the length of the {what} is {lie:#x}", wire


@suite.claim
def numbers_and_lengths_that_cannot_be(world):
    """Whatever a hostile peer says of the send queue is malformed, and nobody's connection is touched."""
    refuses_all(world, 8515, rounds(20, 5), random.Random(1), hostile)


@suite.claim
def numbers_that_can_be(world):
    """Any split into sent and not sent, anywhere in the sequence space, makes a connection and goes away."""
    rng = random.Random(2)
    client, server = pair(world, 8516)
    with client, server, listen(world.b, 8516), Endpoint() as endpoint:
        good = endpoint.checkpoint(server, MOST)
        for number in range(rounds(200, 40)):
            wire = good.but(snd_una=rng.choice((0, 1, 0xffffff00, 0x7fffff00, rng.getrandbits(32))))
            most = 1 << 20 if number % 20 else MOST
            size = rng.choice((1, 2, 1459, 1460, 1461, 65535, 65536, rng.randrange(1, most), most))
            sent = rng.choice((0, 1, size, rng.randrange(size + 1)))
            una = wire["snd_una"]
            wire = Wire.of(wire.sections() + [
                [SEND, 1, struct.pack(">II", (una + sent) & 0xffffffff, (una + size) & 0xffffffff)],
                [SENDDATA, 1, bytes(size)]])
            why = endpoint.adopt(world.b, wire)
            assert why == "NONE", f"{number}: {size} bytes, {sent} sent, from {una:#x}: {why}"
            endpoint.abort()
        exchange(client, server, noise(1000, 1), noise(1000, 2))


if __name__ == "__main__":

    suite.main()
