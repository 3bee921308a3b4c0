# SPDX-License-Identifier: GPL-2.0
"""One connection between two listeners of this process, and a move of it (flotilla/move.h)."""
import time

from hof import accept, receive, wait
from move import TO, Move, connect, listen

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody"


class Pair:
    """An old server, a new one, and a client of the old one; both servers are this process."""

    def __init__(self, address=("127.0.0.1", 8080), idle_ms=0, answered=1):
        self.address = address
        self.old = listen(address)
        self.client = connect(address)
        self.served = accept(self.old)
        self.new = listen(address)
        for _ in range(answered):
            self.exchange()
        self.move = Move(idle_ms)
        self.move.give(TO, self.new)

    def exchange(self):
        self.client.sendall(GET)
        assert receive(self.served, len(GET)) == GET
        self.answered(self.served)

    def answered(self, server):
        server.sendall(ANSWER)
        assert receive(self.client, len(ANSWER)) == ANSWER

    def tries(self):
        return sum(self.move.status()["refused"].values())

    def settled(self):
        """What arrived before has been looked at: while it is, what comes behind it is not looked at by itself."""
        seen = []

        def same():
            seen.append(self.tries())
            time.sleep(0.1)
            return len(seen) > 3 and len(set(seen[-4:])) == 1
        wait(same)
        return seen[-1]

    def seen(self):
        """An exchange whose request the kernel has looked at before the server reads it, as it does where one waits
        for events: the next request is known to be one."""
        before = self.settled()
        self.client.sendall(GET)
        wait(lambda: self.tries() > before)
        assert receive(self.served, len(GET)) == GET
        self.answered(self.served)

    def stays(self, seconds=0.5):
        time.sleep(seconds)
        assert self.move.status()["moved"] == 0, self.move.status()

    def keeps(self, words):
        """A program that reads at once is faster than what looks at the words, and keeps them for that alone."""
        before = self.settled()
        self.client.sendall(words)
        wait(lambda: self.tries() > before or self.move.status()["moved"])
        assert self.move.status()["moved"] == 0, words
        assert receive(self.served, len(words)) == words, words

    def moved(self):
        """The new server has it; the old one's descriptor reads end of file."""
        there = accept(self.new)
        assert there.getpeername() == self.client.getsockname()
        wait(lambda: self.move.status()["moved"] == 1)
        assert self.served.recv(1) == b""
        return there

    def next_moves(self):
        """The next request comes unread out of the new server's accept()."""
        self.client.sendall(GET)
        there = self.moved()
        assert receive(there, len(GET)) == GET
        there.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for thing in (self.client, self.served, self.old, self.new, self.move):
            thing.close()
