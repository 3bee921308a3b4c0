#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 1200
# long: both minutes on either kernel
"""flotilla rebalance: connections leave nodes that have too many until each has about its share."""
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import E, PATIENCE, SLOW, VIP4, accept, claim, main, peek, wait     # noqa: E402
from chain import NEW, Chain, Other, Wanderer, at_other  # noqa: E402
from farm import Farm, large                            # noqa: E402
from move import FLOTILLA                               # noqa: E402
from relocate import ASK, FIELDS, RELOCATE, RELOCATED, SAID   # noqa: E402
from servers import SIZES                               # noqa: E402

LONG = ("--wait", str(120 * SLOW))
NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")


def tool(f, *words, at=None, as_whom=()):
    return subprocess.Popen(("ip", "netns", "exec", (at or f.fe).ns) + as_whom + (FLOTILLA, "-j", "rebalance") + words,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ends(ran, check=0):
    """Its result, None for none; and what it said."""
    out, err = ran.communicate(timeout=4 * PATIENCE)
    assert ran.returncode == check, (ran.returncode, out, err)
    print("# %s %s" % (out.strip(), err.strip()), flush=True)
    return json.loads(out) if out else None, err


def rebalance(f, *words, check=0, **more):
    return ends(tool(f, *words, **more), check)


class Crowd(threading.Thread):
    """Each of these has an answer in its turn, again and again."""

    def __init__(self, kept):
        super().__init__(daemon=True)
        self.kept, self.ends, self.error, self.turns = kept, False, None, 0
        self.start()

    def run(self):
        try:
            while not self.ends:
                for kept in self.kept:
                    kept.exchange()
                self.turns += 1
        except Exception as error:              # pylint: disable=broad-except
            self.error = error

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """After a whole turn more, so that each works where it is now."""
        goal = self.turns + 2
        end = time.monotonic() + 2 * PATIENCE
        while not self.error and self.turns < goal and time.monotonic() < end:
            time.sleep(0.05)
        self.ends = True
        self.join(PATIENCE)
        assert not self.error and self.turns >= goal, (self.turns, repr(self.error))


def came(f, number):
    """So many connections, which are all at be1; each has had an answer."""
    made = f.clients_of(number)
    for kept in made:
        kept.exchange()
    assert f.has(f.be[0]) == number
    return made


def have(f):
    """By the servers; and the front-end forwards as many there, nobody else any."""
    has = [f.has(be) for be in f.be]
    want = sorted(be.name for be, number in zip(f.be, has) for _ in range(number))
    wait(lambda: sorted(f.forwards(f.fe)) == want)
    assert not any(f.forwards(be) for be in f.be)
    return has


def of(result, name):
    return next(node for node in result["nodes"] if node["node"] == name)


def asked(f):
    return sum(be.stat("RelocateAsked") for be in f.be)


@claim
def sixty_connections_at_one_node_become_twenty_at_each():
    with Farm(backends=3) as f:
        made = came(f, 60)
        names = [kept.sock.getsockname() for kept in made]
        with Crowd(made):
            result, err = rebalance(f, *LONG)
            assert not err and result["balanced"] and result["moved"] == 40, result
        has = have(f)
        assert sum(has) == 60 and all(18 <= number <= 22 for number in has), has
        assert [of(result, be.name)["after"] for be in f.be] == has
        assert f.be[0].stat("HandoffDrained") == 40
        assert names == [kept.sock.getsockname() for kept in made] and all(kept.done > 2 for kept in made)
        step = result["steps"][0]
        assert step["since"] == "be1 has 60 of a fair share 20 (+-10%)" and step["moved"] == step["planned"] == 20, step
        before = asked(f)
        result, _ = rebalance(f)
        assert result["balanced"] and not result["moved"] and not result["steps"] and asked(f) == before, result


@claim
def weights_are_respected_and_a_dry_run_changes_nothing():
    with Farm(backends=3) as f:
        made = came(f, 24)
        f.fe.nl.do("NODE_SET", node_name="be3", node_weight=200)
        result, _ = rebalance(f, "--dry-run", "--by", "connections")
        assert [(s["to"], s["planned"], s["moved"]) for s in result["steps"]] == [("be2", 6, 0), ("be3", 12, 0)], result
        assert [node["after"] for node in result["nodes"]] == [6, 6, 12] and not result["moved"]
        assert have(f) == [24, 0, 0] and not asked(f)
        with Crowd(made):
            result, _ = rebalance(f, "--within", "0", *LONG)
        assert result["balanced"] and have(f) == [6, 6, 12], result


@claim
def who_is_drained_or_has_no_weight_is_left_out():
    with Farm(backends=3) as f:
        made = came(f, 8)
        f.fe.nl.do("NODE_SET", node_name="be3", node_admin=E["FLT_ADMIN_DRAIN"])
        with Crowd(made):
            result, _ = rebalance(f, *LONG)
            assert have(f) == [4, 4, 0] and result["balanced"], result
            assert of(result, "be3")["left_out"] == "it is drained (admin drain)"
            f.fe.nl.do("NODE_SET", node_name="be3", node_admin=E["FLT_ADMIN_ACTIVE"])
            f.fe.nl.do("NODE_SET", node_name="be2", node_weight=0)
            result, _ = rebalance(f, *LONG)
            assert have(f) == [2, 4, 2] and of(result, "be2")["left_out"] == "its weight is 0", result


@claim
def who_refuses_is_named_and_the_others_are_balanced():
    with Farm(backends=3, serving=2) as f:
        made = came(f, 12)
        f.be[0].sysctl("net.flotilla.relocate", 0)
        result, err = rebalance(f, *LONG, check=1)
        assert "be1 has 12 of a fair share 4 (+-10%): it is told not to (net.flotilla.relocate)" in err, err
        assert not result["moved"] and have(f) == [12, 0, 0]
        f.be[0].sysctl("net.flotilla.relocate", 1)
        with Crowd(made):
            result, err = rebalance(f, *LONG, check=1)
        assert "be3 has 0 of a fair share 4" in err and "nobody listens there" in err, err
        assert have(f) == [6, 6, 0] and "nobody listens" in of(result, "be3")["left_out"], result
        f.be[0].nl.do("NODE_DEL", node_name="be3")
        f.serve(f.be[2])
        with Crowd(made):
            result, err = rebalance(f, *LONG, check=1)
        # be2 gives to it, since be1 cannot; and does not get as many from be1 then.
        assert have(f) == [6, 4, 2] and "be3 has 2 of a fair share 4" in err, (result, err)
        step = next(step for step in result["steps"] if (step["from"], step["to"]) == ("be1", "be3"))
        assert step["barred"] == "the node that has them does not know it" and not step["moved"], result


@claim
def link_that_is_cut_amid_it_costs_no_request():
    """That between the two nodes; and that of the front-end."""
    with Farm(backends=3) as f:
        made = came(f, 30)
        f.heartbeat(60000 // SLOW)

        def some_move():
            for kept in made:
                kept.exchange()
                if f.be[0].stat("HandoffDrained") >= 2:
                    return True
            return False
        with tool(f, *LONG) as ran:
            wait(lambda: f.be[0].stat("RelocateBegun") >= 10)
            wait(some_move)
            f.cut(f.be[0], f.be[2])
            with Crowd(made):
                result, err = ends(ran, 1)
        assert "be3 has" in err and of(result, "be3")["left_out"] and of(result, "be2")["got"] >= 9, (result, err)
        f.mend(f.be[0])
        with Crowd(made):
            begin = time.monotonic()
            f.cut(f.fe, f.be[0])
            result, err = rebalance(f, *LONG, check=1)
            assert of(result, "be1")["left_out"] == "it does not answer", (result, err)
            assert time.monotonic() - begin < 60 * SLOW
            f.mend(f.fe)
            assert sum(f.has(be) for be in f.be) == 30


@claim
def busy_ones_stay_until_they_are_between_requests():
    with Farm() as f:
        downloads = [large(f) for _ in range(2)]
        assert f.has(f.be[0]) == 2
        with tool(f, *LONG) as ran:
            wait(lambda: f.be[0].stat("RelocateBegun"))
            time.sleep(5)
            assert f.has(f.be[0]) == 2 and not f.be[0].stat("HandoffDrained") and ran.poll() is None
            for one in downloads:
                one.on.set()
            for one in downloads:
                one.join(PATIENCE)
                assert not one.error and one.right, repr(one.error)
            with open(os.path.join(f.site.root, "f6"), "rb") as file:
                want = hashlib.sha256(file.read()).digest()
            while ran.poll() is None:
                for one in downloads:
                    assert one.get(b"/0/f6", SIZES[6]) == want
            result, _ = ends(ran)
        assert result["moved"] == 1 and have(f) == [1, 1], result
        for one in downloads:
            one.sock.close()


@claim
def interrupt_ends_it_and_what_has_moved_is_said():
    """Meanwhile a second one is told so; another namespace's is not in the way."""
    with Farm(backends=3) as f:
        made = came(f, 9)
        f.be[2].nl.do("NODE_SET", node_name="be2", node_role=E["FLT_ROLE_BACKEND"])
        with tool(f, *LONG) as ran:
            wait(lambda: f.be[0].stat("RelocateBegun") >= 4)
            _, err = rebalance(f, check=1)
            assert "another one is at it just now" in err, err
            result, _ = rebalance(f, at=f.be[2])
            assert result["balanced"] and not result["moved"]

            def one_moves():
                for kept in made:
                    kept.exchange()
                    if f.be[0].stat("HandoffDrained"):
                        return True
                return False
            wait(one_moves)
            ran.send_signal(signal.SIGINT)
            result, err = ends(ran, 1)
        moved = f.be[0].stat("HandoffDrained")
        assert result["interrupted"] and result["moved"] == moved and 1 <= moved < 6, (result, moved)
        assert "interrupted" in err, err
        for _ in range(3):
            for kept in made:
                kept.exchange()
        assert have(f)[0] == 9 - moved and f.be[0].stat("HandoffDrained") == moved


@claim
def still_ones_move_when_that_is_asked_for_and_no_more_than_max():
    with Farm() as f:
        made = came(f, 8)
        result, err = rebalance(f, "--wait", "6", check=1)
        assert not result["moved"] and "no request that they could move with" in err, err
        result, err = rebalance(f, "--idle", "500", "--max", "2", *LONG, check=1)
        assert result["moved"] == 2 and "(--max)" in err and have(f) == [6, 2], (result, err)
        result, _ = rebalance(f, "--idle", "500", "--service", "%s:81" % VIP4, *LONG)
        assert not result["moved"] and of(result, "be1")["before"] == 0, result
        result, _ = rebalance(f, "--idle", "500", "--service", "%s:80" % VIP4, *LONG)
        assert result["moved"] == 2 and have(f) == [4, 4], result
        for kept in made:
            kept.exchange(6)


@claim
def by_load_the_busy_ones_move():
    with Farm() as f:
        still = came(f, 4)
        busy = f.clients_of(4)
        with Crowd(busy):
            result, _ = rebalance(f, "--by", "load", "--within", "60", *LONG)
            assert 1 <= result["moved"] <= 3 and result["balanced"], result
        wait(lambda: sorted(f.forwards(f.fe)) == ["be1"] * (8 - result["moved"]) + ["be2"] * result["moved"])
        before = f.be[0].stat("ForwardPackets"), f.has(f.be[0])
        for kept in still:
            kept.exchange()
        assert (f.be[0].stat("ForwardPackets"), f.has(f.be[0])) == before


def answers(line, over, said, pause=0, heard=None):
    """The program says so to all that it is asked, after a pause, until it is over; what is left out is 0."""
    line.sock.settimeout(0.5)
    while not over.is_set():
        try:
            body = line.await_kind(RELOCATE)[1]
        except (TimeoutError, AssertionError):
            continue
        run, seq = ASK.unpack_from(body)[:2]
        if heard is not None:
            if seq in heard:
                continue        # put again meanwhile
            heard.add(seq)
        over.wait(pause)
        values = {"run": run, "seq": seq, "known": 1, "up": 1, **said}
        line.send(RELOCATED, SAID.pack(*(values.get(field, 0) for field in FIELDS)))


@claim
def node_that_is_silent_or_lies_is_not_waited_for_nor_believed():
    """Of two connections, which it has, one should move to be1."""
    with Chain(1) as c:
        other = Other(c)
        line = other.meet(c.fe, "BACKEND", NEW | E["FLT_FEATURE_RELOCATE"])
        w = Wanderer(c)
        at_other(c, w, other)
        first = w.client, w.sock
        w.client = c.client.connect()
        w.client.sendall(b"GET")
        w.sock = accept(w.listeners["fe"])
        peek(w.sock, 3)
        at_other(c, w, other)
        assert c.forwards(c.fe) == ["mallory"] * 2
        begin = time.monotonic()
        _, err = rebalance(c, "--wait", "60", check=1)
        assert "mallory has 2 of a fair share 1 (+-10%): it does not answer" in err, err
        assert time.monotonic() - begin < 30 * SLOW
        most = (1 << 32) - 1
        for said, sentence, moved in (({"begun": 1, "moved": (1 << 64) - 1}, "forwarded to the node that had", 1),
                                      ({"begun": most, "moved": 1, "ended": (1 << 64) - 1, "stuck": most}, "", 1),
                                      ({"begun": 1}, "neither moves nor stays under way", 0),
                                      ({"absent": 1}, "", 0), ({"absent": most, "through": most}, "", 0),
                                      ({"fixed": most}, "cannot move", 0), ({"refusal": most}, "it refuses", 0)):
            over = threading.Event()
            program = threading.Thread(target=answers, args=(line, over, said), daemon=True)
            program.start()
            begin = time.monotonic()
            result, err = rebalance(c, "--wait", "60", check=1)
            over.set()
            program.join(PATIENCE)
            assert "of a fair share 1 (+-10%)" in err and sentence in err, (said, err)
            assert result["moved"] <= moved and result["rounds"] <= 6, (said, result)
            assert time.monotonic() - begin < 30 * SLOW, said
        assert c.forwards(c.fe) == ["mallory"] * 2
        for one in (*first, w, other):
            one.close()


@claim
def node_whose_answers_take_their_time_does_not_put_off_the_end():
    """Twelve should move, and each question takes most of a second: three seconds are for no more than four."""
    with Chain(1) as c:
        other = Other(c)
        line = other.meet(c.fe, "BACKEND", NEW | E["FLT_FEATURE_RELOCATE"])
        w, kept = Wanderer(c), []
        for number in range(24):
            if number:
                w.client = c.client.connect()
                w.client.sendall(b"GET")
                w.sock = accept(w.listeners["fe"])
                peek(w.sock, 3)
            at_other(c, w, other)
            kept += [w.client, w.sock]
        over, heard = threading.Event(), set()
        program = threading.Thread(target=answers, daemon=True,
                                   args=(line, over, {"begun": 1, "busy": 1}, 0.9, heard))
        program.start()
        _, err = rebalance(c, "--wait", "3", check=1)
        over.set()
        program.join(PATIENCE)
        assert "mallory has 24 of a fair share 12" in err and 2 <= len(heard) <= 5, (err, len(heard))
        for one in (*kept, w, other):
            one.close()


@claim
def nobody_may_not_and_nothing_to_do_is_well():
    with Farm() as f:
        result, _ = rebalance(f)
        assert result["balanced"] and not result["rounds"], result
        made = came(f, 4)
        for words in ((), ("--dry-run",)):
            result, err = rebalance(f, *words, as_whom=NOBODY, check=1)
            assert result is None and err.startswith("flotilla: cannot rebalance: ") and err.count("\n") == 1, err
        assert not asked(f) and have(f) == [4, 0]
        for kept in made:
            kept.exchange()


if __name__ == "__main__":
    main()
