# SPDX-License-Identifier: GPL-2.0
"""A client that speaks HTTP/2 frame by frame, well or not, for the tests of lardd and of flash."""

import contextlib
import os
import re
import socket
import ssl
import struct
import subprocess
import sys

import kit

sys.path.append("/usr/lib/python3/dist-packages")       # where Debian's are, if this is another python3
with contextlib.suppress(ImportError):
    import hpack

DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, REFUSED_STREAM, CALM = 0, 1, 2, 3, 7, 11


def need_library():
    assert "hpack" in globals(), "python3-hpack is not installed: make deps"


def agree(context, port, receive=None):
    """A socket of TLS on which HTTP/2 is agreed; receive: bytes of its buffer."""
    context.set_alpn_protocols(["h2", "http/1.1"])
    tcp = socket.socket()
    if receive:
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    tcp.settimeout(120)
    tcp.connect(("127.0.0.1", port))
    tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client = context.wrap_socket(tcp, server_hostname="one.test")
    assert client.selected_alpn_protocol() == "h2", client.selected_alpn_protocol()
    return client


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def fields(path="/size/5", method="GET", more=(), authority="one.test", scheme="https"):
    pseudo = ((":method", method), (":scheme", scheme), (":authority", authority), (":path", path))
    return [pair for pair in pseudo if pair[1] is not None] + list(more)


def u32(*numbers):
    return struct.pack(f">{len(numbers)}I", *numbers)


# Frames that bring nothing, on stream 1, which has begun.
FLOODS = {"ping": [frame(PING, 0, 0, bytes(8))],
          "settings": [frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 70000))],
          "priority": [frame(PRIORITY, 0, 99, u32(0) + b"\x10")],
          "window": [frame(WINDOW, 0, 0, u32(1))],
          "empty data": [frame(DATA, 0, 1)], "padding": [frame(DATA, PADDED, 1, b"\3\0\0\0")]}


LONG_FIELD = b"\0\1x\x7e" + b"y" * 126
# Parts of a header without an end: with nothing, with fields, with long ones.
ENDLESS = (b"", b"\0\1x\1y" * 3, LONG_FIELD * 120)


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

    def take_by_bytes(self, stream):
        """The body of a stream, which is alone and whose window is a byte, as far as it is not known yet."""
        more = True
        while more:
            _, flags, of, payload = self.wait(DATA)
            assert of == stream and len(payload) <= 1
            yield from payload
            more = not flags & END_STREAM
            if more:
                self.send(frame(WINDOW, 0, stream, u32(1)))

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


