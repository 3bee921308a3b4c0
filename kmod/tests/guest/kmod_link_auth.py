#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
# long: both a minute, and on the debug kernel it takes four minutes
"""Links that must authenticate: through the handshake agent, never without it."""
import contextlib
import ctypes
import os
import sys
import threading
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cluster import HELLO, UP, FakePeer, cluster, frame, hello  # noqa: E402
from fakeagent import FakeAgent                         # noqa: E402
from fltnl import E, refused                            # noqa: E402
from netns import run                                   # noqa: E402
from patience import PATIENCE, SLOW, rounds             # noqa: E402
from stalled import stalled                             # noqa: E402
from tap import claim, main_with, wait                  # noqa: E402
import kmsg                                             # noqa: E402

LIBC = ctypes.CDLL(None, use_errno=True)
PSK, X509 = E["FLT_AUTH_PSK"], E["FLT_AUTH_X509"]
SYS_ADD_KEY, USER_KEYRING = 248, -4


def add_key(name):
    data = b"0123456789abcdef"
    serial = LIBC.syscall(SYS_ADD_KEY, b"user", name.encode(), data, len(data), USER_KEYRING)
    assert serial > 0, os.strerror(ctypes.get_errno())
    return serial


@contextlib.contextmanager
def agents(c, *modes):
    running = [FakeAgent(node.ns, mode) for node, mode in zip(c.nodes, modes)]
    try:
        yield running
    finally:
        for agent in running:
            agent.stop()


def configure(c, **auth):
    a, b = c.nodes
    a.become()
    b.become()
    a.list(b, **auth)
    b.list(a, **auth)


def never_up(c, reason):
    a, b = c.nodes
    # A handshake may take twelve seconds.
    wait(lambda: reason in a.nl.node(b.name).get("NODE_REASON", ""), 2 * PATIENCE)
    assert a.state(b) != UP and b.state(a) != UP
    assert a.nl.stat("LinkUp") == b.nl.stat("LinkUp") == 0
    assert a.nl.stat("MessagesIn") == a.nl.stat("LinkBytesIn") == 0


@claim
def without_agent_the_link_stays_down_and_says_why():
    with cluster(listed=False) as c:
        configure(c, node_auth=X509)
        never_up(c, "tlshd")
        assert c.nodes[0].nl.stat("LinkAuthFailed") > 0


@claim
def x509_link_comes_up_and_carries_messages():
    with cluster(listed=False, heartbeat_ms=5000 * SLOW) as c, agents(c, "tls", "tls") as (ga, gb):
        configure(c, node_auth=X509)
        c.wait_up()
        a, b = c.nodes
        # On a slow machine one side may give up and try again: the same, once more.
        assert set(ga.seen) == {("client", 3, "n2")} and gb.seen[0][0] == "server", (ga.seen, gb.seen)
        small, large = rounds(3000, 300), rounds(20, 3)
        a.test("storm %s %d 9000" % (b.name, small))
        b.test("storm %s %d 1000000" % (a.name, large))
        wait(lambda: b.numbers()["received"] == small, 2 * PATIENCE)
        wait(lambda: a.numbers()["received"] == large, 2 * PATIENCE)
        a.test("call %s %d wait" % (b.name, rounds(200, 20)))
        for node in c.nodes:
            n = node.numbers()
            assert n["disorder"] == n["corrupt"] == n["downs"] == 0, n
        assert 1 <= a.nl.stat("LinkAuthDone") <= len(ga.seen), (a.nl.stat("LinkAuthDone"), ga.seen)


@claim
def psk_link_comes_up_with_the_key_asked_for():
    key = add_key("flotilla-test")
    with cluster(listed=False) as c, agents(c, "tls", "tls") as (ga, gb):
        configure(c, node_auth=PSK, node_key=key)
        c.wait_up()
        assert ga.seen[0][:2] == ("client", 2) and gb.seen[0][:2] == ("server", 2)
        assert c.nodes[0].nl.node("n2")["NODE_KEY"] == key


@claim
def new_key_is_for_the_next_link():
    old, new = add_key("flotilla-old"), add_key("flotilla-new")
    with cluster(listed=False, heartbeat_ms=5000 * SLOW) as c, agents(c, "tls", "tls"):
        configure(c, node_auth=PSK, node_key=old)
        c.wait_up()
        a, b = c.nodes
        ups = a.nl.stat("LinkUp")
        for node, other in ((a, b), (b, a)):
            node.nl.do("NODE_SET", node_name=other.name, node_key=new)
            assert node.nl.node(other.name)["NODE_KEY"] == new
        a.test("call %s %d wait" % (b.name, rounds(200, 20)))
        assert a.nl.stat("LinkUp") == ups and a.nl.stat("LinkDown") == b.nl.stat("LinkDown") == 0


@claim
def keys_are_checked_when_they_are_given():
    key = add_key("flotilla-test")
    with cluster(listed=False) as c:
        a, b = c.nodes
        new = a.nl.do
        refused(22, new, "NODE_NEW", node_name="n2", node_addr4=b.ip, node_auth=PSK)
        refused(22, new, "NODE_NEW", node_name="n2", node_addr4=b.ip, node_key=key)
        refused(126, new, "NODE_NEW", node_name="n2", node_addr4=b.ip, node_auth=PSK,
                node_key=0x3fffffff)
        assert a.nl.nodes() == []
        a.list(b, node_auth=PSK, node_key=key)
        refused(22, new, "NODE_SET", node_name="n2", node_auth=X509, node_key=key)
        new("NODE_SET", node_name="n2", node_auth=X509)
        assert "NODE_KEY" not in a.nl.node("n2")


