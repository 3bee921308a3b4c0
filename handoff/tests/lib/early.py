# SPDX-License-Identifier: GPL-2.0
"""Handoff before there is a socket: who asks for it, and a cluster whose front-end has it."""
import ctypes
import fcntl
import select
import socket
import struct
import time

from hof import VIP4, Cluster, wait
from syns import Raw

EARLY = struct.Struct("=IIHHI16sQ")
IOC_EARLY = (1 << 30) | (EARLY.size << 16) | (0xF1 << 8) | 18
REQUEST = b"GET /one HTTP/1.1\r\nHost: flotilla\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


def early_ioctl(dev, nodes, port=80, address=VIP4, family=socket.AF_INET, flags=0, size=EARLY.size, tail=b""):
    ids = (ctypes.c_uint32 * max(len(nodes), 1))(*nodes)
    return fcntl.ioctl(dev, IOC_EARLY, bytearray(EARLY.pack(size, flags, family, socket.htons(port), len(nodes),
                                                            socket.inet_aton(address) + tail, ctypes.addressof(ids))))


class Early(Cluster):
    """fe listens, as a dispatcher does, and opens no connection itself."""

    def __init__(self, backends=2, port=80, begun=True, **more):
        super().__init__(backends, **more)
        self.port = port
        self.front = self.fe.listen(port)
        self.back = [be.listen(port) for be in self.be]
        for sock in [self.front] + self.back:
            sock.settimeout(0)
        self.dev = self.fe.handoff()
        if begun:
            self.begin()

    def close(self):
        if self.dev:
            self.dev.close()
        for sock in [self.front] + self.back:
            sock.close()
        super().close()

    def begin(self, *which, dev=None):
        early_ioctl((dev or self.dev).fd, [self.fe.id[be.name] for be in which or self.be], self.port)

    def end(self):
        early_ioctl(self.dev.fd, [], self.port)

    def count(self, name):
        return self.fe.stat("Early" + name)

    def taken(self, sock):
        """The next connection of a listener, or None."""
        try:
            conn = sock.accept()[0]
        except BlockingIOError:
            return None
        conn.settimeout(30)
        return conn

    def front_waits(self):
        """Something waits in the listener's queue of the front-end."""
        return bool(select.select([self.front], [], [], 0)[0])

    @staticmethod
    def slabs():
        """Objects that a connection could leave behind, by slab."""
        names = ("hof_entry4", "TCP", "request_sock_TCP", "tw_sock_TCP")
        with open("/proc/slabinfo", encoding="ascii") as file:
            rows = [line.split() for line in file]
        return {row[0]: int(row[1]) for row in rows if row[0] in names}

    def where(self, seconds=None):
        """(index of the back-end, its connection); -1: the front-end's listener has it."""
        found = []

        def look():
            for index, sock in enumerate([self.front] + self.back, -1):
                conn = self.taken(sock)
                if conn:
                    found.append((index, conn))
            return found
        wait(look, *([seconds] if seconds else []))
        assert len(found) == 1, found
        return found[0]

    def ask(self, request=REQUEST, **more):
        client = self.client.connect(self.port, **more)
        client.sendall(request)
        return client


def answers(client, there, request=REQUEST, answer=ANSWER, writer=None):
    """The server gets the request, which is sent already, and the client its answer; large ones need a @writer."""
    got = b""
    while len(got) < len(request):
        part = there.recv(65536)
        assert part, got
        got += part
    assert got == request, got
    if writer:
        writer.submit(there.sendall, answer)
    else:
        there.sendall(answer)
    got = b""
    while len(got) < len(answer):
        part = client.recv(65536)
        assert part, got[:100]
        got += part
    assert got == answer


def over(client, there):
    there.close()
    assert client.recv(1) == b""
    client.close()


class Hand:
    """A client without TCP, at an address that @c's front-end finds behind the client."""

    def __init__(self, c, address="198.18.0.1", port=5000, seq=77000):
        self.c, self.address, self.port, self.seq, self.ack = c, address, port, seq, 0
        self.raw = Raw(c.client)
        with c.client.inside():
            self.tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x800))

    def send(self, flags, skip=0, data=b""):
        self.raw.send(self.address, VIP4, flags, self.port, dport=self.c.port, seq=self.seq + skip, ack=self.ack,
                      data=data)

    def heard(self, seconds):
        """(flags, seq) of the next segment for it; None: none comes."""
        own, end = socket.inet_aton(self.address), time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and select.select([self.tap], [], [], left)[0]:
            packet, where = self.tap.recvfrom(65536)
            if where[2] != socket.PACKET_OUTGOING and packet[9] == 6 and packet[16:20] == own:
                to, seq, flags = struct.unpack(">2xHI5xB", packet[20:34])
                if to == self.port:
                    return flags, seq
        return None

    def shake(self, seconds=30, acked=True):
        self.ack = 0
        self.send(2)
        flags, seq = self.heard(seconds)
        assert flags == 18, flags
        self.seq, self.ack = self.seq + 1, seq + 1
        if acked:
            self.send(16)

    def close(self):
        self.tap.close()
        self.raw.close()
