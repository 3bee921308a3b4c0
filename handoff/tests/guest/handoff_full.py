#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 120
# long: debug a minute there
"""A full forwarding table: what is over makes room, what lives stays, and who finds no room is served here."""
import errno
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import (CLOSED, DONE, Cluster, Refused, accept, claim, main, peek, receive,   # noqa: E402
                 usable)

ROOM = 4


class Crowd:
    """Connections of one family that are handed to the first back-end."""

    def __init__(self, c, family):
        self.c, self.family = c, family
        self.dev = c.fe.handoff()
        self.front, self.back = c.fe.listen(family=family), c.be[0].listen(family=family)
        self.number = 0

    def arrive(self):
        client = self.c.client.connect(family=self.family)
        client.sendall(b"GET")
        here = accept(self.front)
        peek(here, 3)
        return client, here

    def move(self):
        client, here = self.arrive()
        self.number += 1
        self.dev.submit(here, self.c.fe.id["be1"], self.number)
        self.dev.expect(DONE, self.number)
        here.close()
        there = accept(self.back)
        assert receive(there, 3) == b"GET"
        return client, there, self.number

    def end(self, moved):
        client, there, number = moved
        there.close()
        assert client.recv(1) == b""
        client.close()
        self.dev.expect(CLOSED, number)

    def close(self):
        for thing in (self.dev, self.front, self.back):
            thing.close()


def ports(c):
    """Of the clients in the table, by state."""
    found = {}
    for row in c.fe.conns():
        found.setdefault(row["CONN_STATE"], set()).add(int.from_bytes(row["CONN_TUPLE"][2:4], "big"))
    return found


@claim
def what_is_over_makes_room_for_what_lives():
    for family in (4, 6):
        with Cluster(1) as c:
            c.fe.sysctl("net.flotilla.forward_max", ROOM)
            crowd = Crowd(c, family)
            over = [crowd.move() for _ in range(ROOM)]
            names = [client.getsockname()[1] for client, _, _ in over]
            # Not in the order in which they came.
            for i in (2, 0, 1, 3):
                crowd.end(over[i])
            assert ports(c) == {"LINGER": set(names)}
            live = [crowd.move()]
            # The one that ended first has gone, and no other.
            assert ports(c)["LINGER"] == set(names) - {names[2]}, (ports(c), names)
            live += [crowd.move() for _ in range(ROOM - 1)]
            assert set(ports(c)) == {"FORWARD"} and len(ports(c)["FORWARD"]) == ROOM
            assert c.fe.stat("ForwardLingerEvicted") == ROOM
            for client, there, _ in live:
                usable(there, client)
            for moved in live:
                crowd.end(moved)
            crowd.close()


@claim
def full_of_live_ones_it_refuses_and_the_client_is_served_here():
    with Cluster(1) as c:
        c.fe.sysctl("net.flotilla.forward_max", ROOM)
        crowd = Crowd(c, 4)
        live = [crowd.move() for _ in range(ROOM)]
        client, here = crowd.arrive()
        for _ in range(3):
            try:
                crowd.dev.submit(here, c.fe.id["be1"])
                raise AssertionError("a table of %d takes one more" % ROOM)
            except Refused as error:
                assert (error.errno, error.refusal) == (errno.ENOSPC, "tablefull"), error
        assert receive(here, 3) == b"GET"
        usable(here, client)
        for one, there, _ in live:
            usable(there, one)
        assert c.fe.stat("HandoffRefusedTableFull") == 3 and c.fe.stat("ForwardLingerEvicted") == 0
        # One ends, and there is room for one.
        crowd.end(live.pop())
        live.append(crowd.move())
        # Made smaller, it keeps what lives.
        c.fe.sysctl("net.flotilla.forward_max", 1)
        for one, there, _ in live:
            usable(there, one)
        for moved in live:
            crowd.end(moved)
        # What is over does not count as live, though it is more than there is room for.
        crowd.end(crowd.move())
        for thing in (client, here):
            thing.close()
        crowd.close()


if __name__ == "__main__":
    main()
