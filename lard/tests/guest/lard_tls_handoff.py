#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# long: debug it has not been run there in its whole
# timeout: 600
"""HTTPS by lardd: its connections go, with their keys, to servers that speak clear text."""
import contextlib
import hashlib
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
TOP = os.environ.get("FLT_TOP") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
sys.path.insert(0, os.path.join(TOP, "handoff", "tests", "lib"))
from hof import PATIENCE, SLOW, VIP4, Cluster, claim, inside, main, rounds, wait   # noqa: E402
import tls                                              # noqa: E402

SIZES = (0, 1, 100, 8192, 16384, 100000, 1000000)
MARK = b"what nobody on the way may read "
ETH_P_ALL = 3

NGINX = """daemon off; user root; worker_processes 1; pid {dir}/pid; error_log {dir}/error.log info;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f;
    uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
    root {dir}/www; sendfile on; keepalive_timeout 60;
    server {{ listen 80; add_header X-Node {name}; add_header X-Scheme http; }}
    server {{ listen {vip}:8443; add_header X-Node {name}; add_header X-Scheme https; }}
}}
"""


class Site:
    """lardd on the front-end; nginx on the first back-end, flash on the second, both without TLS."""

    def __init__(self, cluster, *lines):
        self.c, self.dir = cluster, tempfile.mkdtemp(prefix="lard-tls-")
        os.chmod(self.dir, 0o755)
        tls.make_certificate()
        for be, serve in zip(cluster.be, (self.nginx, self.flash)):
            place = os.path.join(self.dir, be.name)
            os.makedirs(os.path.join(place, "www"))
            for size in SIZES:
                with open(os.path.join(place, "www", "f%d" % size), "wb") as file:
                    file.write(self.body(size))
            serve(be, place)
            for port in 80, 8443:
                wait(lambda be=be, port=port: "LISTEN" in be.output("ss", "-Htln", "sport = :%d" % port))
        self.control = os.path.join(self.dir, "control")
        conf = os.path.join(self.dir, "conf")
        with open(conf, "w", encoding="ascii") as file:
            file.write("\n".join(("listen %s:443 tls" % VIP4, "certificate %s %s" % (tls.CHAIN, tls.KEY),
                                  "proxy-port 80", "control " + self.control, "user root", "log-level debug",
                                  "policy wrr") + lines) + "\n")
        self.log = open(os.path.join(self.dir, "log"), "wb")
        self.lardd = cluster.fe.spawn("lardd", "-c", conf, "--foreground", stderr=self.log)
        wait(lambda: "LISTEN" in cluster.fe.output("ss", "-Htln", "sport = :443"))
        wait(lambda: os.path.exists(self.control))
        wait(lambda: self.ask("status")["nodes"] == len(cluster.be))

    @staticmethod
    def body(size):
        return (MARK * (size // len(MARK) + 1))[:size]

    @staticmethod
    def nginx(be, place):
        with open(os.path.join(place, "conf"), "w", encoding="ascii") as file:
            file.write(NGINX.format(dir=place, vip=VIP4, name=be.name))
        be.spawn("nginx", "-c", os.path.join(place, "conf"), "-e", os.path.join(place, "error.log"))

    @staticmethod
    def flash(be, place):
        with open(os.path.join(place, "conf"), "w", encoding="ascii") as file:
            file.write("listen *:80\nlisten %s:8443\nroot %s/www\nheader X-Node %s\nuser root\n" %
                       (VIP4, place, be.name))
        be.spawn("flash", "-c", os.path.join(place, "conf"), stderr=open(os.path.join(place, "error.log"), "wb"))

    def ask(self, command):
        with inside(self.c.fe.ns), socket.socket(socket.AF_UNIX) as s:
            s.connect(self.control)
            s.sendall(json.dumps({"cmd": command}).encode() + b"\n")
            return json.loads(s.makefile().readline())

    def counter(self, name):
        return self.ask("stats")["counters"][name]

    def curl(self, path, *options):
        """(fields of the header, body)"""
        done = subprocess.run(("ip", "netns", "exec", self.c.client.ns, "curl", "-sk", "-m", str(PATIENCE), "-i",
                               *options, "https://%s%s" % (VIP4, path)), stdout=subprocess.PIPE, check=False)
        assert done.returncode == 0, (done.returncode, path, self.says())
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        fields = dict(x.split(": ", 1) for x in head.decode().split("\r\n")[1:])
        assert head.startswith(b"HTTP/1.1 200 "), (head, self.says())
        return {k.lower(): v for k, v in fields.items()}, body

    def says(self):
        with open(self.log.name, "rb") as file:
            return file.read()[-2000:]

    def close(self):
        self.lardd.terminate()
        assert self.lardd.wait(PATIENCE) in (0, -15), self.says()


class Capture(threading.Thread):
    """Everything that goes over the segment, as the nodes' cards see it."""

    def __init__(self, *nodes):
        super().__init__(daemon=True)
        self.socks, self.data, self.ending = [], bytearray(), False
        for node in nodes:
            with inside(node.ns):
                sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
                sock.bind(("eth0", 0))
                sock.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)    # SO_RCVBUFFORCE
                sock.settimeout(0.05)
                self.socks.append(sock)
        self.start()

    def run(self):
        while not self.ending:
            for sock in self.socks:
                with contextlib.suppress(TimeoutError):
                    while True:
                        self.data += sock.recv(70000)

    def stop(self):
        self.ending = True
        self.join()
        for sock in self.socks:
            sock.close()
        return bytes(self.data)


@contextlib.contextmanager
def site(*lines, secure=True, port=8443):
    with Cluster(2, encrypted=secure) as c:
        s = Site(c, *lines, *(["tls-port %d" % port] if port else []))
        try:
            yield s
        finally:
            s.close()


@claim
def nginx_and_flash_answer_https_and_nobody_reads_it_on_the_way():
    with site() as s:
        capture = Capture(s.c.fe, *s.c.be)
        asked, nodes = 0, set()
        for options in ((), ("--tls13-ciphers", "TLS_AES_128_GCM_SHA256"),
                        ("--tls13-ciphers", "TLS_CHACHA20_POLY1305_SHA256")):
            for size in SIZES:
                for _ in range(2):
                    fields, body = s.curl("/f%d" % size, *options)
                    assert hashlib.sha256(body).digest() == hashlib.sha256(s.body(size)).digest(), size
                    assert fields.get("x-scheme", "https") == "https", fields
                    nodes.add(fields["x-node"])
                    asked += 1
        assert nodes == {"be1", "be2"}, nodes
        assert s.counter("LardTlsHandedOff") == s.counter("LardHandedOff") == asked, (s.ask("stats"), s.says())
        assert s.counter("LardProxied") == 0
        assert sum(be.nl.stat("TlsStarted") for be in s.c.be) == asked
        data = capture.stop()
        assert len(data) > asked * 1000 and MARK not in data and b"GET /f" not in data


@claim
def many_requests_on_a_kept_connection():
    with site() as s:
        for be in range(2):
            raw = s.c.client.connect(443)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            client = context.wrap_socket(raw, suppress_ragged_eofs=False)
            stream = client.makefile("rb")
            for i in range(rounds(50, 10)):
                size = SIZES[i % len(SIZES)]
                last = i == rounds(50, 10) - 1
                client.sendall(b"GET /f%d HTTP/1.1\r\nHost: %s\r\n%s\r\n" %
                               (size, VIP4.encode(), b"Connection: close\r\n" if last else b""))
                length = None
                while (line := stream.readline()) != b"\r\n":
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                assert length == size, (be, i, length)
                assert stream.read(size) == s.body(size)
            # The end is one that the server has said.
            assert stream.read() == b""
        assert s.counter("LardTlsHandedOff") == 2


@claim
def what_cannot_go_is_proxied():
    with site() as s:
        fields, body = s.curl("/f8192", "--tls-max", "1.2")
        assert body == s.body(8192) and fields.get("x-scheme", "http") == "http"
        assert s.counter("LardTlsHandedOff") == 0 and s.counter("LardProxied") == 1
        s.curl("/f8192")
        assert s.counter("LardTlsHandedOff") == 1
    with site(port=0) as s:
        assert s.curl("/f8192")[1] == s.body(8192)
        assert s.counter("LardHandedOff") == 0 and s.counter("LardProxied") == 1


@claim
def over_links_in_clear_text_it_is_proxied():
    with site(secure=False) as s:
        for size in SIZES:
            assert s.curl("/f%d" % size)[1] == s.body(size)
        assert s.counter("LardTlsHandedOff") == 0
        assert s.counter("LardProxied") == s.counter("LardProxyFallback") == len(SIZES)
        assert s.c.fe.stat("HandoffRefusedKeys") == len(SIZES)
        assert all(be.stat("AdoptRequests") == 0 for be in s.c.be)


@claim
def a_body_that_is_on_its_way_goes_along():
    with site() as s:
        raw = s.c.client.connect(443)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        client = context.wrap_socket(raw, suppress_ragged_eofs=False)
        client.sendall(b"GET /f100 HTTP/1.1\r\nHost: %s\r\nContent-Length: 300000\r\n\r\n" % VIP4.encode() +
                       bytes(100000))
        client.sendall(bytes(200000))
        client.sendall(b"GET /f1 HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % VIP4.encode())
        data = b""
        while part := client.recv(65536):
            data += part
        assert data.count(b"HTTP/1.1 200") == 2 and s.body(100) in data, data
        assert s.counter("LardTlsHandedOff") == 1


if __name__ == "__main__":
    print("# patience %s slow %s" % (PATIENCE, SLOW))
    main()
