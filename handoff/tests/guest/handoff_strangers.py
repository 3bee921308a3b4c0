#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# long: debug it takes three minutes there
# timeout: 120
"""Packets in tunnels reach a service only from nodes, however they are wrapped."""
import os
import re
import socket
import struct
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import VIP4, VIP6, Cluster, claim, main, run, wait   # noqa: E402

UDP_PORT = 7472
SPOOFED4, SPOOFED6 = "10.9.0.77", "fd09::77"
RULES = """table inet seen {
    counter service { }
    counter other { }
    chain in {
        type filter hook input priority 0
        tcp dport 80 counter name service drop
        tcp dport 81 counter name other drop
    }
}"""


def summed(packet):
    total = sum(struct.unpack(">%dH" % (len(packet) // 2), packet))
    total = (total & 0xffff) + (total >> 16)
    packet[10:12] = struct.pack(">H", ~(total + (total >> 16)) & 0xffff)
    return bytes(packet)


def ip4(protocol, source, to, body):
    return summed(bytearray(struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(body), 1, 0x4000, 64, protocol, 0,
                                        socket.inet_aton(source), socket.inet_aton(to)))) + body


def ip6(protocol, source, to, body):
    return struct.pack(">IHBB16s16s", 6 << 28, len(body), protocol, 64,
                       socket.inet_pton(socket.AF_INET6, source), socket.inet_pton(socket.AF_INET6, to)) + body


def syn(port=80):
    """Its checksum is not looked at before it is counted."""
    return struct.pack(">HHIIBBHHH", 4444, port, 1, 0, 0x50, 2, 1000, 0, 0)


class Tunnels:
    """A back-end that takes each kind, and counts what comes out."""

    def __init__(self, c):
        self.c, self.be = c, c.be[0]
        for module in ("ipip", "ip6_tunnel", "sit", "fou", "fou6"):
            run("modprobe", "-q", module)
        self.be.run("ip", "link", "add", "any6", "type", "ip6tnl", "external")
        for device in ("tunl0", "sit0", "any6"):
            self.be.run("ip", "link", "set", device, "up")
            self.be.sysctl("net.ipv4.conf.%s.rp_filter" % device, 0)
        self.be.run("ip", "fou", "add", "port", str(UDP_PORT), "gue")
        self.be.run("ip", "-6", "fou", "add", "port", str(UDP_PORT), "gue")
        self.be.run("nft", RULES)

    def seen(self, counter="service"):
        return int(re.search(r"packets (\d+)", self.be.output("nft", "list", "counter", "inet", "seen", counter))[1])

    def send(self, node, protocol, body, outer=4):
        """In a tunnel to the back-end; protocol 17 is UDP."""
        to = self.c.net.ip4(2) if outer == 4 else self.c.net.ip6(2)
        family = socket.AF_INET if outer == 4 else socket.AF_INET6
        with node.inside():
            sock = socket.socket(family, socket.SOCK_DGRAM if protocol == 17 else socket.SOCK_RAW,
                                 0 if protocol == 17 else protocol)
        if outer == 6:
            # A node is known by the address of its link; this one has others.
            sock.bind((self.c.net.ip6(node.number), 0))
        sock.sendto(body, (to, UDP_PORT if protocol == 17 else 0))
        sock.close()


SERVICE4, SERVICE6 = ip4(6, SPOOFED4, VIP4, syn()), ip6(6, SPOOFED6, VIP6, syn())
KINDS = {
    "IPv4 in IPv4": (4, SERVICE4, 4), "IPv6 in IPv4": (41, SERVICE6, 4),
    "IPv4 in IPv6": (4, SERVICE4, 6), "IPv6 in IPv6": (41, SERVICE6, 6),
    "IPv4 in UDP": (17, SERVICE4, 4), "IPv6 in UDP": (17, SERVICE6, 4),
    "IPv6 in UDP over IPv6": (17, SERVICE6, 6),
    "IPv6 with options": (41, ip6(60, SPOOFED6, VIP6, bytes((6, 0, 1, 4, 0, 0, 0, 0)) + syn()), 4),
}


@claim
def service_is_out_of_reach_for_strangers_in_tunnels():
    with Cluster(1) as c:
        t = Tunnels(c)
        for name, (protocol, body, outer) in KINDS.items():
            before, dropped = t.seen(), t.be.stat("ForwardStranger")
            t.send(c.client, protocol, body, outer)
            wait(lambda d=dropped: t.be.stat("ForwardStranger") == d + 1, name=name)
            assert t.seen() == before, name
        # One tunnel in another, whose source is a node's address.
        nested = ip4(4, c.net.ip4(1), c.net.ip4(2), SERVICE4)
        for protocol in (4, 17):
            dropped = t.be.stat("ForwardStranger")
            t.send(c.client, protocol, nested)
            wait(lambda d=dropped: t.be.stat("ForwardStranger") == d + 1, name="nested")
        assert t.seen() == 0


@claim
def nodes_reach_it_and_strangers_what_is_no_service():
    with Cluster(1) as c:
        t = Tunnels(c)
        for name, (protocol, body, outer) in KINDS.items():
            if outer == 4:
                before = t.seen()
                t.send(c.fe, protocol, body, outer)
                wait(lambda b=before: t.seen() == b + 1, name=name)
        # The node's other address, once it is listed.
        dropped = t.be.stat("ForwardStranger")
        t.send(c.fe, *KINDS["IPv6 in IPv6"])
        wait(lambda: t.be.stat("ForwardStranger") == dropped + 1)
        t.be.nl.do("NODE_SET", node_name="fe", node_fwd_addr6=c.net.ip6(1))
        for name in ("IPv4 in IPv6", "IPv6 in IPv6"):
            before = t.seen()
            t.send(c.fe, *KINDS[name])
            wait(lambda b=before: t.seen() == b + 1, name=name)
        before = t.seen("other")
        t.send(c.client, 4, ip4(6, SPOOFED4, c.net.ip4(2), syn(81)))
        wait(lambda: t.seen("other") == before + 1)
        # The off switch.
        t.be.sysctl("net.flotilla.forward_from_nodes", 0)
        before = t.seen()
        t.send(c.client, *KINDS["IPv4 in IPv4"])
        wait(lambda: t.seen() == before + 1)


@claim
def address_is_a_node_s_for_as_long_as_one_has_it():
    """It may be the address of several, of links and of forwarding."""
    with Cluster(1) as c:
        t = Tunnels(c)
        do, strange, kind = t.be.nl.do, c.net.ip4(c.client.number), KINDS["IPv4 in IPv4"]

        def passes():
            before, dropped = t.seen(), t.be.stat("ForwardStranger")
            t.send(c.client, *kind)
            wait(lambda: t.seen() + t.be.stat("ForwardStranger") == before + dropped + 1)
            return t.seen() > before
        assert not passes()
        for name, number in (("a", 50), ("b", 51)):
            do("NODE_NEW", node_name=name, node_addr4=c.net.ip4(number), node_fwd_addr4=strange)
        assert passes()
        do("NODE_NEW", node_name="c", node_addr4=strange)
        do("NODE_SET", node_name="a", node_fwd_addr4=c.net.ip4(52))
        do("NODE_SET", node_name="b", node_weight=7)
        do("NODE_SET", node_name="b", node_fwd_addr4=strange)
        assert passes()
        do("NODE_DEL", node_name="b")
        assert passes()
        do("NODE_DEL", node_name="c")
        assert not passes()
        do("NODE_SET", node_name="a", node_fwd_addr4=strange)
        assert passes()
        do("NODE_DEL", node_name="a")
        assert not passes()


if __name__ == "__main__":
    main()
