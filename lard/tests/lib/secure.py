# SPDX-License-Identifier: GPL-2.0
"""A lardd that listens with TLS, and who asks it."""

import contextlib
import os
import socket
import ssl
import subprocess

from lardd import cluster, content, free_port, read_answer, until


def make_certificate(directory, name, kind="ec", more=""):
    """A certificate of its own for name and more names; the paths of both files."""
    chain, key = (os.path.join(directory, f"{name}.{end}") for end in ("pem", "key"))
    new = ["-newkey", "rsa:2048"] if kind == "rsa" else ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    subprocess.run(["openssl", "req", "-x509", *new, "-nodes", "-days", "2", "-subj", f"/CN={name}",
                    "-addext", f"subjectAltName=DNS:{name}{more}", "-keyout", key, "-out", chain],
                   check=True, capture_output=True)
    os.chmod(key, 0o600)
    return chain, key


class Site:
    """A lardd that listens with TLS too."""

    def __init__(self, lardd, names=("one.test",), extra=""):
        self.lardd, self.port = lardd, free_port()
        self.files = {name: make_certificate(lardd.directory.name, name) for name in names}
        self.configure(names, extra)
        lardd.reload()
        until(lambda: lardd.control("status")["reloads"] >= 1, what="the reload")

    def configure(self, names, extra=""):
        lines = [f"listen 127.0.0.1:{self.port} tls"]
        lines += [f"certificate {' '.join(self.files[name])}" for name in names]
        self.lardd.configure("\n".join(lines + [extra]))

    def context(self, name="one.test"):
        context = ssl.create_default_context(cafile=self.files[name][0])
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return context

    def tcp(self):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def connect(self, name="one.test", context=None, **more):
        return (context or self.context(name)).wrap_socket(self.tcp(), server_hostname=name, **more)

    def get(self, target, fields="", name="one.test", **more):
        with self.connect(name, **more) as s:
            s.sendall(f"GET {target} HTTP/1.1\r\nHost: {name}\r\n{fields}\r\n".encode())
            return read_answer(s.makefile("rb"))


@contextlib.contextmanager
def site(names=("one.test",), extra="", nodes=1):
    with cluster(nodes) as lardd:
        yield Site(lardd, names, extra)


def count_is(lardd, name, wanted):
    until(lambda: lardd.counter(name) == wanted, what=f"{name} {wanted}, it is {lardd.counter(name)}")


def client_hello():
    """What a client sends first."""
    sent = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="one.test").do_handshake()
    return sent.read()


def session_of(s, context, version, session=None):
    """A session, after a request, and whether it resumed the one given."""
    context.minimum_version = context.maximum_version = version
    with s.connect(context=context, session=session) as client:
        client.sendall(b"GET /size/5 HTTP/1.1\r\nHost: h\r\n\r\n")
        assert read_answer(client.makefile("rb"))[2] == content(5)
        return client.session, client.session_reused


def is_nobody_elses(path, refused):
    """A file with a key that others may read, or that is another user's, is refused, which says why."""
    os.chmod(path, 0o640)
    refused("others may read")
    os.chmod(path, 0o600)
    if not os.geteuid():
        os.chown(path, 12345, 0)
        refused("another user's")
        os.chown(path, 0, 0)
