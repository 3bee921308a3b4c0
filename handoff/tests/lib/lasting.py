# SPDX-License-Identifier: GPL-2.0
"""A client whose one connection must last, whatever is done to its server."""
import threading
import time

from hof import PATIENCE, receive


class Lasting(threading.Thread):
    """Requests one after the other; @exchange makes one of them and compares every byte of its answer."""

    def __init__(self, sock, requests, pause):
        super().__init__(daemon=True)
        self.sock, self.requests, self.pause = sock, requests, pause
        self.done, self.error, self.ends = 0, None, False

    def exchange(self, request):
        raise NotImplementedError

    def answered(self, want):
        """Its header; the body is this."""
        head = b""
        while b"\r\n\r\n" not in head:
            part = self.sock.recv(65536)
            assert part, "end of file after %d requests" % self.done
            head += part
        head, rest = head.split(b"\r\n\r\n", 1)
        assert head.startswith(b"HTTP/1.1 200"), head
        assert rest + receive(self.sock, len(want) - len(rest)) == want, "wrong bytes after %d requests" % self.done
        self.done += 1
        return head

    def run(self):
        try:
            while not self.ends:
                for request in self.requests:
                    self.exchange(request)
                    time.sleep(self.pause)
        except Exception as error:              # pylint: disable=broad-except
            self.error = error

    def close(self):
        self.ends = True
        if self.ident:
            self.join(PATIENCE)
        self.sock.close()
