# SPDX-License-Identifier: GPL-2.0
"""A client and two nodes in namespaces, and the endpoint calls of flt_endpoint_test.ko.

The client reaches the service address by node a or by node b; World.steer() is all the
forwarding these tests need.
"""
import contextlib
import ctypes
import fcntl
import os
import random
import re
import selectors
import socket
import struct
import subprocess
import sys
import time

from patience import PATIENCE
import kit

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000

VIP = {4: "10.20.0.1", 6: "fd20::1"}
CLIENT = {4: "10.9.0.1", 6: "fd09::1"}
FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}

TCP_INFO_FIELDS = (  # struct tcp_info, in order: (name, struct code)
    "state:B ca_state:B retransmits:B probes:B backoff:B options:B wscales:B flags:B "
    "rto:I ato:I snd_mss:I rcv_mss:I unacked:I sacked:I lost:I retrans:I fackets:I "
    "last_data_sent:I last_ack_sent:I last_data_recv:I last_ack_recv:I "
    "pmtu:I rcv_ssthresh:I rtt:I rttvar:I snd_ssthresh:I snd_cwnd:I advmss:I reordering:I "
    "rcv_rtt:I rcv_space:I total_retrans:I pacing_rate:Q max_pacing_rate:Q bytes_acked:Q "
    "bytes_received:Q segs_out:I segs_in:I notsent_bytes:I min_rtt:I data_segs_in:I "
    "data_segs_out:I delivery_rate:Q busy_time:Q rwnd_limited:Q sndbuf_limited:Q "
    "delivered:I delivered_ce:I bytes_sent:Q bytes_retrans:Q dsack_dups:I reord_seen:I "
    "rcv_ooopack:I snd_wnd:I rcv_wnd:I").split()


def refusals():
    """enum flt_refusal, out of the uapi header."""
    path = os.path.join(os.path.dirname(__file__), "../../uapi/flotilla/flotilla.h")
    with open(path, encoding="ascii") as header:
        found = re.findall(r"\bFLT_REFUSE_(\w+)\s*=\s*(\d+)", header.read())
    return {int(number): name for name, number in found}


REFUSAL = refusals()


