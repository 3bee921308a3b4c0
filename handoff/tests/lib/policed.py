# SPDX-License-Identifier: GPL-2.0
"""Back-ends with policies (flotilla migrate policy), and a client that comes to the first of them."""
import contextlib
import json
import os
import select
import socket
import subprocess

from hof import PATIENCE, VIP4, accept, receive
from chain import Chain
from move import FLOTILLA

SERVICE = VIP4 + ":80"
END = b"\r\nHost: x\r\n\r\n"


def get(path):
    return b"GET %s HTTP/1.1" % path.encode() + END


def body(site, number):
    with open(os.path.join(site.root, "f%d" % number), "rb") as file:
        return file.read()


def nothing(sock, seconds=0.3):
    """Its program finds no byte in it, whichever way it asks."""
    sock.setblocking(False)
    assert not select.select([sock], [], [], seconds)[0], "readable"
    for ask in (lambda: sock.recv(100), lambda: sock.recv(100, socket.MSG_PEEK), lambda: sock.recvmsg(100),
                lambda: os.readv(sock.fileno(), [bytearray(100)])):
        with contextlib.suppress(BlockingIOError):
            raise AssertionError("it reads %r" % ask())
    sock.settimeout(PATIENCE)


class Nodes(Chain):
    """Two or three back-ends that serve the same address, and a client that comes to be1."""

    def __init__(self, backends=2, listening=True, **more):
        super().__init__(backends, **more)
        self.client.run("ip", "route", "add", VIP4 + "/32", "via", self.net.ip4(self.be[0].number))
        self.listeners = [be.listen() for be in self.be] if listening else []
        self.opened = []
        self.wait_ms(60000)

    def wait_ms(self, number):
        for be in self.be:
            be.sysctl("net.flotilla.migrate_wait_ms", min(number, 10000))

    def flotilla(self, *words, at=0, check=0):
        done = subprocess.run(("ip", "netns", "exec", self.be[at].ns, FLOTILLA, "-j", "migrate") + words, check=False,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert done.returncode == check, (words, done)
        return json.loads(done.stdout) if done.stdout else done.stderr

    def policy(self, *words, at=0):
        self.flotilla("policy", "set", SERVICE, *words, at=at)

    def why(self, at=0):
        """How many requests moved, and why others stayed."""
        return {row["reason"]: row["requests"] for row in self.flotilla("explain", at=at)}

    def connect(self):
        client = self.client.connect()
        self.opened.append(client)
        return client

    def accepted(self, number=0):
        sock = accept(self.listeners[number])
        self.opened.append(sock)
        return sock

    def answer(self, sock, client, request, answer=b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"):
        assert receive(sock, len(request)) == request
        sock.sendall(answer)
        assert receive(client, len(answer)) == answer

    def moved(self, old, client, request, to=1):
        """The program that had it reads end of file and nothing else; another node's reads the request."""
        new = self.accepted(to)
        assert old.recv(100) == b""
        self.answer(new, client, request)
        return new

    def __exit__(self, *_):
        for sock in self.opened + self.listeners:
            sock.close()
        self.close()
