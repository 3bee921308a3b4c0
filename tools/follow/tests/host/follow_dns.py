#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
"""flotilla-follow dns: SRV records become nodes, and what a name server may do to it."""
import os
import random
import resource
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from follow import Follower, kit, once, port, refused                           # noqa: E402
from dns import A, SRV, Dns, address, name, record, srv                         # noqa: E402
from kit import claim, equal                                                    # noqa: E402

NAME = "_flotilla._tcp.example.org"
BE1 = "node be1 address 10.0.0.2"
BE2 = "node be2 address 10.0.0.3"


def source(dns):
    return "dns:%s@127.0.0.1:%d" % (NAME, dns.port)


def zone(*records, more=(), **hosts):
    said = {(NAME, SRV): (list(records), list(more))}
    for host, where in hosts.items():
        said[("%s.example.org" % host, A)] = ([address("%s.example.org" % host, w) for w in
                                               ([where] if isinstance(where, str) else where)], [])
    return said


@claim
def records_become_nodes():
    with Dns(zone(srv(NAME, "be1.example.org"), srv(NAME, "be2.example.org", weight=30, port=7000),
                  be1="10.0.0.2", be2="10.0.0.3")) as dns:
        equal("said", once(source(dns)), (0, "+ %s\n+ %s port 7000 weight 30\n" % (BE1, BE2)))


@claim
def what_comes_along_is_not_asked_again():
    with Dns(zone(srv(NAME, "be1.example.org"), more=[address("be1.example.org", "2001:db8::2"),
                                                      address("other.example.org", "10.0.0.66")])) as dns:
        equal("said", once(source(dns)), (0, "+ node be1 address 2001:db8::2\n"))
        equal("asked", len(dns.asked), 1)


@claim
def worse_priorities_get_nothing_new():
    with Dns(zone(srv(NAME, "be1.example.org", 20, 50), srv(NAME, "be2.example.org", 10, 50), be1="10.0.0.2",
                  be2="10.0.0.3")) as dns:
        equal("said", once(source(dns)), (0, "+ %s weight 0\n+ %s weight 50\n" % (BE1, BE2)))


@claim
def the_order_of_records_is_no_change():
    records = [srv(NAME, "be%d.example.org" % i, ttl=1) for i in (1, 2)]
    with Dns(zone(*records, be1=["10.0.0.22", "10.0.0.2"], be2="10.0.0.3")) as dns:
        with Follower(source(dns), "--every", "1") as f:
            f.wait_changes("+ " + BE1, "+ " + BE2)
            for _ in range(3):
                dns.zone = zone(*reversed(records), be1=["10.0.0.2", "10.0.0.22"], be2="10.0.0.3")
                time.sleep(1.5)
            equal("changes", len(f.changes()), 2)


@claim
def it_is_asked_again_when_the_ttl_is_over():
    with Dns(zone(srv(NAME, "be1.example.org", ttl=6), be1="10.0.0.2")) as dns:
        with Follower(source(dns), "--every", "3600") as f:
            f.wait_changes("+ " + BE1)
            dns.zone = zone(srv(NAME, "be2.example.org", ttl=1), be2="10.0.0.3")
            begin = time.monotonic()
            f.wait_changes("+ " + BE1, "- " + BE1, "+ " + BE2)
            assert time.monotonic() - begin > 4, time.monotonic() - begin
            time.sleep(12)
            asked = dns.asked.count((NAME, SRV))
            assert 3 <= asked <= 5, "a TTL of 1 is not kept to: %d" % asked


@claim
def long_answers_come_by_tcp():
    hosts = {"n%d" % i: "10.1.0.%d" % i for i in range(1, 201)}
    with Dns(zone(*[srv(NAME, "%s.example.org" % h) for h in hosts],
                  more=[address("%s.example.org" % h, a) for h, a in hosts.items()])) as dns:
        dns.truncate = True
        status, said = once(source(dns))
        equal(said[:200], (status, said.count("\n")), (0, 200))


@claim
def an_answer_that_is_not_whole_changes_nothing():
    records = [srv(NAME, "be%d.example.org" % i, ttl=5) for i in (1, 2)]
    more = [address("be1.example.org", "10.0.0.2"), address("be2.example.org", "10.0.0.3")]
    with Dns(zone(*records, more=more)) as dns:
        with Follower(source(dns), "--every", "2") as f:
            f.wait_changes("+ " + BE1, "+ " + BE2)
            dns.cut = True
            dns.zone = zone(records[0], more=more[:1])
            f.wait_message("the name server's answer for %s is not whole" % NAME)
            equal("changes", len(f.changes()), 2)


@claim
def a_name_that_is_not_there_empties_nothing():
    with Dns(zone(srv(NAME, "be1.example.org", ttl=5), be1="10.0.0.2")) as dns:
        with Follower(source(dns), "--every", "2") as f:
            f.wait_changes("+ " + BE1)
            dns.zone = {}
            f.wait_message("it names no node, so nothing is changed")
            dns.zone = {(NAME, A): ([], [])}
            time.sleep(4)
            equal("changes", f.changes(), ["+ " + BE1])


