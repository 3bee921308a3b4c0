# SPDX-License-Identifier: GPL-2.0
"""A server whose answers are whatever a test says, byte by byte."""
import socket
import threading
import time


class Hostile:
    """Each connection gets what ANSWER (bytes, or a function of the socket) says; counts them."""

    def __init__(self, answer):
        self.answer, self.connections, self.requests = answer, 0, []
        self.server = socket.socket()
        self.server.bind(("127.0.0.1", 0))
        self.server.listen(16)
        self.url = "http://127.0.0.1:%d" % self.server.getsockname()[1]
        self.over = False
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                peer = self.server.accept()[0]
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.speak, args=(peer,), daemon=True).start()

    def speak(self, peer):
        with peer:
            try:
                self.requests.append(peer.recv(65536))
                if callable(self.answer):
                    self.answer(peer)
                else:
                    peer.sendall(self.answer)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over = True
        # Closing alone does not wake who waits in accept().
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()


def http(body, status="200 OK", length=None, more=""):
    body = body if isinstance(body, bytes) else body.encode()
    return ("HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%sConnection: close\r\n\r\n" %
            (status, len(body) if length is None else length, more)).encode() + body


def flood(head, more):
    """An answer that begins with HEAD and goes on with MORE for as long as somebody takes it."""
    def answer(peer):
        peer.sendall(head)
        while True:
            peer.sendall(more)
    answer.__name__ = "%r without end" % more[:9]
    return answer


endless = flood(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"kvs\": [", b"[[]]," * 10000)
endless_header = flood(b"HTTP/1.1 200 OK\r\n", b"X-A: " + b"y" * 8000 + b"\r\n")
endless_trailer = flood(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
                        (b"X-A: " + b"y" * 800 + b"\r\n") * 50)
# Bytes without end that are neither a header nor of a body.
endless_chunk_extension = flood(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"a" * 60000)


def slow(peer):
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    while True:
        peer.sendall(b" ")
        time.sleep(0.2)


def silent(peer):
    peer.recv(1)