@claim
def agent_that_does_nothing_is_not_believed():
    with cluster(listed=False) as c, agents(c, "plain", "plain"):
        configure(c, node_auth=X509)
        never_up(c, "authentication failed")


@claim
def agent_that_fails_keeps_the_link_down():
    with cluster(listed=False) as c, agents(c, "fail", "fail"):
        configure(c, node_auth=X509)
        never_up(c, "authentication failed")


@claim
def agent_that_answers_before_the_request_is_made_drops_no_socket():
    """The kernel counts its request's reference to the socket last, and the answer drops it."""
    with cluster(listed=False) as c, agents(c, "mute", "fail") as (_, agent):
        a, b = c.nodes
        b.become()
        b.list(a, node_auth=X509)
        with stalled("handshake_genl_notify", 2 * SLOW, after=True) as stall:
            peer = FakePeer(a, b).connect()
            wait(lambda: agent.seen and stall())
            assert peer.gone() == []
        wait(lambda: b.nl.stat("LinkAuthFailed") == 1)
        said = [text for text in kmsg.records() if b"refcount_t" in text or b"release TCP socket" in text]
        assert not said, said


@claim
def agent_hears_the_name_of_a_node_that_goes_meanwhile():
    """Whoever takes a request reads the name last, and nobody waits for him."""
    with cluster(listed=False) as c, agents(c, "mute", "mute") as (_, agent):
        a, b = c.nodes
        b.become()
        b.list(a, node_auth=X509)
        with stalled("handshake_genl_put", 3 * SLOW) as stall:
            peer = FakePeer(a, b).connect()
            wait(stall)
            b.nl.do("NODE_DEL", node_name=a.name)
            assert peer.gone() == [] and not agent.seen
            # Until others have its memory.
            while not agent.seen:
                for i in range(8):
                    b.nl.do("NODE_NEW", node_name="other%d" % i, node_addr4="10.9.9.%d" % (i + 1))
                for i in range(8):
                    b.nl.do("NODE_DEL", node_name="other%d" % i)
        assert agent.seen == [("server", 3, a.name)], agent.seen


@claim
def peer_that_has_shown_no_certificate_is_nobody():
    # tlshd calls that a success; n2 is the side that is connected to.
    with cluster(listed=False) as c, agents(c, "tls", "anonymous"):
        configure(c, node_auth=X509)
        wait(lambda: c.nodes[1].nl.stat("LinkAuthFailed") >= 2)
        assert c.nodes[1].nl.stat("LinkUp") == c.nodes[0].nl.stat("LinkUp") == 0


@claim
def peer_that_has_shown_another_key_is_somebody_else():
    key = add_key("flotilla-test")
    for modes in (("tls", "other"), ("other", "tls")):
        with cluster(listed=False) as c, agents(c, *modes):
            configure(c, node_auth=PSK, node_key=key)
            wait(lambda: sum(n.nl.stat("LinkAuthFailed") for n in c.nodes) >= 2)
            assert c.nodes[0].nl.stat("LinkUp") == c.nodes[1].nl.stat("LinkUp") == 0


@claim
def peer_cut_off_within_a_record_is_noticed():
    # The beginning of a TLS record stays in the socket's queue; that is no sign of life.
    with cluster(listed=False) as c, agents(c, "tls", "tls"):
        configure(c, node_auth=X509)
        c.wait_up()
        a, b = c.nodes

        def pour():
            with contextlib.suppress(OSError):
                a.test("storm %s 100000 1000000" % b.name)
        thread = threading.Thread(target=pour)
        thread.start()
        wait(lambda: b.numbers()["received"] > 3)
        run("ip", "-n", c.net.bridge, "link", "set", "p2", "down")
        # A slow machine takes longer to notice, but not until TCP gives up.
        wait(lambda: a.state(b) != UP and b.state(a) != UP)
        a.nl.do("NODE_DEL", node_name=b.name)
        thread.join()


@claim
def agent_that_never_answers_does_not_hold_anything():
    with cluster(listed=False) as c, agents(c, "mute", "mute"):
        configure(c, node_auth=X509)
        never_up(c, "authentication failed")
        for node, other in ((0, 1), (1, 0)):
            c.nodes[node].nl.do("NODE_DEL", node_name=c.nodes[other].name)


@claim
def one_side_alone_cannot_turn_it_off():
    with cluster(listed=False) as c, agents(c, "tls", "tls"):
        a, b = c.nodes
        a.become()
        b.become()
        b.list(a, node_auth=X509)
        # a speaks plain; to b that is a handshake that fails or garbage in place of a record.
        peer = FakePeer(a, b).connect()
        peer.send(frame(HELLO, hello("n1")))
        peer.gone()
        assert b.state(a) != UP and b.nl.stat("LinkUp") == 0


@claim
def turning_it_on_renews_the_link():
    with cluster() as c:
        a, b = c.nodes
        with agents(c, "tls", "tls"):
            a.nl.do("NODE_SET", node_name="n2", node_auth=X509)
            b.nl.do("NODE_SET", node_name="n1", node_auth=X509)
            wait(lambda: a.nl.stat("LinkAuthDone") >= 1 and a.state(b) == UP and b.state(a) == UP)


@claim
def namespace_with_a_pending_handshake_can_go():
    for _ in range(3):
        with cluster(listed=False) as c, agents(c, "mute", "mute") as (ga, gb):
            configure(c, node_auth=X509)
            wait(lambda: ga.seen)
            assert gb


if __name__ == "__main__":
    main_with("flotilla", "flt_link_test", needs=("tls",))