class Namespace:
    """A network namespace; `with` makes it the caller's."""

    def __init__(self, name):
        self.name = name
        subprocess.run(["ip", "netns", "add", name], check=True)
        self.fd = os.open(f"/run/netns/{name}", os.O_RDONLY)
        self.outside = []

    def __enter__(self):
        self.outside.append(os.open("/proc/self/ns/net", os.O_RDONLY))
        self._enter(self.fd)
        return self

    def __exit__(self, *_):
        fd = self.outside.pop()
        self._enter(fd)
        os.close(fd)

    @staticmethod
    def _enter(fd):
        if libc.setns(fd, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")

    def ip(self, *lines):
        """Several `ip` commands in one process."""
        subprocess.run(["ip", "-n", self.name, "-batch", "-"], input="\n".join(lines) + "\n",
                       text=True, check=True)

    def route(self, target, gateway, source=None, features=0):
        """Add or replace the route to a host, without starting a program."""
        family = socket.AF_INET6 if ":" in target else socket.AF_INET

        def attribute(kind, data):
            return struct.pack("=HH", 4 + len(data), kind) + data

        def address(kind, text):
            return attribute(kind, socket.inet_pton(family, text))

        route = struct.pack("=BBBBBBBBI", family, 128 if family == socket.AF_INET6 else 32,
                            0, 0, 254, 4, 0, 1, 0)
        route += address(1, target) + address(5, gateway)
        if source:
            route += address(7, source)
        if features:
            route += attribute(8, attribute(12, struct.pack("=I", features)))
        request = struct.pack("=IHHII", 16 + len(route), 24, 0x505, 1, 0) + route
        with self, socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
            netlink.send(request)
            error = struct.unpack_from("=i", netlink.recv(4096), 16)[0]
        assert not error, os.strerror(-error)

    def usec_timestamps(self, client, gateway):
        """Let new connections with this IPv4 client have timestamps in microseconds.

        That is a feature of the route; iproute2 does not know it before 6.7.
        """
        self.route(client, gateway, features=1 << 4)

    def sysctl(self, **values):
        """net.ipv4 by name, e.g. tcp_sack=0; returns the values there were."""
        before = {}
        with self:
            for name, value in values.items():
                path = "/proc/sys/net/ipv4/" + name.replace("__", "/")
                with open(path, "r+", encoding="ascii") as file:
                    before[name] = file.read().strip()
                    file.seek(0)
                    file.write(str(value))
        return before

    def counters(self):
        """Everything of /proc/net/snmp and netstat, as {name: value}."""
        values = {}
        with self:
            for path in ("/proc/self/net/snmp", "/proc/self/net/netstat"):
                with open(path, encoding="ascii") as file:
                    lines = file.read().splitlines()
                for names, numbers in zip(lines[::2], lines[1::2]):
                    values.update(zip(names.split()[1:], map(int, numbers.split()[1:])))
        return values

    def close(self):
        os.close(self.fd)
        subprocess.run(["ip", "netns", "del", self.name], check=True)


class World:
    """Client c, nodes a and b, the service address on both."""

    def __init__(self):
        tag = f"ep{os.getpid()}"
        self.c, self.a, self.b = (Namespace(f"{tag}-{n}") for n in "cab")
        self.at = {}
        for ns in (self.c, self.a, self.b):
            ns.sysctl(conf__all__rp_filter=0, conf__default__rp_filter=0, tcp_no_metrics_save=1)
        for number, node in ((1, self.a), (2, self.b)):
            self.c.ip(f"link add n{number} type veth peer name port netns {node.name}",
                      f"addr add 10.{number}.0.1/24 dev n{number}",
                      f"addr add fd0{number}::1/64 dev n{number} nodad",
                      f"link set n{number} up")
            node.ip("link set lo up", "link set port up",
                    f"addr add 10.{number}.0.2/24 dev port",
                    f"addr add fd0{number}::2/64 dev port nodad",
                    f"addr add {VIP[4]}/32 dev lo", f"addr add {VIP[6]}/128 dev lo nodad",
                    f"route add {CLIENT[4]} via 10.{number}.0.1",
                    f"route add {CLIENT[6]} via fd0{number}::1")
        self.c.ip("link set lo up", f"addr add {CLIENT[4]}/32 dev lo",
                  f"addr add {CLIENT[6]}/128 dev lo nodad")
        self.steer(self.a)

    def steer(self, node):
        """The client's packets for the service go to this node from now on."""
        number = 1 if node is self.a else 2
        self.c.route(VIP[4], f"10.{number}.0.2", CLIENT[4])
        self.c.route(VIP[6], f"fd0{number}::2", CLIENT[6])

    def close(self):
        for ns in (self.c, self.a, self.b):
            ns.close()


class Endpoint:
    """/dev/flt_endpoint_test; refusals come back by name, success as 'NONE'."""

    CALL = struct.Struct("iIQII")
    MOST = 4 << 20      # FLT_CHECKPOINT_MAX
    CHECKPOINT, UNCHANGED, RELEASE, ADOPT, COMMIT, ABORT, FREEZE, THAW = (0xc0184500 | n for n in range(1, 9))

    def __init__(self):
        self.dev = os.open("/dev/flt_endpoint_test", os.O_RDWR)
        self.send = self.tsval = 0

    def call(self, request, sock=None, data=b"", room=0, send=0):
        """Returns (refusal, bytes)."""
        buf = ctypes.create_string_buffer(bytes(data), max(room, len(data), 1))
        call = bytearray(self.CALL.pack(sock.fileno() if sock else -1, 0, ctypes.addressof(buf),
                                        room or len(data), send))
        fcntl.ioctl(self.dev, request, call)
        _, why, _, length, self.send = self.CALL.unpack(call)
        return REFUSAL[why], buf.raw[:length]

    def checkpoint(self, sock, send=0):
        """Returns the checkpoint, with so many unacknowledged bytes at most, or raises Refused."""
        return self.take(self.CHECKPOINT, sock, send)

    def freeze(self, sock, send=MOST):
        """The same, and the socket stands still until thaw() or release()."""
        return self.take(self.FREEZE, sock, send)

    def take(self, request, sock, send):
        why, wire = self.call(request, sock, room=9 << 20, send=send)
        if why != "NONE":
            raise Refused(why)
        return Wire(wire)

    def thaw(self):
        self.call(self.THAW)

    def unchanged(self, sock, wire):
        return self.call(self.UNCHANGED, sock, wire)[0] == "NONE"

    def release(self, sock, wire=b""):
        """With a checkpoint: only if nothing has changed since; whether it is released."""
        why, _ = self.call(self.RELEASE, sock, wire)
        self.tsval = self.send
        return why == "NONE"

    def adopt(self, node, wire, giver=0, trust=False):
        """Returns the refusal's name; 'NONE' is success. trust: goes on with the giver's congestion window."""
        with node:
            return self.call(self.ADOPT, None, wire, send=giver | trust << 31)[0]

    def commit(self):
        return self.call(self.COMMIT, send=self.tsval)[0]

    def abort(self):
        return self.call(self.ABORT)[0]

    def close(self):
        os.close(self.dev)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Refused(Exception):
    """A refusal where a checkpoint was wanted."""


class Wire(bytearray):
    """A checkpoint as this version writes it, its fields by name (struct flt_wire)."""

    CRITICAL = 1
    HEAD = "magic:I version:H header_len:H total_len:I"
    SECTION = struct.Struct(">HHI")
    SECTIONS = {  # name: (type, flags, fields)
        "tuple": (1, 1, "family:H client_port:H server_port:H tuple_zero:H client:16s server:16s"),
        "options": (2, 1, "flags:I mss_clamp:H snd_wscale:B rcv_wscale:B ecn_flags:B "
                          "options_zero:B options_zero1:B options_zero2:B"),
        "progress": (3, 1, "snd_una:I snd_wnd:I snd_wl1:I max_window:I rcv_start:I unread:I "
                           "rcv_wup:I rcv_wnd:I rcv_ssthresh:I window_clamp:I"),
        "times": (4, 1, "ts_recent:I ts_recent_age:I tsval:I"),
        "rtt": (5, 0, "srtt_us:I mdev_us:I rttvar_us:I rtt_min_us:I"),
        "congestion": (10, 0, "snd_cwnd:I snd_ssthresh:I sent_age_ms:I"),
        "data": (6, 1, ""),
    }
    LAYOUT = {}
    HEADER = 0
    for _section, _fields in [("", HEAD)] + [
            (name, f"{name}_type:H {name}_flags:H {name}_len:I {fields}")
            for name, (_, _, fields) in SECTIONS.items()]:
        for _field in _fields.split():
            _name, _code = _field.split(":")
            LAYOUT[_name] = (HEADER, ">" + _code)
            HEADER += struct.calcsize(">" + _code)

    @classmethod
    def blank(cls, data=b""):
        """Zeros, but for what makes it a checkpoint."""
        wire = cls(bytes(cls.HEADER) + data)
        wire["magic"], wire["version"], wire["header_len"] = 0x464c5445, 2, 12
        for name, (kind, flags, fields) in cls.SECTIONS.items():
            wire[name + "_type"], wire[name + "_flags"] = kind, flags
            wire[name + "_len"] = struct.calcsize(">" + "".join(
                field.split(":")[1] for field in fields.split()))
        return wire.fit()

    def fit(self):
        """Set all that tells how many unread bytes there are."""
        self["total_len"] = len(self)
        self["unread"] = self["data_len"] = len(self) - self.HEADER
        return self

    def sections(self):
        """[[type, flags, body]], of a good one."""
        at, found = self["header_len"], []
        while at < len(self):
            kind, flags, length = self.SECTION.unpack_from(self, at)
            at += self.SECTION.size
            found.append([kind, flags, bytes(self[at:at + length])])
            at += length
        return found

    @classmethod
    def of(cls, sections, head=b""):
        """One made of sections, with the layout of this version if they have it; head: more of it."""
        body = b"".join(cls.SECTION.pack(kind, flags, len(body)) + body
                        for kind, flags, body in sections)
        size = 12 + len(head)
        return cls(struct.pack(">IHHI", 0x464c5445, 2, size, size + len(body)) + head + body)

    def __getitem__(self, key):
        if isinstance(key, str):
            offset, code = self.LAYOUT[key]
            return struct.unpack_from(code, self, offset)[0]
        return super().__getitem__(key)

    def __setitem__(self, key, value):
        if isinstance(key, str):
            offset, code = self.LAYOUT[key]
            struct.pack_into(code, self, offset, value)
        else:
            super().__setitem__(key, value)

    def send(self):
        """(snd_nxt, write_seq, bytes from snd_una on), or None: the client has acknowledged all."""
        found = {kind: body for kind, _, body in self.sections()}
        return struct.unpack(">II", found[7][:8]) + (found[8],) if 7 in found else None

    def but(self, **fields):
        """A copy with other values."""
        copy = Wire(self)
        for name, value in fields.items():
            copy[name] = value
        return copy


def listen(node, port, v=4, addr=None, **options):
    """A listener on the service address; options by name, e.g. SO_REUSEPORT=1, backlog=5."""
    with node:
        sock = socket.socket(FAMILY[v], socket.SOCK_STREAM, options.pop("proto", 0))
    backlog = options.pop("backlog", 64)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for name, value in options.items():
        level = {"SO": socket.SOL_SOCKET, "TCP": socket.IPPROTO_TCP,
                 "IPV6": socket.IPPROTO_IPV6}[name.split("_")[0]]
        sock.setsockopt(level, getattr(socket, name), value)
    sock.bind((VIP[v] if addr is None else addr, port))
    sock.listen(backlog)
    sock.settimeout(PATIENCE)
    return sock


def connect(world, port, v=4, **options):
    """The client's socket, connected to the service."""
    with world.c:
        sock = socket.socket(FAMILY[v], socket.SOCK_STREAM)
    for name, value in options.items():
        level = socket.SOL_SOCKET if name.startswith("SO_") else socket.IPPROTO_TCP
        sock.setsockopt(level, getattr(socket, name), value)
    sock.settimeout(PATIENCE)
    sock.bind((CLIENT[v], 0))
    sock.connect((VIP[v], port))
    return sock


@contextlib.contextmanager
def patient(world):
    """A slow machine makes retransmission timers fire, which is no fault of a move."""
    before = [(ns, ns.sysctl(tcp_early_retrans=0, tcp_rto_min_us=5000000))
              for ns in (world.c, world.a, world.b)]
    try:
        yield
    finally:
        for ns, values in before:
            ns.sysctl(**values)


@contextlib.contextmanager
def lost(node, number, *gateways):
    """What the node sends to these neighbours goes to nobody, and no queue knows it."""
    device = "port" if number is None else f"n{number}"
    node.ip(*(f"neigh replace {to} lladdr 02:00:00:00:00:99 nud permanent dev {device}" for to in gateways))
    try:
        yield
    finally:
        node.ip(*(f"neigh del {to} dev {device}" for to in gateways))


def answers_lost(world):
    """What a sends does not reach the client."""
    return lost(world.a, None, "10.1.0.1", "fd01::1")


def answers_of_b_lost(world):
    return lost(world.b, None, "10.2.0.1", "fd02::1")


def client_cut_off(world):
    """What the client sends does not reach a: acknowledgments neither."""
    return lost(world.c, 1, "10.1.0.2", "fd01::2")


def tcp_info(sock):
    """struct tcp_info as a dictionary."""
    code = "=" + "".join(field.split(":")[1] for field in TCP_INFO_FIELDS)
    raw = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, struct.calcsize(code))
    info = dict(zip((field.split(":")[0] for field in TCP_INFO_FIELDS), struct.unpack(code, raw)))
    info["snd_wscale"], info["rcv_wscale"] = info["wscales"] & 15, info["wscales"] >> 4
    return info


