# SPDX-License-Identifier: GPL-2.0
"""SYNs without a socket: of clients that do not exist, and with what no TCP would write."""
import socket
import struct

MARK = 0xf107


def summed(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(">%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def segment(source, to, flags, sport, dport=80, urgent=0, seq=1000, ack=0, ttl=64, data=b""):
    """An IPv4 packet; SYN is 2, ACK 16, RST 4."""
    source, to = socket.inet_aton(source), socket.inet_aton(to)
    tcp = bytearray(struct.pack(">HHIIBBHHH", sport, dport, seq, ack, 0x50, flags, 65000, 0, urgent) + data)
    tcp[16:18] = struct.pack(">H", summed(source + to + struct.pack(">BBH", 0, 6, len(tcp)) + bytes(tcp)))
    head = bytearray(struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 1, 0x4000, ttl, 6, 0, source, to))
    head[10:12] = struct.pack(">H", summed(bytes(head)))
    return bytes(head + tcp)


def fragments6(source, to, sport, dport=80, size=None):
    """An IPv6 SYN with eight bytes of data, in fragments of @size bytes; None: one that says it is a fragment."""
    source, to = socket.inet_pton(socket.AF_INET6, source), socket.inet_pton(socket.AF_INET6, to)
    tcp = bytearray(struct.pack(">HHIIBBHHH4B8s", sport, dport, 1000, 0, 0x60, 2, 65000, 0, 0, 1, 1, 1, 1, b"whatever"))
    tcp[16:18] = struct.pack(">H", summed(source + to + struct.pack(">II", len(tcp), 6) + bytes(tcp)))
    size = size or len(tcp)
    for at in range(0, len(tcp), size):
        part = bytes(tcp[at:at + size])
        more = int(at + size < len(tcp))
        yield (struct.pack(">IHBB", 6 << 28, 8 + len(part), 44, 64) + source + to +
               struct.pack(">BBHI", 6, 0, at | more, sport) + part)


class Raw:
    """Sends from a node's namespace."""

    def __init__(self, node, family=socket.AF_INET):
        with node.inside():
            self.sock = socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW)

    def send(self, source, to, flags, sport, **more):
        self.sock.sendto(segment(source, to, flags, sport, **more), (to, 0))

    def send_fragments6(self, source, to, sport, **more):
        for packet in fragments6(source, to, sport, **more):
            self.sock.sendto(packet, (to, 0))

    def close(self):
        self.sock.close()
