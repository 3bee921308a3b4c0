"""A flash that listens with TLS, and who asks it."""
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

    def accepts(self):
        """At both; without a connection, which would count there."""
        if not super().accepts():
            return False
        with open("/proc/net/tcp", encoding="ascii") as f:
            return f"0100007F:{self.tls_port:04X} 00000000:0000 0A" in f.read()

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


def same(got, want, what):
    """Bodies by hash: what differs is too long to be shown."""
    if hashlib.sha256(got).digest() != hashlib.sha256(want).digest():
        raise AssertionError(f"{what}: {len(got)} bytes, wanted {len(want)}, and they are others")