def until(condition, what, seconds=PATIENCE):
    """Wait for a state, not for a time."""
    kit.wait_for(what, condition, seconds)


def reset(sock, error=ConnectionError):
    """What it still gives is read; its end must be this error."""
    try:
        while sock.recv(100):
            pass
    except error:
        return
    raise AssertionError("not reset")


def nothing_to_accept(listener):
    listener.setblocking(False)
    try:
        raise AssertionError(f"accepted {listener.accept()}")
    except BlockingIOError:
        pass


def unread(sock):
    """Bytes waiting in a socket."""
    raw = fcntl.ioctl(sock, 0x541b, struct.pack("i", 0))
    return struct.unpack("i", raw)[0]


def receive(sock, count):
    """Exactly count bytes, or what there was before end of file."""
    parts = []
    while count:
        part = sock.recv(min(count, 1 << 16))
        if not part:
            break
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def noise(count, seed):
    """Bytes that differ at every offset and are the same in every run."""
    return random.Random(seed).randbytes(count)


def fill(server, data):
    """As much as its buffer takes; how much that was."""
    server.setblocking(False)
    done = 0
    try:
        while done < len(data):
            done += server.send(data[done:done + 65536])
    except BlockingIOError:
        pass
    server.settimeout(PATIENCE)
    return done


