# SPDX-License-Identifier: GPL-2.0
"""A node that is only a socket and says to an exporter what it likes."""
import contextlib
import functools
import socket
import struct
import threading

from card import MIB, export, pair
from cluster import FakePeer, frame, hello

ATTACH, ATTACHED, DETACH, READ, DATA, DONE, WRITE, SAVE, INDEX, PEER = range(0x20, 0x2a)
BLOCK = ">QQIIIIIIIHHHBBBBBBII"
ESTALE, EINVAL, EACCES, ENOENT, EOPNOTSUPP, EPROTO = 116, 22, 13, 2, 95, 71


def block(epoch=0, sector=0, export_id=0, size=4096, disk=1, tag=0, gen=4, crc=0, flags=0, op=0,
          origin=0xffff):
    return struct.pack(BLOCK, epoch, sector, export_id, size, disk, tag, gen, crc, 0, flags,
                       origin, 0xffff, op, 0, 0, 0, 0, 0, 0, 0)


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


@functools.cache
def crc_of_zeros(size):
    return crc32c(bytes(size))


def answer_data(ask):
    """Zeros, for who asked to read."""
    size = struct.unpack_from(">I", ask, 20)[0]
    return frame(DATA, ask[:36] + struct.pack(">I", crc_of_zeros(size)) + ask[40:] + bytes(size))


def answer_done(ask, status):
    return frame(DONE, ask[:40] + struct.pack(">I", status) + ask[44:])


def ask_attach(name="data", version=3, flags=0, zero=0, uuid=bytes(16), grant=0, life=0):
    return (struct.pack(">IIIIIQQ", version, 7, 9, flags, zero, grant, life) + uuid +
            name.encode().ljust(32, b"\0"))


class Peer(FakePeer):
    """Node 2 as a plain socket that says what it likes to node 1, the exporter."""

    uuid = grant = life = None     # as the exporter last gave them

    def greet(self):
        self.connect()
        self.send(frame(0, hello(self.node.name, heartbeat=1000)))
        while self.frame()[0] != 0:
            pass
        return self

    def say(self, kind, body):
        self.send(frame(kind, body))
        return self

    def answer(self, kind):
        """The next message of this type; PINGs are answered on the way."""
        while (got := self.frame()) is not None:
            if got[0] == 1:
                self.send(frame(2, got[1]))
            if got[0] == kind:
                return got[1]
        raise AssertionError("the link was closed")

    def attach(self, **more):
        body = self.say(ATTACH, ask_attach(**more)).answer(ATTACHED)
        (_, _, status, _, self.uuid, self.grant, self.life, epoch, sectors,
         export_id) = struct.unpack_from(">IIII16sQQQQI", body)
        return status, epoch, export_id, sectors

    def read(self, **more):
        return struct.unpack(BLOCK, self.say(READ, block(**more)).answer(DONE))[8]


class Fake:
    """Node 1 exports to node 2, which is a Peer; node 2's own link is silenced."""

    def __init__(self, *words, before=None, n=2):
        self.pair = pair(n, size=MIB, words=words)
        self.before = before

    def __enter__(self):
        self.c, self.disk = self.pair.__enter__()
        a, b = self.c.nodes[:2]
        # The lower address connects: so the exporter must be the higher one to be called.
        b.nl.do("NODE_DEL", node_name=a.name)
        export(b, "data", self.disk.device, nodes="n1")
        a.nl.do("NODE_DEL", node_name=b.name)
        b.list(a)
        self.exporter = b
        if self.before:
            self.before()
        self.peer = Peer(a, b).greet()
        return self

    def __exit__(self, *what):
        self.peer.close()
        return self.pair.__exit__(*what)


@contextlib.contextmanager
def meeting(*words, size=8 * MIB, exported=True):
    """Node 2, which may export to node 1, and node 1 as a plain socket."""
    with pair(size=size, offered=False) as (c, disk):
        a, b = c.nodes
        # The lower address connects.
        b.nl.do("NODE_DEL", node_name=a.name)
        a.nl.do("NODE_DEL", node_name=b.name)
        if exported:
            export(b, "data", disk.device, *words, nodes="n1")
        b.list(a)
        peer = Peer(a, b).greet()
        try:
            yield b, peer
        finally:
            peer.close()


class Exporter:
    """Lets the node attach, and leaves what it reads to @read(body)."""

    def __init__(self, peer, read):
        self.peer, self.read, self.reads, self.mute = peer, read, 0, False
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        with contextlib.suppress(OSError):
            while (got := self.peer.frame()) is not None:
                kind, body = got
                if self.mute:
                    continue
                if kind == 1:
                    self.peer.send(frame(2, body))
                elif kind == ATTACH:
                    self.peer.send(frame(ATTACHED, self.attached(body)))
                elif kind == READ:
                    self.reads += 1
                    self.read(body)

    @staticmethod
    def attached(ask):
        _, disk, cookie = struct.unpack_from(">III", ask)
        return struct.pack(">IIII16sQQQQIIII32s32sHHB3s", disk, cookie, 0, 0, b"u" * 16, 0, 5, 77,
                           2048, 9, 512, 512, 32, b"none", b"", 0, 0, 0, bytes(3))

    def close(self):
        with contextlib.suppress(OSError):
            self.peer.sock.shutdown(socket.SHUT_RDWR)
        self.thread.join()
