# SPDX-License-Identifier: GPL-2.0
"""Back-ends that redirect SYNs by load (flotilla redirect), and a client that comes to the first of them."""
import os
import threading

from hof import VIP4, VIP6, accept, receive, wait
from chain import Chain


def service(family=4, port=80):
    return {"service_addr%d" % family: VIP6 if family == 6 else VIP4, "service_port": port}


class Redirecting(Chain):
    """Back-ends that serve the same addresses; the client's packets come to be1."""

    def __init__(self, backends=2, listening=True, **more):
        super().__init__(backends, **more)
        self.way()
        self.interval(1500)
        self.listeners = [be.listen() for be in self.be] if listening else []
        self.opened = []

    def way(self, number=0):
        """Where the client's packets go from here on."""
        be = self.be[number].number
        self.client.run("ip", "route", "replace", VIP4 + "/32", "via", self.net.ip4(be))
        self.client.run("ip", "-6", "route", "replace", VIP6 + "/128", "via", self.net.ip6(be))

    def interval(self, ms):
        """What changes is told at once; four of these without a word and an offer is too old."""
        for be in self.be:
            be.sysctl("net.flotilla.redirect_hint_ms", ms)

    def rule(self, at=0, family=4, port=80, **settings):
        args = " ".join("%s=%s" % item for item in settings.items())
        self.be[at].nl.do("REDIRECT_SET", policy_args=args, **service(family, port))

    def off(self, at=0, family=4, port=80):
        self.be[at].nl.do("REDIRECT_DEL", **service(family, port))

    def rows(self, at=0):
        return self.be[at].nl.dump("REDIRECT_GET")

    def numbers(self, at=0):
        return {row["STAT_NAME"]: row["STAT_VALUE"] for row in self.rows(at) if "NODE_NAME" not in row}

    def offers(self, at=0):
        """What each node has said, and what comes of it."""
        return {row["NODE_NAME"]: (row["STAT_NAME"], row["STAT_VALUE"]) for row in self.rows(at) if "NODE_NAME" in row}

    def offered(self, name, word, at=0):
        wait(lambda: self.offers(at).get(name, ("absent",))[0] == word)

    def loaded(self, **settings):
        """be1 is loaded and be2, and any other, is not."""
        for at in range(len(self.be)):
            self.rule(at, **({"above": 10, "hint": 1000} | settings if not at else {"hint": 0}))
        for be in self.be[1:]:
            self.offered(be.name, "lighter")

    def connect(self, **more):
        client = self.client.connect(**more)
        self.opened.append(client)
        return client

    def accepted(self, number):
        sock = accept(self.listeners[number])
        self.opened.append(sock)
        return sock

    def redirected(self, node=0):
        """The node's entries that forward a redirected connection."""
        return [x for x in self.be[node].conns() if x["CONN_STATE"] == "REDIRECT"]

    def __exit__(self, *_):
        for sock in self.opened + self.listeners:
            sock.close()
        self.close()


def carries(one, other, sizes=(1, 1460, 70000, 1 << 20)):
    """Both directions of a connection, at the same time."""
    for size in sizes:
        for a, b in ((one, other), (other, one)):
            body = os.urandom(size)
            sender = threading.Thread(target=a.sendall, args=(body,))
            sender.start()
            assert receive(b, size) == body
            sender.join()
        bodies = os.urandom(size), os.urandom(size)
        senders = [threading.Thread(target=end.sendall, args=(body,)) for end, body in zip((one, other), bodies)]
        got = []
        readers = [threading.Thread(target=lambda e=end, n=len(body): got.append(receive(e, n)))
                   for end, body in zip((other, one), bodies)]
        for thread in senders + readers:
            thread.start()
        for thread in senders + readers:
            thread.join()
        assert sorted(got) == sorted(bodies), "%d bytes each way" % size
