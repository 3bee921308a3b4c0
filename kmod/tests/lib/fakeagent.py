# SPDX-License-Identifier: GPL-2.0
"""A handshake agent as tlshd is one, but without a handshake: both ends get the same fixed keys.

It stands for tlshd in tests of what the kernel does before and after; it authenticates nobody.
"""
import os
import socket
import struct
import threading
import time

import fltnl
from netns import inside

READY, ACCEPT, DONE = 1, 2, 3
A_SOCKFD, A_CLASS, A_TYPE, A_TIMEOUT, A_AUTH, A_IDENTITY, _, A_PEERNAME = range(1, 9)
D_STATUS, D_SOCKFD, D_REMOTE = 1, 2, 3
CLIENT = 1
TCP_ULP, SOL_TLS, TLS_TX, TLS_RX = 31, 282, 1, 2


def keys(side):
    """struct tls12_crypto_info_aes_gcm_128 with version 1.3."""
    salt = bytes([side] * 4)
    return struct.pack("=HH", 0x0304, 51) + bytes(8) + bytes([side] * 16) + salt + bytes(8)


class FakeAgent(threading.Thread):
    """Serves one namespace until stop(). mode: "tls", "plain" (says done, does nothing),
    "fail" (says EACCES), "mute" (never answers), "anonymous" (the peer has shown no certificate),
    "other" (the peer has shown another key), "strict" (EACCES without a privileged port; else it takes its
    time)."""

    def __init__(self, ns, mode="tls"):
        super().__init__(daemon=True)
        self.mode, self.seen, self.held = mode, [], []
        self.ending = False
        with inside(ns):
            self.nl = Handshake()
            self.ears = Handshake()
        self.ears.sock.setsockopt(fltnl.SOL_NETLINK, fltnl.NETLINK_ADD_MEMBERSHIP,
                                  self.ears.groups["tlshd"])
        self.ears.sock.settimeout(0.2)
        self.start()

    def stop(self):
        self.ending = True
        self.join()
        self.nl.close()
        self.ears.close()
        for fd in self.held:
            os.close(fd)

    def run(self):
        while not self.ending:
            try:
                self.ears.sock.recv(4096)
            except TimeoutError:
                continue
            while self.serve():
                pass

    def serve(self):
        try:
            rows = self.nl.talk(self.nl.family, ACCEPT,
                                fltnl.attr(A_CLASS, struct.pack("=I", 1)))
        except fltnl.NlError:
            return False
        for row in rows:
            attrs = dict(fltnl.split(row))
            fd = struct.unpack("=i", attrs[A_SOCKFD])[0]
            client = struct.unpack("=I", attrs[A_TYPE])[0] == CLIENT
            auth = struct.unpack("=I", attrs[A_AUTH])[0]
            name = attrs.get(A_PEERNAME, b"").rstrip(b"\0").decode()
            self.seen.append(("client" if client else "server", auth, name))
            if self.mode == "mute":
                self.held.append(fd)
                continue
            status = 13 if self.mode == "fail" or self.mode == "strict" and not self.knows(fd) else 0
            if self.mode in ("tls", "anonymous", "other", "strict") and not status:
                with socket.socket(fileno=os.dup(fd)) as sock:
                    try:
                        sock.setsockopt(socket.SOL_TCP, TCP_ULP, b"tls")
                        sock.setsockopt(SOL_TLS, TLS_TX, keys(1 if client else 2))
                        sock.setsockopt(SOL_TLS, TLS_RX, keys(2 if client else 1))
                    except OSError as error:    # the peer gave up meanwhile
                        status = error.errno
            # As tlshd does: the key, or that there was a certificate.
            peer = attrs.get(A_IDENTITY, struct.pack("=I", 0xffffffff))
            if self.mode == "other":
                peer = struct.pack("=I", 0x12345678)
            self.nl.talk(self.nl.family, DONE,
                         fltnl.attr(D_STATUS, struct.pack("=I", status)) +
                         fltnl.attr(D_SOCKFD, struct.pack("=i", fd)) +
                         (fltnl.attr(D_REMOTE, peer) if self.mode != "anonymous" else b""))
            os.close(fd)
        return bool(rows)

    @staticmethod
    def knows(fd):
        with socket.socket(fileno=os.dup(fd)) as sock:
            try:
                known = sock.getpeername()[1] < 1024
            except OSError:
                known = False
        if known:
            time.sleep(0.3)
        return known


class Handshake(fltnl.Flotilla):
    """The family "handshake"."""
    FAMILY = b"handshake\0"
