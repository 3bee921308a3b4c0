#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 180
"""A connection that is being given away stands still, and goes on as if nobody had tried."""
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from endpoint import (CLIENT, VIP, Difference, Endpoint, Refused, Suite, answers_lost, connect, exchange,  # noqa: E402
                      fill, libc, listen, noise, pair, receive, reset, tcp_info, unread, until)
from patience import PATIENCE                           # noqa: E402
from stall import Stall                                 # noqa: E402

suite = Suite()
IN, OUT = select.EPOLLIN, select.EPOLLOUT


def would_wait(function, *args):
    """It finds nothing, or no room, and does not say anything else."""
    try:
        raise AssertionError(f"{function.__name__}: {function(*args)!r}")
    except BlockingIOError:
        pass


def again(client, server):
    """Wait until the client has sent again, and a's timer would have run out."""
    before = tcp_info(client)["total_retrans"]
    time.sleep(1.5 * tcp_info(server)["rto"] / 1e6)
    until(lambda: tcp_info(client)["total_retrans"] > before, "the client sends again")


@suite.each((4, 6))
def nothing_leaves_it_and_nothing_is_lost(world, v):
    """Not what was lost, what waits, an acknowledgment or a probe; who looks at it does not wait."""
    client, server = pair(world, 8601, v)
    answer = noise(30000, 1)
    with client, server, Endpoint() as endpoint, Endpoint() as other:
        exchange(client, server, b"hello", b"hello")
        server.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
        with answers_lost(world):
            server.sendall(answer)
            client.sendall(b"request")
            until(lambda: unread(server) == 7, "the request is on a")
            endpoint.freeze(server)
        seen = Difference(world.c)
        client.sendall(b"more")
        server.setblocking(False)
        would_wait(server.recv, 100)
        would_wait(server.send, b"x")
        assert unread(server) == 0 and not select.select([server], [server], [], 0)[0]
        assert not select.select([server], [server], [], 0)[1]
        subprocess.run(["ip", "netns", "exec", world.a.name, "ss", "-tniem"], check=True, timeout=PATIENCE,
                       stdout=subprocess.DEVNULL)
        try:
            other.freeze(server)
            raise AssertionError("given twice")
        except Refused as why:
            assert str(why) == "BUSY", why
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)    # pushes
        again(client, server)
        assert seen["InSegs"] == 0, f"{seen['InSegs']} segments came"
        endpoint.thaw()
        server.settimeout(PATIENCE)
        assert receive(client, len(answer)) == answer
        assert receive(server, 11) == b"requestmore"
        exchange(client, server, noise(200000, 2), noise(200000, 3))
        seen.quiet()


@suite.claim
def who_waits_for_edges_hears_of_it(world):
    """Of what there was to read before, and of room when there is some."""
    client, server = pair(world, 8602, SO_RCVBUF=20000, listener={"SO_SNDBUF": 100000})
    answer = noise(1 << 20, 4)
    with client, server, Endpoint() as endpoint, select.epoll() as edges:
        client.sendall(b"hello")
        until(lambda: unread(server) == 5, "it is on a")
        done = fill(server, answer)
        edges.register(server, IN | OUT | select.EPOLLET)
        while edges.poll(0):
            pass
        endpoint.freeze(server)
        assert not edges.poll(0.2)
        endpoint.thaw()
        assert edges.poll(PATIENCE)[0][1] & IN
        assert receive(server, 5) == b"hello"
        assert receive(client, done) == answer[:done]
        until(lambda: any(event & OUT for _, event in edges.poll(0.1)), "there is room")


@suite.claim
def who_waits_in_a_call_goes_on(world):
    """To read and to write, with a window that is shut."""
    client, server = pair(world, 8609, SO_RCVBUF=20000, listener={"SO_SNDBUF": 100000})
    answer = noise(1 << 20, 4)
    with client, server, Endpoint() as endpoint:
        done = fill(server, answer)
        client.sendall(b"hello")
        until(lambda: unread(server) == 5, "it is on a")
        server.settimeout(None)
        endpoint.freeze(server)
        got = []
        threads = [threading.Thread(target=server.sendall, args=(answer[done:],)),
                   threading.Thread(target=lambda: got.append(receive(server, 5)))]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        assert not got and all(thread.is_alive() for thread in threads)
        endpoint.thaw()
        assert receive(client, len(answer)) == answer
        for thread in threads:
            thread.join()
        assert got == [b"hello"]


