"""A flash that listens with TLS, and who asks it."""
import contextlib
import ctypes
import functools
import hashlib
import json
import os
import random
import signal
import socket
import ssl
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from flashtest import Client, Server, children, free_port, wait_for     # noqa: E402

VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
SIZES = (0, 1, 64, 4096, 16384, 16385, 100000, 1 << 20, 10000019)


@functools.lru_cache(maxsize=None)
def content(size):
    """The same for a size, each time."""
    return random.Random(size).randbytes(size)


def make_certificate(directory, name, kind="ec"):
    """A certificate of its own for name, as certbot would leave it; the directory."""
    path = os.path.join(directory, name + ("" if kind == "ec" else "." + kind))
    os.mkdir(path)
    new = ["-newkey", "rsa:2048"] if kind == "rsa" else ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    key = os.path.join(path, "privkey.pem")
    subprocess.run(["openssl", "req", "-x509", *new, "-nodes", "-days", "2", "-subj", f"/CN={name}",
                    "-addext", f"subjectAltName=DNS:{name}", "-keyout", key,
                    "-out", os.path.join(path, "fullchain.pem")], check=True, capture_output=True)
    os.chmod(key, 0o600)
    return path


class Secured(Server):
    """flash on a port with TLS, and on one without that has /status; names: of certificates."""

    def __init__(self, extra="", names=("one.test",), args=(), below=None, sizes=SIZES):
        super().__init__(*args, below=below)
        self.tls_port = free_port()
        self.certificates = [make_certificate(self.dir, *n.split(" ")) for n in names]
        self.extra = extra
        self.configure()
        for size in sizes:
            self.write(f"size/{size}", content(size))

    def configure(self, certificates=None):
        """A new file, as it is read next."""
        lines = [f"listen 127.0.0.1:{self.tls_port} tls", "status /status"]
        lines += [f"certificate {c}" for c in certificates or self.certificates]
        self.config = "\n".join(lines + [self.extra, ""])
        self.command()

    def reload(self, refused=False):
        """Until it is in effect, or refused."""
        before, said = set(children(self.proc.pid)), self.stderr().count("not reloaded")
        self.command()
        self.proc.send_signal(signal.SIGHUP)
        if refused:
            wait_for(lambda: self.stderr().count("not reloaded") > said)
        else:
            wait_for(lambda: not before & set(children(self.proc.pid)) and children(self.proc.pid))

    def context(self, version=None, name=None):
        """Of a client that trusts its certificates."""
        context = ssl.create_default_context()
        for c in self.certificates:
            context.load_verify_locations(os.path.join(c, "fullchain.pem"))
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if version:
            context.minimum_version = context.maximum_version = version
        return context

    def tcp(self):
        """A connection without a handshake yet."""
        s = socket.create_connection(("127.0.0.1", self.tls_port), timeout=120)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def secure(self, context=None, name="one.test", **more):
        """A client through TLS."""
        client = Client.__new__(Client)
        client.buf = b""
        client.sock = (context or self.context()).wrap_socket(self.tcp(), server_hostname=name, **more)
        return client

    def counters(self):
        """All of one moment."""
        return json.loads(self.get("/status").body)

    def count(self, name):
        """One of them."""
        return self.counters()[name]

    def count_is(self, name, wanted):
        """Soon."""
        wait_for(lambda: self.count(name) == wanted)


class KeyUpdates:
    """A client of 1.3 by OpenSSL itself, which can make many of them before it sends them."""

    def __init__(self, tcp):
        self.tcp, self.lib, pointer = tcp, ctypes.CDLL("libssl.so.3"), ctypes.c_void_p
        lib, self.errors = self.lib, ctypes.CDLL("libcrypto.so.3")
        for name in ("TLS_client_method", "SSL_CTX_new", "SSL_new", "BIO_new", "BIO_s_mem"):
            getattr(lib, name).restype = pointer
        self.ssl, self.into, self.out = map(pointer, (
            lib.SSL_new(pointer(lib.SSL_CTX_new(pointer(lib.TLS_client_method())))),
            lib.BIO_new(pointer(lib.BIO_s_mem())), lib.BIO_new(pointer(lib.BIO_s_mem()))))
        lib.SSL_set_bio(self.ssl, self.into, self.out)
        lib.SSL_set_connect_state(self.ssl)
        while lib.SSL_do_handshake(self.ssl) != 1:
            tcp.sendall(self.made())
            got = tcp.recv(65536)
            lib.BIO_write(self.into, got, len(got))
        tcp.sendall(self.made())

    def made(self):
        """What is to be sent."""
        buffer, made = ctypes.create_string_buffer(65536), []
        while (n := self.lib.BIO_read(self.out, buffer, len(buffer))) > 0:
            made.append(buffer.raw[:n])
        return b"".join(made)

    def records(self, count, both=0):
        """So many; both: the other side is to have new keys, too."""
        for _ in range(count):
            assert self.lib.SSL_key_update(self.ssl, both) == 1 and self.lib.SSL_do_handshake(self.ssl) == 1
        return self.made()

    def get(self, path, size):
        """Body of an answer, or what there is of the answer at the end."""
        ask, buffer, got = f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode(), ctypes.create_string_buffer(65536), b""
        self.lib.SSL_write(self.ssl, ask, len(ask))
        with contextlib.suppress(ConnectionError):
            self.tcp.sendall(self.made())
            while b"\r\n\r\n" not in got or len(got.split(b"\r\n\r\n", 1)[1]) < size:
                self.errors.ERR_clear_error()
                if (n := self.lib.SSL_read(self.ssl, buffer, len(buffer))) > 0:
                    got += buffer.raw[:n]
                    continue
                assert self.lib.SSL_get_error(self.ssl, n) != 1, "a record that cannot be read"
                data = self.tcp.recv(65536)
                if not data or n == 0:
                    return got
                self.lib.BIO_write(self.into, data, len(data))
            return got.split(b"\r\n\r\n", 1)[1]
        return got


def same(got, want, what):
    """Bodies by hash: what differs is too long to be shown."""
    if hashlib.sha256(got).digest() != hashlib.sha256(want).digest():
        raise AssertionError(f"{what}: {len(got)} bytes, wanted {len(want)}, and they are others")
