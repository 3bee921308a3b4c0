#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 1200
# long: both minutes on either kernel
"""flotilla process drain: unmodified servers are emptied under load to another node, and no client notices."""
import contextlib
import ctypes
import errno
import json
import os
import subprocess
import sys
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import E, PATIENCE, SLOW, VIP4, accept, claim, main, rounds, run, usable, wait     # noqa: E402
from stacktest import Device, load, unload              # noqa: E402
from chain import Chain, Wanderer                       # noqa: E402
from farm import Farm                                   # noqa: E402
from move import CONN, FLOTILLA, FROM, NODE, TO, Move   # noqa: E402


@claim
def idle_connection_of_nginx_goes_to_another_node_and_its_packets_go_straight_there():
    with Farm() as f:
        one, = f.clients_of(1)
        one.exchange()
        assert (f.has(f.be[0]), f.has(f.be[1])) == (1, 0)
        result = f.drain("--idle", "100")
        assert result["moved"] == 1 and not result["left"] and not result["through"], result
        assert (f.has(f.be[0]), f.has(f.be[1])) == (0, 1)
        f.straight(f.be[1])
        before = f.be[0].stat("ForwardPackets")
        for _ in range(3):
            one.exchange(6)
        assert f.be[0].stat("ForwardPackets") == before, "packets still come by be1"
        assert f.be[0].stat("HandoffDrained") == 1 and one.done == 4


def emptied(kind, backends, to):
    with Farm(kind, backends) as f:
        number = f.loaded(6)
        result = f.drain("--wait", str(60 * SLOW), to=to)
        assert result["moved"] == number and not result["left"] and not result["ended"], result
        assert not result["through"] and not result["forwarded"], result
        assert f.has(f.be[0]) == 0 and all(f.has(be) for be in f.be[1:])
        f.server["be1"].terminate()
        f.server["be1"].wait()
        f.more()
        before = f.be[0].stat("ForwardPackets")
        f.more(rounds(20, 5))
        assert f.be[0].stat("ForwardPackets") == before, "packets still come by be1"
        print("# %d answers" % sum(k.done for k in f.kept))


@claim
def nginx_is_emptied_under_load_and_no_request_fails():
    emptied("nginx", 3, "be2,be3")


@claim
def flash_is_emptied_under_load_and_no_request_fails():
    emptied("flash", 2, "be2")


@claim
def without_a_listener_there_it_stays_and_goes_on():
    with Farm(serving=1) as f:
        number = f.loaded(3)
        result = f.drain("--wait", str(5 * SLOW), check=1)
        assert not result["moved"] and result["left"] == number and result["put_off"]["nolistener"], result
        f.more()
        assert f.has(f.be[0]) == number
        f.serve(f.be[1])
        assert f.drain("--wait", str(60 * SLOW))["moved"] == number
        f.more()


@claim
def while_the_queue_there_is_full_it_stays_and_goes_on():
    with Farm(serving=1) as f:
        number = f.loaded(3)
        with f.be[1].listen(backlog=1) as full:
            waiting = [f.be[1].connect() for _ in range(2)]
            result = f.drain("--wait", str(5 * SLOW), check=1)
            assert not result["moved"] and result["left"] == number and result["put_off"]["full"], result
            f.more()
            assert full.fileno() >= 0
        for sock in waiting:
            sock.close()
        f.serve(f.be[1])
        assert f.drain("--wait", str(60 * SLOW))["moved"] == number
        f.more()


def inside_move(tool):
    place = "/proc/%d/fd" % tool.pid
    with contextlib.suppress(FileNotFoundError):        # some come and go
        return any("handoff-move" in os.readlink(os.path.join(place, fd)) for fd in os.listdir(place))
    return False