def written(sock, data):
    """As much as is taken until it ends: a list that gets the number, and the thread."""
    done = []

    def write():
        number = 0
        try:
            while number < len(data):
                number += sock.send(data[number:number + 50000])
        except (BrokenPipeError, ConnectionError):
            pass
        done.append(number)

    thread = threading.Thread(target=write)
    thread.start()
    return done, thread


@suite.each((4, 6))
def it_moves_while_both_sides_write(world, v):
    """What the giver's program was told that it has written is written, and nothing else."""
    client, server = pair(world, 8603, v)
    question, answer = noise(3 << 20, 5), noise(3 << 20, 6)
    with client, server, listen(world.b, 8603, v) as at_b, Endpoint() as endpoint:
        got = []
        threads = [threading.Thread(target=client.sendall, args=(question,)),
                   threading.Thread(target=lambda: got.append(receive(client, len(answer))))]
        for thread in threads:
            thread.start()
        done, writer = written(server, answer)
        heard = receive(server, 100000)
        while True:     # a hole in what the client sends, or more unread than may be
            try:
                wire = endpoint.freeze(server)
                break
            except Refused as why:
                assert str(why) in ("OOO", "TOOMUCH"), why
                heard += server.recv(1 << 16)
        assert writer.is_alive()
        assert endpoint.adopt(world.b, wire) == "NONE"
        world.steer(world.b)
        assert endpoint.release(server, wire), "changed"
        assert endpoint.commit() == "NONE"
        writer.join()
        with at_b.accept()[0] as child:
            child.settimeout(PATIENCE)
            assert server.recv(10) == b""
            more, writer = written(child, answer[done[0]:])
            heard += receive(child, len(question) - len(heard))
            for thread in threads + [writer]:
                thread.join()
            assert heard == question and got == [answer] and done[0] + more[0] == len(answer)
            exchange(client, child, noise(20000, 7), noise(20000, 8))


@suite.claim
def the_end_is_not_read_before_what_came_first(world):
    """The client has said its last word, and nobody has read it."""
    client, server = pair(world, 8604)
    with client, server, Endpoint() as endpoint:
        client.sendall(b"request")
        client.shutdown(socket.SHUT_WR)
        until(lambda: tcp_info(server)["state"] == 8, "CLOSE_WAIT")
        endpoint.freeze(server)
        server.setblocking(False)
        would_wait(server.recv, 100)
        poll = select.poll()
        poll.register(server, select.POLLIN | select.POLLRDHUP)
        assert not poll.poll(0)
        endpoint.thaw()
        assert poll.poll(0)[0][1] == select.POLLIN | select.POLLRDHUP
        server.settimeout(PATIENCE)
        assert receive(server, 100) == b"request"
        server.sendall(b"answer")
        assert receive(client, 6) == b"answer"


@suite.claim
def closed_meanwhile_its_client_hears_what_it_would_have(world):
    """With bytes unread a RST, else a FIN, when it is known that it stays."""
    for data in (b"request", b""):
        client, server = pair(world, 8605)
        with client, server, listen(world.b, 8605), Endpoint() as endpoint:
            exchange(client, server, b"hello", b"hello")
            client.sendall(data)
            until(lambda server=server, data=data: unread(server) == len(data), "the request is on a")
            wire = endpoint.freeze(server)
            assert endpoint.adopt(world.b, wire) == "NONE"
            seen = Difference(world.c)
            server.close()
            time.sleep(0.1)
            assert seen["InSegs"] == 0
            endpoint.abort()
            endpoint.thaw()
            if data:
                reset(client)
            else:
                assert client.recv(1) == b""


@suite.claim
def killed_meanwhile_its_client_is_told_at_once(world):
    """ss -K does not wait, and its connection does not move."""
    client, server = pair(world, 8606)
    with client, server, Endpoint() as endpoint:
        client.sendall(b"request")
        until(lambda: unread(server) == 7, "the request is on a")
        wire = endpoint.freeze(server)
        subprocess.run(["ip", "netns", "exec", world.a.name, "ss", "-K", "-tn", "sport", "=", ":8606", "and", "dst",
                        CLIENT[4]], check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE)
        reset(client)
        assert not endpoint.release(server, wire)
        endpoint.thaw()
        assert server.recv(7) == b"request", "what had come is still to be read"
        reset(server, ConnectionAbortedError)


