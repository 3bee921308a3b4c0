#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 1200
# long: both minutes on either kernel
"""flotilla node drain --move, flotilla conn move: the front-end has a node hand on what it gave to it."""
import contextlib
import errno
import hashlib
import json
import os
import subprocess
import sys
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import E, PATIENCE, SLOW, claim, main, receive, run, wait   # noqa: E402
from chain import NEW, Chain, Other, Wanderer, addresses, at_other, from_other      # noqa: E402
from farm import Farm, large                            # noqa: E402
from mallory import RECORD                              # noqa: E402
from move import FLOTILLA                               # noqa: E402
from relocate import OVER, answered, asks, hears, relocate       # noqa: E402
from servers import SIZES                               # noqa: E402


def front(f, *words, **more):
    """A command of the front-end."""
    return subprocess.Popen(("ip", "netns", "exec", f.fe.ns, FLOTILLA, "-j") + words, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def ends(tool, check=0):
    """Its result, None for none; and what it said."""
    out, err = tool.communicate(timeout=4 * PATIENCE)
    assert tool.returncode == check, (tool.returncode, out, err)
    return json.loads(out) if out else None, err


def drain(f, *words, check=0):
    result, err = ends(front(f, "node", "drain", "be1", "--move", *words), check)
    print("# %s" % result, flush=True)
    return result, err


def name_of(kept):
    return "%s:%d" % kept.sock.getsockname()[:2]


@claim
def idle_connection_goes_where_the_front_end_says():
    with Farm(backends=3) as f:
        one, other = f.clients_of(2)
        for kept in f.kept:
            kept.exchange()
        assert f.has(f.be[0]) == 2
        result, _ = ends(front(f, "conn", "move", name_of(one), "node", "be3", "--now"))
        assert result["moved"] == 1 and not result["left"], result
        assert [f.has(be) for be in f.be] == [1, 0, 1]
        wait(lambda: sorted(f.forwards(f.fe)) == ["be1", "be3"])
        before = f.be[0].stat("ForwardPackets")
        for kept in (one, other, one):
            kept.exchange(6)
        assert f.be[0].stat("ForwardPackets") == before, "packets still come by be1"
        assert other.done == 2 and one.done == 3


@claim
def connection_in_use_goes_with_a_request():
    with Farm() as f:
        one, = f.clients_of(1)
        one.exchange()
        with front(f, "conn", "move", name_of(one), "node", "be2") as tool:
            wait(lambda: f.be[0].stat("RelocateBegun"))
            while f.has(f.be[0]):
                one.exchange()
            assert ends(tool)[0]["moved"] == 1
        assert f.has(f.be[1]) == 1 and one.done <= 4
        one.exchange()


# A machine that is so slow pauses for a second in the middle of an answer, which is then as good as over.
NOW = ("--now",) if SLOW == 1 else ("--idle", str(10000 * SLOW))


@claim
def node_is_emptied_under_load_and_no_request_fails():
    """Busy ones, idle ones, and a download of which half is sent: it follows when it is over."""
    with Farm(backends=3) as f:
        number = f.loaded(6)
        quiet = f.clients_of(2)
        for kept in quiet:
            kept.exchange()
        busy, f.kept = f.kept[:number], f.kept[:number]
        download = large(f)
        assert f.has(f.be[0]) == number + 3
        with front(f, "node", "drain", "be1", "--move", "--to", "be2,be3", *NOW) as tool:
            wait(lambda: f.has(f.be[0]) == 1 or any(k.error for k in busy) or tool.poll() is not None)
            f.check()
            assert tool.poll() is None and f.has(f.be[0]) == 1, "the answer under way has not been waited for"
            assert f.fe.nl.node("be1")["NODE_ADMIN"] == E["FLT_ADMIN_DRAIN"]
            download.on.set()
            result, _ = ends(tool)
        print("# %s" % result)
        assert result["moved"] == number + 3 and not result["left"] and not result["ended"], result
        assert f.has(f.be[0]) == 0 and all(f.has(be) for be in f.be[1:])
        download.join(PATIENCE)
        assert not download.error and download.right, repr(download.error)
        f.server["be1"].terminate()
        f.server["be1"].wait()
        f.more(5)
        for kept in quiet:
            kept.exchange(6)
        with open(os.path.join(f.site.root, "f6"), "rb") as file:
            assert download.get(b"/0/f6", SIZES[6]) == hashlib.sha256(file.read()).digest()
        assert not f.forwards(f.be[0]) and "be1" not in f.forwards(f.fe)
        f.kept += quiet
        download.sock.close()


@claim
def dry_run_changes_nothing_and_without_move_it_gets_nothing_new():
    with Farm() as f:
        one, = f.clients_of(1)
        one.exchange()
        result, _ = drain(f, "--dry-run")
        assert result == {"node": "be1", "to": ["be2"], "connections": 1}, result
        assert f.fe.nl.node("be1")["NODE_ADMIN"] == E["FLT_ADMIN_ACTIVE"] and not f.be[0].stat("RelocateAsked")
        assert ends(front(f, "node", "drain", "be1")) == (None, "")
        assert f.fe.nl.node("be1")["NODE_ADMIN"] == E["FLT_ADMIN_DRAIN"] and f.has(f.be[0]) == 1


@claim
def who_may_not_ask_hears_why():
    with Farm() as f:
        one, = f.clients_of(1)
        one.exchange()

        def refused(sentence):
            result, err = drain(f, "--wait", "20", check=1)
            assert sentence in err and (not result or not result["moved"]), (result, err)
            assert f.fe.nl.node("be1")["NODE_ADMIN"] == E["FLT_ADMIN_DRAIN"]
        f.be[0].nl.do("NODE_SET", node_name="fe", node_role=E["FLT_ROLE_BACKEND"])
        refused("no front-end there")
        f.be[0].nl.do("NODE_SET", node_name="fe", node_role=E["FLT_ROLE_FRONTEND"])
        f.be[0].sysctl("net.flotilla.relocate", 0)
        refused("it is told not to")
        f.be[0].sysctl("net.flotilla.relocate", 1)
        for node in (f.be[0], f.fe):
            node.nl.do("LOCAL_SET", local_insecure=0)
            refused("not authenticated")
            node.nl.do("LOCAL_SET", local_insecure=1)
        f.be[0].nl.do("NODE_DEL", node_name="be2")
        refused("knows none of the nodes")
        assert f.be[0].stat("RelocateBegun") == 0
        one.exchange()
        for words, sentence in ((("be9", "--move"), "there is no node be9"),
                                (("be1", "--move", "--to", "be1"), "itself cannot get them"),
                                (("be1", "--move", "--to", "be8"), "there is no node be8")):
            assert sentence in ends(front(f, "node", "drain", *words), 1)[1]
        for words, sentence in (((name_of(one), "node", "be1"), "has it already"),
                                (("10.9.0.1:9", "node", "be2"), "there is no such connection")):
            assert sentence in ends(front(f, "conn", "move", *words), 1)[1]


@claim
def older_node_is_not_asked_and_says_so():
    with Chain(1) as c:
        old = Other(c)
        old.meet(c.fe, "BACKEND", NEW)
        words = ("node", "drain", "mallory", "--move", "--to", "be1")
        _, err = ends(front(c, *words), 1)
        assert "its version is too old" in err, err
        assert c.fe.nl.node("mallory")["NODE_ADMIN"] == E["FLT_ADMIN_DRAIN"]
        old.close()


@claim
def nodes_that_take_none_are_named():
    with Farm(serving=1) as f:
        number = f.loaded(3)
        result, _ = drain(f, "--wait", str(4 * SLOW), check=1)
        assert not result["moved"] and result["left"] == number and result["put_off"]["nolistener"], result
        with f.be[1].listen(backlog=1) as full:
            waiting = [f.be[1].connect() for _ in range(2)]
            result, _ = drain(f, "--wait", str(4 * SLOW), check=1)
            assert not result["moved"] and result["put_off"]["full"], result
            assert full.fileno() >= 0
        for sock in waiting:
            sock.close()
        f.be[1].nl.do("NODE_SET", node_name="be1", node_role=E["FLT_ROLE_BACKEND"])
        result, _ = drain(f, check=1)
        assert result["stuck_by"] == {"role": number}, result
        f.be[1].nl.do("NODE_SET", node_name="be1", node_role=E["FLT_ROLE_FRONTEND"])
        f.more()
        assert f.has(f.be[0]) == number
        f.serve(f.be[1])
        assert drain(f, "--wait", str(60 * SLOW))[0]["moved"] == number
        f.more()


@claim
def node_that_dies_amid_it_costs_no_request_and_another_gets_them():
    """It has been asked, and its answer does not come."""
    with Farm(backends=3) as f:
        number = f.loaded(4)
        f.heartbeat(60000 // SLOW)
        f.cut(f.be[0], f.be[1])
        result, _ = drain(f, "--to", "be2,be3", "--wait", str(100 * SLOW))
        assert result["moved"] == number and f.has(f.be[2]) == number, result
        assert f.be[0].stat("HandoffRefusedTimeout"), "it was not asked"
        f.more()


@claim
def front_end_that_asks_no_more_is_forgotten_and_the_rest_stays():
    with Farm() as f:
        quiet = f.clients_of(3)
        for kept in quiet:
            kept.exchange()
        with front(f, "node", "drain", "be1", "--move") as tool:
            wait(lambda: f.be[0].stat("RelocateBegun") == 3)
            tool.kill()
            tool.communicate()
        time.sleep(8)
        for kept in quiet:
            for _ in range(3):
                kept.exchange()
        assert f.has(f.be[0]) == 3 and f.be[0].stat("HandoffDrained") == 0


@claim
def module_can_go_amid_it():
    with Farm() as f:
        f.loaded(3)
        with front(f, "node", "drain", "be1", "--move", "--idle", "60000") as tool:
            wait(lambda: f.be[0].stat("RelocateBegun"))
            tool.kill()
            tool.communicate()
        for kept in f.kept:
            kept.ends = True
        f.site.stop()
        begin = time.monotonic()
        run("rmmod", "handoff")
        assert time.monotonic() - begin < 10 * SLOW
        while f.kept:
            f.kept.pop().close()
    run("modprobe", "handoff")


@claim
def only_the_giver_of_a_connection_has_it_moved():
    with Chain() as c:
        mallory, other = Other(c), Other(c, "other", 10)
        for one in (mallory, other):
            one.meet(c.fe, "BACKEND", NEW)
            one.meet(c.be[0])
        w = Wanderer(c)
        number = from_other(c, w, mallory)
        assert receive(w.sock, 3) == b"GET"        # so that it has to wait for an answer
        record = RECORD.pack(number, 4, 0, *addresses(w.client))
        line = other.lines["be1"]
        asks(line, 5, records=record)
        said = hears(line, 5)
        assert said["absent"] == 1 and not said["begun"] and said["known"] == 1, said
        asks(line, 5, 2, records=RECORD.pack(number + 1, 4, 0, *addresses(w.client)))
        assert hears(line, 5, 2)["absent"] == 1
        line = mallory.lines["be1"]
        asks(line, 5, records=RECORD.pack(number + 1, 4, 0, *addresses(w.client)))
        assert hears(line, 5)["absent"] == 1
        asks(line, 5, 2, records=record)
        said = hears(line, 5, 2)
        assert said["begun"] == 1 and not said["absent"], said
        asks(line, 5, 3, records=record)
        assert hears(line, 5, 3)["had"] == 1
        for one in (w, mallory, other):
            one.close()


@claim
def what_no_program_has_accepted_yet_stays_until_it_is():
    with Chain() as c:
        mallory = Other(c)
        mallory.meet(c.fe, "BACKEND", NEW)
        line = mallory.meet(c.be[0])
        w = Wanderer(c)
        wire = at_other(c, w, mallory)[2]
        number = mallory.offers(line, wire)
        record = RECORD.pack(number, 4, 0, *addresses(w.client))
        asks(line, 5, 1, records=record)
        said = hears(line, 5, 1)
        assert said["absent"] == 1, "it is not committed: %s" % said
        mallory.commits(line, number)
        asks(line, 5, 2, records=record)
        said = hears(line, 5, 2)
        assert said["queued"] == 1 and not said["begun"], said
        w.arrives(c.be[0])
        asks(line, 5, 3, records=record)
        assert hears(line, 5, 3)["begun"] == 1
        w.close()
        mallory.close()


@claim
def what_a_node_can_ask_for_is_bounded():
    with Chain() as c:
        mallory = Other(c)
        line = mallory.meet(c.be[0])
        for number in range(1, 6):
            asks(line, number)
            assert hears(line, number)["refusal"] == (0 if number < 5 else E["FLT_REFUSE_FULL"])
        asks(line, 1, flags=OVER)
        wait(lambda: not answered(line, 5, 7)["refusal"])
        asks(line, 9, names=(b"mallory", b"nobody", b"x" * E["FLT_NAME_MAX"]))
        for number in range(2, 6):
            asks(line, number, flags=OVER)
        wait(lambda: answered(line, 9, 8, names=(b"nobody", b"mallory"))["refusal"] == E["FLT_REFUSE_NONODE"])
        mallory.leave(c.be[0])
        for odd in ({"run_id": 0}, {"nodes": 17}, {"conns": 65}, {"conns": 1}, {"idle": 9}, {"idle": 1 << 31},
                    {"nodes": 0}, {"conns": 0xffffffff}, {"records": b"x"}):
            line = mallory.meet(c.be[0])
            asks(line, **{"run_id": 4, **odd})
            wait(lambda: c.be[0].nl.node("mallory")["NODE_STATE"] != E["FLT_NODE_UP"])
            mallory.leave(c.be[0])
        mallory.close()


@claim
def device_says_what_it_does_not_take_and_to_whom():
    with Chain() as c:
        with c.fe.inside():
            device = os.open("/dev/handoff", os.O_RDWR | os.O_CLOEXEC)
        ids = {"node": c.fe.id["be1"], "to": (c.fe.id["be2"],)}
        relocate(device, **ids)
        for code, odd in ((errno.EINVAL, {"size": 796}), (errno.EINVAL, {"flags": 4}), (errno.EINVAL, {"flags": 3}),
                          (errno.EINVAL, {"flags": 2}), (errno.EINVAL, {"idle": 9}), (errno.EINVAL, {"timeout": 0}),
                          (errno.EINVAL, {"timeout": 60001}), (errno.EINVAL, {"to": ()}),
                          (errno.EINVAL, {"tuple_": b"\1"}), (errno.ENOENT, {"node": 999}),
                          (errno.ENOENT, {"to": (999,)})):
            try:
                relocate(device, **{**ids, **odd})
            except OSError as error:
                assert error.errno == code, (odd, error)
            else:
                raise AssertionError("it is taken: %s" % odd)
        child = os.fork()
        if not child:
            code = 1
            with contextlib.suppress(OSError):
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
                try:
                    relocate(device, **ids)
                except PermissionError:
                    code = 0
            os._exit(code)
        assert os.waitpid(child, 0)[1] == 0, "nobody may ask"
        os.close(device)


if __name__ == "__main__":
    main()
