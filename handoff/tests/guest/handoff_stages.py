#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 200
# long: both a minute, and on the debug kernel minutes
"""A peer that is alive and never answers holds nothing: no socket for good, no tool, no module."""
import os
import socket
import struct
import subprocess
import sys
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import (CLOSED, DONE, FAILED, PATIENCE, SLOW, E, accept, claim, main, receive, run,  # noqa: E402
                 stalled, wait)
from stage import (ABORT, ACK, COMMIT, HELD, HELD_END, LIFE, NAK, QUERY, Member, Scripted,  # noqa: E402
                   Stage, checkpoint, frame)
from stall import Stall  # noqa: E402

# HOF_LATE_MAX
LATE_MAX = 1024
TCP_TIMESTAMP = 24


def unload():
    """Without waiting for anybody: what is left of its time is for a machine that is busy."""
    begin = time.monotonic()
    subprocess.run(("rmmod", "handoff"), check=True, timeout=PATIENCE)
    print("# unloaded in %.1f s" % (time.monotonic() - begin), flush=True)
    assert not os.path.isdir("/sys/module/handoff")


def client_was_reset(client, says=b""):
    try:
        client.sendall(says)
        while client.recv(100):
            pass
    except ConnectionResetError:
        return
    raise AssertionError("the client was not told")


@claim
def before_handoff_it_unloads():
    with Stage() as stage:
        assert stage.up()
        unload()


@claim
def looking_at_an_adoption_without_commit_does_not_wait():
    with Stage() as stage, stage.node.listen() as listener:
        stage.parked(1, 4001)
        assert len(stage.node.sockets()) == 1, stage.node.sockets()
        stage.looks()
        stage.peer.tell(COMMIT, 1)
        accept(listener).close()        # killed, as anything in the queue may be


@claim
def adoption_without_commit_ends_by_our_clock():
    # Time enough to make them all on a busy machine, and less than wait() has.
    with Stage(deadline_ms=8000 * SLOW) as stage, stage.node.listen():
        for number in range(1, 20):
            stage.parked(number, 4000 + number)
        assert len(stage.node.sockets()) == 19
        wait(lambda: not stage.node.sockets())
        assert stage.up(), "the peer is not to blame"
        # Room for another of the same, and nothing of it was told to the client.
        stage.parked(100, 4001)
        stage.peer.tell(ABORT, 100)
        wait(lambda: not stage.node.sockets())


@claim
def one_giver_does_not_keep_the_others_out():
    with Stage() as stage, stage.node.listen():
        stage.node.sysctl("net.flotilla.adopt_pending_max", 8)
        for number in range(1, 9):
            stage.parked(number, 4000 + number)
        stage.peer.handoff(9, checkpoint(4009, b"GET"))
        assert struct.unpack("!QII", stage.peer.heard(NAK))[:2] == (9, E["FLT_REFUSE_NOMEM"])
        assert len(stage.node.sockets()) == 8
        other = Member(stage, "other", 3)
        stage.node.nl.do("NODE_NEW", node_name="other", node_addr4=stage.net.ip4(3),
                         node_role=E["FLT_ROLE_FRONTEND"])
        mine, stage.peer = stage.peer, Scripted(other, stage.node, "other")
        stage.parked(1, 5001)
        stage.peer.close()
        # What is decided makes room.
        stage.peer = mine
        stage.peer.tell(ABORT, 3)
        wait(lambda: stage.node.stat("AdoptAborted") > 0)
        stage.parked(10, 4010)
        other.nl.close()


@claim
def later_one_may_end_before_an_earlier_one():
    with Stage() as stage, stage.node.listen():
        stage.parked(1, 4001)
        stage.node.sysctl("net.flotilla.adopt_deadline_ms", 500 * SLOW)
        for number in (2, 3):
            stage.parked(number, 4000 + number)
        wait(lambda: stage.node.stat("AdoptExpired") == 2)
        assert len(stage.node.sockets()) == 1
        stage.peer.tell(ABORT, 1)
        wait(lambda: not stage.node.sockets())