@claim
def a_server_that_is_away_empties_nothing():
    refused(1, "%s: the name server does not answer for %s" % (NAME, NAME),
            once("dns:%s@127.0.0.1:%d" % (NAME, port())))
    with Dns(lambda query, asked: None) as dns:
        begin = time.monotonic()
        equal("status", once(source(dns))[0], 1)
        assert time.monotonic() - begin < 35, time.monotonic() - begin
    with Dns(lambda query, asked: query[:2] + b"\x81\x82" + query[4:6] + b"\0\0\0\0\0\0" + query[12:]) as dns:
        equal("a failure of the server", once(source(dns))[0], 1)


@claim
def a_target_without_an_address_refuses_the_whole():
    with Dns(zone(srv(NAME, "be1.example.org"), srv(NAME, "gone.example.org"), be1="10.0.0.2")) as dns:
        refused(2, "%s: gone.example.org has no address" % NAME, once(source(dns)))
    with Dns(zone(srv(NAME, "be1.example.org"), srv(NAME, "be1.example.net"), be1="10.0.0.2",
                  more=[address("be1.example.net", "10.0.0.9")])) as dns:
        refused(2, "%s: cannot use node be1: a node of that name is there already" % NAME, once(source(dns)))
    with Dns(zone(srv(NAME, "."))) as dns:
        equal("nor is the root a node", once(source(dns))[0], 2)


@claim
def names_that_are_none_are_refused():
    for label in (b"\x06\x1b]0;o\x07", b"\x03a b", b"\x03a.b", b"\x02\xff\xfe", b"\x20" + b"x" * 32, b"\x02a\0"):
        target = label + b"\x07example\x03org\0"
        with Dns(zone(srv(NAME, target), more=[record(target, A, bytes([10, 0, 0, 2]))])) as dns:
            status, said = once(source(dns))
            equal("%r: %r" % (label, said), (status != 0, "\x1b" in said, said.count("\n")), (True, False, 1))


@claim
def broken_answers_change_nothing():
    good = zone(srv(NAME, "be1.example.org"), more=[address("be1.example.org", "10.0.0.2")])
    rng, seen = random.Random(7), set()

    def broken(query, asked):
        said = bytearray(real.answer(query))
        for _ in range(rng.choice((1, 1, 2, 8))):
            said[rng.randrange(2, len(said))] = rng.randrange(256)
        return bytes(said[:rng.choice((len(said), len(said), rng.randrange(12, len(said))))])

    with Dns(good) as real, Dns(broken) as dns:
        # Each once, and what is taken for good is one node, by a name and an address that may be.
        with Follower(source(dns), "--every", "1", "--max", "4") as f:
            time.sleep(20)
            equal("it lives: %s" % f.lines[-3:], f.process.poll(), None)
            seen.update(f.changes())
    assert not any("\x1b" in change for change in seen), seen
    loop = struct.pack("!H", 0xc000 | 12)
    for data in (b"", b"\0" * 6, struct.pack("!HHH", 0, 0, 1) + b"\x3f", struct.pack("!HHH", 0, 0, 1) + b"\xc0\xff",
                 struct.pack("!HHH", 0, 0, 1) + loop[:1]):
        with Dns({(NAME, SRV): ([record(NAME, SRV, data)], [])}) as dns:
            status, said = once(source(dns))
            equal("%r: %s" % (data, said), status != 0, True)


@claim
def names_that_lead_through_thousands_cost_little():
    """Sixty records, and two thousand addresses whose names are each eight thousand hops away."""
    def zone_of(query, asked):
        question = query[12:query.index(b"\0", 12) + 5]
        if asked[1] != SRV:
            own = address(asked[0], "10.1.0.%d" % int(asked[0][:4])) if asked[1] == A else b""
            return query[:2] + struct.pack("!H4H", 0x8180, 1, bool(own), 0, 0) + question + own
        begin = 12 + len(question) + 12
        chain = b"\1x\0" + struct.pack("!H", 0xc000 | begin)
        chain += b"".join(struct.pack("!H", 0xc000 | at) for at in range(begin + 3, 0x3ff0, 2))
        last = struct.pack("!H", 0xc000 | (begin + len(chain) - 2))
        records = [record(b"\xc0\x0c", 16, chain)]
        records += [srv(b"\xc0\x0c", b"\4%04d\xc0\x0c" % i) for i in range(60)]
        more = [record(last, A, bytes([10, 0, 0, 2]))] * 2000
        head = query[:2] + struct.pack("!H4H", 0x8180, 1, len(records), 0, len(more))
        return head + question + b"".join(records + more)

    with Dns(zone_of) as dns:
        dns.truncate = True
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        status, said = once(source(dns))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    equal(said[:200], (status, said.count("\n")), (0, 60))
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert seconds < 1.5, seconds


@claim
def other_records_are_passed_over():
    alias = record(NAME, 5, name("real.example.org"))
    with Dns(zone(alias, record("real.example.org", 16, b"\x01x"), srv("real.example.org", "be1.example.org"),
                  be1="10.0.0.2")) as dns:
        equal("said", once(source(dns)), (0, "+ %s\n" % BE1))


kit.main()
