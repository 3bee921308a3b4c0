# SPDX-License-Identifier: GPL-2.0
"""A connection that was given to a node, while what is between the nodes comes and goes."""
from hof import DONE, E, accept, peek, receive, usable, wait


class Given:
    """A connection that the front-end has given to a node."""

    def __init__(self, c, node="be1"):
        self.fe, self.be = c.fe, c.be[0]
        self.dev = self.fe.handoff()
        self.front, self.back = self.fe.listen(), self.be.listen()
        self.client = c.client.connect()
        self.client.sendall(b"GET")
        here = accept(self.front)
        peek(here, 3)
        self.dev.submit(here, self.fe.id[node], 1)
        if node == "be1":
            self.dev.expect(DONE, 1)
            self.there = accept(self.back)
            assert receive(self.there, 3) == b"GET"
        self.here = here

    def lives(self):
        usable(self.there, self.client)
        self.dev.no_event()

    def close(self):
        for sock in (self.client, self.here, self.front, self.back):
            sock.close()
        self.dev.close()


def ready(c, given):
    """Another connection, with its request: the client's end, the front-end's."""
    client = c.client.connect()
    client.sendall(b"GET")
    here = accept(given.front)
    peek(here, 3)
    return client, here


def up(fe, be):
    return fe.nl.node(be.name)["NODE_STATE"] == be.nl.node(fe.name)["NODE_STATE"] == E["FLT_NODE_UP"]


def blinks(c, how):
    """The link goes down by how() and comes up again."""
    fe, be = c.fe, c.be[0]
    before = fe.nl.stat("LinkUp"), be.nl.stat("LinkUp")
    how()
    wait(lambda: fe.nl.stat("LinkUp") > before[0] and be.nl.stat("LinkUp") > before[1] and up(fe, be))