@claim
def one_id_is_one_connection():
    """Else what the giver says of it would mean another."""
    with Stage() as stage, stage.node.listen() as listener:
        stage.parked(1, 4001, b"one")
        stage.peer.handoff(1, checkpoint(4002, b"two"))
        assert struct.unpack("!QII", stage.peer.heard(NAK))[:2] == (1, E["FLT_REFUSE_DUPLICATE"])
        stage.peer.tell(COMMIT, 1)
        with accept(listener) as there:
            assert receive(there, 3) == b"one"
        # Decided, it is not known any more.
        stage.parked(1, 4003)
        stage.peer.tell(ABORT, 1)
        wait(lambda: stage.node.stat("AdoptPending") == 0)


@claim
def commit_after_the_deadline_is_answered():
    """The giver has let go of it: it hears that it must tell the client."""
    with Stage(deadline_ms=500 * SLOW) as stage, stage.node.listen():
        stage.parked(7, 4007)
        wait(lambda: not stage.node.sockets())
        stage.peer.tell(COMMIT, 7)
        number, family, what, client_port, port = struct.unpack_from("!QHHHH", stage.peer.heard(LIFE))
        assert (number, family, what, client_port, port) == (7, 4, 3, 4007, 80)
        assert not stage.node.sockets()


@claim
def given_up_while_the_link_is_down_it_is_named_as_lost():
    """The COMMIT went with the old link: else the giver took it for one that has ended there."""
    with Stage(deadline_ms=500 * SLOW) as stage, stage.node.listen():
        stage.parked(7, 4007)
        wait(lambda: not stage.node.sockets())
        for _ in range(2):      # and so may be what was said, and the answer to a COMMIT
            said = stage.again()
            assert [kind for kind, _ in said] == [LIFE], said
            assert struct.unpack_from("!QHHHH", said[0][1]) == (7, 4, 3, 4007, 80)
            if stage.node.stat("AdoptEnded") == 0:
                stage.peer.tell(COMMIT, 7)
                wait(lambda: stage.node.stat("AdoptEnded") == 1)
        assert not stage.again(instance=78), "it is not the giver any more"


@claim
def one_giver_does_not_push_out_what_others_are_to_hear_of():
    """What was given up is remembered for each giver; of its own the oldest is forgotten."""
    with Stage(deadline_ms=100) as stage, stage.node.listen(backlog=4096):
        other = Member(stage, "other", 3)
        stage.node.nl.do("NODE_NEW", node_name="other", node_addr4=stage.net.ip4(3),
                         node_role=E["FLT_ROLE_FRONTEND"])
        mine, stage.peer = stage.peer, Scripted(other, stage.node, "other")
        stage.parked(1, 5001)
        wait(lambda: stage.node.stat("AdoptExpired") == 1)
        theirs, stage.peer = stage.peer, mine
        for number in range(1, LATE_MAX + 2):
            mine.handoff(number, checkpoint(10000 + number, b"GET"))
        wait(lambda: stage.node.stat("AdoptExpired") == LATE_MAX + 2)
        theirs.tell(COMMIT, 1)
        assert struct.unpack_from("!QHHHH", theirs.heard(LIFE)) == (1, 4, 3, 5001, 80)
        mine.tell(COMMIT, 1)
        mine.tell(COMMIT, LATE_MAX + 1)
        assert struct.unpack_from("!QHHHH", mine.heard(LIFE)) == (LATE_MAX + 1, 4, 3, 10001 + LATE_MAX, 80)
        theirs.close()
        other.nl.close()


@claim
def end_of_what_was_told_over_one_link_does_not_come_over_the_next():
    """It would be heard there before anything else, and end connections that live."""
    with Stage() as stage, stage.node.listen() as listener:
        there, _ = stage.taken(1, 4001, listener)
        with stalled("flt_link_send", 2):
            stage.peer.end()
            stage.peer = Scripted(stage.peer_node, stage.node, "peer")
            stage.peer.heard(HELD)      # and HELD_END is about to be sent
            said = stage.again()
            assert [kind for kind, _ in said] == [HELD], said
        there.close()


@claim
def what_is_left_to_tell_over_one_link_is_not_told_over_the_next():
    """The end of it would come there before what it belongs to."""
    with Stage() as stage, stage.node.listen() as listener:
        there, _ = stage.taken(1, 4001, listener)
        stage.node.sysctl("net.flotilla.adopt_deadline_ms", 100)
        stage.parked(2, 4002)
        wait(lambda: stage.node.stat("AdoptExpired") == 1)
        with stalled("hof_net_leave", 3) as stall:
            stage.peer.end()
            stage.peer = Scripted(stage.peer_node, stage.node, "peer")
            stage.peer.heard(HELD)
            # The link's end and its beginning, what is held, what was given up: that is about to be sent.
            wait(lambda: stall() >= 4)
            stall.ends()
            said = stage.again()
            assert [kind for kind, _ in said] == [HELD, LIFE], said
        there.close()


