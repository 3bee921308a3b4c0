# SPDX-License-Identifier: GPL-2.0
"""A lardd that offers HTTP/2, and clients that speak it frame by frame, well or not."""

import contextlib
import os
import re
import socket
import ssl
import struct
import sys

import lardd as lardd_lib
from lardd import kit, until
from secure import Site

sys.path.append("/usr/lib/python3/dist-packages")       # where Debian's are, if this is another python3
with contextlib.suppress(ImportError):
    import hpack

DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, REFUSED_STREAM, CALM = 0, 1, 2, 3, 7, 11


def need_library():
    if "hpack" not in globals():
        raise kit.Skip("python3-hpack is not installed")


class Http2Site(Site):
    """Its listener offers HTTP/2."""

    def configure(self, names, extra=""):
        super().configure(names, extra)
        with open(self.lardd.config_path, encoding="utf-8") as file:
            text = file.read()
        with open(self.lardd.config_path, "w", encoding="utf-8") as file:
            file.write(text.replace(f":{self.port} tls\n", f":{self.port} tls http2\n"))

    def http2(self, receive=None):
        """A socket of TLS on which HTTP/2 is agreed."""
        context = self.context()
        context.set_alpn_protocols(["h2", "http/1.1"])
        tcp = socket.socket()
        if receive:
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        tcp.settimeout(120)
        tcp.connect(("127.0.0.1", self.port))
        tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client = context.wrap_socket(tcp, server_hostname="one.test")
        assert client.selected_alpn_protocol() == "h2", client.selected_alpn_protocol()
        return client


@contextlib.contextmanager
def http2_site(extra="", nodes=1):
    with lardd_lib.cluster(nodes) as lardd:
        yield Http2Site(lardd, extra=extra)


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def fields(path="/size/5", method="GET", more=(), authority="one.test", scheme="https"):
    pseudo = ((":method", method), (":scheme", scheme), (":authority", authority), (":path", path))
    return [pair for pair in pseudo if pair[1] is not None] + list(more)


class Raw:
    """Frames as they are asked for, right or wrong."""

    def __init__(self, site, receive=None, settings=b""):
        need_library()
        self.tls, self.encoder, self.decoder = site.http2(receive), hpack.Encoder(), hpack.Decoder()
        self.got, self.answers = b"", {}
        self.tls.sendall(PREFACE + frame(SETTINGS, 0, 0, settings))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tls.close()

    def send(self, *frames):
        self.tls.settimeout(kit.PATIENCE)
        self.tls.sendall(b"".join(frames))

    def headers(self, stream, *args, end=True, **more):
        block = self.encoder.encode(fields(*args, **more))
        return frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, block)

    def next(self, seconds=kit.PATIENCE):
        """(kind, flags, stream, payload), or None at the end."""
        self.tls.settimeout(seconds)
        while len(self.got) < 9 or len(self.got) < 9 + int.from_bytes(self.got[:3], "big"):
            try:
                more = self.tls.recv(65536)
            except (ConnectionError, ssl.SSLError):
                more = b""
            if not more:
                return None
            self.got += more
        length = int.from_bytes(self.got[:3], "big")
        kind, flags, stream = struct.unpack(">BBI", self.got[3:9])
        payload, self.got = self.got[9:9 + length], self.got[9 + length:]
        return kind, flags, stream, payload

    def wait(self, *kinds, stream=None, seconds=kit.PATIENCE):
        """The next frame of these kinds, of that stream; None at the end."""
        while (got := self.next(seconds)):
            if got[0] in kinds and stream in (None, got[2]):
                return got
        return None

    def note(self, got):
        """Adds a frame to what is known of its stream: [status, fields, body, error]."""
        kind, flags, stream, payload = got
        of = self.answers.setdefault(stream, [None, {}, bytearray(), "open"])
        if kind == HEADERS:
            of[1] = dict(self.decoder.decode(payload))
            of[0] = int(of[1][":status"])
        elif kind == DATA:
            of[2] += payload
            if payload:
                self.send(*(frame(WINDOW, 0, n, struct.pack(">I", len(payload))) for n in (0, stream)))
        elif kind == RST and of[3] == "open":
            of[3] = int.from_bytes(payload, "big")
        elif kind == GOAWAY and int.from_bytes(payload[4:8], "big"):
            of[3] = int.from_bytes(payload[4:8], "big")
        if kind in (DATA, HEADERS) and flags & END_STREAM:
            of[3] = None

    def answer(self, stream):
        """(status, fields, body, error): error is that of RST_STREAM or GOAWAY, None: it ended well, "end": cut."""
        while self.answers.get(stream, (0, 0, 0, "open"))[3] == "open":
            got = self.next()
            if got:
                self.note(got)
            if not got or isinstance(self.answers.get(0, (0, 0, 0, ""))[3], int):
                of = self.answers.get(stream, (None, {}, b"", "open"))
                error = "end" if not got else self.answers[0][3]
                return (*of[:3], error if of[3] == "open" else of[3])
        return tuple(self.answers[stream])

    def error(self, seconds=kit.PATIENCE):
        """That of GOAWAY; "end": there was none before the end; "open": nothing for so long."""
        try:
            while (got := self.next(seconds)):
                if got[0] == GOAWAY:
                    return int.from_bytes(got[3][4:8], "big")
        except TimeoutError:
            return "open"
        return "end"


def memory(lardd, which="VmRSS"):
    """In KiB, by its name in proc(5)."""
    with open(f"/proc/{lardd.process.pid}/status", encoding="ascii") as file:
        return int(next(line.split()[1] for line in file if line.startswith(which)))


def no_sanitizer():
    with open(lardd_lib.LARDD, "rb") as file:
        if re.search(b"__[at]san_init", file.read()):
            raise kit.Skip("a sanitizer's own memory is more")


def quiet(lardd):
    """Nothing is left of what was there."""
    until(lambda: not any(lardd.control("status")["connections"].values()), what="no connection")
    until(lambda: lardd.load() == 0, what="no load")


def find_tool(name):
    """A program, or the claim is skipped."""
    places = os.environ.get("PATH", "").split(":") + [os.environ.get("H2SPEC_DIR", "")]
    for place in places:
        path = os.path.join(place, name)
        if place and os.access(path, os.X_OK):
            return path
    raise kit.Skip(f"{name} is not installed")