def exchange(one, other, there, back, seconds=PATIENCE):
    """Send `there` from one to other and `back` from other to one at once; both must arrive whole."""
    sides = {one: [memoryview(there), bytearray(), len(back)],
             other: [memoryview(back), bytearray(), len(there)]}
    end = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for sock in sides:
            sock.setblocking(False)
            selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE)
        while any(todo or len(got) < want for todo, got, want in sides.values()):
            left = end - time.monotonic()
            assert left > 0, "stalled: " + ", ".join(
                f"{len(got)} of {want} received, {len(todo)} unsent"
                for todo, got, want in sides.values())
            for key, events in selector.select(min(left, 1)):
                side = sides[key.fileobj]
                if events & selectors.EVENT_READ:
                    part = key.fileobj.recv(1 << 16)
                    assert part or len(side[1]) == side[2], "early end of file"
                    side[1] += part
                if events & selectors.EVENT_WRITE and side[0]:
                    side[0] = side[0][key.fileobj.send(side[0][:1 << 16]):]
                if not side[0] and key.events & selectors.EVENT_WRITE:
                    selector.modify(key.fileobj, selectors.EVENT_READ)
    for sock in sides:
        sock.settimeout(PATIENCE)
    assert bytes(sides[one][1]) == back, "the answer is not what was sent"
    assert bytes(sides[other][1]) == there, "the request is not what was sent"


