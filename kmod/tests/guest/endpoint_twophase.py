#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 120
"""Between adopt and commit a connection has one owner; abort costs nothing."""
import os
import select
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from endpoint import (CLIENT, VIP, Capture, Difference, Endpoint, Namespace, Suite,  # noqa: E402
                      Trace, connect, exchange, listen, noise, pair, receive, reset, tcp_info, unread, until)
from patience import PATIENCE, rounds                   # noqa: E402

suite = Suite()


class Parked:
    """A connection of a, with "request" unread, adopted by b and not committed."""

    def __init__(self, world, port, v=4, **listener):
        self.world = world
        self.client, self.server = pair(world, port, v)
        self.client.sendall(b"request")
        until(lambda: unread(self.server) == 7, "the request is on a")
        self.at_b = listen(world.b, port, v, **listener)
        self.endpoint = Endpoint()
        self.wire = self.endpoint.checkpoint(self.server)
        why = self.endpoint.adopt(world.b, self.wire)
        assert why == "NONE", why

    def commit(self):
        """The giver lets go, the taker gets it; returns the refusal."""
        self.world.steer(self.world.b)
        self.endpoint.release(self.server)
        return self.endpoint.commit()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for thing in (self.client, self.server, self.at_b, self.endpoint):
            thing.close()


def waits(listener):
    """Is there nothing to accept?"""
    return not select.select([listener], [], [], 0.2)[0]


@suite.claim
def what_the_giver_has_said_since_is_not_newer(world):
    """A client that hears of it at once takes the first segment of the child."""
    client, server = pair(world, 8230)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    with client, server, Endpoint() as endpoint, listen(world.b, 8230) as at_b:
        exchange(client, server, b"question", b"answer")
        client.sendall(b"request")
        until(lambda: unread(server) == 7, "the request is on a")
        wire = endpoint.checkpoint(server)
        seen = Difference(world.c)
        until(lambda: seen["TCPKeepAlive"], "the client asks whether we are there")
        time.sleep(0.1)     # the answer has come
        assert endpoint.adopt(world.b, wire) == "NONE"
        world.steer(world.b)
        assert endpoint.release(server, wire)
        assert endpoint.commit() == "NONE"
        with at_b.accept()[0] as child:
            child.settimeout(PATIENCE)
            child.sendall(b"answer")
            assert receive(client, 6) == b"answer"
        seen.quiet()


@suite.claim
def parked_child_is_not_accepted(world):
    """The server hears of it at commit."""
    with Parked(world, 8201) as parked:
        assert waits(parked.at_b)
        assert parked.commit() == "NONE"
        with parked.at_b.accept()[0] as child:
            assert receive(child, 7) == b"request"
            exchange(parked.client, child, noise(20000, 1), noise(20000, 2))


@suite.each((4, 6))
def abort_leaves_the_giver_in_charge(world, v):
    """Nothing is sent, the connection serves on a, and may be given again."""
    with Capture(world.c) as capture:
        with Parked(world, 8202, v) as parked:
            count = Difference(world.b)
            capture.segments()
            parked.endpoint.abort()
            assert count["OutSegs"] == 0
            assert not capture.segments()
            assert waits(parked.at_b)
            assert parked.endpoint.unchanged(parked.server, parked.wire)
            assert receive(parked.server, 7) == b"request"
            exchange(parked.client, parked.server, noise(20000, 1), noise(20000, 2))
            until(lambda: not tcp_info(parked.server)["unacked"], "acknowledged")
            parked.wire = parked.endpoint.checkpoint(parked.server)
            assert parked.endpoint.adopt(world.b, parked.wire) == "NONE", "b keeps something of it"
            parked.endpoint.abort()


@suite.claim
def closing_the_caller_aborts(world):
    """The test device, as the handoff, never leaves a parked child behind."""
    with Parked(world, 8203) as parked:
        parked.endpoint.close()
        parked.endpoint = Endpoint()
        assert parked.endpoint.adopt(world.b, parked.wire) == "NONE"


