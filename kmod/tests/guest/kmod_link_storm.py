#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# long: debug it takes five minutes there
# timeout: 300
"""Messages over a link: all arrive, in order, whole, both ways at once, whoever sends them."""
import os
import sys
import threading
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cluster import cluster                             # noqa: E402
from fltnl import E                                     # noqa: E402
from patience import PATIENCE, SLOW, rounds             # noqa: E402
from tap import claim, main_with, wait                  # noqa: E402

MOST = (8 << 20) + (64 << 10)      # FLT_MSG_MAX
COUNT = int(os.environ.get("FLT_STORM", rounds(100000, 5000)))


def both_ways(c, words):
    """One command in every direction at once; the numbers of both after it."""
    a, b = c.nodes
    errors = []
    # What arrives is the question; a debug kernel on a busy machine may be silent for seconds.
    for node in c.nodes:
        node.sysfs("links/heartbeat_ms", str(1000 * SLOW * SLOW))

    def send(x, y):
        try:
            x.test(words % y.name)
        except OSError as err:
            errors.append(err)

    threads = [threading.Thread(target=send, args=pair) for pair in ((a, b), (b, a))]
    begin = time.monotonic()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, (errors, a.nl.nodes(), b.nl.nodes())
    wait(lambda: a.numbers()["received"] == b.numbers()["sent"], 3 * PATIENCE)
    wait(lambda: b.numbers()["received"] == a.numbers()["sent"], 3 * PATIENCE)
    seconds = time.monotonic() - begin
    for node in (a, b):
        n = node.numbers()
        s = node.nl.stats()
        print("# %s: %s in %.1f s, direct %d, batches %d" % (
            node.name, n, seconds, s["flotilla", "SendDirect"], s["flotilla", "SendBatches"]))
        assert n["disorder"] == n["corrupt"] == n["early"] == n["failed"] == 0, n
        assert n["downs"] == 0, "the link broke: %s" % node.nl.nodes()
    return seconds


@claim
def storm_small_messages_in_order_both_ways():
    with cluster() as c:
        both_ways(c, "storm %%s %d 200" % COUNT)


@claim
def storm_from_softirq_context():
    with cluster() as c:
        both_ways(c, "storm %%s %d 1000 bh" % (COUNT // 10))


@claim
def storm_large_messages_whole():
    with cluster() as c:
        both_ways(c, "storm %%s %d %d" % (rounds(10, 2), MOST))


@claim
def storm_sizes_around_the_buffers():
    with cluster() as c:
        both_ways(c, "storm %%s %d %d" % (COUNT // 50, 40000))


@claim
def message_larger_than_the_limit_is_refused():
    with cluster() as c:
        a, b = c.nodes
        try:
            a.test("type %s 0xf0 %d" % (b.name, MOST + 1))
            raise AssertionError("a byte more was taken")
        except OSError as err:
            assert err.errno == 90, err
        assert a.numbers()["downs"] == 0


@claim
def calls_are_answered_one_by_one():
    with cluster() as c:
        a, b = c.nodes
        count = rounds(2000, 500)
        begin = time.monotonic()
        a.test("call %s %d wait" % (b.name, count))
        spent = time.monotonic() - begin
        print("# %d round trips, %.0f us each" % (count, spent * 1e6 / count))
        assert a.numbers()["answers"] == count and b.numbers()["calls"] == count


@claim
def calls_in_a_row_share_segments():
    with cluster() as c:
        a, b = c.nodes
        count = rounds(20000, 4000)
        a.test("call %s %d" % (b.name, count))
        wait(lambda: a.numbers()["answers"] == count)
        s = b.nl.stats()
        batches = s["flotilla", "SendBatches"] + s["flotilla", "SendDirect"]
        print("# %d answers in %d writes" % (count, batches))
        assert batches < count / 2


@claim
def send_to_a_node_that_is_down_is_refused():
    with cluster(2, listed=False) as c:
        a, b = c.nodes
        a.become()
        a.list(b)
        try:
            a.test("storm %s 1 8" % b.name)
            raise AssertionError("was taken")
        except OSError as err:
            assert err.errno == 107, err
        assert a.nl.stat("SendNotConnected") == 1


@claim
def sleeping_handler_delays_but_does_not_break_the_link():
    with cluster(heartbeat_ms=1000 * SLOW) as c:
        a, b = c.nodes
        begin = time.monotonic()
        a.test("sleep %s %d" % (b.name, 5000 * SLOW))
        a.test("storm %s 1000 100" % b.name)
        time.sleep(1)
        # Unless this took longer than its sleep.
        assert b.numbers()["received"] == 0 or time.monotonic() - begin > 5 * SLOW
        wait(lambda: b.numbers()["received"] == 1000)
        assert a.numbers()["downs"] == b.numbers()["downs"] == 0
        assert b.numbers()["disorder"] == 0


@claim
def full_queue_refuses_instead_of_growing():
    with cluster(heartbeat_ms=5000 * SLOW) as c:
        a, b = c.nodes
        a.test("sleep %s %d" % (b.name, 8000 * SLOW))
        # 8000 messages of up to 4000 bytes: more than queue and socket buffers hold.
        a.test("storm %s 8000 4000" % b.name)
        assert a.numbers()["full"] > 0 and a.nl.stat("SendNoBuffers") > 0
        wait(lambda: b.numbers()["received"] == 8000, 2 * PATIENCE)
        assert b.numbers()["disorder"] == b.numbers()["corrupt"] == 0
        assert a.numbers()["downs"] == 0


if __name__ == "__main__":
    assert E["FLT_LINK_PORT"]
    main_with("flotilla", "flt_link_test")