def pair(world, port, v=4, listener=None, **options):
    """Client's and node a's socket of a new connection."""
    with listen(world.a, port, v, **(listener or {})) as at_a:
        client = connect(world, port, v, **options)
        server = at_a.accept()[0]
    server.settimeout(PATIENCE)
    return client, server


def refuses_all(world, port, turns, rng, lies):
    """Each of lies(a good checkpoint, rng), which are named, is malformed, and nobody's connection is touched."""
    client, server = pair(world, port)
    client.sendall(b"request")
    until(lambda: unread(server) == 7, "the request is on a")
    with client, server, listen(world.b, port) as at_b, Endpoint() as endpoint:
        good = endpoint.checkpoint(server, Endpoint.MOST)
        for _ in range(turns):
            for what, wire in lies(good, rng):
                why = endpoint.adopt(world.b, wire)
                if why == "NONE":
                    endpoint.abort()
                assert why == "MALFORMED", f"{what}: {why}"
        nothing_to_accept(at_b)
        assert endpoint.unchanged(server, good)
        assert receive(server, 7) == b"request"
        exchange(client, server, noise(100, 1), noise(100, 2))


def queue_seq(sock, queue):
    """Next sequence number of the send (2) or receive (1) queue, by TCP_REPAIR."""
    sock.setsockopt(socket.IPPROTO_TCP, 19, 1)
    sock.setsockopt(socket.IPPROTO_TCP, 20, queue)
    seq = sock.getsockopt(socket.IPPROTO_TCP, 21) & 0xffffffff
    sock.setsockopt(socket.IPPROTO_TCP, 19, -1)
    return seq


SYN, FIN, RST, PSH, ACK, URG = 2, 1, 4, 8, 16, 32


def inject(node, source, target, seq, ack, flags, data=b"", urgent=0, options=b""):
    """Send an IPv4 segment as if (address, port) source had."""
    offset = 5 + len(options) // 4
    tcp = struct.pack("!HHIIBBHHH", source[1], target[1], seq & 0xffffffff, ack & 0xffffffff,
                      offset << 4, flags, 60000, 0, urgent) + options + data
    addresses = socket.inet_aton(source[0]) + socket.inet_aton(target[0])
    total = addresses + struct.pack("!HH", socket.IPPROTO_TCP, len(tcp)) + tcp
    total += b"\0" * (len(total) % 2)
    check = sum(struct.unpack(f"!{len(total) // 2}H", total))
    while check >> 16:
        check = (check & 0xffff) + (check >> 16)
    tcp = tcp[:16] + struct.pack("!H", ~check & 0xffff) + tcp[18:]
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, socket.IPPROTO_TCP, 0)
    with node:
        raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    with raw:
        raw.sendto(head + addresses + tcp, (target[0], 0))


