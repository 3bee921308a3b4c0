#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
# long: both a minute and a half, minutes on the debug kernel
"""Two front-ends both work, each with a service address of its own; each dies once, and nobody is reset."""
import os
import random
import socket
import sys
import threading
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import (DONE, PATIENCE, VIP4, E, accept, batch, claim, main, peek, receive, run, usable, wait)  # noqa: E402
from pair import Pair                                           # noqa: E402
from vrrp import Keepalived, has_address                        # noqa: E402

WWW, API = VIP4, "10.9.0.201"


class Both(Pair):
    """fe has WWW and fe2 has API, which keepalived gives them."""

    def __init__(self):
        super().__init__()
        for node in self.nodes:
            node.nl.do("SERVICE_NEW", service_addr4=API)
        for be in self.be:
            batch(be.ns, "addr add %s/32 dev lo" % API)
        self.fe.run("ip", "addr", "del", WWW + "/24", "dev", "eth0")
        self.daemon = {node: Keepalived(node, "keepalived-both.conf",
                                        [("10.0.0.80", WWW), ("10.0.0.81", API)] + swap)
                       for node, swap in ((self.fe, []),
                                          (self.fe2, [("priority 150", "priority X"), ("priority 100", "priority 150"),
                                                      ("priority X", "priority 100")]))}
        wait(lambda: has_address(self.fe, WWW) and has_address(self.fe2, API) and
             not has_address(self.fe2, WWW) and not has_address(self.fe, API))
        self.back = {(be, address): be.listen(address=address) for be in self.be for address in (WWW, API)}
        self.devices, self.fronts, self.all, self.number = {}, {}, [], 0

    def front(self, node, address):
        """Its listener there and its device, made at the first use."""
        if node not in self.devices:
            self.devices[node] = node.handoff()
        if (node, address) not in self.fronts:
            self.fronts[node, address] = node.listen(address=address)
        return self.fronts[node, address], self.devices[node]

    def open(self, node, address, be):
        """A connection that the front-end gives to a back-end: the client's end and the back-end's."""
        listener, dev = self.front(node, address)
        with self.client.inside():
            client = socket.create_connection((address, 80), timeout=PATIENCE)
        client.sendall(b"GET")
        here = accept(listener)
        peek(here, 3)
        while True:
            self.number += 1
            dev.submit(here, node.id[be.name], self.number)
            kind, cookie, _, refusal, _ = dev.event()
            while cookie != self.number:
                kind, cookie, _, refusal, _ = dev.event()
            if kind == DONE:
                break
            assert refusal == "changed", refusal
        here.close()
        there = accept(self.back[be, address])
        assert receive(there, 3) == b"GET"
        self.all.append((client, there))
        return client, there

    def all_usable(self):
        for client, there in self.all:
            usable(there, client)

    def resets(self, *nodes):
        return [node.stat("ForwardResets") for node in nodes]

    def close(self):
        for pair in getattr(self, "all", ()):
            for sock in pair:
                sock.close()
        for sock in list(getattr(self, "back", {}).values()) + list(getattr(self, "fronts", {}).values()):
            sock.close()
        for dev in getattr(self, "devices", {}).values():
            dev.close()
        super().close()


class Download:
    """Slow enough to last longer than a front-end does."""

    def __init__(self, client, there, seed):
        self.client, self.there = client, there
        self.data = random.Random(seed).randbytes(2 << 20)
        self.thread = threading.Thread(target=self.sends)
        self.thread.start()
        self.head = receive(client, 50000)

    def sends(self):
        for at in range(0, len(self.data), 16384):
            self.there.sendall(self.data[at:at + 16384])
            time.sleep(0.05)

    def ends(self):
        assert self.head + receive(self.client, len(self.data) - len(self.head)) == self.data
        self.thread.join()


@claim
def each_dies_once_and_the_connections_of_both_go_on():
    with Both() as c:
        downloads = [Download(*c.open(node, address, be), 10 * i + k)
                     for i, (node, address) in enumerate(((c.fe, WWW), (c.fe2, API))) for k, be in enumerate(c.be)]
        for node, address in ((c.fe, WWW), (c.fe2, API)):
            c.open(node, address, c.be[0])
        assert [node.stat("ForwardEntries") for node in (c.fe, c.fe2)] == [3, 3]

        # The first one's cable is out: the second has both addresses.
        c.dies()
        wait(lambda: has_address(c.fe2, WWW))
        wait(lambda: c.fe2.stat("TakeoverTaken") == 3)
        for download in downloads:
            download.ends()
        c.all_usable()
        c.open(c.fe2, WWW, c.be[1])
        assert c.fe2.stat("ForwardEntries") == 7 and has_address(c.fe2, API)

        # It is in again, and the address goes home, with what began meanwhile.
        before = c.fe.stat("TakeoverTaken")
        c.fe.run("ip", "link", "set", "eth0", "up")
        wait(lambda: has_address(c.fe, WWW) and not has_address(c.fe2, WWW))
        wait(lambda: c.fe.stat("TakeoverTaken") == before + 4)
        c.all_usable()
        c.open(c.fe, WWW, c.be[0])
        assert has_address(c.fe2, API) and not has_address(c.fe, API)

        # The second one's machine is gone: the first has both.
        downloads = [Download(client, there, 100 + i) for i, (client, there) in enumerate(c.all)]
        assert c.resets(c.fe2) == [0]
        c.daemon[c.fe2].child.kill()
        run("ip", "-n", c.net.bridge, "link", "del", "p%d" % c.fe2.number)
        wait(lambda: has_address(c.fe, API))
        wait(lambda: c.fe.stat("TakeoverTaken") == before + 7)
        for download in downloads:
            download.ends()
        c.all_usable()
        c.open(c.fe, API, c.be[1])
        c.all_usable()
        assert c.resets(c.fe) == [0]
        up = [be.nl.node("fe")["NODE_STATE"] == E["FLT_NODE_UP"] for be in c.be]
        assert all(up), up
        c.daemon[c.fe].stop()


if __name__ == "__main__":
    main()