def flood(client, *frames, most=20000):
    """Sends them again and again until the connection is ended; with which error."""
    for _ in range(most // 100):
        with contextlib.suppress(OSError):
            client.send(*frames * 100)
        error = client.error(0.001)
        if error != "open":
            return error
    return client.error()


def send_noise(client, frames, chance):
    """A good conversation, cut anywhere, with bytes turned or frames of any kind in it."""
    for _ in range(chance.randrange(4)):
        frames.insert(chance.randrange(len(frames)),
                      frame(chance.randrange(12), chance.randrange(64), chance.randrange(8),
                            chance.randbytes(chance.randrange(40))))
    data = bytearray(b"".join(frames))
    for _ in range(chance.randrange(3)):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    with contextlib.suppress(OSError):
        client.send(bytes(data[:chance.randrange(len(data))]) if chance.random() < 0.3 else bytes(data))
        if chance.random() < 0.5:
            with contextlib.suppress(TimeoutError):
                client.next(0.02)


def header_of(site, parts):
    """What comes of a header that has these parts in frames of their own, and no end (CVE-2024-27316)."""
    with Raw(site) as client:
        with contextlib.suppress(OSError):
            client.send(frame(HEADERS, END_STREAM, 1, client.encoder.encode(fields())))
            for part in parts:
                client.send(frame(CONTINUATION, 0, 1, part))
        return client.error()


class Uploads:
    """Bodies, each as far as the windows allow, which are known as the client is told of them."""

    def __init__(self, client, path="/echo"):
        self.path = path
        self.client, self.windows, self.left = client, {0: 65535}, {}
        settings = client.wait(SETTINGS)[3]
        self.first = next(value for what, value in struct.iter_unpack(">HI", settings) if what == 4)
        client.send(frame(SETTINGS, ACK, 0))

    def begin(self, stream, size, path=None, told=True, method="POST"):
        self.left[stream], self.windows[stream] = size, self.first
        self.client.send(self.client.headers(stream, path or self.path, method, end=False,
                                             more=[("content-length", str(size))] if told else []))

    def send(self, stream):
        while self.left[stream] and self.windows[0] and self.windows[stream]:
            size = min(self.left[stream], self.windows[0], self.windows[stream], 16384)
            self.left[stream] -= size
            self.windows[stream] -= size
            self.windows[0] -= size
            self.client.send(frame(DATA, 0 if self.left[stream] else END_STREAM, stream, bytes(size)))

    def hear(self):
        with contextlib.suppress(TimeoutError):
            while (got := self.client.next(0.05)):
                if got[0] == WINDOW:
                    self.windows[got[2]] = self.windows.get(got[2], 0) + int.from_bytes(got[3], "big")
                else:
                    self.client.note(got)


SMUGGLED = "GET /stolen HTTP/1.1\r\nHost: h\r\n\r\n"
BAD_FIELDS = [
    [("x", f"a\r\n\r\n{SMUGGLED}")], [("x", "a\nb: c")], [("x", "a\rb: c")], [("x", "a\0b")], [("x\r\nb", "c")],
    [("x: y\r\nb", "c")], [("x y", "c")], [("x:", "c")], [("X-Upper", "c")], [("", "c")],
    [("transfer-encoding", "chunked")], [("transfer-encoding", "identity")], [("connection", "close")],
    [("connection", "x-forwarded-for")], [("keep-alive", "1")], [("proxy-connection", "close")],
    [("upgrade", "websocket")], [("te", "gzip")], [("content-length", "5")], [("content-length", "-1")],
    [("content-length", "0x5")], [("content-length", "+0")], [("content-length", "0"), ("content-length", "0")],
    [("content-length", "0, 0")], [("content-length", "18446744073709551616")],
    [("host", "other.test")], [("host", "one.test"), ("host", "one.test")], [("host", "one.test\r\nx: y")],
    [(":path", "/again")], [(":authority", "b")], [(":status", "200")], [(":protocol", "websocket")],
    [("cookie", "a\r\nx: y")], [("cookie", "a\r\n\r\n" + SMUGGLED)],
]
BAD_LINES = [
    {"path": "/a b"}, {"path": f"/ HTTP/1.1\r\nHost: h\r\n\r\n{SMUGGLED}"}, {"path": "/\t"},
    {"path": "http://one.test/"}, {"path": "http://other.test/stolen"}, {"path": "//\r\n"},
    {"path": ""}, {"path": "stolen"}, {"path": "*"}, {"path": "/#f"}, {"path": "/\0"}, {"path": None},
    {"method": "GET /stolen HTTP/1.1\r\nX: "}, {"method": "GET "}, {"method": ""}, {"method": None},
    {"method": "G\0T"}, {"scheme": "http"}, {"scheme": None}, {"scheme": "https\r\n"}, {"scheme": "ftp"},
    {"authority": "one.test\r\nx: y"}, {"authority": "user@one.test"}, {"authority": "one.test/x"},
    {"authority": "one test"}, {"authority": ""}, {"authority": None}, {"authority": "\0"},
]


def find_h2spec():
    """It is no package of Debian's: without it the claim is skipped."""
    for place in os.environ.get("PATH", "").split(":") + [os.environ.get("H2SPEC_DIR", "")]:
        path = os.path.join(place, "h2spec")
        if place and os.access(path, os.X_OK):
            return path
    raise kit.Skip("h2spec is not installed")


# What h2spec finds and why it stays: libnghttp2 takes a HEADERS frame of a stream that is below the last one for one
# that crossed its end on the way, and leaves it out. No request comes of it.
H2SPEC_EXPECTED = {"Sends stream identifier that is numerically smaller than previous"}


def h2spec(port, path="/size/20"):
    """github.com/summerwind/h2spec, which no Debian package has (lard/doc/tests.md), finds nothing new."""
    run = subprocess.run([find_h2spec(), "-h", "127.0.0.1", "-p", str(port), "-t", "-k", "-P", path],
                         capture_output=True, text=True, check=False, timeout=500)
    assert re.search(r"14\d tests, \d+ passed", run.stdout), run
    failed = {re.sub(r"^\s*× \d+: ", "", line) for line in run.stdout.split("Failures:")[-1].splitlines()
              if "×" in line}
    assert failed == H2SPEC_EXPECTED, failed