@suite.claim
def packets_for_a_parked_child_wait(world):
    """They come in directly, are not acknowledged, and are read after commit, in order, once."""
    with Parked(world, 8204) as parked:
        world.steer(world.b)
        count = Difference(world.b)
        parked.client.sendall(b"direct")
        until(lambda: count["InReceives"] > 0, "the bytes came to b")
        time.sleep(0.1)
        assert tcp_info(parked.client)["unacked"] > 0, "a parked child has acknowledged"
        assert count["OutSegs"] == 0
        assert parked.commit() == "NONE"
        with parked.at_b.accept()[0] as child:
            assert receive(child, 13) == b"requestdirect"
            exchange(parked.client, child, noise(20000, 1), noise(20000, 2))


@suite.claim
def packets_for_a_parked_child_are_not_lost_by_abort(world):
    """What came to b directly comes to a again, since nobody has acknowledged it."""
    with Parked(world, 8205) as parked:
        world.steer(world.b)
        count = Difference(world.b)
        parked.client.sendall(b"direct")
        until(lambda: count["InReceives"] > 0, "the bytes came to b")
        world.steer(world.a)
        parked.endpoint.abort()
        assert count["OutSegs"] == 0, "b has answered"
        assert receive(parked.server, 13) == b"requestdirect"
        exchange(parked.client, parked.server, noise(20000, 1), noise(20000, 2))


@suite.claim
def client_closes_while_parked(world):
    """Its FIN waits like data."""
    with Parked(world, 8206) as parked:
        world.steer(world.b)
        count = Difference(world.b)
        parked.client.close()
        until(lambda: count["InReceives"] > 0, "the FIN came to b")
        assert parked.commit() == "NONE"
        with parked.at_b.accept()[0] as child:
            assert receive(child, 8) == b"request"


@suite.claim
def client_resets_while_parked(world):
    """The server accepts a connection that has been reset, as it may with any."""
    with Parked(world, 8207) as parked:
        world.steer(world.b)
        count = Difference(world.b)
        parked.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        parked.client.close()
        until(lambda: count["InReceives"] > 0, "the RST came to b")
        assert parked.commit() == "NONE"
        with parked.at_b.accept()[0] as child:
            reset(child, ConnectionResetError)


@suite.claim
def listener_closes_before_commit(world):
    """Nobody is left to take it: the client gets a RST, since the giver has let go."""
    with Parked(world, 8208) as parked:
        parked.at_b.close()
        assert parked.commit() == "NOLISTENER"
        try:
            parked.client.recv(1)
            raise AssertionError("the client was not told")
        except ConnectionResetError:
            pass


@suite.claim
def listener_closes_before_abort(world):
    """Abort needs no listener."""
    with Parked(world, 8209) as parked:
        parked.at_b.close()
        parked.endpoint.abort()
        assert receive(parked.server, 7) == b"request"
        exchange(parked.client, parked.server, noise(20000, 1), b"")


@suite.claim
def reloaded_server_gets_it(world):
    """The listener is closed and another has been opened: that one accepts."""
    with Parked(world, 8210) as parked:
        parked.at_b.close()
        parked.at_b = listen(world.b, 8210)
        assert parked.commit() == "NONE"
        with parked.at_b.accept()[0] as child:
            assert receive(child, 7) == b"request"
            exchange(parked.client, child, noise(20000, 1), noise(20000, 2))


@suite.each((4, 6))
def listener_of_the_other_family_does_not_get_it(world, v):
    """Each serves this IPv4 client, but a child of one kind is none of the other's."""
    def either(v):
        if v == 4:
            return listen(world.b, 8222, 4, "")
        return listen(world.b, 8222, 6, "::", IPV6_V6ONLY=0)
    client, server = pair(world, 8222)
    endpoint = Endpoint()
    first = either(v)
    client.sendall(b"request")
    until(lambda: unread(server) == 7, "the request is on a")
    assert endpoint.adopt(world.b, endpoint.checkpoint(server)) == "NONE"
    first.close()
    with either(10 - v) as second:
        world.steer(world.b)
        endpoint.release(server)
        assert endpoint.commit() == "NOLISTENER"
        assert waits(second)
        try:
            client.recv(1)
            raise AssertionError("the client was not told")
        except ConnectionResetError:
            pass
    for thing in (client, server, endpoint):
        thing.close()


