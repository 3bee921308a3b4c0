#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
# long: both minutes on either kernel
"""Whatever happens while a node is asked to hand connections on, nothing is left of it and the next is done."""
import contextlib
import ctypes
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from chain import NEW, Chain, Other, Wanderer, addresses, at_other           # noqa: E402
from farm import Farm                                       # noqa: E402
from fltnl import Flotilla, NlError                         # noqa: E402
from hof import (DONE, E, PATIENCE, SLOW, VIP4, accept, claim, main, peek, receive, rounds, run, stalled,  # noqa: E402
                 wait)
from cluster import HELLO, hello                            # noqa: E402
from mallory import ACK, HEAD, LIFE, RECORD, Line, unheard  # noqa: E402
from move import FLOTILLA                                   # noqa: E402
from relocate import ASK, OVER, RELOCATE, RELOCATED, SAID, answered, asks, hears  # noqa: E402

KNOWS = NEW | E["FLT_FEATURE_RELOCATE"]
NAMES = E["FLT_NAME_MAX"]


class Given:
    """Connections that fe has given to a node which is a program: their records."""

    def __init__(self, c, number=1, features=KNOWS):
        self.c, self.clients, self.number = c, [], 0
        self.listener, self.device = c.fe.listen(backlog=1024), c.fe.handoff()
        self.other = Other(c)
        self.line = self.other.meet(c.fe, "BACKEND", features)
        self.records = []
        for _ in range(number):
            self.more()

    def more(self):
        client = self.c.client.connect()
        client.sendall(b"GET")
        here = accept(self.listener)
        peek(here, 3)
        self.number += 1
        self.device.submit(here, self.c.fe.id["mallory"], self.number, timeout_ms=60000)
        ident = self.other.takes(self.line)[0]
        while (event := self.device.event())[:2] != (DONE, self.number):
            assert event[1] < self.number, event        # the end of an earlier one
        here.close()
        self.clients.append(client)
        self.records.append(RECORD.pack(ident, 4, 0, *addresses(client)))

    def drains(self, *words):
        return self.c.fe.spawn(FLOTILLA, "-j", "node", "drain", "mallory", "--move", "--to", "be1", *words,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def asked(self, over=False):
        """The next question: run, seq, records. One that is put again has the same numbers."""
        while True:
            _, body = self.line.await_kind(RELOCATE)
            run_id, seq, _, flags, nodes, conns = ASK.unpack_from(body)
            at = ASK.size + nodes * NAMES
            assert len(body) == at + conns * RECORD.size, (len(body), nodes, conns)
            if bool(flags & OVER) == over:
                return run_id, seq, [body[at + i * RECORD.size:at + (i + 1) * RECORD.size] for i in range(conns)]

    def says(self, run_id, seq, begun=0, had=0, busy=0, reasons=(), more=b"", refusal=0, announced=None, moved=0):
        self.line.send(RELOCATED, SAID.pack(run_id, seq, refusal, 1, 1, begun, had, 0, 0, 0, 0, moved, 0, 0, busy, 0,
                                            0, len(reasons) if announced is None else announced, 0) +
                       b"".join(struct.pack("!III", *r) for r in reasons) + more)

    def gone(self):
        """They have ended there."""
        self.line.send(LIFE, b"".join(self.records))
        self.records = []

    def is_done(self):
        """A command from here on ends when none is left."""
        tool = self.drains()
        run_id, seq, named = self.asked()
        assert named == self.records, (named, self.records)
        self.says(run_id, seq, begun=len(named), busy=len(named))
        self.ends(tool)

    def ends(self, tool):
        """All that it asks about is gone from here on."""
        moved = len(self.records)
        self.gone()
        while not select.select([tool.stdout], [], [], 0)[0]:
            kind, body = self.line.frame()
            run_id, seq, _, flags = ASK.unpack_from(body)[:4] if kind == RELOCATE else (0, 0, 0, OVER)
            if not flags & OVER:
                self.says(run_id, seq, moved=moved)
            elif kind == RELOCATE:
                break
        out, err = tool.communicate(timeout=PATIENCE)
        assert tool.returncode == 0, (tool.returncode, out, err)

    def forget(self):
        """Mallory is a node no more."""
        with contextlib.suppress(NlError):
            self.c.fe.nl.do("NODE_DEL", node_name="mallory")
        self.other.lines.pop("fe").sock.close()
        while select.select([self.other.listener], [], [], 0.1)[0]:
            self.other.listener.accept()[0].close()
        self.records = []
        for client in self.clients:
            client.close()
        self.clients = []

    def again(self):
        self.line = self.other.meet(self.c.fe, "BACKEND", KNOWS)
        self.more()

    def close(self):
        for client in self.clients:
            client.close()
        self.listener.close()
        self.device.close()
        self.other.close()


# --- the command, and whatever happens amid it ---

def is_killed(g, tool):
    tool.send_signal(signal.SIGKILL)


def is_stopped(g, tool):
    tool.send_signal(signal.SIGSTOP)
    time.sleep(0.5)
    tool.send_signal(signal.SIGCONT)
    time.sleep(0.5)
    assert tool.poll() is None, tool.communicate()
    tool.send_signal(signal.SIGTERM)


def link_ends(g, tool):
    g.line.sock.close()
    time.sleep(0.3)
    tool.send_signal(signal.SIGTERM)


def node_is_deleted(g, tool):
    g.c.fe.nl.do("NODE_DEL", node_name="mallory")


def target_is_deleted(g, tool):
    g.c.fe.nl.do("NODE_DEL", node_name="be1")
    g.c.list(g.c.fe, g.c.be[0])
    tool.send_signal(signal.SIGINT)


def service_is_deleted(g, tool):
    g.c.fe.nl.do("SERVICE_DEL", service_addr4=VIP4)
    time.sleep(0.3)
    tool.send_signal(signal.SIGTERM)
    tool.wait(PATIENCE)
    g.c.fe.nl.do("SERVICE_NEW", service_addr4=VIP4)


def clients_reset(g, tool):
    for client in g.clients:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    g.gone()
    tool.send_signal(signal.SIGTERM)


EVENTS = (is_killed, is_stopped, link_ends, node_is_deleted, target_is_deleted, service_is_deleted, clients_reset)


@claim
def whatever_happens_amid_a_run_the_next_is_done():
    with Chain(1) as c:
        g = Given(c)
        for event in EVENTS:
            for stage in ("asked", "begun"):
                tool = g.drains()
                run_id, seq, named = g.asked()
                assert named == g.records
                if stage == "begun":
                    g.says(run_id, seq, begun=1, busy=1)
                    g.asked()
                event(g, tool)
                tool.communicate(timeout=PATIENCE)
                g.forget()
                g.again()
                g.is_done()
                g.forget()
                g.again()
                print("# %s, %s" % (event.__name__, stage), flush=True)
        g.close()


@claim
def who_is_interrupted_before_the_first_answer_leaves_no_run_behind():
    """The command was not told its number: four of them, and the fifth would hear that there are too many."""
    with Chain(1) as c:
        g = Given(c)
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            tool = g.drains()
            run_id, _, named = g.asked()
            assert named == g.records
            tool.send_signal(signum)
            assert g.asked(over=True)[0] == run_id
            tool.communicate(timeout=PATIENCE)
            assert tool.returncode in (1, -signal.SIGKILL), tool.returncode
        # Stopped and continued it goes on, by another one.
        tool = g.drains()
        run_id, _, _ = g.asked()
        tool.send_signal(signal.SIGSTOP)
        assert g.asked(over=True)[0] == run_id
        tool.send_signal(signal.SIGCONT)
        other, seq, named = g.asked()
        assert other != run_id and named == g.records
        g.says(other, seq, begun=1, busy=1)
        g.ends(tool)
        g.close()


@claim
def node_that_dies_for_good_ends_the_command():
    """None is left of its connections: there is nothing to wait for."""
    with Chain(1, grace_ms=1000) as c:
        g = Given(c)
        tool = g.drains()
        run_id, seq, _ = g.asked()
        g.says(run_id, seq, begun=1, busy=1)
        g.other.vanish(c.fe)
        wait(lambda: c.fe.nl.node("mallory")["NODE_STATE"] != E["FLT_NODE_UP"])
        out, err = tool.communicate(timeout=PATIENCE)
        assert tool.returncode == 1 and b"none of the connections" in err, (out, err)
        g.other.lines.clear()
        g.close()


@claim
def what_is_just_being_given_to_the_node_is_waited_for():
    """Its dispatcher chose the node before that was drained."""
    with Chain(1) as c:
        g = Given(c, 0)
        client = c.client.connect()
        client.sendall(b"GET")
        here = accept(g.listener)
        peek(here, 3)
        g.device.submit(here, c.fe.id["mallory"], 1, timeout_ms=60000)
        ident = g.other.offered(g.line)[0]
        tool = g.drains()
        run_id, seq, named = g.asked()
        assert not named, named
        g.says(run_id, seq)
        g.asked()
        g.line.send(ACK, HEAD.pack(ident, 0, 0))
        g.other.proof(g.line)
        g.records = [RECORD.pack(ident, 4, 0, *addresses(client))]
        while not named:
            run_id, seq, named = g.asked()
            g.says(run_id, seq, begun=len(named))
        assert named == g.records
        g.ends(tool)
        client.close()
        here.close()
        g.close()


@claim
def older_node_hears_nothing_that_it_does_not_know():
    """It would take that for a fault of the link."""
    with Chain(1) as c:
        g = Given(c, 0, features=NEW)
        assert g.drains().wait(PATIENCE) == 1
        time.sleep(0.5)
        g.line.sock.settimeout(1)
        with contextlib.suppress(TimeoutError):
            while True:
                kind, _ = g.line.frame()
                assert kind not in (RELOCATE, RELOCATED), kind
        g.close()


# --- a node gone bad ---

@claim
def node_that_answers_anything_gets_nothing_but_its_own_command():
    dice = random.Random(3)
    with Chain(1) as c:
        g = Given(c)
        # Lengths that are not.
        for odd in ({"more": b"x"}, {"announced": 1}, {"announced": 0xffffffff}, {"more": bytes(11)},
                    {"reasons": [(1, 1, 1)] * 3, "announced": 2}):
            tool = g.drains()
            run_id, seq, named = g.asked()
            g.says(run_id, seq, begun=len(named), busy=len(named))
            run_id, seq, _ = g.asked()
            g.says(run_id, seq, **odd)
            wait(lambda: c.fe.nl.node("mallory")["NODE_STATE"] != E["FLT_NODE_UP"])
            g.line.sock.close()
            g.line = g.other.greet(c.fe, features=KNOWS)
            run_id, seq, _ = g.asked()
            assert tool.poll() is None, tool.communicate()
            tool.kill()
            tool.communicate()
        # What is not asked for, and nonsense.
        tool = g.drains()
        for _ in range(rounds(40, 10)):
            run_id, seq, _ = g.asked()
            for _ in range(50):
                g.says(run_id ^ dice.getrandbits(64), seq + dice.choice((1, 1 << 31)) & 0xffffffff,
                       begun=dice.getrandbits(32))
            g.says(run_id, seq, begun=0xffffffff, had=0xffffffff, busy=0xffffffff, moved=(1 << 64) - 1,
                   refusal=dice.choice((0, 72, 255, 0xffffffff)),
                   reasons=[(dice.getrandbits(32) >> dice.randrange(33), 0xffffffff, 1) for _ in range(300)])
            g.says(run_id, seq, refusal=0xffff)
        tool.send_signal(signal.SIGTERM)
        out, err = tool.communicate(timeout=PATIENCE)
        assert tool.returncode == 1, (out, err)
        g.forget()
        g.again()
        g.is_done()
        g.close()


@claim
def two_commands_at_once_have_each_connection_moved_once():
    with Farm(backends=3) as f:
        number = f.loaded(6)
        quiet = f.clients_of(4)
        for kept in quiet:
            kept.exchange()
        words = (FLOTILLA, "-j", "node", "drain", "be1", "--move", "--now", "--to")
        tools = [f.fe.spawn(*words, to, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                 for to in ("be2", "be3", "be2,be3")]
        tools.append(f.command("--idle", "1000", to="be3"))
        said = [tool.communicate(timeout=4 * PATIENCE) for tool in tools]
        print("# %s" % (said,))
        assert f.has(f.be[0]) == 0
        for kept in quiet:
            kept.exchange(6)
        moved = f.be[0].stat("HandoffDrained")
        assert moved == number + 4, moved


# --- a front-end gone bad ---

@claim
def who_names_what_is_just_being_given_finds_nothing():
    """The socket is in TCP's table before it is known whose it is."""
    with Chain(1) as c:
        mallory, other = Other(c), Other(c, "other", 10)
        for one in (mallory, other):
            one.meet(c.fe, "BACKEND", NEW)
            one.meet(c.be[0])
        w = Wanderer(c)
        _, _, wire, _ = at_other(c, w, mallory)
        record = RECORD.pack(mallory.serial + 1, 4, 0, *addresses(w.client))
        asks(other.lines["be1"], 5, names=(b"fe",))
        hears(other.lines["be1"], 5)
        with stalled("flt_layer_add", 2 * SLOW, after=True) as hits:
            number = mallory.says(mallory.lines["be1"], wire)
            wait(lambda: hits() == 1)
            for seq in range(2, 6):
                asks(other.lines["be1"], 5, seq, names=(b"fe",), records=record * 64)
                assert hears(other.lines["be1"], 5, seq)["absent"] == 64
        mallory.commits(mallory.lines["be1"], number)
        w.arrives(c.be[0])
        for one in (w, mallory, other):
            one.close()


@claim
def front_end_gone_bad_may_ask_without_end():
    """Thousands of questions, of runs that begin and end, answered or not: others are served, and nothing piles up."""
    dice = random.Random(5)
    with Farm() as f:
        f.loaded(3)
        other = Other(f)
        line = other.meet(f.be[0])
        with unheard(line):
            begin, took = time.monotonic(), []
            for turn in range(rounds(4000, 1000)):
                record = RECORD.pack(dice.getrandbits(64), dice.choice((4, 6, 0, 65535)), 0, dice.getrandbits(16), 80,
                                     dice.randbytes(16), socket.inet_aton(VIP4).ljust(16, b"\0"))
                asks(line, dice.randrange(1, 30), turn, names=(b"be2",) * dice.randrange(1, 17),
                     records=record * dice.choice((0, 1, 64)), flags=dice.choice((0, 0, OVER)))
                if not turn % 200:
                    at = time.monotonic()
                    f.clients_of(1)[0].exchange()
                    took.append(time.monotonic() - at)
            print("# %.1f s for the questions; an exchange beside them took %.3f s at most" %
                  (time.monotonic() - begin, max(took)), flush=True)
            tool = f.fe.spawn(FLOTILLA, "-j", "node", "drain", "be1", "--move", "--idle", str(1000 * SLOW),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for turn in range(rounds(4000, 1000)):
                if tool.poll() is not None:
                    break
                asks(line, dice.randrange(1, 30), turn, flags=dice.choice((0, 0, OVER)))
            out, err = tool.communicate(timeout=4 * PATIENCE)
            print("# %s %s" % (out, err), flush=True)
            assert tool.returncode == 0 and f.has(f.be[0]) == 0
            f.check()
        other.close()


@claim
def what_a_front_end_has_ended_counts_until_it_is_gone():
    """Or one of them would have all that the machine has, and others would hear that there is too much."""
    with Chain(1) as c:
        mallory, other = Other(c), Other(c, "other", 10)
        line, line2 = (one.meet(c.be[0]) for one in (mallory, other))
        with stalled("hof_move_end", 5 * SLOW) as hits:
            for number in range(1, 5):
                asks(line, number, names=(b"fe",))
                assert hears(line, number)["refusal"] == 0
                asks(line, number, flags=OVER)
            wait(lambda: hits() == 4)
            for number in range(5, 25):
                asks(line, number, names=(b"fe",))
                asks(line, number, flags=OVER)
            asks(line2, 1, names=(b"fe",))
            assert hears(line2, 1)["refusal"] == 0
            assert hits() == 4, hits()
            assert answered(line, 30, names=(b"fe",))["refusal"] == 0
        for one in (mallory, other):
            one.close()


@claim
def who_asks_and_names_nothing_costs_no_threads():
    with Chain(1) as c:
        mallory = Other(c)
        line = mallory.meet(c.be[0])
        with stalled("alloc_workqueue", 0) as hits:
            for number in range(1, 41):
                record = RECORD.pack(number, 4, 0, 1, 80, bytes(16), bytes(16))
                assert answered(line, number, names=(b"fe",), records=record)["absent"] == 1
                asks(line, number, flags=OVER)
            assert not hits(), hits()
        mallory.close()


@claim
def namespace_goes_at_each_stage():
    """Of the node that hands on: while it is only asked, while a connection waits, and while a node's answer does."""
    for stage in ("asked", "begun", "given"):
        c = Chain(1)
        asker, taker = Other(c), Other(c, "other", 10)
        asker.meet(c.fe, "BACKEND", NEW)
        line, other = asker.meet(c.be[0]), taker.meet(c.be[0], "BACKEND")
        w = Wanderer(c)
        wire = at_other(c, w, asker)[2]
        number = asker.offers(line, wire)
        asker.commits(line, number)
        w.arrives(c.be[0])
        if stage == "begun":
            assert receive(w.sock, 3) == b"GET"
        asks(line, 5, names=(b"other",),
             records=b"" if stage == "asked" else RECORD.pack(number, 4, 0, *addresses(w.client)))
        assert hears(line, 5)["begun"] == (stage != "asked")
        if stage == "given":
            taker.offered(other)
        c.net.delete(c.be[0].ns)
        time.sleep(0.5)
        for one in (w, asker, taker):
            one.close()
        c.close()
        print("# %s" % stage, flush=True)
    wait(lambda: not subprocess.run(("rmmod", "handoff"), capture_output=True, check=False).returncode)
    run("modprobe", "handoff")


def in_container(pipe):
    """Root of a user namespace, of whose nodes five ask for four runs each: says how many there are, and waits."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert not libc.unshare(0x10000000 | 0x40000000)            # CLONE_NEWUSER, CLONE_NEWNET
    with open("/proc/self/uid_map", "w", encoding="ascii") as file:
        file.write("0 0 1")
    lines = ["link set lo up"] + ["addr add 10.8.0.%d/24 dev lo" % n for n in (1, *range(10, 15))]
    subprocess.run(("ip", "-batch", "-"), check=True, input="\n".join(lines).encode())
    nl, lines = Flotilla(), []
    nl.do("LOCAL_SET", local_name="inner", local_addr4="10.8.0.1", local_insecure=1)
    nl.do("NODE_NEW", node_name="be2", node_addr4="10.8.0.200")
    for number in range(10, 15):
        with socket.create_server(("10.8.0.%d" % number, E["FLT_LINK_PORT"])) as listener:
            name = "m%d" % number
            nl.do("NODE_NEW", node_name=name, node_addr4="10.8.0.%d" % number, node_role=E["FLT_ROLE_FRONTEND"])
            lines.append(Line(listener.accept()[0]))
        lines[-1].await_kind(HELLO)
        lines[-1].send(HELLO, hello(name, instance=1, heartbeat=60000) + struct.pack("!Q", NEW))
        wait(lambda name=name: nl.node(name)["NODE_STATE"] == E["FLT_NODE_UP"])
    got = 0
    for line in lines:
        for number in range(4):
            asks(line, number + 1)
            got += hears(line, number + 1)["refusal"] == 0
    os.write(pipe, bytes([got]))
    time.sleep(4)


@claim
def container_that_uses_up_its_runs_leaves_the_machine_its_own():
    with Chain(1) as c:
        other = Other(c)
        line = other.meet(c.be[0])
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            with contextlib.suppress(BaseException):
                in_container(writer)
            os._exit(0)
        os.close(writer)
        assert os.read(reader, 1) == bytes([16]), "runs of a container"
        asks(line, 1, names=(b"fe",))
        assert hears(line, 1)["refusal"] == 0
        os.waitpid(child, 0)
        os.close(reader)
        other.close()


if __name__ == "__main__":
    main()
