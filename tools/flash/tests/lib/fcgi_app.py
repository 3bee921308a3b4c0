"""A small FastCGI program for the tests: answers with its environment and input."""
import os
import socket
import struct
import sys
import time


def records(sock):
    """Yields (type, content) until the end."""
    f = sock.makefile("rb")
    while True:
        head = f.read(8)
        if len(head) < 8:
            return
        _, kind, _, length, pad, _ = struct.unpack("!BBHHBB", head)
        data = f.read(length)
        f.read(pad)
        yield kind, data


def params(data):
    """Name-value pairs."""
    out, i = {}, 0

    def length():
        nonlocal i
        n = data[i]
        if n < 128:
            i += 1
            return n
        i += 4
        return struct.unpack("!I", data[i - 4:i])[0] & 0x7fffffff
    while i < len(data):
        n, v = length(), length()
        out[data[i:i + n].decode()] = data[i + n:i + n + v].decode("latin-1")
        i += n + v
    return out


def send(sock, kind, data):
    """One record, padded as a real library does."""
    pad = -len(data) % 8
    sock.sendall(struct.pack("!BBHHBB", 1, kind, 1, len(data), pad, 0) + data + b"\0" * pad)


def answer(sock, env, body):
    """One response; QUERY_STRING says what kind."""
    query = env.get("QUERY_STRING", "")
    if query.startswith("die"):
        if query != "die":          # die=FILE: after a line about what was asked
            with open(query[4:], "a", encoding="latin-1") as f:
                print(env["REQUEST_METHOD"], body.decode("latin-1"), file=f)
        os._exit(3)
    if query == "hang":
        time.sleep(30)
    if query.startswith("say="):    # what it complains of, by its connection and by itself
        send(sock, 7, bytes.fromhex(query[4:]))
        os.write(2, bytes.fromhex(query[4:]))
    while query == "flood":         # no answer, only complaints
        send(sock, 7, b"complaint\n" * 6000)
    out = b"Content-Type: text/plain\r\n\r\n"
    while query == "endless":       # more than a HEAD asks for
        send(sock, 6, out + b"z" * 60000)
    if query.startswith("big="):
        out += b"z" * int(query[4:])
    else:
        out += ("pid=%d\n" % os.getpid()).encode()
        out += "".join("%s=%s\n" % kv for kv in sorted(env.items())).encode("latin-1")
        out += b"body=%d:" % len(body) + body[:100]
    for i in range(0, len(out), 60000):
        send(sock, 6, out[i:i + 60000])
    send(sock, 6, b"")
    send(sock, 3, b"\0" * 8)


def serve(sock):
    """All requests of a connection."""
    env, body, raw = {}, b"", b""
    for kind, data in records(sock):
        if kind == 1:
            env, body, raw = {}, b"", b""
        elif kind == 4:
            raw += data
            if not data:
                env = params(raw)
        elif kind == 5:
            body += data
            if not data:
                answer(sock, env, body)


def main():
    """Accepts on descriptor 0, as FastCGI programs do."""
    listener = socket.socket(fileno=0)
    while True:
        sock, _ = listener.accept()
        try:
            serve(sock)
        except ConnectionError:
            pass                # the server may end a request at any time
        except OSError as e:
            print("fcgi_app:", e, file=sys.stderr)
        sock.close()


main()
