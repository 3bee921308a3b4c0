#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
"""Two front-ends for one cluster: the map of targets and loads are shared, and nobody else is believed."""

import contextlib
import hashlib
import hmac
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from lardd import LARDD, Backend, Lardd, free_port, main, read_answer, until  # noqa: E402

KEY = bytes(range(32))


def free_udp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def site(nodes=2):
    """Back-ends, and how a front-end at an address is told of another."""
    backends = [Backend(f"be{i}") for i in range(nodes)]
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "key")
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
            file.write(KEY.hex() + "\n")
        try:
            yield backends, lambda own, peer: (
                f"share 127.0.0.1:{own}\npeer 127.0.0.1:{peer}\nshare-key {path}\n")
        finally:
            for backend in backends:
                backend.gate.set()
                backend.stop()


@contextlib.contextmanager
def pair(extra="", nodes=2, second=""):
    with site(nodes) as (backends, words):
        a, b = free_udp(), free_udp()
        with Lardd(backends, words(a, b) + extra) as one, Lardd(backends, words(b, a) + extra + second) as two:
            for lardd in (one, two):
                until(lambda: lardd.control("status")["peers"] == 1, what="the peer is heard")
            yield one, two


def table(lardd):
    return lardd.control("stats")["table"]


def hold(lardd, count):
    held = [lardd.connect() for _ in range(count)]
    for s in held:
        s.sendall(b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
    return held


def others(lardd):
    return lardd.control("status")["outstanding_others"]


def gate(lardd, is_open):
    for backend in lardd.backends:
        if is_open:
            backend.gate.set()
        else:
            backend.gate.clear()


def finish(lardd, held):
    gate(lardd, True)
    for s in held:
        assert read_answer(s.makefile("rb"))[0] == 200
        s.close()


def second_front_end_dispatches_what_the_first_knows():
    # What the first does not know has its place by load alone: with three nodes, in turn.
    with pair("policy lard\n", nodes=3) as (one, two):
        homes = {f"/t{n}": one.node_of(f"/t{n}") for n in range(100)}
        until(lambda: table(two)["learnt"] == 100, what="the map is there")
        told = two.control("explain", url="http://h/t7")
        assert told["learnt"] and told["reason"] == "keep" and told["node"] == homes["/t7"], told
        for target in sorted(homes):
            assert two.node_of(target) == homes[target], target
        assert table(two)["adopted"] == 100 and table(two)["learnt"] == 0, table(two)
        assert not two.control("explain", url="http://h/t7")["learnt"]


def loads_of_the_other_count():
    with pair("t_low 2\nt_high 4\n") as (one, two):
        gate(one, False)
        held = hold(one, 3)
        until(lambda: others(two) == 3, what="the other's load")
        loads = {n["name"]: (n["load"], n["load_others"]) for n in two.control("nodes")["nodes"]}
        busy = max(loads, key=lambda name: loads[name][1])
        assert sum(load for load, _ in loads.values()) == 0, loads
        assert two.control("explain", url="http://h/new")["node"] != busy, loads
        finish(one, held)
        until(lambda: others(two) == 0, what="their end")


def limit_holds_for_both_and_each_has_its_part():
    with pair("max_outstanding 8\n") as (one, two):
        gate(one, False)
        first = hold(one, 8)
        until(lambda: others(two) == 8, what="the other's load")
        second = hold(two, 6)
        until(lambda: two.control("status")["queued"] == 2, what="two that wait")
        assert two.control("status")["outstanding"] == 4
        finish(one, first)
        for s in second:
            assert read_answer(s.makefile("rb"))[0] == 200
            s.close()


def loads_of_a_dead_peer_age_out():
    with site() as (backends, words):
        a, b = free_udp(), free_udp()
        with Lardd(backends, words(b, a)) as two:
            one = Lardd(backends, words(a, b))
            gate(one, False)
            held = hold(one, 5)
            until(lambda: others(two) == 5, what="the other's load")
            one.process.kill()
            one.process.wait()
            since = time.monotonic()
            until(lambda: others(two) == 0, what="it is forgotten")
            assert time.monotonic() - since > 1, "at once"
            assert two.control("status")["peers"] == 0
            for s in held:
                s.close()
            one.start()
            until(lambda: two.control("status")["peers"] == 1, what="the peer is heard again")
            gate(one, True)
            one.end()


def signed(kind, sender, answer, challenge, number, nodes, mappings, key=KEY):
    data = struct.pack("!IBBBBQQQQ", 0x4c534831, kind, len(nodes), len(mappings), 0, sender, answer, challenge, number)
    data += b"".join(struct.pack("!QI", *n) for n in nodes)
    data += b"".join(struct.pack("!QQ", *m) for m in mappings)
    return data + hmac.new(key, data, hashlib.sha256).digest()


class Peer:
    """Another front-end, by hand."""

    def __init__(self, address="127.0.0.1"):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((address, 0))
        self.socket.settimeout(20)
        self.port = self.socket.getsockname()[1]
        self.to = ("127.0.0.1", free_udp())
        self.process, self.number, self.challenge, self.heard = 77, 0, 0, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def answer(self):
        """To its last challenge."""
        while not self.challenge or select.select([self.socket], [], [], 0)[0]:
            self.heard.append(self.socket.recv(2000))
            self.challenge = struct.unpack("!IBBBBQQQQ", self.heard[-1][:40])[7]
        return self.challenge

    def datagram(self, nodes=(), mappings=(), kind=1, **more):
        self.number += 1
        fields = {"sender": self.process, "answer": self.answer(), "challenge": 5, "number": self.number, **more}
        return signed(kind, nodes=nodes, mappings=mappings, **fields)

    def send(self, data):
        self.socket.sendto(data, self.to)

    def say(self, *args, **more):
        self.send(self.datagram(*args, **more))


@contextlib.contextmanager
def facing(extra="", nodes=2):
    """A front-end whose peer is ours to play."""
    with site(nodes) as (backends, words), Peer() as peer:
        with Lardd(backends, words(peer.to[1], peer.port) + extra.format(own=peer.to[1])) as lardd:
            yield lardd, peer


def refused(lardd, peer, data, sender=None):
    before = lardd.counter("LardShareRefused")
    (sender or peer).socket.sendto(data, peer.to)
    until(lambda: lardd.counter("LardShareRefused") == before + 1, what="it is refused")


def garbage_changes_nothing():
    with facing() as (lardd, peer), Peer() as stranger:
        ident = identity("be0")
        rest = {"nodes": [(ident, 3)], "mappings": [(1, 1)]}
        good = peer.datagram(**rest)
        for data in (b"", good[:-1], good + b"x", good[:40] + b"\xff" + good[41:]):
            refused(lardd, peer, data)
        for wrong in ({"key": bytes(32)}, {"answer": peer.answer() ^ 1}, {"answer": 0}, {"kind": 7},
                      {"nodes": [(ident, 3)] * 65}, {"sender": 0}):
            refused(lardd, peer, peer.datagram(**{**rest, **wrong}))
        refused(lardd, peer, peer.datagram(**rest), stranger)
        assert others(lardd) == 0 and table(lardd)["used"] == 0
        good = peer.datagram(**rest)
        peer.send(good)
        until(lambda: others(lardd) == 3, what="what is right counts")
        assert table(lardd)["learnt"] == 1
        refused(lardd, peer, good)              # again
        # Nodes that are not known here, and places that no node has.
        peer.say([(1234, 9), (ident, 2 ** 32 - 1)], [(2, 1), (3, 2 ** 63)])
        until(lambda: others(lardd) == 1000000, what="as much as may be")
        assert table(lardd)["used"] == 1
        assert lardd.get("/x")[0] == 200


def a_peer_that_restarts_is_heard_again_at_once():
    for end in ("killed", "taken over"):
        with pair() as (one, two):
            gate(one, False)
            held = hold(one, 3)
            until(lambda: others(two) == 3, what="the other's load")
            if end == "killed":
                two.process.kill()
                two.process.wait()
                two.start()
            else:
                assert two.take_over().wait() == 0
            until(lambda: others(two) == 3, seconds=10, what=f"the other's load, {end}")
            assert one.control("status")["peers"] == 1
            finish(one, held)


def own_words_that_come_back_do_not_count():
    """By somebody on the way, or to an own address among the peers."""
    with facing("peer 127.0.0.1:{own} 127.0.0.1:9\n") as (lardd, peer):
        gate(lardd, False)
        held = hold(lardd, 3)
        until(lambda: lardd.load() == 3, what="its load")
        end = time.monotonic() + 3
        while time.monotonic() < end:           # greetings, answers, loads
            peer.send(peer.socket.recv(2000))
        status = lardd.control("status")
        assert status["peers"] == 0 and status["outstanding_others"] == 0, status
        finish(lardd, held)


def nobody_counts_twice():
    """The words of one front-end, said from the addresses of two."""
    with site() as (backends, words), Peer() as one, Peer() as two:
        two.to = one.to
        with Lardd(backends, words(one.to[1], one.port) + f"peer 127.0.0.1:{two.port}\n") as lardd:
            nodes = [(identity("be0"), 3)]
            one.say(nodes)
            until(lambda: others(lardd) == 3, what="one counts")
            refused(lardd, two, two.datagram(nodes))
            assert lardd.control("status")["peers"] == 1
            two.process = 78
            two.say(nodes)
            until(lambda: others(lardd) == 6, what="who is another counts")


def what_was_recorded_is_worth_nothing():
    with facing() as (lardd, peer):
        nodes = [(identity("be0"), 3)]
        kept = [peer.datagram(nodes) for _ in range(3)]         # held back
        old = peer.datagram([(identity("be0"), 4)])
        peer.send(old)
        until(lambda: others(lardd) == 4, what="it is heard")
        peer.process, peer.number = 78, 0                       # it restarts, and a word of its former self comes
        peer.say(nodes)
        until(lambda: others(lardd) == 3, what="its new self")
        number = struct.unpack("!IBBBBQQQQ", old[:40])[8] + 1
        refused(lardd, peer, signed(1, 77, struct.unpack("!IBBBBQQQQ", old[:40])[6], 5, number, nodes, []))
        late = peer.datagram(nodes, number=1000)
        end = time.monotonic() + 3
        while time.monotonic() < end:                           # it is held back, and others are not
            peer.say(nodes)
            time.sleep(0.2)
        refused(lardd, peer, late)
        until(lambda: others(lardd) == 0, what="it is silent for too long")
        for data in [*kept, late]:
            refused(lardd, peer, data)
        assert lardd.control("status")["peers"] == 0


def a_peer_that_none_would_hear_is_refused():
    with facing() as (lardd, peer):
        with open(lardd.config_path, encoding="utf-8") as file:
            good = file.read()
        for line, why in ((f"peer 127.0.0.1:{peer.port}", "is there twice"), ("peer [::1]:9", "they are IPv6")):
            with open(lardd.config_path, "w", encoding="utf-8") as file:
                file.write(f"{good}{line}\n")
            check = subprocess.run([LARDD, "--check", "-c", lardd.config_path], capture_output=True, text=True,
                                   timeout=60, check=False)
            assert check.returncode == 1 and why in check.stderr, (line, check)
            assert why in lardd.control("reload")["error"]


def a_reload_says_that_share_stays_as_it_was():
    with facing() as (lardd, peer):
        peer.say([(identity("be0"), 3)])
        until(lambda: others(lardd) == 3, what="the other's load")
        with open(lardd.config_path, "a", encoding="utf-8") as file:
            file.write("peer 127.0.0.1:9\n")
        lardd.control("reload")
        lardd.wait_log("and share change with a restart")
        lardd.configure()
        lardd.control("reload")
        until(lambda: lardd.log().count("and share change with a restart") == 2, what="it says so again")
        peer.say([(identity("be0"), 4)])
        until(lambda: others(lardd) == 4, what="it is heard as before")


def a_peer_says_so_much_and_no_more():
    """Mappings that are never the same, as fast as it can."""
    with facing() as (lardd, peer):
        peer.say([(identity("be0"), 3)])
        until(lambda: others(lardd) == 3, what="it is heard")
        for _ in range(20):
            before = lardd.counter("LardShareTaken")
            said = before + lardd.counter("LardShareRefused") + 200
            data = [peer.datagram([(identity("be0"), 3)], [(n, 1)]) for n in range(200)]
            since = time.monotonic()
            for one in data:
                peer.send(one)
            until(lambda: lardd.counter("LardShareTaken") + lardd.counter("LardShareRefused") >= said)
            periods = (time.monotonic() - since) / 0.1 + 2
            if periods < 5:                     # else nothing is said: the machine is too slow
                break
        assert lardd.counter("LardShareTaken") - before <= 32 * periods, (lardd.counter("LardShareTaken"), periods)


def who_stops_waits_for_no_load_of_others():
    with facing("max_outstanding 4\n") as (lardd, peer):
        gate(lardd, False)
        peer.say([(identity("be0"), 100)])
        until(lambda: others(lardd) == 100, what="the other's load")
        held = hold(lardd, 4)
        until(lambda: lardd.control("status")["queued"] == 2, what="two that wait")
        lardd.process.send_signal(signal.SIGTERM)
        lardd.wait_log("event=stopping")
        until(lambda: sum(len(b.seen) for b in lardd.backends) == 4, seconds=5, what="they have their place")
        finish(lardd, held)
        assert lardd.process.wait() == 0


def status_tells_of_the_others():
    port = free_port()

    def look(target="/status.json"):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
            s.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            return read_answer(s.makefile("rb"))[2].decode()

    def now():
        return json.loads(look())

    with pair(second=f"status 127.0.0.1:{port}\n") as (one, two):
        gate(one, False)
        held = hold(one, 3)
        until(lambda: others(two) == 3, what="the other's load")
        told = now()
        (other,) = told["front_ends"]
        assert other["heard"] and other["load"] == 3 and 0 <= other["silent"] < 2, other
        assert told["outstanding_others"] == 3 == sum(n["load_others"] for n in told["nodes"]), told["nodes"]
        page = look("/")
        assert "Other front-ends" in page and other["address"] in page and "heard" in page
        finish(one, held)
        one.process.send_signal(signal.SIGSTOP)
        until(lambda: not now()["front_ends"][0]["heard"], what="it is silent")
        assert now()["front_ends"][0]["load"] == 0 and "silent" in look("/")
        one.process.send_signal(signal.SIGCONT)


def identity(name):
    """hash_bytes() of mix.h."""
    h, most = 0xcbf29ce484222325, 2 ** 64 - 1
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001b3 & most
    for factor in (0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53):
        h = (h ^ h >> 33) * factor & most
    return h ^ h >> 33


if __name__ == "__main__":
    sys.exit(main([second_front_end_dispatches_what_the_first_knows, loads_of_the_other_count,
                   limit_holds_for_both_and_each_has_its_part, loads_of_a_dead_peer_age_out,
                   garbage_changes_nothing, a_peer_that_restarts_is_heard_again_at_once,
                   own_words_that_come_back_do_not_count, nobody_counts_twice, what_was_recorded_is_worth_nothing,
                   a_peer_that_none_would_hear_is_refused, a_reload_says_that_share_stays_as_it_was,
                   who_stops_waits_for_no_load_of_others, status_tells_of_the_others, a_peer_says_so_much_and_no_more]))
