#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
# long: both minutes on either kernel
"""Who may ask for connections of a service address, whose answers are believed, and who never answers."""
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from chain import ANSWER, CLAIM, GRANT, NEW, TAIL, Other, addresses   # noqa: E402
from cgroup import Cgroup                                       # noqa: E402
from hof import (DONE, SLOW, VIP4, VIP6, E, accept, claim, main, peek, receive, run,  # noqa: E402
                 stalled, usable, wait)
from mallory import LIFE, RECORD                                # noqa: E402
from pair import TAKEN, TAKEOVER, Conns, Pair, ends, handed_off   # noqa: E402

KNOWS = NEW | E["FLT_FEATURE_TAKEOVER"]
NONE, STATE, DUPLICATE = 0, E["FLT_REFUSE_STATE"], E["FLT_REFUSE_DUPLICATE"]
ROLE, SERVICE = E["FLT_REFUSE_ROLE"], E["FLT_REFUSE_SERVICE"]
ASK = struct.Struct("!QIHH16s")
SAID = struct.Struct("!QIIII")
VIP = socket.inet_aton(VIP4).ljust(16, b"\0")
NOBODY = socket.inet_aton("10.9.0.99").ljust(16, b"\0")


def begins(c, *words):
    """The command, which waits."""
    return c.fe2.spawn("flotilla", "-j", "takeover", VIP4, "--wait", "60", *words,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def asked(line):
    """proof, page"""
    proof, page, family, port, server = ASK.unpack(line.await_kind(TAKEOVER)[1])
    assert (family, port, server) == (4, 0, VIP)
    return proof, page


def asks(line, proof=4711, page=0, server=VIP, port=0):
    """As a front-end: the claims that come, and what is said at last. Older ones may be said again."""
    line.send(TAKEOVER, ASK.pack(proof, page, 4, port, server))
    size, found = RECORD.size + TAIL.size, {}
    while True:
        kind, body = line.await_kind(CLAIM, TAKEN)
        if kind == TAKEN:
            return list(found.values()), SAID.unpack(body)
        for at in range(0, len(body), size):
            one = RECORD.unpack_from(body, at) + TAIL.unpack_from(body, at + RECORD.size)
            if one[8] == proof:
                found[one[7]] = one


def claims(line, proof, where, to=99):
    """What a claim that answers gets."""
    line.send(CLAIM, RECORD.pack(0, 4, 0, *where) + TAIL.pack(to, proof, 1, 0))
    said, voucher, refusal, _ = ANSWER.unpack(line.await_kind(GRANT)[1])
    assert said == to and bool(voucher) == (refusal == NONE)
    return refusal


def done(line, proof, page):
    line.send(TAKEN, SAID.pack(proof, page, 0, 0, 0))


@claim
def who_may_not_ask_hears_why():
    with Pair(1) as c:
        conns, be = Conns(c), c.be[0]
        conns.open(be)
        learned = []

        def refused(reason):
            status, rows, said = c.takeover("--wait", "20")
            assert status == 1 and rows["be1"]["answer"] == "refused" and rows["be1"]["reason"] == reason, rows
            assert "node be1: " + reason in said, said
            learned.append(c.fe2.stat("ForwardEntries") + be.stat("ClaimSent"))
        be.nl.do("NODE_SET", node_name="fe2", node_role=E["FLT_ROLE_BACKEND"])
        refused("role")
        be.nl.do("NODE_SET", node_name="fe2", node_role=E["FLT_ROLE_FRONTEND"])
        be.sysctl("net.flotilla.takeover", 0)
        refused("policy")
        be.sysctl("net.flotilla.takeover", 1)
        be.nl.do("SERVICE_DEL", service_addr4=VIP4)
        refused("service")
        be.nl.do("SERVICE_NEW", service_addr4=VIP4)
        for node in (be, c.fe2):
            node.nl.do("LOCAL_SET", local_insecure=0)
            refused("insecure")
            node.nl.do("LOCAL_SET", local_insecure=1)
        assert learned == [0] * 5, learned
        # Of another address there is nothing to be had.
        assert c.taken(address=VIP6) == {"be1": 0}
        assert c.taken(address=VIP4 + ":81") == {"be1": 0}
        assert be.stat("ClaimSent") == 0, "it was told of others' connections"
        assert c.taken(address=VIP4 + ":80") == {"be1": 1}
        conns.close()


@claim
def service_that_is_listed_by_its_port_is_all_that_is_told_of():
    with Pair(1) as c:
        conns, be = Conns(c), c.be[0]
        conns.open(be)
        be.nl.do("SERVICE_DEL", service_addr4=VIP4)
        be.nl.do("SERVICE_NEW", service_addr4=VIP4, service_port=81)
        assert c.taken() == {"be1": 0} and be.stat("ClaimSent") == 0
        conns.close()


@claim
def nodes_that_do_not_answer_are_named():
    """The rest goes on; an old one says so at once."""
    with Pair(2) as c:
        conns = Conns(c)
        pairs = [conns.open(be) for be in c.be]
        old, silent = Other(c, "old", 9), Other(c, "silent", 10)
        old.meet(c.fe2, "BACKEND", NEW)
        silent.meet(c.fe2, "BACKEND", KNOWS)
        c.be[1].run("ip", "link", "set", "eth0", "down")
        c.fe2.output("ss", "-K", "dst", c.net.ip4(3))
        wait(lambda: c.fe2.nl.node("be2")["NODE_STATE"] != E["FLT_NODE_UP"])
        c.fails_over()
        status, rows, said = c.takeover("--wait", "3")
        assert status == 1, said
        assert {name: row["answer"] for name, row in rows.items()} == {
            "be1": "done", "be2": "down", "old": "refused", "silent": "silent"}, rows
        assert rows["old"]["reason"] == "version" and rows["be1"]["taken"] == 1
        assert all("node %s: " % name in said for name in ("be2", "old", "silent")), said
        usable(pairs[0][1], pairs[0][0])
        for thing in (old, silent, conns):
            thing.close()


@claim
def who_answers_falsely_gets_nothing_that_is_not_its():
    with handed_off() as (c, _, _, client, there):
        other = Other(c)
        line = other.meet(c.fe2, "BACKEND", KNOWS)
        where = addresses(client)
        # Nobody has asked.
        assert claims(line, 0, where) == claims(line, 4711, where) == STATE
        c.fails_over()
        own = c.fe2.listen()
        mine = c.client.connect()
        served, _ = own.accept()
        child = begins(c)
        proof, page = asked(line)
        wait(lambda: c.fe2.stat("TakeoverTaken") == 1)
        assert claims(line, proof ^ 1, where) == STATE
        assert claims(line, proof, where) == DUPLICATE, "be1 has it"
        assert claims(line, proof, addresses(mine)) == DUPLICATE, "it is served here"
        port, _, mine_at, _ = addresses(mine)
        assert claims(line, proof, (port, 80, mine_at, socket.inet_aton("10.9.0.201").ljust(16, b"\0"))) == SERVICE
        assert claims(line, proof, (port + 1, 80, mine_at, VIP), to=0) == SERVICE
        assert claims(line, proof, (1, 80, mine_at, VIP), to=77) == NONE
        assert claims(line, proof, (1, 80, mine_at, VIP), to=77) == NONE, "the answer was lost"
        line.send(TAKEN, SAID.pack(proof, page + 1, 0, 0, 0))      # of a page that was not asked for
        assert claims(line, proof, (3, 80, mine_at, VIP), to=78) == NONE, "it has not told of all yet"
        done(line, proof, page)
        out, _ = child.communicate(timeout=60)
        assert child.returncode == 0, out
        assert claims(line, proof, (2, 80, mine_at, VIP)) == STATE, "it is over"
        usable(there, client)
        usable(served, mine)
        assert sorted(x["CONN_NODE"] for x in c.fe2.conns()) == ["be1", "mallory", "mallory"]
        for thing in (mine, served, own, other):
            thing.close()


@claim
def front_end_gone_bad_has_nothing_but_a_name():
    """It asks, and is granted to; the connections go on by who has the address, and their ends are told."""
    with handed_off() as (c, conns, be, client, there):
        other = Other(c)
        line = other.meet(be, "BACKEND", KNOWS)
        assert asks(line) == ([], (4711, 0, ROLE, 0, 0))
        be.nl.do("NODE_SET", node_name="mallory", node_role=E["FLT_ROLE_FRONTEND"])
        assert asks(line, server=socket.inet_aton("10.9.0.201").ljust(16, b"\0"))[1][2] == SERVICE
        assert asks(line, proof=0)[1][2] == E["FLT_REFUSE_MALFORMED"]
        # It never answers: the next who asks has them.
        (found,), (_, _, refusal, more, begun) = asks(line)
        assert (refusal, more, begun) == (NONE, 1, 1) and found[3:7] == addresses(client)
        usable(there, client)
        assert c.taken() == {"be1": 1}
        other.grants(line, found[7])
        wait(lambda: be.stat("SuccessorGiven") == 2)
        # It answers, and then ends what it has.
        (found,), _ = asks(line, proof=4712)
        other.grants(line, found[7])
        wait(lambda: be.stat("SuccessorGiven") == 3)
        line.send(LIFE, RECORD.pack(found[7], 4, 3, *found[3:7]))
        other.aborts(line, found[7])
        line.sock.close()
        usable(there, client)
        c.turn(c.fe2)
        c.has_address()
        usable(there, client)
        c.turn(c.fe)
        usable(there, client)
        ends(client, there)
        wait(lambda: [x["CONN_STATE"] for x in c.fe2.conns() + c.fe.conns()] == ["LINGER"] * 2)
        assert c.fe.stat("ForwardResets") == c.fe2.stat("ForwardResets") == 0
        other.close()


@claim
def who_asks_amid_a_commit_has_a_claim_of_its_own():
    """It is in the lists already when the node looks for the one that came with the connection, and there is none."""
    with Pair(1) as c:
        conns, be = Conns(c), c.be[0]
        other = Other(c)
        line = other.meet(be, "FRONTEND", KNOWS)
        client = c.client.connect()
        client.sendall(b"GET")
        here = accept(conns.front)
        peek(here, 3)
        with stalled("flt_adoption_commit", 5 * SLOW) as came:
            refusal = "changed"         # the client's acknowledgement came in between
            while refusal == "changed":
                conns.number += 1
                conns.dev.submit(here, c.fe.id["be1"], conns.number)
                kind, _, _, refusal, _ = conns.dev.event()
            assert kind == DONE, refusal
            here.close()
            wait(came)
            (found,), said = asks(line)
            assert said[2:] == (NONE, 1, 1) and found[3:7] == addresses(client), said
            assert not select.select([conns.back["be1"]], [], [], 0)[0], "the commit was over before"
            there = accept(conns.back["be1"])
        assert receive(there, 3) == b"GET"
        usable(there, client)
        other.grants(line, found[7])
        wait(lambda: be.stat("SuccessorGiven") == 1)
        # Another front-end, or this one with another question, has it next.
        assert c.taken() == {"be1": 1}
        usable(there, client)
        ends(client, there)
        wait(lambda: be.stat("AdoptLive") == be.stat("ClaimPending") == 0)
        other.close()
        conns.close()


@claim
def full_table_keeps_what_does_not_fit_out():
    with Pair(1) as c:
        conns, be = Conns(c), c.be[0]
        for _ in range(3):
            conns.open(be)
        c.fe2.sysctl("net.flotilla.forward_max", 2)
        status, rows, _ = c.takeover()
        assert status == 0 and (rows["be1"]["taken"], rows["be1"]["kept"]) == (2, 1), rows
        for client, there in conns.all:
            usable(there, client)
        # What was refused is had the next time.
        c.fe2.sysctl("net.flotilla.forward_max", 100)
        c.taken()
        assert c.fe2.stat("ForwardEntries") == 3
        conns.close()


@claim
def claim_that_is_refused_ends_nothing():
    """A connection is over, and its late packets still go to who had it: also when another's claim finds no room."""
    def states():
        return sorted((x["CONN_NODE"], x["CONN_STATE"]) for x in c.fe2.conns())

    with Pair(1) as c:
        conns, be = Conns(c), c.be[0]
        pairs = [conns.open(be) for _ in range(3)]
        c.fails_over()
        assert c.taken() == {"be1": 3}
        where = addresses(pairs[0][0])
        ends(*pairs[0])
        before = [("be1", "FORWARD")] * 2 + [("be1", "LINGER")]
        wait(lambda: states() == before)
        other = Other(c)
        line = other.meet(c.fe2, "BACKEND", KNOWS)
        child = begins(c)
        proof, page = asked(line)
        c.fe2.sysctl("net.flotilla.forward_max", 1)
        assert claims(line, proof, where) == E["FLT_REFUSE_TABLEFULL"]
        assert states() == before, states()
        # The client may have used its port again, by another front-end: with room it is believed.
        c.fe2.sysctl("net.flotilla.forward_max", 100)
        assert claims(line, proof, where) == NONE
        assert states() == [("be1", "FORWARD")] * 2 + [("mallory", "FORWARD")], states()
        # Answers without an end: how often is it asked in a second?
        pages, end = 0, time.monotonic() + 3
        while time.monotonic() < end:
            line.send(TAKEN, SAID.pack(proof, page, 0, 1, 1))
            proof, page = ASK.unpack(line.await_kind(TAKEOVER)[1])[:2]
            pages += 1
        print("# %d pages in 3 s" % pages)
        done(line, proof, page)
        out, _ = child.communicate(timeout=60)
        assert child.returncode == 0, out
        usable(pairs[1][1], pairs[1][0])
        other.close()
        conns.close()


@claim
def what_is_taken_over_is_charged_to_who_asks():
    """A back-end that lies makes entries of nothing; without memory they are refused, and nobody is killed."""
    def entries(port, most):
        """Claims until one is not granted: the ports that were."""
        where = [(port + i, 80, NOBODY, VIP) for i in range(64)]
        while port + 64 <= most:
            line.send(CLAIM, b"".join(RECORD.pack(0, 4, 0, port + i, *one[1:]) + TAIL.pack(port + i, proof, 1, 0)
                                      for i, one in enumerate(where)))
            for _ in where:
                if ANSWER.unpack(line.await_kind(GRANT)[1])[2] != NONE:
                    return port
                port += 1
        return port

    with Cgroup("memory") as group, Pair(1) as c:
        other = Other(c)
        line = other.meet(c.fe2, "BACKEND", KNOWS)
        with group.member():
            child = begins(c)
        proof, page = asked(line)
        before = group.numbers("memory.stat")["kernel"]
        assert entries(1, 4096) > 4000
        # An entry and its ticket are more than this; the kernel sums up now and then.
        wait(lambda: group.numbers("memory.stat")["kernel"] - before > 4000 * 200, name="they are charged")
        group.write("memory.max", group.number("memory.current") + (256 << 10))
        last = entries(8192, 65535)
        print("# %d entries in 256 KiB" % (last - 8192))
        assert last < 20000 and child.poll() is None
        group.write("memory.max", "max")
        done(line, proof, page)
        assert child.wait(60) is not None
        events = group.numbers("memory.events")
        assert events["max"] and not events["oom_kill"], events
        other.close()


@claim
def node_that_has_no_memory_for_a_moment_is_asked_again():
    with Pair(1) as c:
        other = Other(c)
        line = other.meet(c.fe2, "BACKEND", KNOWS)
        child = begins(c)
        proof, page = asked(line)
        line.send(TAKEN, SAID.pack(proof, page, E["FLT_REFUSE_NOMEM"], 0, 0))
        assert asked(line) == (proof, page)
        assert claims(line, proof, (1, 80, NOBODY, VIP)) == NONE, "it is not asked any more"
        done(line, proof, page)
        out, _ = child.communicate(timeout=60)
        assert child.returncode == 0, out
        other.close()


@claim
def command_that_is_killed_leaves_nothing():
    with handed_off() as (c, conns, _, client, there):
        silent = Other(c)
        silent.meet(c.fe2, "BACKEND", KNOWS)
        before = None
        for how in (signal.SIGKILL, signal.SIGINT):
            child = begins(c)
            proof = before
            while proof == before:              # the one before it may have asked twice
                proof, _ = asked(silent.lines["fe2"])
            before = proof
            status, _, said = c.takeover()
            assert status == 1 and "another command" in said, said
            assert subprocess.run(["rmmod", "handoff"], capture_output=True, check=False).returncode
            child.send_signal(how)
            child.communicate(timeout=60)
            assert child.returncode == -how
        status, _, said = c.takeover("--prepare", node=c.fe2)
        assert status == 0, said
        done_ = subprocess.run(["ip", "netns", "exec", c.fe2.ns, "setpriv", "--reuid", "65534", "--clear-groups",
                                "--bounding-set=-net_admin", "--inh-caps=-all", "flotilla", "takeover", VIP4],
                               capture_output=True, check=False)
        assert done_.returncode == 1 and b"CAP_NET_ADMIN" in done_.stderr, done_.stderr
        usable(there, client)
        # One is under way and its namespace goes; what is prepared goes with the module.
        silent.close()
        conns.dev.close()
        conns.dev = c.client        # closed with the cluster
        conns.dev.close = lambda: None
        run("rmmod", "handoff")
        run("modprobe", "handoff")


if __name__ == "__main__":
    main()
