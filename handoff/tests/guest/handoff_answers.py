#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 120
"""A connection is handed on in the middle of an answer, to nodes that know how to take it."""
import collections
import fcntl
import hashlib
import os
import select
import socket
import struct
import sys
import termios
import threading
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import (CLOSED, DONE, PATIENCE, VIP4, E, Cluster, Refused, accept, claim, main, peek,  # noqa: E402
                 receive, rounds, run, usable, wait)
from endpoint import ACK, PSH, inject, queue_seq        # noqa: E402
from cgroup import Cgroup                               # noqa: E402
from mallory import Mallory                             # noqa: E402

SECTIONS = E["FLT_FEATURE_SECTIONS"]
ANSWER = os.urandom(1 << 20)
SMALL = (socket.SOL_SOCKET, socket.SO_RCVBUF, 20000)


class Half:
    """A connection that the front-end has accepted, with a request in it and as much of the answer as it takes."""

    def __init__(self, cluster, family=4):
        self.fe = cluster.fe
        self.dev = self.fe.handoff()
        self.front = self.fe.listen(family=family)
        self.client = cluster.client.connect(family=family, options=(SMALL,))
        self.client.sendall(b"GET")
        self.here = accept(self.front)
        peek(self.here, 3)
        self.here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100000)
        self.here.setblocking(False)
        self.done, before = 0, -1
        # Until the client's window is shut: then nothing is under way any more.
        while self.done != before:
            before = self.done
            try:
                while True:
                    self.done += self.here.send(ANSWER[self.done:])
            except BlockingIOError:
                pass
            wait(lambda: not self.under_way())
        self.here.settimeout(PATIENCE)

    def under_way(self):
        return self.here.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)[24:28] != bytes(4)

    def refused(self, node, name):
        try:
            self.dev.submit(self.here, self.fe.id[node], 1)
            raise AssertionError("it was sent")
        except Refused as error:
            assert error.refusal == name, error

    def rest(self, server):
        """What is left of the answer is written on `server`; the client gets all of it, once."""
        writer = threading.Thread(target=server.sendall, args=(ANSWER[self.done:],))
        writer.start()
        got = receive(self.client, len(ANSWER))
        writer.join()
        assert hashlib.sha256(got).digest() == hashlib.sha256(ANSWER).digest(), "another answer"

    def close(self):
        for thing in (self.client, self.here, self.front, self.dev):
            thing.close()


def half_an_answer_moves(family):
    with Cluster(1) as c:
        case, back = Half(c, family), c.be[0].listen(family=family)
        case.dev.submit(case.here, c.fe.id["be1"], 7)
        case.dev.expect(DONE, 7)
        assert case.here.recv(100) == b"", "the descriptor reads end of file"
        there = accept(back)
        assert receive(there, 3) == b"GET"
        case.rest(there)
        usable(there, case.client)
        assert c.fe.stat("HandoffDone") == 1 and c.be[0].stat("AdoptCommitted") == 1
        there.close()
        assert case.client.recv(1) == b""
        case.client.close()
        case.dev.expect(CLOSED, 7)
        case.close()
        back.close()


@claim
def half_an_answer_moves_and_the_other_node_writes_the_rest():
    half_an_answer_moves(4)


@claim
def half_an_answer_moves_over_ipv6():
    half_an_answer_moves(6)


@claim
def node_that_does_not_know_of_answers_is_given_none():
    """Nothing is sent; the connection stays, refused by name, and what has no answer in it is given as ever."""
    with Cluster(0) as c:
        mallory = Mallory(c)
        for features in (SECTIONS, None):
            mallory.meet(c.fe, features=features)
            case = Half(c)
            before = c.fe.stat("HandoffSubmitted")
            case.refused("mallory", "sendqueue")
            assert c.fe.stat("HandoffSubmitted") == before
            case.rest(case.here)
            wait(lambda: not case.under_way())
            case.dev.submit(case.here, c.fe.id["mallory"], 2)
            mallory.take(c.fe)
            assert case.dev.event()[3] == "policy"
            assert receive(case.here, 3) == b"GET"
            usable(case.here, case.client)
            case.close()
            mallory.leave(c.fe)
        mallory.listener.close()


@claim
def administrator_sets_how_much_may_be_given():
    with Cluster(1) as c:
        case = Half(c)
        for most, name in ((0, "sendqueue"), (1000, "toomuch")):
            c.fe.sysctl("net.flotilla.handoff_send_max", most)
            case.refused("be1", name)
        case.rest(case.here)
        case.close()


class Unread:
    """A connection whose program on the front-end has read nothing of what the client has sent."""

    def __init__(self, cluster, size):
        self.front = cluster.fe.listen()
        self.client = cluster.client.connect()
        self.here = accept(self.front)
        self.here.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)    # SO_RCVBUFFORCE
        self.said = os.urandom(size)
        sender = threading.Thread(target=self.client.sendall, args=(self.said,))
        sender.start()
        wait(lambda: unread(self.here) == size)
        sender.join()

    def close(self):
        for sock in (self.client, self.here, self.front):
            sock.close()


