#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# long: debug it takes minutes there
# timeout: 240
"""Behind a tunnel comes a narrower hop: its router says so, the front-end listens, the client is told."""
import contextlib
import os
import re
import socket
import struct
import sys
import threading
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import (CLOSED, DONE, E, VIP4, VIP6, Cluster, Node, accept, batch, claim, main,   # noqa: E402
                 peek, receive, run, usable, wait)

ROUTER, TO4, TO6 = 50, "10.8.0.2", "fd08::2"
FOU_PORT = 7472
CLUSTER = None


class Narrow(Cluster):
    """The first back-end has another address behind a router; links go the short way."""

    def __init__(self, mtu):
        super().__init__(1)
        self.router = Node(self, "router", ROUTER)
        self.clients.append(self.router)
        back = self.be[0]
        batch(self.router.ns, "link add hop type veth peer name hop netns %s" % back.ns)
        for node, number in ((self.router, 1), (back, 2)):
            batch(node.ns, "addr add 10.8.0.%d/24 dev hop" % number,
                  "addr add fd08::%d/64 dev hop nodad" % number, "link set hop up")
            node.sysctl("net.ipv4.conf.hop.rp_filter", 0)
        self.router.sysctl("net.ipv4.ip_forward", 1)
        self.router.sysctl("net.ipv6.conf.all.forwarding", 1)
        batch(self.fe.ns, "route add 10.8.0.0/24 via %s" % self.net.ip4(ROUTER),
              "route add fd08::/64 via %s src %s" % (self.net.ip6(ROUTER), self.net.ip6(1)))
        # Only known sources are heard.
        back.nl.do("NODE_SET", node_name="fe", node_fwd_addr6=self.net.ip6(1))
        self.width(mtu)
        for module in ("ipip", "ip6_tunnel", "sit", "fou", "fou6"):
            run("modprobe", "-q", module)
        # ip6tnl0 takes IPv6 only.
        back.run("ip", "link", "add", "any6", "type", "ip6tnl", "external")
        for device in ("tunl0", "sit0", "any6"):
            back.run("ip", "link", "set", device, "up")
            back.sysctl("net.ipv4.conf.%s.rp_filter" % device, 0)
        back.run("ip", "fou", "add", "port", str(FOU_PORT), "gue")
        back.run("ip", "-6", "fou", "add", "port", str(FOU_PORT), "gue")

    def width(self, mtu):
        """Of the hop; nobody remembers what it was."""
        for node in (self.router, self.be[0]):
            node.run("ip", "link", "set", "hop", "mtu", str(mtu))
        # Below 1280 bytes a device loses its IPv6 addresses.
        if mtu >= 1280:
            for node, number in ((self.router, 1), (self.be[0], 2)):
                node.run("ip", "addr", "replace", "fd08::%d/64" % number, "dev", "hop", "nodad")
        for node in (self.fe, self.client):
            for family in ("-4", "-6"):
                node.run("ip", family, "route", "flush", "cache")

    def way(self, forward, outer):
        to = {"node_fwd_addr4": TO4} if outer == 4 else {"node_fwd_addr6": TO6}
        self.fe.nl.do("NODE_SET", node_name="be1", node_forward=E["FLT_FORWARD_" + forward], **to)


def cluster(mtu=1400):
    """One for all tests, with nothing known of the hop."""
    global CLUSTER
    CLUSTER = CLUSTER or Narrow(mtu)
    CLUSTER.width(mtu)
    return CLUSTER


def known_mtu(node, to):
    """What the node believes of the way to an address; 0: nothing but its devices' MTU."""
    found = re.search(r"\bmtu (?:lock )?(\d+)", node.output("ip", "route", "get", to))
    return int(found[1]) if found else 0


class Moved:
    """A connection on the back-end."""

    def __init__(self, c, family=4):
        self.dev, front, back = c.fe.handoff(), c.fe.listen(family=family), c.be[0].listen(family=family)
        self.client = c.client.connect(family=family)
        self.client.sendall(b"GET")
        here = accept(front)
        peek(here, 3)
        self.dev.submit(here, c.fe.id["be1"], 1)
        self.dev.expect(DONE, 1)
        self.there = accept(back)
        assert receive(self.there, 3) == b"GET"
        for thing in (here, front, back):
            thing.close()

    def upload(self, size=300000):
        body = os.urandom(size)
        # Cut off with the connection when the claim fails.
        sender = threading.Thread(target=self.client.sendall, args=(body,), daemon=True)
        sender.start()
        assert receive(self.there, size) == body
        sender.join()

    def close(self):
        self.there.close()
        self.client.close()
        self.dev.expect(CLOSED, 1)
        self.dev.close()


def overhead(forward, outer):
    return (20 if outer == 4 else 40) + (8 if forward == "UDP" else 0)


@contextlib.contextmanager
def deaf(node):
    """Nothing behind the hooks of prerouting hears that a packet was too large."""
    node.run("nft", "table inet deaf { chain in { type filter hook input priority filter; "
             "icmp type destination-unreachable drop; icmpv6 type packet-too-big drop; }; }")
    try:
        yield
    finally:
        node.run("nft", "delete table inet deaf")