@suite.claim
def another_of_the_group_gets_it(world):
    """One of several SO_REUSEPORT listeners ends."""
    with Parked(world, 8211, SO_REUSEPORT=1) as parked:
        other = listen(world.b, 8211, SO_REUSEPORT=1)
        parked.at_b.close()
        with other:
            assert parked.commit() == "NONE"
            with other.accept()[0] as child:
                assert receive(child, 7) == b"request"


@suite.claim
def queue_fills_before_commit(world):
    """A connection that was promised a place has one."""
    with Parked(world, 8212, backlog=1) as parked:
        world.steer(world.b)
        waiting = [connect(world, 8212) for _ in range(2)]
        assert parked.commit() == "NONE"
        children = [parked.at_b.accept()[0] for _ in range(3)]
        found = [child for child in children if child.getpeername() == parked.client.getsockname()]
        assert len(found) == 1
        assert receive(found[0], 7) == b"request"
        for sock in waiting + children:
            sock.close()


@suite.claim
def keepalive_of_a_parked_child_waits(world):
    """Timers do not make it speak either."""
    with Parked(world, 8213, SO_KEEPALIVE=1, TCP_KEEPIDLE=1, TCP_KEEPINTVL=1) as parked:
        count = Difference(world.b)
        time.sleep(2.5)
        assert count["OutSegs"] == 0, "a parked child has sent something"
        parked.endpoint.abort()
        time.sleep(1.5)
        assert count["OutSegs"] == 0, "an aborted child has sent something"


def look(node, *words):
    """What the program prints; it must end while the child is still parked."""
    ran = subprocess.run(("ip", "netns", "exec", node.name) + words, check=True, text=True,
                         stdout=subprocess.PIPE, timeout=PATIENCE)
    return ran.stdout


@suite.each((4, 6))
def looking_at_a_parked_child_does_not_wait(world, v):
    """ss and /proc see an established connection, whatever the giver does."""
    with Parked(world, 8214, v) as parked:
        assert CLIENT[v] in look(world.b, "ss", "-tinemo")
        assert "2016" in look(world.b, "cat", "/proc/net/tcp6" if v == 6 else "/proc/net/tcp")
        assert parked.commit() == "NONE"
        with parked.at_b.accept()[0] as child:
            assert receive(child, 7) == b"request"
            exchange(parked.client, child, noise(20000, 1), noise(20000, 2))


def kill(world, port):
    assert CLIENT[4] in look(world.b, "ss", "-K", "-tn", "sport", "=", f":{port}", "and",
                             "dst", CLIENT[4])


@suite.claim
def killing_a_parked_child_does_not_wait(world):
    """ss -K ends it at once; committed later, it is what any connection is that was reset in the queue."""
    with Parked(world, 8217) as parked:
        kill(world, 8217)
        assert parked.commit() == "NONE"
        with parked.at_b.accept()[0] as child:
            reset(child)
        # The giver had it until commit: its client was told.
        try:
            parked.client.recv(1)
            raise AssertionError("the client was not told")
        except ConnectionResetError:
            pass


@suite.claim
def aborting_a_killed_child_is_no_harm(world):
    """There is nothing left of it, and the tuple is free again."""
    with Parked(world, 8218) as parked:
        kill(world, 8218)
        parked.endpoint.abort()
        assert parked.endpoint.adopt(world.b, parked.wire) == "NONE"
        parked.endpoint.abort()


@suite.claim
def many_packets_for_a_parked_child_wait_in_order(world):
    """More than one window of them: what is not kept comes again, nothing is lost or acknowledged early."""
    data = noise(300000, 3)
    with Parked(world, 8219) as parked:
        world.steer(world.b)
        sender = threading.Thread(target=parked.client.sendall, args=(data,))
        sender.start()
        try:
            count = Difference(world.b)
            until(lambda: count["InReceives"] > 3, "bytes came to b")
            assert count["OutSegs"] == 0, "a parked child has sent something"
            assert parked.commit() == "NONE"
            with parked.at_b.accept()[0] as child:
                child.settimeout(PATIENCE)
                assert receive(child, 7) == b"request"
                assert receive(child, len(data)) == data
        finally:
            sender.join()


