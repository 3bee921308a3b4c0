#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 400
"""flotilla-follow etcd: and flotilla-announce against a real etcd, and against servers that mean harm."""
import contextlib
import json
import os
import re
import subprocess
import sys
import time
import types

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from follow import ANNOUNCE, HOSTILE, Follower, kit, once, port, refused        # noqa: E402
from etcd import Etcd, Way, encoded                                             # noqa: E402
import hostile                                                                  # noqa: E402
from kit import claim, equal                                                    # noqa: E402

BE1 = "node be1 address 10.0.0.2"
BE2 = "node be2 address 10.0.0.3"
PREFIX = "/web/"


def value(address, **more):
    return json.dumps({"address": address, **more})


class Announcer:
    def __init__(self, etcd, name, address, *options):
        self.process = subprocess.Popen([ANNOUNCE, "--name", name, "--address", address, "--lease", "5", *options,
                                         "etcd:%s%s" % (etcd.url, PREFIX)], stderr=subprocess.PIPE, text=True)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        said = self.process.communicate()[1]
        return said


def follow(etcd, *options, **more):
    return Follower("etcd:%s%s" % (etcd.url, PREFIX), *options, **more)


@claim
def keys_come_change_and_go():
    with Etcd() as etcd:
        etcd.put("web/be1", value("10.0.0.2"))
        etcd.put("webx/be9", value("10.0.0.9"))
        etcd.put("web", "nothing of ours")
        with follow(etcd, "--every", "3600") as f:
            f.wait_changes("+ " + BE1)
            etcd.put("web/be2", value("10.0.0.3", weight=50))
            f.wait_changes("+ " + BE1, "+ %s weight 50" % BE2)
            etcd.delete("web/be1")
            f.wait_changes("+ " + BE1, "+ %s weight 50" % BE2, "- " + BE1)


@claim
def a_node_that_dies_leaves_and_one_that_lives_stays():
    with Etcd() as etcd:
        one, two = Announcer(etcd, "be1", "10.0.0.2"), Announcer(etcd, "be2", "10.0.0.3", "--set", "weight 30")
        try:
            kit.wait(lambda: etcd.get("web/be1") and etcd.get("web/be2"), name="both are announced")
            with follow(etcd, "--every", "3600") as f:
                f.wait_changes("+ " + BE1, "+ %s weight 30" % BE2)
                one.process.kill()
                f.wait_changes("+ " + BE1, "+ %s weight 30" % BE2, "- " + BE1)
                time.sleep(8)
                equal("who lives", json.loads(etcd.get("web/be2")), {"address": "10.0.0.3", "weight": 30})
                equal("changes", len(f.changes()), 3)
        finally:
            one.stop()
            two.stop()


@claim
def who_is_started_again_in_time_has_never_left():
    with Etcd() as etcd:
        one = Announcer(etcd, "be1", "10.0.0.2")
        kit.wait(lambda: etcd.get("web/be1"), name="it is announced")
        with follow(etcd, "--every", "3600") as f:
            f.wait_changes("+ " + BE1)
            one.stop()
            two = Announcer(etcd, "be1", "10.0.0.2")
            time.sleep(9)
            two.stop()
            equal("changes", f.changes(), ["+ " + BE1])


@claim
def a_lease_that_was_lost_is_taken_anew():
    with Etcd() as etcd:
        one = Announcer(etcd, "be1", "10.0.0.2")
        try:
            kit.wait(lambda: etcd.get("web/be1"), name="it is announced")
            for lease in etcd.ask("lease/leases").get("leases", []):
                etcd.ask("lease/revoke", ID=lease["ID"])
            equal("revoked", etcd.get("web/be1"), [])
            kit.wait(lambda: etcd.get("web/be1"), name="it is announced again")
        finally:
            one.stop()


