# SPDX-License-Identifier: GPL-2.0
"""Connections of TLS that a front-end has given with their keys, to move them again."""
import contextlib
import os
import socket
import threading

from hof import PATIENCE, VIP4, VIP6, Cluster, receive, wait
import tls
from chain import Chain
from move import TO, Move, listen
from shifted import GET, Pair
from tls import given


def in_be(be, make, *arguments):
    with be.inside():
        return make(*arguments)


class Secure(Pair):
    """As Pair, of a connection that a front-end has given to this node with its keys."""

    def __init__(self, idle_ms=0, answered=1, family=4, port=443):
        self.stack = contextlib.ExitStack()
        self.cluster = self.stack.enter_context(Cluster(1, encrypted=True))
        self.be = self.cluster.be[0]
        self.front = tls.FrontEnd(self.cluster, family=family)
        self.stack.callback(self.front.close)
        self.address = (VIP4 if family == 4 else VIP6, port)
        self.old = in_be(self.be, listen, self.address)
        self.client, self.served = given(self.cluster, self.front, self.be, self.old, b"" if not answered else GET,
                                         **({"port": port} if port != 443 else {}))
        self.secrets = self.front.last
        self.new = in_be(self.be, listen, self.address)
        self.raw = socket.socket(fileno=os.dup(self.client.fileno()))
        if answered:
            assert receive(self.served, len(GET)) == GET
            self.answered(self.served)
        self.move = in_be(self.be, Move, idle_ms)
        self.move.give(TO, self.new)

    def refused(self, why):
        wait(lambda: self.move.status()["refused"].get(why))
        assert not self.move.status()["moved"], self.move.status()

    def __exit__(self, *_):
        self.raw.close()
        super().__exit__()
        self.stack.close()


def asleep(thread):
    with open("/proc/self/task/%d/stat" % thread.native_id, encoding="ascii") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "S"


def both_ways(there, client, size=300000):
    """Every byte, in either direction."""
    for sender, reader in ((there, client), (client, there)):
        data = os.urandom(size)
        thread = threading.Thread(target=sender.sendall, args=(data,), daemon=True)
        thread.start()
        assert receive(reader, size) == data
        thread.join(PATIENCE)


@contextlib.contextmanager
def handed(encrypted=True, port=443):
    """(cluster, front-end, its client, the server's socket on be1, be2's listener)"""
    with Chain(2, encrypted=encrypted) as c:
        if not encrypted:
            for node in c.fe, c.be[0]:
                node.sysctl("net.flotilla.insecure_keys", 1)
        front = tls.FrontEnd(c)
        listener, there = c.listeners = c.be[0].listen(port), c.be[1].listen(port)
        client, server = given(c, front, c.be[0], listener, GET, **({"port": port} if port != 443 else {}))
        yield c, front, client, server, there
        for thing in server, listener, there, front:
            thing.close()