class Capture:
    """TCP segments over IPv4 that reach or leave a namespace from now on."""

    def __init__(self, node):
        with node:
            self.sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
        self.sock.setblocking(False)

    def segments(self):
        """[(source, target, flags, seq, ack, payload length)] since the last call."""
        found = []
        while True:
            try:
                packet = self.sock.recv(1 << 16)
            except BlockingIOError:
                return found
            if packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_TCP:
                continue
            size = (packet[0] & 15) * 4
            sport, dport, seq, ack, offset, flags = struct.unpack_from("!HHIIBB", packet, size)
            length = struct.unpack_from("!H", packet, 2)[0] - size - (offset >> 4) * 4
            found.append(((socket.inet_ntoa(packet[12:16]), sport),
                          (socket.inet_ntoa(packet[16:20]), dport), flags, seq, ack, length))

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Trace:
    """Events of the group flotilla, in a buffer of their own."""

    def __init__(self, *events):
        self.path = f"/sys/kernel/tracing/instances/ep{os.getpid()}"
        os.mkdir(self.path)
        for event in events:
            with open(f"{self.path}/events/flotilla/{event}/enable", "w", encoding="ascii") as file:
                file.write("1")

    def events(self):
        """[(event, its text)] so far."""
        with open(self.path + "/trace", encoding="ascii") as file:
            found = [re.search(r": (flt_\w+): (.*)", line) for line in file if line[0] != "#"]
        return [match.groups() for match in found if match]

    def close(self):
        os.rmdir(self.path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Difference:
    """Counters of a namespace, as what they grew by."""

    def __init__(self, node):
        self.node = node
        self.before = node.counters()

    def __getitem__(self, name):
        return self.node.counters()[name] - self.before[name]

    def quiet(self, but=()):
        """Nothing that a peer would take for trouble happened here.

        Linux alone, between two busy processors, has one acknowledgment overtaken by data of a later clock
        in a hundred exchanges (PAWSEstab); a clock that was set back has each segment refused.
        """
        now = self.node.counters()
        for name in ("OutRsts", "PAWSEstab", "TCPChallengeACK", "InErrs", "TCPSACKReneging",
                     "ListenOverflows", "ListenDrops"):
            grown = now[name] - self.before[name]
            allowed = 2 if name == "PAWSEstab" else 0
            assert grown <= allowed or name in but, f"{self.node.name}: {name} grew by {grown}"


def move(world, server, node, change=None, release=True, send=0, trust=False):
    """Move the connection of `server` to another node; its listener there gets it."""
    with Endpoint() as endpoint:
        wire = endpoint.checkpoint(server, send)
        if change:
            wire = change(wire)
        why = endpoint.adopt(node, wire, trust=trust)
        if why != "NONE":
            raise Refused(why)
        world.steer(node)
        if release:
            if not endpoint.release(server, b"" if change else wire):
                now = endpoint.checkpoint(server)
                raise AssertionError("changed under way: " + ", ".join(
                    f"{name} {wire[name]} -> {now[name]}" for name in Wire.LAYOUT
                    if wire[name] != now[name]))
        if change:
            endpoint.tsval = 0      # or it would be put right
        why = endpoint.commit()
        assert why == "NONE", f"commit: {why}"
    return wire


class Suite:
    """Named claims; a claim is a function that takes the world."""

    def __init__(self):
        self.claims = []

    def claim(self, function):
        """Decorator."""
        self.claims.append((function.__name__, function))
        return function

    def each(self, values):
        """Decorator: one claim for every value, named after it."""
        def wrap(function):
            for value in values:
                name = f"{function.__name__}_{value}".replace(" ", "")
                self.claims.append((name, lambda world, v=value: function(world, v)))
            return function
        return wrap

    def main(self):
        """Hold all (or those that an argument names); does not return."""
        subprocess.run(["modprobe", "flt_endpoint_test"], check=True)
        try:
            status = self.hold()
        finally:
            subprocess.run(["rmmod", "flt_endpoint_test"], check=True)
        sys.exit(status)

    def hold(self):
        """Exit status."""
        world = World()

        def one(function):
            world.steer(world.a)
            function(world)

        try:
            return kit.run([(name, lambda f=function: one(f)) for name, function in self.claims])
        finally:
            world.close()