@suite.claim
def device_goes_while_packets_wait(world):
    """The packets that it brought do not keep it, nor what came over it the child."""
    with Parked(world, 8220) as parked:
        world.c.ip("link add extra type veth peer name extra netns " + world.b.name,
                   "addr add 10.3.0.1/24 dev extra", "link set extra up")
        world.b.ip("addr add 10.3.0.2/24 dev extra", "link set extra up")
        world.c.route(VIP[4], "10.3.0.2", CLIENT[4])
        count = Difference(world.b)
        parked.client.sendall(b"direct")
        until(lambda: count["InReceives"] > 0, "the bytes came to b")
        subprocess.run(["ip", "-n", world.b.name, "link", "del", "extra"], check=True,
                       timeout=PATIENCE)
        world.steer(world.b)
        assert parked.commit() == "NONE"
        with parked.at_b.accept()[0] as child:
            assert receive(child, 13) == b"requestdirect"


@suite.claim
def namespace_goes_while_parked(world):
    """The child keeps its network namespace until it is aborted."""
    extra = Namespace(f"ep{os.getpid()}-x")
    extra.ip("link set lo up", "addr add 10.20.0.1/32 dev lo", "route add 10.9.0.1 dev lo")
    client, server = pair(world, 8215)
    with client, server, listen(extra, 8215) as listener, Endpoint() as endpoint:
        wire = endpoint.checkpoint(server)
        assert endpoint.adopt(extra, wire) == "NONE"
        extra.close()
        listener.close()
        endpoint.abort()
        exchange(client, server, noise(1000, 1), noise(1000, 2))


@suite.each((4, 6))
def tracepoints_tell_of_each_step(world, v):
    """With both addresses, the number of unread bytes and the refusal."""
    names = ["flt_endpoint_checkpoint", "flt_endpoint_release", "flt_endpoint_adopt",
             "flt_adoption_commit", "flt_adoption_abort"]
    with Trace(*names) as trace, Parked(world, 8216, v) as parked:
        with Endpoint() as second:
            assert second.adopt(world.b, parked.wire) == "DUPLICATE"
        parked.endpoint.abort()
        assert parked.endpoint.adopt(world.b, parked.wire) == "NONE"
        assert parked.commit() == "NONE"
        host, port = parked.client.getsockname()[:2]
        client = f"{host}:{port}" if v == 4 else f"[{host}]:{port}"
        server = f"{VIP[4]}:8216" if v == 4 else f"[{VIP[6]}]:8216"
        text = f"client={client} server={server} unread=7 refusal="
        seen = trace.events()
        assert [name for name, _ in seen] == [names[n] for n in (0, 2, 2, 4, 2, 1, 3)], seen
        for number, (_, said) in enumerate(seen):
            assert said.startswith(text + ("0 " if number != 2 else "")), said
        assert "duplicate" in seen[2][1], seen[2]


@suite.claim
def many_at_once(world):
    """Four threads adopt, abort and commit side by side; each connection ends on one node."""
    count, failures = rounds(15, 5), []

    def worker(port):
        try:
            for number in range(count):
                with Endpoint() as endpoint, servers[port][number] as server:
                    wire = endpoint.checkpoint(server)
                    assert endpoint.adopt(world.b, wire) == "NONE"
                    if number % 3 == 2:
                        endpoint.abort()
                        assert endpoint.adopt(world.b, wire) == "NONE"
                    endpoint.release(server)
                    assert endpoint.commit() == "NONE"
        except Exception as error:  # pylint: disable=broad-except
            failures.append(repr(error))

    clients, servers = {}, {}
    for port in range(8220, 8224):
        made = [pair(world, port) for _ in range(count)]
        clients[port] = [one for one, _ in made]
        servers[port] = [other for _, other in made]
    listeners = [listen(world.b, port) for port in clients]
    threads = [threading.Thread(target=worker, args=(port,)) for port in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    world.steer(world.b)
    for listener, port in zip(listeners, clients):
        for _ in range(count):
            with listener.accept()[0] as child:
                child.sendall(b"done")
        listener.close()
        for client in clients[port]:
            assert receive(client, 4) == b"done"
            client.close()


if __name__ == "__main__":
    suite.main()
