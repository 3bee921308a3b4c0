#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
# long: debug it takes minutes there
"""Connections of TLS whose servers speak clear text move again: to another process, to another node."""
import contextlib
import errno
import json
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import (CLOSED, DONE, PATIENCE, SLOW, VIP4, Cluster, E, Refused, accept, claim, main,   # noqa: E402
                 receive, rounds, run, stalled, usable, wait)
import tls                                                        # noqa: E402
from chain import Chain                                           # noqa: E402
from lasting import Lasting                                       # noqa: E402
from move import CONN, FLOTILLA, TO, Move, listen                 # noqa: E402
from secured import Secure, asleep, both_ways, handed, in_be       # noqa: E402
from servers import installed                                     # noqa: E402
from shifted import GET                                           # noqa: E402
from tls import given, pending, read_all                          # noqa: E402


@claim
def an_idle_connection_changes_its_process_and_its_client_notices_nothing():
    for family in 4, 6:
        with Secure(idle_ms=50, family=family) as p:
            p.move.give(CONN, p.served)
            there = p.moved()
            try:
                p.served.send(b"x")
                raise AssertionError("the old one writes")
            except BrokenPipeError:
                pass
            both_ways(there, p.client)
            # And once more: neither number is the first.
            with in_be(p.be, Move, 50) as again:
                again.give(TO, p.old)
                usable(there, p.client)
                again.give(CONN, there)
                back = accept(p.old)
            both_ways(back, p.client)
            assert p.be.nl.stat("TlsStarted") == 3 and p.be.nl.stat("TlsBroken") == 0
            # Who gave it hears of the end of the last.
            p.front.device.no_event()
            there.close()
            p.front.device.no_event()
            back.close()
            assert read_all(p.client) == b""
            assert p.front.device.event()[0] == CLOSED
            p.client.close()
            wait(lambda: not p.be.stat("AdoptLive"))


@claim
def the_next_request_goes_unread_to_the_new_server():
    with Secure() as p:
        p.move.give(CONN, p.served)
        p.stays()
        p.seen()
        p.next_moves()
    with Secure() as p:
        p.move.give(CONN, p.served)
        # Three records that come together.
        before, body = p.settled(), b"POST /a HTTP/1.1\r\nContent-Length: 800\r\n\r\n" + os.urandom(800)
        p.raw.sendall(b"".join(p.secrets.record(body[300 * n:300 * n + 300], 1 + n) for n in range(3)))
        wait(lambda: p.tries() > before)
        assert receive(p.served, len(body)) == body
        p.answered(p.served)
        p.raw.sendall(p.secrets.record(GET, 4))
        assert receive(p.moved(), len(GET)) == GET