@claim
def loaded_anew_it_does_not_speak_for_what_it_took_before():
    """That lives on: the end of what it names now must not be taken for the end of that."""
    with Stage() as stage, stage.node.listen() as listener:
        there, before = stage.taken(1, 4001, listener)
        assert before and [kind for kind, _ in stage.again()] == [HELD] and stage.epoch() == before
        unload()
        run("modprobe", "handoff")
        assert not stage.again() and stage.epoch() not in (0, before)
        assert stage.parked(2, 4002)[1] == stage.epoch()
        stage.peer.tell(ABORT, 2)
        assert receive(there, 3) == b"GET" and len(stage.node.sockets()) >= 1
        there.close()


@claim
def lost_by_the_taker_the_client_is_reset():
    with Stage() as stage, stage.node.listen() as listener:
        dev = stage.node.handoff()
        client, here, number = stage.given(listener, dev)
        stage.peer.tell(ACK, number)
        dev.expect(DONE)
        stage.peer.life(number, 3, client.getsockname()[1])
        client_was_reset(client)
        dev.expect(CLOSED, refusal="nodedown")
        for thing in (client, here, dev):
            thing.close()


@claim
def no_timestamp_is_older_than_what_the_giver_has_said():
    """Between checkpoint and adoption time passes, and it may acknowledge something."""
    with Stage() as stage, stage.node.listen() as listener:
        dev = stage.node.handoff()
        client, here, number = stage.given(listener, dev)
        time.sleep(0.3)
        stage.peer.tell(ACK, number)
        tsval = struct.unpack("!QII", stage.peer.heard(COMMIT))[1]
        assert 300 <= (tsval - stage.wire["tsval"]) & 0xffffffff < 1000000
        for thing in (client, here, dev):
            thing.close()
        # What it says, what an older one does not say, and what is behind us.
        for number, (says, at_least) in enumerate(((5000000, 5000000), (0, 1000000), (900000, 1000000)), 11):
            wire = checkpoint(4000 + number, b"GET")
            wire["flags"], wire["tsval"] = 4, 1000000
            stage.peer.handoff(number, wire)
            stage.peer.heard(ACK)
            stage.peer.tell(COMMIT, number, says)
            with accept(listener) as there:
                now = there.getsockopt(socket.IPPROTO_TCP, TCP_TIMESTAMP)
                assert at_least <= now < at_least + 1000000, (says, now)


@claim
def too_late_an_answer_leaves_the_connection_here():
    """The taker has given up by its own clock: COMMIT would end the connection."""
    with Stage() as stage, stage.node.listen() as listener:
        dev = stage.node.handoff()
        client, here, number = stage.given(listener, dev)
        time.sleep(0.3)
        stage.peer.send(frame(ACK, struct.pack("!QII", number, 0, 200)))
        assert struct.unpack_from("!Q", stage.peer.heard(ABORT))[0] == number
        assert receive(here, 3) == b"GET"
        here.sendall(b"answer")
        assert receive(client, 6) == b"answer"
        for thing in (client, here, dev):
            thing.close()


@claim
def locked_by_its_program_when_the_answer_comes_it_stays_here():
    """Memory whose pages do not come keeps a socket locked for ever; the link is everybody's."""
    with Stage() as stage, stage.node.listen() as listener:
        dev = stage.node.handoff()
        client, here, number = stage.given(listener, dev)
        stall = Stall()
        # It would wait for room, without the lock; so it makes room by itself.
        here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100000)
        stall.lock(here)
        try:
            stage.peer.tell(ACK, number)
            dev.expect(FAILED, refusal="changed")
            assert struct.unpack_from("!Q", stage.peer.heard(ABORT))[0] == number
        finally:
            stall.fill(b"answer")
        assert receive(client, 6) == b"answer"
        assert receive(here, 3) == b"GET"
        for thing in (client, here, dev):
            thing.close()


