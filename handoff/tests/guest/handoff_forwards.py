#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# long: debug it takes four minutes there
# timeout: 280
"""Forwarding by each way, large packets, ICMP errors, and the life of entries."""
import errno
import os
import select
import socket
import struct
import sys
import tempfile
import threading
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import (CLOSED, DONE, SLOW, VIP4, Cluster, accept, claim, main, peek, receive,   # noqa: E402
                 run, usable, wait)

FOU_PORT = 7472
TCP_REPAIR = 19


def moved(c, family=4, port=80):
    """A connection on the back-end: device, sockets to close, both ends."""
    dev = c.fe.handoff()
    front, back = c.fe.listen(port, family), c.be[0].listen(port, family)
    client = c.client.connect(port, family)
    client.sendall(b"GET")
    here = accept(front)
    peek(here, 3)
    dev.submit(here, c.fe.id["be1"], 1)
    dev.expect(DONE, 1)
    here.close()
    there = accept(back)
    assert receive(there, 3) == b"GET"
    for listener in (front, back):
        listener.close()
    return dev, client, there


def upload(client, there, size=400000):
    """Large packets towards the service: these are what forwarding has to carry."""
    body = os.urandom(size)
    sender = threading.Thread(target=client.sendall, args=(body,))
    sender.start()
    assert receive(there, size) == body
    sender.join()


def decapsulate(c, forward):
    be = c.be[0]
    for module in ("ipip", "ip6_tunnel", "sit", "fou", "fou6"):
        run("modprobe", "-q", module)
    for device in ("tunl0", "sit0", "ip6tnl0"):
        be.run("ip", "link", "set", device, "up")
    for device in ("tunl0", "sit0"):
        be.sysctl("net.ipv4.conf.%s.rp_filter" % device, 0)
    if forward == "UDP":
        be.run("ip", "fou", "add", "port", str(FOU_PORT), "gue")


def by_tunnel(forward, family):
    with Cluster(1, forward) as c:
        decapsulate(c, forward)
        dev, client, there = moved(c, family)
        usable(there, client)
        before = c.fe.stats()
        upload(client, there)
        after = c.fe.stats()
        assert after["ForwardBytes"] - before["ForwardBytes"] >= 400000
        there.close()
        client.close()
        dev.expect(CLOSED, 1)
        print("# too big for the tunnel at first: %d" % after["ForwardTooBig"])


@claim
def upload_by_direct_forwarding():
    with Cluster(1) as c:
        for family in (4, 6):
            dev, client, there = moved(c, family)
            upload(client, there)
            there.close()
            client.close()
            dev.expect(CLOSED, 1)
            dev.close()


@claim
def ipip_carries_ipv4():
    by_tunnel("IPIP", 4)


@claim
def ipip_carries_ipv6():
    by_tunnel("IPIP", 6)


@claim
def udp_carries_ipv4():
    by_tunnel("UDP", 4)


@claim
def udp_carries_ipv6():
    by_tunnel("UDP", 6)


@claim
def large_packets_are_forwarded_whole_or_cut_right():
    """With offloads a packet here may be 64 KB; without, 1500 bytes. Both must arrive."""
    with Cluster(1) as c:
        dev, client, there = moved(c)
        for feature in ("on", "off"):
            c.fe.run("ethtool", "-K", "eth0", "gro", feature, "tso", feature, "gso", feature)
            c.client.run("ethtool", "-K", "eth0", "tso", feature, "gso", feature)
            upload(client, there)
        # A tap at the front-end shares the packets: they must be copied, not spoiled.
        tap = c.fe.spawn("tcpdump", "-ni", "eth0", "-w", "/dev/null") if os.path.exists(
            "/usr/bin/tcpdump") else None
        upload(client, there)
        if tap:
            tap.kill()
        there.close()
        client.close()
        dev.expect(CLOSED, 1)