@claim
def what_is_no_next_request_stays_where_it_is():
    """Bytes that are none; after one whose body is not there, whatever comes. Two in one record are one."""
    with Secure() as p:
        p.move.give(CONN, p.served)
        p.seen()
        # One who waits for it already is told when it stays.
        p.served.settimeout(None)
        heard = []
        reader = threading.Thread(target=lambda: heard.append(p.served.recv(100)), daemon=True)
        reader.start()
        wait(lambda: asleep(reader))
        p.client.sendall(b"\0\1\2\3")
        reader.join(PATIENCE)
        assert heard == [b"\0\1\2\3"] and not p.move.status()["moved"], heard
        p.served.settimeout(PATIENCE)
        p.answered(p.served)
        p.seen()
        p.client.sendall(GET + GET)
        there = p.moved()
        assert receive(there, 2 * len(GET)) == GET + GET
        there.close()
    with Secure() as p:
        p.move.give(CONN, p.served)
        # A header whose body comes later, in a record of its own: which may look like anything.
        p.keeps(b"POST /a HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(GET))
        p.answered(p.served)
        for _ in range(3):
            p.client.sendall(GET)
            p.stays()
            assert receive(p.served, len(GET)) == GET
            p.answered(p.served)


@claim
def a_request_that_nobody_has_seen_moves_at_once():
    with Secure(answered=0) as p:
        p.client.sendall(GET)
        pending(p.served, len(GET))
        p.move.give(CONN, p.served)
        there = p.moved()
        assert receive(there, len(GET)) == GET
        both_ways(there, p.client)
        there.close()


@claim
def the_listener_may_be_one_of_another_port():
    with Secure(idle_ms=50, port=8443) as p:
        p.move.give(CONN, p.served)
        there = p.moved()
        assert there.getsockname() == (VIP4, 443)
        both_ways(there, p.client)
        there.close()


@claim
def whose_listener_it_came_by_is_forgotten_stays():
    """By a reload of the module. What listens on its client's port may be another service."""
    with Chain(2, encrypted=True) as c:
        (be1, be2), front = c.be, tls.FrontEnd(c)
        old = in_be(be1, listen, (VIP4, 8443))
        client, served = given(c, front, be1, old, GET, port=8443)
        assert receive(served, len(GET)) == GET
        # Nobody but the node's own kernel is to know of it any more.
        c.client.run("ip", "neigh", "replace", VIP4, "dev", "eth0", "lladdr",
                     be1.output("cat", "/sys/class/net/eth0/address").strip())
        front.close()
        run("rmmod", "handoff")
        run("modprobe", "handoff")
        wait(lambda: be1.nl.node("be2")["NODE_STATE"] == E["FLT_NODE_UP"])
        both_ways(served, client)
        listeners = [in_be(be1, listen, (VIP4, port)) for port in (443, 8443)]
        listeners += [be2.listen(port) for port in (443, 8443)]
        with in_be(be1, Move, 10) as here, in_be(be1, Move, 10) as there:
            for listener in listeners[:2]:
                here.give(TO, listener)
            there.node(be1.id["be2"])
            for move in here, there:
                try:
                    move.give(CONN, served)
                    raise AssertionError("taken")
                except OSError as error:
                    assert error.errno == errno.EOPNOTSUPP, error
        device = be1.handoff()
        try:
            device.submit(served, be1.id["be2"])
            raise AssertionError("given")
        except Refused as error:
            assert error.refusal == "ulp", error
        device.close()
        assert not select.select(listeners, [], [], 0)[0]
        both_ways(served, client)


@claim
def nothing_moves_while_a_record_is_half_done():
    for how in "read", "written":
        with Secure(idle_ms=50) as p:
            if how == "written":
                p.served.send(b"half", socket.MSG_MORE)
            else:
                p.client.sendall(b"request")
                pending(p.served, len(b"request"))
                assert p.served.recv(3) == b"req"
                p.answered(p.served)
            p.move.give(CONN, p.served)
            p.refused("busy")
            if how == "written":
                p.served.send(b"done")
                assert receive(p.client, 8) == b"halfdone"
            else:
                assert receive(p.served, 4) == b"uest"
            there = p.moved()
            both_ways(there, p.client)
            there.close()


@claim
def a_move_that_fails_in_the_end_leaves_all_as_it_was():
    """Its listener closes when the child is there already: who gave it hears of the end of the old one."""
    with Secure(idle_ms=50) as p:
        with stalled("flt_child_fill", 3 * SLOW) as stands:
            p.move.give(CONN, p.served)
            wait(stands)
            stands.ends()
            p.new.close()
            p.refused("nolistener")
        both_ways(p.served, p.client)
        assert p.be.stat("AdoptLive") == 1
        p.front.device.no_event()
        p.served.close()
        assert read_all(p.client) == b""
        assert p.front.device.event()[0] == CLOSED


@claim
def who_comes_late_with_a_write_is_told_and_nobody_waits_for_ever():
    """Behind the face, before the lock: what he has would be taken, and go nowhere."""
    with Secure(idle_ms=50) as p:
        told, heard = [], []

        def write():
            try:
                told.append(p.served.send(b"late"))
            except OSError as error:
                told.append(error.errno)

        def read():
            p.served.settimeout(None)
            heard.append(p.served.recv(100))
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        with stalled("tls_sw_sendmsg", 5 * SLOW) as stands:
            writer = threading.Thread(target=write, daemon=True)
            writer.start()
            wait(stands)
            stands.ends()
            p.move.give(CONN, p.served)
            there = accept(p.new)
            usable(there, p.client)
            writer.join(PATIENCE)
        reader.join(PATIENCE)
        assert told == [errno.EPIPE], told
        assert heard == [b""], heard
        there.close()
        assert read_all(p.client) == b""


@claim
def an_end_that_was_read_does_not_move_away_from_who_read_it():
    end = {"close_notify": (b"\x01\x00", tls.ALERT), "key update": (struct.pack(">BBHB", 24, 0, 1, 0), tls.HANDSHAKE)}
    for how, (body, kind) in end.items():
        with Secure(idle_ms=50, answered=0) as p:
            p.raw.sendall(p.secrets.record(GET, 0) + p.secrets.record(body, 1, kind=kind))
            assert receive(p.served, len(GET)) == GET and p.served.recv(100) == b"", how
            p.served.sendall(b"answer")
            assert receive(p.client, 6) == b"answer"
            p.move.give(CONN, p.served)
            p.refused("state")
            p.served.sendall(b"more")
            p.served.close()
            assert read_all(p.client) == b"more", how


@claim
def an_end_that_was_not_read_is_read_where_it_has_gone():
    """Ends are unread bytes like others: one that comes with the first request."""
    for body, kind in (b"\x01\x00", tls.ALERT), (struct.pack(">BBHB", 24, 0, 1, 0), tls.HANDSHAKE):
        with Secure(answered=0) as p:
            p.raw.sendall(p.secrets.record(GET, 0) + p.secrets.record(body, 1, kind=kind))
            pending(p.served, len(GET) + 22)
            p.move.give(CONN, p.served)
            there = p.moved()
            assert read_all(there) == GET
            there.sendall(b"answer")
            there.close()
            assert read_all(p.client) == b"answer"


@claim
def two_threads_use_it_while_it_goes_to_and_fro():
    with Secure() as p:
        ends = threading.Event()
        errors, served, moves = [], [p.served], [0]
        listeners = [p.new, p.old]

        def look():
            """Another thread, on whatever descriptor is the server's."""
            poll = select.poll()
            while not ends.is_set():
                sock = served[0]
                with contextlib.suppress(OSError):
                    sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
                with contextlib.suppress(OSError):
                    sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                with contextlib.suppress(OSError, ValueError):
                    poll.register(sock, select.POLLIN)
                    poll.poll(1)
                    poll.unregister(sock)
                time.sleep(0.002)

        def serve():
            try:
                while not ends.is_set():
                    if not select.select([served[0]], [], [], 0.1)[0]:
                        continue
                    got = served[0].recv(4096)
                    if got:
                        served[0].sendall(got)
                        continue
                    old, served[0] = served[0], accept(listeners[moves[0] % 2])
                    moves[0] += 1
                    old.close()
            except OSError as error:
                errors.append(error)
        threads = [threading.Thread(target=f, daemon=True) for f in (look, serve)]
        for thread in threads:
            thread.start()
        goal, asked = rounds(20, 4), 0
        until = time.monotonic() + 3 * PATIENCE
        while moves[0] < goal and not errors and time.monotonic() < until:
            was = moves[0]
            with in_be(p.be, Move, 10) as move:
                move.give(TO, listeners[was % 2])
                with contextlib.suppress(OSError):
                    move.give(CONN, served[0])
                while moves[0] == was and not errors and time.monotonic() < until:
                    asked += 1
                    request = b"GET /%d HTTP/1.1\r\n\r\n" % asked
                    p.client.sendall(request)
                    assert receive(p.client, len(request)) == request
                    time.sleep(0.03)
        ends.set()
        for thread in threads:
            thread.join(PATIENCE)
        assert not errors, errors
        assert moves[0] >= goal, moves
        print("# %d moves, %d requests" % (moves[0], asked))
        served[0].close()


@claim
def keys_of_a_moved_one_are_nobodys_to_read():
    with Secure(idle_ms=50) as p:
        p.move.give(CONN, p.served)
        there = p.moved()
        for sock in p.served, there:
            for option in 1, 2:
                try:
                    sock.getsockopt(282, option, 60)
                    raise AssertionError("SOL_TLS answers")
                except OSError as error:
                    assert error.errno == errno.ENOPROTOOPT, error
        there.close()


@claim
def what_a_program_has_set_itself_stays():
    with Cluster(1) as c:
        be = c.be[0]
        old, new = in_be(be, listen, (VIP4, 80)), None
        with be.inside():
            client = socket.create_connection((VIP4, 80), PATIENCE)
        served = accept(old)
        new = in_be(be, listen, (VIP4, 80))
        served.setsockopt(socket.IPPROTO_TCP, 31, b"tls")
        for way in 1, 2:
            served.setsockopt(282, way, struct.pack("=HH", 0x0304, 51) + bytes(36))
        with in_be(be, Move, 50) as move:
            move.give(TO, new)
            try:
                move.give(CONN, served)
                raise AssertionError("taken")
            except OSError as error:
                assert error.errno == errno.EOPNOTSUPP, error
        for sock in client, served, old, new:
            sock.close()


# --- another node ---

@claim
def an_idle_connection_goes_to_another_node_and_its_packets_go_straight_there():
    with handed() as (c, front, client, server, listener):
        be1, be2 = c.be
        assert receive(server, len(GET)) == GET
        server.sendall(b"answer")
        assert receive(client, 6) == b"answer"
        with in_be(be1, Move, 50) as move:
            move.node(be1.id["be2"])
            move.give(CONN, server)
            there = accept(listener)
            wait(lambda: move.status()["moved"] == 1)
        assert server.recv(1) == b""
        both_ways(there, client)
        c.straight(be2)
        before = be1.stat("ForwardPackets")
        both_ways(there, client)
        assert be1.stat("ForwardPackets") == before, "packets still come by be1"
        there.close()
        assert read_all(client) == b""
        assert front.device.event()[0] == CLOSED


@claim
def the_next_request_goes_to_another_node_to_the_listener_of_another_port():
    with handed(port=8443) as (c, front, client, server, listener):
        be1 = c.be[0]
        with in_be(be1, Move, 0) as move:
            move.node(be1.id["be2"])
            assert receive(server, len(GET)) == GET
            server.sendall(b"answer")
            assert receive(client, 6) == b"answer"
            move.give(CONN, server)
            client.sendall(GET)
            wait(lambda: move.status()["refused"].get("changed"))
            assert receive(server, len(GET)) == GET
            server.sendall(b"answer")
            assert receive(client, 6) == b"answer"
            time.sleep(0.3)
            client.sendall(GET)
            there = accept(listener)
            assert receive(there, len(GET)) == GET
        both_ways(there, client)
        there.close()
        assert read_all(client) == b"" and front.device.event()[0] == CLOSED


@claim
def keys_go_over_encrypted_links_only():
    with handed(encrypted=False) as (c, _, client, server, listener):
        be1, be2 = c.be
        be1.sysctl("net.flotilla.insecure_keys", 0)
        with in_be(be1, Move, 50) as move:
            move.node(be1.id["be2"])
            move.give(CONN, server)
            wait(lambda: move.status()["refused"].get("keys"))
            assert not move.status()["moved"]
        device = be1.handoff()
        try:
            device.submit(server, be1.id["be2"])
            raise AssertionError("given")
        except Refused as error:
            assert error.refusal == "keys", error
        assert be2.stat("AdoptRequests") == 0
        assert receive(server, len(GET)) == GET
        both_ways(server, client)
        device.close()
        assert not select.select([listener], [], [], 0)[0]


@claim
def it_goes_amid_an_answer_and_amid_a_record():
    """As its program says so: what is not acknowledged, and what has come of a record."""
    with handed() as (c, front, client, server, listener):
        be1 = c.be[0]
        device = be1.handoff()
        assert receive(server, len(GET)) == GET
        raw = socket.socket(fileno=os.dup(client.fileno()))
        record = front.last.record(b"half a record, and the rest", 1)
        first, second = os.urandom(400000), os.urandom(400000)
        server.setsockopt(socket.SOL_SOCKET, 32, 4 << 20)       # SO_SNDBUFFORCE
        c.client.run("tc", "qdisc", "add", "dev", "eth0", "root", "netem", "delay", "200ms")
        raw.sendall(record[:20])
        pending(server, 20)
        server.sendall(first)
        device.submit(server, be1.id["be2"], 5)
        while (got := device.event())[0] != DONE:
            assert got[3] == "changed", got
            device.submit(server, be1.id["be2"], 5)
        assert server.recv(1) == b""
        there = accept(listener)
        raw.sendall(record[20:])
        sender = threading.Thread(target=there.sendall, args=(second,), daemon=True)
        sender.start()
        assert receive(client, 800000) == first + second
        sender.join(PATIENCE)
        assert receive(there, 27) == b"half a record, and the rest"
        there.close()
        raw.close()
        device.close()


# --- servers that know nothing of it ---

NGINX = """daemon off;
user root;
worker_processes 2;
error_log {dir}/error.log info;
pid {dir}/pid;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    keepalive_requests 1000000;
    keepalive_timeout 300s;
    server {{
        listen %s:443 reuseport;
        root {root};
        add_header X-Who {name};
    }}
}}
""" % VIP4
FILES = {"small": os.urandom(700), "middle": os.urandom(40000), "big": os.urandom(rounds(600000, 100000))}


class Client(Lasting):
    def __init__(self, sock):
        super().__init__(sock, ("small", "middle", "small", "big"), 0.01)
        self.who = set()

    def exchange(self, name):
        self.sock.sendall(b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % name.encode())
        head = self.answered(FILES[name])
        self.who.add(next(x for x in head.split(b"\r\n") if x.lower().startswith(b"x-who")))


def nginx(be, place, root, name):
    place = os.path.join(place, name)
    os.makedirs(place)
    os.chmod(place, 0o777)
    with open(place + "/conf", "w", encoding="ascii") as file:
        file.write(NGINX.format(dir=place, root=root, name=name))
    child = be.spawn("nginx", "-c", place + "/conf", "-e", place + "/error.log")
    wait(lambda: os.path.exists(place + "/pid") and "pid=%d," % child.pid in be.output("ss", "-Htlnp") or child.poll())
    assert child.poll() is None
    return child


@claim
def nginx_is_replaced_under_load_and_no_client_of_tls_notices():
    installed("nginx")
    place = os.path.join(tls.PLACE, "nginx")
    root = os.path.join(place, "root")
    os.makedirs(root)
    for where in tls.PLACE, place, root:
        os.chmod(where, 0o755)
    for name, data in FILES.items():
        with open(os.path.join(root, name), "wb") as file:
            file.write(data)
    with Cluster(1, encrypted=True) as c:
        be, front = c.be[0], tls.FrontEnd(c)
        old = nginx(be, place, root, "old")
        clients = []
        for _ in range(rounds(12, 4)):
            client = tls.Client(c.client, b"")
            sock, secrets = front.accept()
            client.ready()
            front.settled(front.give(sock, secrets, be))
            sock.close()
            clients.append(Client(client.tls))
            clients[-1].start()
        new = nginx(be, place, root, "new")

        def more(times):
            goal = [(k, k.done + times) for k in clients]
            wait(lambda: all(k.done >= n for k, n in goal) or any(k.error for k in clients))
            assert not any(k.error for k in clients), [k.error for k in clients]
        more(2)
        ran = subprocess.run(("ip", "netns", "exec", be.ns, FLOTILLA, "-j", "process", "move", str(old.pid),
                              str(new.pid), "--wait", str(60 * SLOW)), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, check=False)
        assert not ran.returncode, (ran.stdout, ran.stderr)
        assert json.loads(ran.stdout)["moved"] == len(clients), ran.stdout
        old.terminate()
        old.wait()
        for client in clients:
            client.who.clear()
        more(4)
        assert all(client.who == {b"X-Who: new"} for client in clients), [client.who for client in clients]
        assert be.nl.stat("TlsStarted") == 2 * len(clients) and be.nl.stat("TlsBroken") == 0
        print("# %d answers, of %d connections" % (sum(k.done for k in clients), len(clients)))
        for client in clients:
            client.close()
        front.close()


if __name__ == "__main__":
    main()