@claim
def a_member_that_hangs_costs_no_lease():
    with Etcd() as etcd, Way(etcd.url) as way:
        one = Announcer(types.SimpleNamespace(url="%s,%s" % (way.url, etcd.url)), "be1", "10.0.0.2")
        try:
            kit.wait(lambda: etcd.get("web/be1"), name="it is announced")
            time.sleep(2)
            way.stopped = True
            end = time.monotonic() + 12
            while time.monotonic() < end:
                assert etcd.get("web/be1"), "it has left %.1f seconds before the end" % (end - time.monotonic())
                time.sleep(0.2)
        finally:
            equal("announced", one.stop().count("is announced"), 1)


@claim
def a_key_that_is_refused_costs_one_lease():
    def speak(peer):
        asked = server.requests[-1]
        peer.sendall(hostile.http('{"ID":"7","TTL":"5"}') if b"/v3/lease/grant" in asked else
                     hostile.http('{"result":{"ID":"7","TTL":"5"}}') if b"/v3/lease/keepalive" in asked else
                     hostile.http('{"error":"no"}', "403 Forbidden"))

    def asked_for(what):
        return sum(what in request for request in server.requests)

    with hostile.Hostile(speak) as server:
        one = Announcer(server, "be1", "10.0.0.2")
        try:
            kit.wait(lambda: asked_for(b"/v3/kv/put") >= 4, name="it has tried again")
        finally:
            said = one.stop()
        equal("leases", asked_for(b"/v3/lease/grant"), 1)
        equal("said: " + said, said.count("it answers 403"), 1)


@claim
def what_is_announced_is_judged_first():
    for name, address, options in (("a b", "10.0.0.2", ()), ("be1", "10.0.0.300", ()), ("be1", "224.0.0.1", ()),
                                   ("be1", "10.0.0.2", ("--set", "auth x509")),
                                   ("be1", "10.0.0.2", ("--set", "weight -1")),
                                   ("be1", "10.0.0.2", ("--lease", "1"))):
        run = subprocess.run([ANNOUNCE, "--once", "--name", name, "--address", address, *options,
                              "etcd:http://127.0.0.1:1/x"], capture_output=True, timeout=20, check=False)
        equal("%s %s %s: %s" % (name, address, options, run.stderr), run.returncode, 2)


@claim
def an_outage_changes_nothing():
    with Etcd() as etcd:
        etcd.put("web/be1", value("10.0.0.2"))
        with follow(etcd, "--every", "2") as f:
            f.wait_changes("+ " + BE1)
            etcd.stop()
            f.wait_message("nodes stay as they are")
            time.sleep(3)
            equal("changes", f.changes(), ["+ " + BE1])
            etcd.start()
            f.wait_message("is followed again")
            etcd.put("web/be2", value("10.0.0.3"))
            f.wait_changes("+ " + BE1, "+ " + BE2)


@claim
def one_of_several_hosts_is_enough():
    with Etcd() as etcd:
        etcd.put("web/be1", value("10.0.0.2"))
        equal("the second answers", once("etcd:http://127.0.0.1:%d,%s/web" % (port(), etcd.url)), (0, "+ %s\n" % BE1))


@claim
def wrong_values_are_refused_by_name():
    with Etcd() as etcd:
        etcd.put("web/be1", value("10.0.0.2"))
        for name, text, why in (("be2", "{", "its value is not an object of JSON"),
                                ("be2", "[1]", "its value is not an object of JSON"),
                                ("be2", b"\xff\xfe", "its value is not an object of JSON"),
                                ("be2", "x" * 4097, "its value is longer than 4096 bytes"),
                                ("be2", value("10.0.0.3", name="be3"), "its value has another name"),
                                ("be2", value("10.0.0.2"), "cannot use node be2: node be1 has that address"),
                                ("be2", value("10.0.0.3", auth="psk", key="/etc/shadow"),
                                 "cannot use node be2: auth is not for this source to say (--set)"),
                                ("be2", value("10.0.0.3", color=1),
                                 "cannot use node be2: color is not an argument of this command; "
                                 "try \"help\" in its place")):
            etcd.put("web/" + name, text)
            refused(2, "web/%s: %s" % (name, why), once("etcd:%s/web/" % etcd.url))
        etcd.delete("web/be2")
        etcd.put("web/" + HOSTILE, value("10.0.0.3"))
        status, said = once("etcd:%s/web/" % etcd.url)
        equal(said, (status, "\x1b" in said, "\\x1b" in said), (2, False, True))
        etcd.delete("web/" + HOSTILE)
        etcd.put("web/a/b", value("10.0.0.3"))
        equal("a name has no /", once("etcd:%s/web/" % etcd.url)[0], 2)
        etcd.delete("web/a/b")
        etcd.put(b"web/\xff\xfe", value("10.0.0.3"))
        equal("and is text", once("etcd:%s/web/" % etcd.url)[0], 2)