@claim
def undecided_for_long_it_is_asked_about_with_its_addresses():
    """By its id alone the giver finds what is under way, and not what it has let go of."""
    with Stage() as stage, stage.node.listen():
        stage.node.sysctl("net.flotilla.adopt_query_ms", 100)
        stage.peer.heard(HELD_END)      # or what is named as the link comes up may be taken for the question
        stage.parked(7, 4007)
        assert struct.unpack_from("!QHHHH", stage.peer.heard(HELD)) == (7, 4, 1, 4007, 80)
        assert stage.node.stat("AdoptQueried") >= 1
        assert not [said for said in stage.peer.got if said[0] == QUERY]
        stage.peer.tell(ABORT, 7)
        wait(lambda: not stage.node.sockets())


@claim
def parked_it_unloads():
    with Stage() as stage, stage.node.listen():
        for number in range(1, 20):
            stage.parked(number, 4000 + number)
        unload()
        assert not stage.node.sockets(), "of a connection that is still the giver's"


@claim
def parked_its_namespace_goes():
    stage = Stage(deadline_ms=1000 * SLOW)
    with stage, stage.node.listen():
        stage.parked(1, 4001)
    unload()
    run("modprobe", "handoff")


@claim
def committed_and_not_accepted_it_unloads():
    with Stage() as stage, stage.node.listen() as listener:
        stage.parked(1, 4001)
        stage.parked(2, 4002)
        stage.peer.tell(COMMIT, 1)
        wait(lambda: "1" == stage.node.output("ss", "-Htln", "sport = :80").split()[1])
        unload()
        with accept(listener) as there:
            assert receive(there, 3) == b"GET"


@claim
def waiting_for_an_answer_it_unloads_when_the_program_ends():
    with Stage() as stage, stage.node.listen() as listener:
        dev = stage.node.handoff()
        client, here, _ = stage.given(listener, dev)
        begin = time.monotonic()
        dev.close()
        assert time.monotonic() - begin < PATIENCE
        unload()
        assert receive(here, 3) == b"GET"
        here.sendall(b"answer")
        assert receive(client, 6) == b"answer"
        client.close()
        here.close()


@claim
def forwarding_it_unloads():
    with Stage() as stage, stage.node.listen() as listener:
        dev = stage.node.handoff()
        client, here, number = stage.given(listener, dev)
        stage.peer.tell(ACK, number)
        dev.expect(DONE)
        client.sendall(b"more")
        dev.close()
        unload()
        # Nobody has it any more; what the client sends again may have told it already.
        client_was_reset(client, b"and more")
        client.close()
        here.close()


@claim
def lingering_it_unloads():
    with Stage() as stage, stage.node.listen() as listener:
        dev = stage.node.handoff()
        client, here, number = stage.given(listener, dev)
        stage.peer.tell(ACK, number)
        dev.expect(DONE)
        stage.peer.life(number, 0, client.getsockname()[1])
        dev.expect(CLOSED)
        dev.close()
        unload()
        client.close()
        here.close()


@claim
def ended_while_it_may_come_back_it_has_ended():
    """The giver offers it, its socket ends, and so does the offer: nothing is told of it again."""
    with Stage() as stage, stage.node.listen() as listener:
        for what, refusal in ((0, "none"), (3, "nodedown")):
            dev = stage.node.handoff()
            client, here, number = stage.given(listener, dev)
            stage.peer.tell(ACK, number)
            dev.expect(DONE)
            stage.parked(number + 1000, client.getsockname()[1])
            stage.peer.life(number, what, client.getsockname()[1])
            dev.no_event()
            stage.peer.tell(ABORT, number + 1000)
            dev.expect(CLOSED, refusal=refusal)
            for thing in (client, here, dev):
                thing.close()


@claim
def coming_back_it_unloads():
    """Given away, offered back, and never committed: its packets wait on two grounds."""
    with Stage() as stage, stage.node.listen() as listener:
        dev = stage.node.handoff()
        client, here, number = stage.given(listener, dev)
        stage.peer.tell(ACK, number)
        dev.expect(DONE)
        dev.close()
        stage.parked(9, client.getsockname()[1])
        client.sendall(b"more")
        stage.looks()
        unload()
        client.close()
        here.close()


if __name__ == "__main__":
    main()