def silent(f):
    """The others hear and their answers are lost; that is no link that is down, however slow the machine."""
    f.heartbeat(60000 // SLOW)
    for be in f.be[1:]:
        f.cut(f.be[0], be)
    return lambda: f.mend(f.be[0])


def gone(f):
    """The other node ends the link."""
    f.be[1].nl.do("NODE_DEL", node_name="be1")

    def again():
        f.list(f.be[1], f.be[0])
        f.be[1].nl.do("NODE_SET", node_name="be1", node_role=E["FLT_ROLE_FRONTEND"])
    return again


def unreachable(cut, why):
    with Farm() as f:
        number = f.loaded(3)
        mend = cut(f)
        with f.command("--wait", str(100 * SLOW)) as tool:
            wait(lambda: inside_move(tool))
            wait(lambda: f.be[0].stat(why) or any(k.error for k in f.kept))
            f.more(5)
            assert f.has(f.be[0]) == number
            asked, begin = f.be[0].stat(why), time.monotonic()
            time.sleep(3)
            asked = (f.be[0].stat(why) - asked) / (time.monotonic() - begin)
            f.check()
            # One in a second and its time: who does not leave it alone asks five times as often.
            assert cut is gone or asked <= 1.5, asked
            mend()
            out, err = tool.communicate(timeout=6 * PATIENCE)
            assert not tool.returncode and json.loads(out)["moved"] == number, (out, err)
        f.more()


@claim
def node_whose_link_is_down_costs_no_request_and_gets_them_later():
    unreachable(gone, "HandoffRefusedNodeDown")


@claim
def node_that_does_not_answer_costs_no_request_and_gets_them_later():
    unreachable(silent, "HandoffRefusedTimeout")


@claim
def silent_nodes_hold_up_one_request_each():
    with Farm(backends=3) as f:
        f.loaded(8)
        silent(f)
        f.be[0].sysctl("net.flotilla.handoff_timeout_ms", 2000 * SLOW)
        with f.command(to="be2,be3") as tool:
            wait(lambda: f.be[0].stat("HandoffRefusedTimeout") > 1 or any(k.error for k in f.kept))
            before, begun = f.be[0].stat("HandoffRefusedTimeout"), [len(k.took) for k in f.kept]
            time.sleep(4 * (2 * SLOW + 1))
            asked = f.be[0].stat("HandoffRefusedTimeout") - before
            late = [sum(t > SLOW for t in k.took[n:]) for k, n in zip(f.kept, begun)]
            tool.terminate()
            assert 4 <= asked <= 10 and sum(late) <= asked + 4, (asked, late)
            tool.communicate()
        f.more()


@claim
def end_of_the_command_waits_for_no_node():
    with Farm() as f:
        f.loaded(3)
        silent(f)
        f.be[0].sysctl("net.flotilla.handoff_timeout_ms", 60000)
        with f.command() as tool:
            wait(lambda: f.be[0].stat("HandoffSubmitted"))
            begin = time.monotonic()
            tool.kill()
            tool.communicate()
            took = time.monotonic() - begin
            assert took < 10 * SLOW, "%.1f s" % took
        f.more(1)
    run("rmmod", "handoff")


@claim
def node_that_is_deleted_meanwhile_ends_the_command():
    with Farm() as f:
        number = f.loaded(3)
        silent(f)
        with f.command() as tool:
            wait(lambda: f.be[0].stat("HandoffRefusedTimeout"))
            f.be[0].nl.do("NODE_DEL", node_name="be2")
            out, err = tool.communicate(timeout=2 * PATIENCE)
            assert tool.returncode == 1 and json.loads(out)["stuck_by"] == {"nonode": number}, (out, err)
        f.more()


@claim
def server_that_ends_meanwhile_ends_the_command():
    with Farm() as f:
        number = f.loaded(3)
        silent(f)
        with f.command() as tool:
            wait(lambda: f.be[0].stat("HandoffRefusedTimeout"))
            f.server["be1"].terminate()
            out, err = tool.communicate(timeout=2 * PATIENCE)
            result = json.loads(out)
            assert not tool.returncode and result["ended"] == number and not result["moved"], (out, err)
        wait(lambda: all(k.error for k in f.kept))
        while f.kept:
            f.kept.pop().close()


@claim
def one_command_at_a_time_and_in_the_namespace_of_the_server():
    with Farm() as f:
        one, = f.clients_of(1)
        one.exchange()
        with f.command() as tool:
            f.drained()
            for at, to, sentence in ((f.be[0], "be2", "is in another move"),
                                     (f.be[1], "be1", "in another network namespace")):
                with f.command(at=at, to=to) as second:
                    out, err = second.communicate(timeout=PATIENCE)
                    assert second.returncode == 1 and sentence in err and not out, (out, err)
            tool.terminate()
            tool.communicate()
        for kept in f.kept:
            kept.exchange()


@contextlib.contextmanager
def fails(code):
    try:
        yield
    except OSError as error:
        assert error.errno == code, (errno.errorcode[code], error)
    else:
        raise AssertionError("it is taken, and not %s" % errno.errorcode[code])


def move_of(node, idle_ms=0):
    with node.inside():
        return Move(idle_ms)


@claim
def descriptor_says_what_it_does_not_take():
    with Farm(serving=0) as f:
        be1, be2 = f.be
        ids = [be1.id["be2"]]
        for number in range(16):
            be1.nl.do("NODE_NEW", node_name="n%d" % number, node_addr4="10.77.0.%d" % (number + 1))
            ids.append(be1.nl.node("n%d" % number)["NODE_ID"])
        with be1.listen(81) as here, be2.listen(81) as there, move_of(be1) as two, move_of(be1) as three:
            with move_of(be1) as one:
                with fails(errno.ENOENT):
                    one.node(max(ids) + 1)
                ioctl = ctypes.CDLL(None, use_errno=True).ioctl
                assert ioctl(one.fd, ctypes.c_ulong(NODE), ctypes.c_ulong(1 << 32 | ids[0])) == -1
                assert ctypes.get_errno() == errno.ENOENT
                with fails(errno.EINVAL):
                    one.passed()
                for number in ids[:16]:
                    one.node(number)
                assert one.status()["listeners"] == 1, "links that are not there are up"
                with fails(errno.EEXIST):
                    one.node(ids[3])
                with fails(errno.ENOSPC):
                    one.node(ids[16])
                with fails(errno.EINVAL):
                    one.give(TO, here)
                with fails(errno.EINVAL):
                    one.keep()
                with fails(errno.EXDEV):
                    one.give(FROM, there)
                one.give(FROM, here)
                with fails(errno.EINVAL):
                    one.node(ids[16])
                two.node(ids[0])
                with fails(errno.EBUSY):
                    two.give(FROM, here)
                with fails(errno.EBUSY):
                    three.give(TO, here)
            two.give(FROM, here)
            assert two.passed() == (0, 0), two.passed()


@claim
def nodes_take_turns():
    with Chain(3) as c:
        c.client.run("ip", "route", "add", VIP4 + "/32", "via", c.net.ip4(c.be[0].number))
        ears = [be.listen() for be in c.be]
        with move_of(c.be[0]) as move:
            for be in c.be[1:]:
                move.node(c.be[0].id[be.name])
            for ear in 2 * ears[1:]:
                client = c.client.connect()
                with accept(ears[0]) as served:
                    move.give(CONN, served)
                    there = accept(ear)
                usable(there, client)
                ears += [client, there]
            assert move.passed() == (0, 4), move.passed()
        for sock in ears:
            sock.close()


@claim
def what_another_room_has_a_layer_on_stays_and_what_only_a_node_gave_does_not():
    with Chain() as c:
        w = Wanderer(c)
        w.go(c.be[0])
        w.begins()
        load("flt_stack_test")
        device = Device()
        device.add(w.sock, "a")
        with move_of(c.be[0], 10) as move:
            move.node(c.be[0].id["be2"])
            move.give(CONN, w.sock)
            wait(lambda: move.status()["stuck"] or move.status()["moved"])
            assert move.status()["stuck_by"] == {"foreign": 1}, move.status()
            w.works()
        device.remove(w.sock, "a")
        device.close()
        with move_of(c.be[0], 10) as move:
            move.node(c.be[0].id["be2"])
            move.give(CONN, w.sock)
            w.arrives(c.be[1])
            assert move.status()["moved"] == 1, move.status()
        w.works()
        w.ends()
        w.close()
    assert unload("flt_stack_test")


@claim
def what_the_node_never_takes_ends_the_command_and_says_why():
    with Farm() as f:
        number = f.loaded(3)
        f.be[1].nl.do("NODE_SET", node_name="be1", node_role=E["FLT_ROLE_BACKEND"])
        result = f.drain(check=1)
        assert result["stuck_by"] == {"role": number} and result["put_off"]["role"] == number, result
        assert "state" not in result["put_off"], "requests are held back that cannot move: %s" % result
        f.more()
        f.be[1].nl.do("NODE_SET", node_name="be1", node_role=E["FLT_ROLE_FRONTEND"])
        assert f.drain("--wait", str(60 * SLOW))["moved"] == number
        f.more()


@claim
def new_ones_are_refused_to_other_nodes_and_those_of_clients_that_come_here_are_handed_on():
    with Farm() as f:
        one, = f.clients_of(1)
        one.exchange()
        with f.command() as tool:
            f.drained()
            before = f.be[0].stat("AdoptCommitted")
            for kept in f.clients_of(3):
                kept.exchange()
            assert f.be[0].stat("AdoptCommitted") == before
            f.clients_of(3, to="direct")

            def again():
                """The server may have read a first request before the command saw it: two more each."""
                for kept in f.kept:
                    kept.exchange(6)
                return not f.has(f.be[0]) and f.forwards(f.be[0]) == ["be2"] * 3

            wait(again)
            out, err = tool.communicate(timeout=2 * PATIENCE)
            result = json.loads(out)
            assert not tool.returncode and result["forwarded"] == 3 and not result["through"], (out, err)
        assert f.has(f.be[0]) == 0
        for kept in f.kept:
            kept.exchange(6)


@claim
def front_end_gets_back_what_it_gave_and_gives_it_to_another():
    with Farm() as f:
        f.loaded(3)
        with f.command(to="fe") as tool:
            out, err = tool.communicate(timeout=2 * PATIENCE)
            result = json.loads(out)
            assert not tool.returncode and not result["through"] and not result["forwarded"], (out, err)
        f.more()
        assert not f.has(f.be[0]) and f.has(f.be[1]) == len(f.kept)


@claim
def next_node_is_asked_with_the_same_request():
    with Farm(backends=3, serving=2) as f:
        one, = f.clients_of(1)
        one.exchange()
        with f.command(to="be3,be2") as tool:
            wait(lambda: inside_move(tool))
            for _ in range(40):
                one.exchange()
                time.sleep(0.05)
            assert not tool.poll() and not tool.wait(PATIENCE), "it does not move"
        # What be3 has refused; it goes to be2 at once, or the next time if its program was faster.
        assert f.has(f.be[1]) == 1 and f.be[0].stat("HandoffRefusedNoListener") >= 1, f.be[0].stats()


@claim
def answer_under_way_is_ended_first():
    with Farm() as f:
        one, = f.clients_of(1)
        one.exchange()
        one.ask(9)
        wait(f.unacknowledged)
        with f.command("--idle", "100") as tool:
            time.sleep(SLOW)
            assert tool.poll() is None and f.has(f.be[0]) == 1
            one.gets(9)
            assert not tool.wait(2 * PATIENCE)
        one.exchange()
        assert f.has(f.be[1]) == 1


@claim
def answer_that_its_client_has_not_is_not_left_behind():
    """The next request tells nothing then, though the server has read all before it and has written since."""
    with Farm(serving=1) as f:
        one, = f.clients_of(1)
        with f.command() as tool:
            wait(lambda: one.exchange() or f.be[0].stat("HandoffRefusedNoListener"))
            one.ask(9)

            def waits():
                """The client's window is closed: nothing changes any more."""
                first = f.unacknowledged()
                time.sleep(0.3)
                return first and first == f.unacknowledged()
            wait(waits)
            f.serve(f.be[1])
            one.ask(3)
            wait(lambda: f.be[0].stat("HandoffRefusedSendQueue") or f.has(f.be[1]))
            time.sleep(SLOW)
            assert tool.poll() is None and f.has(f.be[0]) == 1 and not f.has(f.be[1])
            one.gets(9)
            one.gets(3)
            wait(lambda: one.exchange() or f.has(f.be[1]))
            assert not tool.wait(2 * PATIENCE)


@claim
def module_stays_while_it_runs_and_goes_at_once_after():
    for cut in (lambda f: None, silent):
        with Farm() as f:
            f.loaded(3)
            cut(f)
            with f.command(to="be2") as tool:
                wait(lambda tool=tool: inside_move(tool))
                for _ in range(3):
                    assert subprocess.run(("rmmod", "handoff"), check=False, stderr=subprocess.DEVNULL).returncode
                    f.more(1)
                tool.kill()
                tool.communicate()
            f.more(1)
        run("rmmod", "handoff")


@claim
def what_cannot_be_done_is_said():
    with Farm() as f:
        pid = str(f.server["be1"].pid)
        nobody = {"user": 65534, "group": 65534, "extra_groups": []}
        for words, status, sentence, options in (
                ((pid, "--to", "be7"), 1, "there is no node be7", {}),
                ((pid, "--to", "be2,be2"), 1, "node be2: named twice", {}),
                ((pid,), 2, "are missing (--to)", {}),
                (("--to", "be2"), 2, "number of the process is missing", {}),
                ((pid, "--to", "be2", "--wait"), 2, "--wait needs a number", {}),
                (("999999", "--to", "be2"), 1, "there is no process 999999", {}),
                ((pid, "--to", "be2"), 1, "CAP_NET_ADMIN", nobody)):
            with f.be[0].inside():
                ran = subprocess.run((FLOTILLA, "process", "drain") + words, stdin=subprocess.DEVNULL, text=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, **options)
            assert ran.returncode == status and sentence in ran.stderr and not ran.stdout, ran
        one, = f.clients_of(1)
        one.exchange()
        tool = f.command("--dry-run")
        assert json.loads(tool.communicate()[0]) == {"process": int(pid), "to": ["be2"], "connections": 1}
        one.exchange()
        assert f.has(f.be[0]) == 1


if __name__ == "__main__":
    main()