@claim
def three_megabytes_that_nobody_has_read_move():
    with Cluster(1) as c:
        case, dev, back = Unread(c, 3 << 20), c.fe.handoff(), c.be[0].listen()
        dev.submit(case.here, c.fe.id["be1"], 1)
        dev.expect(DONE, 1)
        with accept(back) as there:
            assert receive(there, len(case.said)) == case.said
            usable(there, case.client)
        case.close()
        dev.close()
        back.close()


@claim
def node_that_takes_no_large_ones_is_given_a_megabyte_at_most():
    """Nothing is sent, and its link goes on; the connection stays, and goes to one that does."""
    with Cluster(1) as c:
        mallory, dev, back = Mallory(c), c.fe.handoff(), c.be[0].listen()
        mallory.meet(c.fe, features=SECTIONS | E["FLT_FEATURE_SENDQUEUE"])
        for size in ((1 << 20) + 1, 1 << 20):
            case = Unread(c, size)
            before = c.fe.stat("HandoffSubmitted")
            try:
                dev.submit(case.here, c.fe.id["mallory"], size)
                sent = True
            except Refused as error:
                assert error.refusal == "toomuch", error
                sent = False
            assert sent == (size == 1 << 20) == (c.fe.stat("HandoffSubmitted") > before)
            if sent:
                mallory.take(c.fe)
                assert dev.event()[3] == "policy"
            dev.submit(case.here, c.fe.id["be1"], 1)
            dev.expect(DONE, 1)
            with accept(back) as there:
                assert receive(there, size) == case.said
                usable(there, case.client)
            case.close()
            dev.expect(CLOSED, 1)
        mallory.close()
        dev.close()
        back.close()


@claim
def administrator_sets_how_much_may_be_unread():
    with Cluster(1) as c:
        case, dev, back = Unread(c, 1000), c.fe.handoff(), c.be[0].listen()
        c.fe.sysctl("net.flotilla.handoff_unread_max", 999)
        try:
            dev.submit(case.here, c.fe.id["be1"], 1)
            raise AssertionError("it was sent")
        except Refused as error:
            assert error.refusal == "toomuch", error
        c.fe.sysctl("net.flotilla.handoff_unread_max", 1000)
        dev.submit(case.here, c.fe.id["be1"], 1)
        dev.expect(DONE, 1)
        with accept(back) as there:
            assert receive(there, 1000) == case.said
        case.close()
        dev.close()
        back.close()


class Stream:
    """Bytes without end that tell where they are; who writes or reads them keeps the count."""

    BLOCK = os.urandom(999983)

    def __init__(self):
        self.count = 0
        self.over = False
        self.digest = hashlib.sha256()

    def write(self, sock, flags=0):
        """What there is room for."""
        at = self.count % len(self.BLOCK)
        self.count += sock.send(self.BLOCK[at:at + 30000], flags)

    def read(self, sock, flags=0):
        """What there is; False: the end."""
        part = sock.recv(1 << 18, flags)
        self.count += len(part)
        self.digest.update(part)
        return bool(part)

    def write_all(self, sock):
        """Without a pause, until it is over."""
        while not self.over:
            self.write(sock)
        sock.shutdown(socket.SHUT_WR)

    def read_all(self, sock):
        """To the end."""
        while self.read(sock):
            pass

    def got(self, written):
        """It has read what has been written, and nothing else."""
        blocks, rest = divmod(written.count, len(self.BLOCK))
        want = hashlib.sha256()
        for _ in range(blocks):
            want.update(self.BLOCK)
        want.update(self.BLOCK[:rest])
        assert self.count == written.count, (self.count, written.count)
        assert self.digest.digest() == want.digest(), "other bytes"


def turn(sock, writes, reads):
    """A server that writes and reads whenever it may; what it finds is not its end."""
    for does in (writes.write, reads.read):
        try:
            does(sock, socket.MSG_DONTWAIT)
        except (BlockingIOError, BrokenPipeError):
            pass


@claim
def both_sides_write_without_a_pause_and_it_goes_to_and_fro():
    """The server goes on writing and reading while it moves: no move ends as changed, each byte arrives once."""
    with Cluster(1) as c:
        nodes = (c.fe, c.be[0])
        devices, doors = [n.handoff() for n in nodes], [n.listen() for n in nodes]
        for door in doors:      # never more than may move
            door.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 500000)
            door.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 500000)
        client = c.client.connect()
        question, answer, heard, told = Stream(), Stream(), Stream(), Stream()
        threads = [threading.Thread(target=f, args=(client,)) for f in (question.write_all, told.read_all)]
        for thread in threads:
            thread.start()
        here, reasons, moved = accept(doors[0]), collections.Counter(), 0
        goal = [0, 0]
        while moved < rounds(20, 6):
            while answer.count < goal[0] or heard.count < goal[1]:
                turn(here, answer, heard)
            at = moved % 2
            try:
                devices[at].submit(here, nodes[at].id[nodes[1 - at].name])
                while not select.select([devices[at].fd], [], [], 0)[0]:
                    turn(here, answer, heard)
                _, _, _, why, _ = devices[at].event()
            except Refused as error:
                why = error.refusal
            goal = [answer.count + 100000, heard.count + 100000]
            if why != "none":
                reasons[why] += 1
                assert why == "busy", reasons
                continue
            assert here.recv(1) == b""
            here.close()
            moved += 1
            here = accept(doors[moved % 2])
        question.over = True
        here.settimeout(PATIENCE)
        here.shutdown(socket.SHUT_WR)
        heard.read_all(here)
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "it goes on"
        print("# %d moves, %d bytes there, %d back, not at once: %s" %
              (moved, heard.count, told.count, dict(reasons)))
        heard.got(question)
        told.got(answer)
        assert sum(n.stat("HandoffRefusedChanged") for n in nodes) == 0
        for thing in [client, here] + devices + doors:
            thing.close()