@claim
def no_keys_are_not_no_nodes():
    with Etcd() as etcd:
        etcd.put("other", "x")
        refused(2, "web/: it names no node, so nothing is changed (--allow-empty)", once("etcd:%s/web/" % etcd.url))


@claim
def a_flood_of_changes_is_coalesced():
    with Etcd() as etcd:
        etcd.put("web/be1", value("10.0.0.2"))
        with follow(etcd, "--every", "3600") as f:
            f.wait_changes("+ " + BE1)
            end, number = time.monotonic() + 4, 0
            while time.monotonic() < end:
                number += 1
                etcd.put("web/be1", value("10.0.0.2", weight=200 + number))
            etcd.put("web/be1", value("10.0.0.2", weight=9))
            kit.wait(lambda: f.changes()[-1].endswith("-> 9"), 20)
            assert number > 50 and len(f.changes()) <= 9, (number, f.changes())


@claim
def hostile_answers_change_nothing_and_cost_little():
    empty = {"header": {"revision": "1"}}
    wrong, good = encoded("web/be1"), encoded(value("10.0.0.2"))
    for answer, status in (
            (hostile.endless, 2), (hostile.http("[" * 900000), 2), (hostile.http("nonsense"), 2), (hostile.http(""), 2),
            (hostile.http("[]"), 2), (hostile.http("{}"), 2), (hostile.http("\xff{}"), 2),
            (hostile.http("{}", length=1000), 1), (hostile.http("[[]]," * 200000), 2),
            (hostile.http('{"header":{"revision":"1"},"kvs":[%s]}' % ",".join(["[]"] * 300000)), 2),
            (hostile.http(json.dumps({**empty, "kvs": {"key": 1}})), 2),
            (hostile.http(json.dumps({**empty, "kvs": [{"key": "!!!!", "value": wrong}]})), 2),
            (hostile.http(json.dumps({**empty, "kvs": [{"key": encoded("etc/x"), "value": wrong}]})), 2),
            (hostile.http(json.dumps({**empty, "kvs": [{"key": encoded("web/" + "k" * 9000), "value": wrong}]})), 2),
            (hostile.http(json.dumps({**empty, "kvs": [{"key": wrong, "value": good}], "more": True})), 2),
            (hostile.http(json.dumps({"header": {"revision": "1\r\nX: y"}})), 2),
            (hostile.http("\x1b[2J", "503 No"), 1),
            (hostile.http("", "302 Found", more="Location: file:///etc/passwd\r\n"), 1),
            (b"\x00\x01\x02\x03", 1), (b"", 1), (hostile.endless_header, 1), (hostile.endless_trailer, 1)):
        with hostile.Hostile(answer) as server:
            got, said = once("etcd:%s/web/" % server.url)
            equal("%r: %r" % (answer if callable(answer) else answer[-60:], said[-300:]),
                  (got, "\x1b" in said, said.count("\n") <= 1), (status, False, True))
    # What is no answer of etcd is not one without nodes either.
    for answer in ("{}", '{"header": {}}', '{"header": {"revision": "x"}}', '{"error": "no"}'):
        with hostile.Hostile(hostile.http(answer)) as server:
            equal(answer, once("etcd:%s/web/" % server.url, "--allow-empty")[0], 2)
    with hostile.Hostile(hostile.http(json.dumps(empty))) as server:
        equal("this is one", once("etcd:%s/web/" % server.url, "--allow-empty"), (0, ""))