def upload_through(forward, outer, family):
    """The kernel itself heeds what is said of UDP, of whoever's, so it is kept from hearing it."""
    c = cluster()
    c.way(forward, outer)
    before = c.fe.stats()
    moved = Moved(c, family)
    with deaf(c.fe):
        moved.upload()
    usable(moved.there, moved.client)
    moved.close()
    after = c.fe.stats()
    assert after["ForwardPathMtu"] > before["ForwardPathMtu"]
    assert after["ForwardPathMtuRefused"] == before["ForwardPathMtuRefused"]
    assert known_mtu(c.fe, TO4 if outer == 4 else TO6) == 1400
    told = known_mtu(c.client, VIP4 if family == 4 else VIP6)
    assert told == 1400 - overhead(forward, outer), told


@claim
def narrow_hop_is_learned_by_ipip_over_ipv4():
    upload_through("IPIP", 4, 4)


@claim
def narrow_hop_is_learned_by_udp_over_ipv4():
    upload_through("UDP", 4, 4)


@claim
def narrow_hop_is_learned_by_ipip_over_ipv6():
    upload_through("IPIP", 6, 4)


@claim
def narrow_hop_is_learned_by_udp_over_ipv6():
    upload_through("UDP", 6, 6)


@claim
def ipv6_passes_a_hop_of_less_than_1280_bytes():
    """Its sender goes no lower: the outer packets are cut."""
    c = cluster(1000)
    for forward in ("IPIP", "UDP"):
        c.way(forward, 4)
        moved = Moved(c, 6)
        moved.upload(100000)
        moved.close()
        assert known_mtu(c.fe, TO4) == 1000 and known_mtu(c.client, VIP6) == 1280
        c.width(1000)


@claim
def ipv4_passes_a_hop_narrower_than_the_least_path_mtu():
    c = cluster(500)
    c.way("IPIP", 4)
    moved = Moved(c)
    moved.upload(50000)
    moved.close()


def summed(packet, at):
    total = sum(struct.unpack(">%dH" % (len(packet) // 2), packet))
    total = (total & 0xffff) + (total >> 16)
    packet[at:at + 2] = struct.pack(">H", ~(total + (total >> 16)) & 0xffff)
    return packet


def ip4(protocol, source, to):
    return struct.pack(">BBHHHBBH4s4s", 0x45, 0, 1500, 1, 0x4000, 64, protocol, 0,
                       socket.inet_aton(source), socket.inet_aton(to))


class Teller:
    """Who says, as routers do, that a packet to the back-end was too large."""

    def __init__(self, c, moved):
        self.own, (self.source, self.port) = c.net.ip4(1), moved.client.getsockname()[:2]
        with c.client.inside():
            self.raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)

    def say(self, mtu, outer_from=None, outer_to=TO4, client_port=None, good=True, size=None):
        quoted = ip4(4, outer_from or self.own, outer_to) + ip4(6, self.source, VIP4) + \
            struct.pack(">HHI", client_port or self.port, 80, 0)
        icmp = summed(bytearray(struct.pack(">BBHHH", 3, 4, 0, 0, mtu) + quoted[:size]), 2)
        icmp[2] ^= not good
        self.raw.sendto(bytes(icmp), (self.own, 0))


@claim
def routers_cut_where_path_mtu_discovery_is_off():
    c = cluster()
    c.way("IPIP", 4)
    c.fe.sysctl("net.ipv4.ip_no_pmtu_disc", 3)
    moved = Moved(c)
    moved.upload()
    # Who says so all the same is not believed.
    teller = Teller(c, moved)
    teller.say(1400)
    moved.upload()
    teller.raw.close()
    moved.close()
    c.fe.sysctl("net.ipv4.ip_no_pmtu_disc", 0)
    assert not known_mtu(c.fe, TO4)


@claim
def path_mtu_that_expired_is_not_believed_any_more():
    c = cluster()
    c.way("IPIP", 6)
    c.fe.sysctl("net.ipv6.route.mtu_expires", 2)
    moved = Moved(c, 6)
    moved.upload()
    assert known_mtu(c.client, VIP6) == 1360
    c.router.run("ip", "link", "set", "hop", "mtu", "1500")
    c.be[0].run("ip", "link", "set", "hop", "mtu", "1500")
    time.sleep(2.5)
    c.client.run("ip", "-6", "route", "flush", "cache")
    moved.upload()
    assert known_mtu(c.client, VIP6) == 1460
    c.fe.sysctl("net.ipv6.route.mtu_expires", 600)
    moved.close()


@claim
def strangers_who_name_a_path_mtu_do_no_harm():
    c = cluster(1500)
    c.way("IPIP", 4)
    moved = Moved(c)
    usable(moved.there, moved.client)
    teller = Teller(c, moved)
    for lie in ({"outer_to": "10.8.0.9"}, {"outer_from": VIP4}, {"client_port": teller.port ^ 1},
                {"good": False}):
        before = c.fe.stats()
        teller.say(600, **lie)
        wait(lambda b=before: c.fe.stat("ForwardPathMtuRefused") > b["ForwardPathMtuRefused"])
        assert c.fe.stat("ForwardPathMtu") == before["ForwardPathMtu"], lie
    assert not known_mtu(c.fe, TO4), c.fe.output("ip", "route", "get", TO4)
    for size in range(0, 48, 2):
        teller.say(1400, size=size)
    usable(moved.there, moved.client)
    # Who has seen a packet can say so little of the way, but no less, and it works on.
    teller.say(68)
    wait(lambda: known_mtu(c.fe, TO4) == 552)
    moved.upload(50000)
    teller.raw.close()
    moved.close()


if __name__ == "__main__":
    main()