@claim
def icmp_errors_about_the_answers_reach_the_owner():
    with Cluster(1) as c:
        dev, client, there = moved(c)
        before = c.fe.stat("ForwardIcmp")
        port = client.getsockname()[1]
        usable(there, client)
        quoted = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 1500, 1, 0x4000, 64, 6, 0,
                             socket.inet_aton(VIP4), socket.inet_aton(client.getsockname()[0]))
        quoted += struct.pack(">HHI", 80, port, 0)
        icmp = bytearray(struct.pack(">BBHHH", 3, 4, 0, 0, 1300) + quoted)
        total = sum(struct.unpack(">%dH" % (len(icmp) // 2), icmp))
        total = (total & 0xffff) + (total >> 16)
        icmp[2:4] = struct.pack(">H", ~(total + (total >> 16)) & 0xffff)
        with c.client.inside():
            raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        raw.sendto(bytes(icmp), (VIP4, 0))
        wait(lambda: c.fe.stat("ForwardIcmp") == before + 1)
        # Noise of the same kind must pass by without harm.
        for i in range(8, len(icmp)):
            raw.sendto(bytes(icmp[:i]), (VIP4, 0))
        usable(there, client)
        for thing in (raw, there, client, dev):
            thing.close()


@claim
def connection_tracking_has_no_entry():
    run("modprobe", "nf_conntrack")
    with Cluster(1) as c:
        # Accepted before tracking begins, moved after: whatever is tracked was forwarded.
        dev, front, back = c.fe.handoff(), c.fe.listen(), c.be[0].listen()
        client = c.client.connect()
        client.sendall(b"GET")
        here = accept(front)
        peek(here, 3)
        dev.submit(here, c.fe.id["be1"], 1)
        dev.expect(DONE, 1)
        there = accept(back)
        receive(there, 3)
        c.fe.run("nft", "table inet t { chain c { type filter hook prerouting priority 0; "
                        "tcp dport 80 ct state new,established,invalid counter; }; }")
        upload(client, there)
        seen = c.fe.output("nft", "list", "table", "inet", "t")
        assert "counter packets 0" in seen, seen
        for thing in (there, client, here, front, back, dev):
            thing.close()


FIREWALL = "/proc/sys/net/netfilter/nf_conntrack_max"


@claim
def stateful_firewall_forgets_what_was_given():
    """More connections than its table has room for are open at once; none of them is its business any more."""
    run("modprobe", "nf_conntrack")
    with Cluster(1) as c, open(FIREWALL, "r+", encoding="ascii") as most:
        before = most.read()
        c.fe.run("nft", "table inet t { chain c { type filter hook input priority 0; policy drop; "
                        "ct state established,related accept; ct state new tcp dport { 80, 7471 } accept; "
                        "ip protocol icmp accept; }; }")
        dev, front, back = c.fe.handoff(), c.fe.listen(), c.be[0].listen()
        most.seek(0)
        most.write("16")
        most.flush()
        opened = []
        try:
            for number in range(48):
                client = c.client.connect()
                client.sendall(b"GET")
                here = accept(front)
                peek(here, 3)
                dev.submit(here, c.fe.id["be1"], number)
                dev.expect(DONE, number)
                here.close()
                there = accept(back)
                assert receive(there, 3) == b"GET"
                opened += [client, there]
            for client, there in zip(opened[::2], opened[1::2]):
                usable(there, client)
            tracked = c.fe.output("cat", "/proc/net/nf_conntrack")
            assert "dport=7471" in tracked, "nothing is tracked here"
            assert " dport=80 " not in tracked, tracked
        finally:
            most.seek(0)
            most.write(before)
            most.flush()
        for thing in opened + [front, back, dev]:
            thing.close()


def documented_rules():
    """What doc/forwarding.md tells administrators to load, as it stands there."""
    page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "doc", "forwarding.md")
    with open(page, encoding="utf-8") as f:
        return f.read().split("## A firewall on the nodes")[1].split("```")[1]


@claim
def documented_rules_pass_the_service_and_do_not_track_it():
    run("modprobe", "nf_conntrack")
    with Cluster(1) as c, tempfile.NamedTemporaryFile("w", encoding="utf-8") as rules:
        rules.write(documented_rules())
        rules.flush()
        nodes = (c.fe, c.be[0])
        for node in nodes:
            node.run("nft", "-f", rules.name)
        # What they do not name does not come in: they are in force.
        with c.fe.listen(81), c.client.inside(), socket.socket() as stranger:
            stranger.settimeout(3)
            try:
                stranger.connect((VIP4, 81))
                raise AssertionError("the rules let port 81 through")
            except TimeoutError:
                pass
        dev, client, there = moved(c)
        upload(client, there)
        usable(there, client)
        for node in nodes:
            tracked = node.output("cat", "/proc/net/nf_conntrack")
            assert " dport=80 " not in tracked, tracked
        there.close()
        client.close()
        dev.expect(CLOSED, 1)
        dev.close()


@claim
def entries_end_when_their_time_has_come():
    with Cluster(1) as c:
        c.fe.sysctl("net.flotilla.forward_linger_ms", 5000 * SLOW)
        dev, client, there = moved(c)
        there.close()
        client.close()
        dev.expect(CLOSED, 1)
        assert [x["CONN_STATE"] for x in c.fe.conns()] == ["LINGER"]
        wait(lambda: not c.fe.conns())
        c.fe.sysctl("net.flotilla.forward_idle_s", 1)
        dev, client, there = moved(c)
        dev.expect(CLOSED, 1)
        assert c.fe.stat("ForwardIdleExpired") == 1 and not c.fe.conns()
        for thing in (client, there, dev):
            thing.close()


@claim
def late_packets_find_the_owner_while_the_entry_lingers():
    """The server closes first: the client's FIN comes to TIME_WAIT there, and no RST is sent."""
    with Cluster(1) as c:
        dev, client, there = moved(c)
        there.close()
        dev.expect(CLOSED, 1)
        assert client.recv(1) == b""
        before = c.fe.stat("ForwardLinger")
        client.close()
        wait(lambda: c.fe.stat("ForwardLinger") > before)
        wait(lambda: not c.client.sockets(80) and "FIN-WAIT" not in c.client.output("ss", "-Htan"))
        dev.close()


@claim
def a_port_used_again_finds_the_front_end_not_a_listener_behind_it():
    """The client forgets a connection without a word. What the owner says of it resets it there, but
    the server has not let go yet: no SYN may come to its listener now."""
    with Cluster(1) as c:
        dev = c.fe.handoff()
        for family, port in ((4, 80), (6, 81)):
            front, back = c.fe.listen(port, family), c.be[0].listen(port, family)
            client = c.client.connect(port, family)
            source = client.getsockname()
            client.sendall(b"GET")
            here = accept(front)
            peek(here, 3)
            dev.submit(here, c.fe.id["be1"], port)
            dev.expect(DONE, port)
            here.close()
            there = accept(back)
            before = c.fe.stat("ForwardSynEarly")
            client.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
            client.close()
            got = []
            again = threading.Thread(target=lambda f=family, p=port, s=source, g=got: g.append(
                c.client.connect(p, f, s)))
            again.start()
            # The second: the first had the old connection reset.
            wait(lambda b=before: c.fe.stat("ForwardSynEarly") >= b + 2)
            assert there.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNRESET
            assert not select.select([back], [], [], 0.5)[0], "a connection behind the front-end's back"
            there.close()
            dev.expect(CLOSED, port)
            here = accept(front)
            again.join()
            usable(here, got[0])
            for thing in (front, back, here, got[0]):
                thing.close()
        dev.close()


@claim
def addresses_of_other_families_work_side_by_side():
    with Cluster(1) as c:
        one, two = moved(c, 4, 80), moved(c, 6, 81)
        for _, client, there in (one, two):
            usable(there, client)
        rows = c.fe.conns()
        assert sorted(struct.unpack_from("=H", r["CONN_TUPLE"])[0] for r in rows) == [
            socket.AF_INET, socket.AF_INET6], rows
        for things in (one, two):
            for thing in things:
                thing.close()


if __name__ == "__main__":
    main()