def out_of_order(node):
    """Segments that came out of order to a node, ever."""
    names, values = (x.split() for x in node.output("cat", "/proc/net/netstat").splitlines()[:2])
    return int(values[names.index("TCPOFOQueue")])


@claim
def half_closed_and_with_a_hole_it_moves():
    """To a node that knows of both; one that does not is given neither, by name."""
    with Cluster(1) as c:
        mallory = Mallory(c)
        mallory.meet(c.fe, features=SECTIONS | E["FLT_FEATURE_SENDQUEUE"] | E["FLT_FEATURE_LARGE"])
        dev, front, back = c.fe.handoff(), c.fe.listen(), c.be[0].listen()
        client = c.client.connect()
        here = accept(front)

        def refused(name):
            try:
                dev.submit(here, c.fe.id["mallory"], 1)
                raise AssertionError("it was sent")
            except Refused as error:
                assert error.refusal == name, error
        seq, ack, before = queue_seq(client, 2), queue_seq(client, 1), out_of_order(c.fe)
        inject(c.client.inside(), client.getsockname(), (VIP4, 80), seq + 2, ack, ACK | PSH, b"T!")
        wait(lambda: out_of_order(c.fe) > before)
        refused("ooo")
        here.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
        wait(lambda: here.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) == b"\5")     # FIN_WAIT2
        refused("state")
        dev.submit(here, c.fe.id["be1"], 2)
        dev.expect(DONE, 2)
        client.sendall(b"GET!")
        with accept(back) as there:
            assert receive(there, 4) == b"GET!"
            client.close()
            assert there.recv(1) == b""
        dev.expect(CLOSED, 2)
        for thing in (dev, front, back, here):
            thing.close()
        mallory.close()


def congestion_window(sock):
    """In segments (struct tcp_info.tcpi_snd_cwnd)."""
    return struct.unpack_from("I", sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192), 80)[0]


@claim
def a_connection_goes_on_with_the_givers_congestion_window_where_that_is_believed():
    with Cluster(1) as c:
        dev, front, back = c.fe.handoff(), c.fe.listen(), c.be[0].listen()
        for believed in (0, 1):
            c.be[0].sysctl("net.flotilla.adopt_cwnd", believed)
            client = c.client.connect()
            here = accept(front)
            writer = threading.Thread(target=here.sendall, args=(ANSWER,))
            writer.start()
            assert receive(client, len(ANSWER)) == ANSWER
            writer.join()
            client.sendall(b"GET")
            peek(here, 3)
            wait(lambda here=here: here.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)[24:28] == bytes(4))
            before = congestion_window(here)
            assert before > 20, before
            dev.submit(here, c.fe.id["be1"], believed)
            dev.expect(DONE, believed)
            there = accept(back)
            now = congestion_window(there)
            assert now == (before if believed else 10), (believed, before, now)
            assert receive(there, 3) == b"GET"
            usable(there, client)
            for sock in (client, here, there):
                sock.close()
            dev.expect(CLOSED, believed)
        for thing in (dev, front, back):
            thing.close()


@claim
def what_waits_for_the_answer_of_a_node_is_charged_to_who_gives_it():
    """The checkpoints, which may wait for minutes."""
    count, size = 20, 200000
    with Cgroup("memory") as group, Cluster(1) as c:
        mallory = Mallory(c)
        mallory.meet(c.fe)
        dev, listener = c.fe.handoff(), c.fe.listen()
        pairs = []
        for _ in range(count):
            client = c.client.connect()
            here = accept(listener)
            here.setsockopt(socket.SOL_SOCKET, 33, 1 << 20)      # SO_RCVBUFFORCE
            client.sendall(bytes(size))
            wait(lambda here=here: unread(here) == size)
            pairs.append((client, here))
        before = group.number("memory.current")
        with group.member():
            for number, (_, here) in enumerate(pairs):
                dev.submit(here, c.fe.id["mallory"], number, 0, 600000)
            assert group.number("memory.current") - before > count * size * 3 // 4
        dev.close()
        for sock in [listener] + [sock for pair in pairs for sock in pair]:
            sock.close()
        mallory.close()


def unread(sock):
    return struct.unpack("i", fcntl.ioctl(sock, termios.FIONREAD, bytes(4)))[0]


if __name__ == "__main__":
    try:
        main()
    finally:
        run("modprobe", "-r", "handoff")