@claim
def an_answer_of_any_size_fits_in_little_memory():
    for answer in (hostile.endless, hostile.endless_header, hostile.http("[[]]," * 200000),
                   hostile.http('{"header":{"revision":"1"},"kvs":[%s]}' % ",".join(["[]"] * 300000)),
                   hostile.http(json.dumps({"header": {"revision": "1"}, "kvs": [
                       {"key": encoded("web/%d" % i), "value": encoded('{"address":"1.1.1.1"}')}
                       for i in range(11000)]}))):
        with hostile.Hostile(answer) as server:
            with Follower("etcd:%s/web/" % server.url, "--every", "1", limit=220) as f:
                kit.wait(lambda f=f: f.messages() or f.process.poll() is not None, 40)
                equal("still there: %s" % f.lines, f.process.poll(), None)


@claim
def who_does_not_answer_is_not_waited_for():
    for answer in (hostile.silent, hostile.slow):
        with hostile.Hostile(answer) as server:
            begin = time.monotonic()
            equal("status", once("etcd:%s/web/" % server.url)[0], 1)
            assert 5 < time.monotonic() - begin < 40, time.monotonic() - begin


@contextlib.contextmanager
def watched(watch):
    """A follower of one node, whose watch gets what WATCH sends; and who answers it."""
    answer = json.dumps({"header": {"revision": "1"},
                         "kvs": [{"key": encoded("web/be1"), "value": encoded(value("10.0.0.2"))}]})

    def speak(peer):
        if b"/v3/watch" not in server.requests[-1]:
            peer.sendall(hostile.http(answer))
            return
        watch(peer)

    with hostile.Hostile(speak) as server:
        with Follower("etcd:%s/web/" % server.url, "--every", "3600") as f:
            f.wait_changes("+ " + BE1)
            yield f, server


def ticks_of(process):
    with open("/proc/%d/stat" % process.pid, encoding="ascii") as stat:
        return sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13]))


@claim
def a_watch_that_floods_makes_one_question_a_second():
    with watched(hostile.endless) as (f, server):
        time.sleep(6)
        asked = sum(b"/v3/kv/range" in r for r in server.requests)
        ticks = ticks_of(f.process)
        assert 3 <= asked <= 9, asked
        assert ticks < 150, ticks
        equal("changes", f.changes(), ["+ " + BE1])


@claim
def a_flood_that_is_no_event_costs_little():
    for watch in (hostile.endless_header, hostile.endless_trailer, hostile.endless_chunk_extension):
        with watched(watch) as (f, server):
            before = memory_of(f.process)
            time.sleep(4)
            ticks, more = ticks_of(f.process), memory_of(f.process) - before
            equal("%s: asked" % watch.__name__, sum(b"/v3/kv/range" in r for r in server.requests), 1)
            assert ticks < 40 and more < 4096, (watch.__name__, ticks, more)


@claim
def a_watch_that_etcd_has_given_up_begins_again():
    """As etcd says it of a revision that was compacted meanwhile; the stream goes on, and nothing comes."""
    said = b'HTTP/1.1 200 OK\r\n\r\n{"result":{"header":{"revision":"11"},"canceled":true,"compact_revision":"8"}}\n'
    for cut in (len(said), said.index(b"eled"), said.index(b'":true')):
        def watch(peer, cut=cut):
            peer.sendall(said[:cut])
            time.sleep(0.5)
            peer.sendall(said[cut:])
            peer.recv(1)

        with watched(watch) as (_, server):
            kit.wait(lambda server=server: sum(b"/v3/watch" in r for r in server.requests) >= 2, 10,
                     name="a second watch")


def memory_of(process):
    """In KB."""
    with open("/proc/%d/status" % process.pid, encoding="ascii") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read())[1])


kit.main()