@suite.claim
def another_use_of_the_descriptor_is_not_silent_for_ever(world):
    """Its program ends the connection and listens, while it stands still."""
    client, server = pair(world, 8607)
    with client, server, Endpoint() as endpoint:
        client.sendall(b"request")
        until(lambda: unread(server) == 7, "the request is on a")
        wire = endpoint.freeze(server)
        unspecified = struct.pack("=H14x", socket.AF_UNSPEC)
        libc_connect(server, unspecified)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((VIP[4], 8607))
        server.listen()
        early = threading.Thread(target=lambda: connect(world, 8607).close())
        early.start()       # its SYN is sent again, and answered when nothing stands still
        time.sleep(0.5)
        server.setblocking(False)
        would_wait(server.accept)
        assert not endpoint.release(server, wire)
        endpoint.thaw()
        early.join()
        server.settimeout(PATIENCE)
        server.accept()[0].close()
        with connect(world, 8607) as late, server.accept()[0] as child:
            child.settimeout(PATIENCE)
            exchange(late, child, noise(2000, 1), noise(2000, 2))


def libc_connect(sock, address):
    """connect() with an address that Python does not make."""
    assert libc.connect(sock.fileno(), address, len(address)) == 0


@suite.claim
def what_it_connects_anew_gets_nothing_of_the_old_one(world):
    """A connection that its program restores with the same numbers, while the old one stands still."""
    client, server = pair(world, 8610)
    with client, server, Endpoint() as endpoint:
        exchange(client, server, b"hello", b"hello")
        client.sendall(b"secret")
        until(lambda: unread(server) == 6, "it is on a")
        repair(server, 1)
        expected = queue(server, 1)
        repair(server, -1)
        endpoint.freeze(server)
        repair(server, 1)
        libc_connect(server, struct.pack("=H14x", socket.AF_UNSPEC))
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((VIP[4], 8610))
        queue(server, 1, expected)
        server.connect((CLIENT[4], client.getsockname()[1]))
        repair(server, -1)
        endpoint.thaw()
        server.setblocking(False)
        would_wait(server.recv, 100)


def repair(sock, on):
    """1: from now on by TCP_REPAIR; -1: no more, and nothing is sent."""
    sock.setsockopt(socket.IPPROTO_TCP, 19, on)


def queue(sock, which, seq=None):
    """Next number of the send (2) or receive (1) queue of a socket that is being repaired."""
    sock.setsockopt(socket.IPPROTO_TCP, 20, which)
    if seq is not None:
        sock.setsockopt(socket.IPPROTO_TCP, 21, seq)
    return sock.getsockopt(socket.IPPROTO_TCP, 21)


def keepalive(sock):
    """Gives up a client that has not answered one question within a second."""
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT"):
        sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


@suite.claim
def a_client_that_is_not_heard_is_not_dead(world):
    """What keepalive asks while the connection stands still goes nowhere; it is set before, or meanwhile."""
    pairs = [pair(world, 8611, v) for v in (4, 6)]
    with Endpoint() as one, Endpoint() as other:
        for (client, server), endpoint, early in zip(pairs, (one, other), (True, False)):
            exchange(client, server, b"hello", b"hello")
            if early:
                keepalive(server)
            endpoint.freeze(server)
            if not early:
                keepalive(server)
        time.sleep(3.5)
        seen = Difference(world.c)
        one.thaw()
        other.thaw()
        until(lambda: seen["InSegs"] >= 2, "they ask whether the client lives")
        for client, server in pairs:
            with client, server:
                exchange(client, server, noise(20000, 1), noise(20000, 2))


@suite.claim
def a_program_that_keeps_its_lock_is_not_waited_for(world):
    """It has made room by itself, and its write stands still; the connection goes on when it does."""
    client, server = pair(world, 8608)
    with client, server, Endpoint() as endpoint:
        client.sendall(b"request")
        until(lambda: unread(server) == 7, "the request is on a")
        wire = endpoint.freeze(server)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 200000)
        stall = Stall()
        stall.lock(server)
        begin = time.monotonic()
        endpoint.thaw()
        took = time.monotonic() - begin
        stall.fill(b"answer")
        assert took < 2, took
        assert receive(client, 4096)[:6] == b"answer"
        assert receive(server, 7) == b"request"
        assert server.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 400000
        assert not endpoint.unchanged(server, wire)
        exchange(client, server, noise(20000, 1), noise(20000, 2))


if __name__ == "__main__":
    suite.main()
