#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 120
"""IDLE and BUSY of many connections: told in time, and those that stay busy cost next to nothing.

BUSY=1500 handoff_idle.py looks_are_few*: with so many; it prints what they cost."""
import os
import resource
import sys
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import (BUSY, CLOSED, DONE, IDLE, WANT_IDLE, Cluster, accept, claim, main,   # noqa: E402
                 peek, receive, rounds, wait)

MANY = int(os.environ.get("BUSY") or rounds(100, 20))
TIME = 30 if MANY > 1000 else 3
resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))


def move(c, dev, front, back, number):
    client = c.client.connect()
    client.sendall(b"GET")
    here = accept(front)
    peek(here, 3)
    dev.submit(here, c.fe.id["be1"], number, flags=WANT_IDLE)
    dev.expect(DONE, number)
    here.close()
    there = accept(back)
    assert receive(there, 3) == b"GET"
    return client, there


def working():
    """Seconds that the CPUs of this machine were not idle."""
    with open("/proc/uptime", encoding="ascii") as file:
        up, idle = map(float, file.read().split())
    return up * os.cpu_count() - idle


def spent(be, seconds):
    """Looks a second, while so much time goes by; what the machine did meanwhile is printed."""
    looks, used, begin = be.stats().get("LifeLooks", 0), working(), time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - begin
    looks, used = be.stats().get("LifeLooks", 0) - looks, working() - used
    print("# %.0f looks a second, machine busy %.2f percent of one CPU" % (looks / took, used / took * 100))
    return looks / took


@claim
def looks_are_few_at_connections_that_stay_busy_and_none_at_idle_ones():
    with Cluster(1) as c:
        dev, front, back = c.fe.handoff(), c.fe.listen(), c.be[0].listen()
        moved = [move(c, dev, front, back, number) for number in range(MANY)]
        dev.no_event(3)                         # a request, and no answer: all are busy
        looks = spent(c.be[0], TIME)
        assert 0 < looks <= MANY * 5, looks
        for _, there in moved:
            there.sendall(b"answer")
        told = {dev.expect(IDLE)[1] for _ in moved}
        assert len(told) == MANY
        assert spent(c.be[0], TIME / 3) == 0
        for client, there in moved:
            assert receive(client, 6) == b"answer"
            there.close()
            client.close()
        for _ in moved:
            dev.expect(CLOSED)
        for thing in (dev, front, back):
            thing.close()


@claim
def idleness_is_told_in_time_however_long_the_answer_took():
    with Cluster(1) as c:
        dev, front, back = c.fe.handoff(), c.fe.listen(), c.be[0].listen()
        client, there = move(c, dev, front, back, 1)

        def looks_while(think):
            """How often it was looked at while it was busy for so long; then its next request."""
            looks = c.be[0].stat("LifeLooks")
            time.sleep(think)
            looks = c.be[0].stat("LifeLooks") - looks
            there.sendall(b"answer")
            receive(client, 6)
            begin = time.monotonic()
            dev.expect(IDLE, 1)
            print("# busy for %.1f s and %d looks, idle told after %.0f ms" % (
                think, looks, (time.monotonic() - begin) * 1000))
            client.sendall(b"next")
            dev.expect(BUSY, 1)
            receive(there, 4)
            return looks
        # A look after each eighth is some eight while the time doubles; each one twice as late as the one before, one.
        # How late it is told a busy machine decides; that it looks so often at times is our doing.
        for think, least in ((0, 0), (0.3, 6), (2, 16)):
            wait(lambda t=think, n=least: looks_while(t) >= n)
        # An answer in pieces with pauses shorter than a look: never idle in between.
        for _ in range(60):
            there.sendall(b"piece")
            receive(client, 5)
            time.sleep(0.002)
        dev.expect(IDLE, 1)
        for thing in (there, client):
            thing.close()
        dev.expect(CLOSED, 1)
        for thing in (dev, front, back):
            thing.close()


if __name__ == "__main__":
    main()
