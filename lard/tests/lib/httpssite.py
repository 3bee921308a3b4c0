# SPDX-License-Identifier: GPL-2.0
"""lardd that hands off connections of TLS to servers in clear text, for tests of that."""
import contextlib
import functools
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
TOP = os.environ.get("FLT_TOP") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
sys.path.insert(0, os.path.join(TOP, "handoff", "tests", "lib"))
from hof import PATIENCE, VIP4, Cluster, inside, wait   # noqa: E402
import tls                                              # noqa: E402

SIZES = (0, 1, 100, 8192, 16384, 100000, 1000000)
MARK = b"what nobody on the way may read "

NGINX = """daemon off; user root; worker_processes 1; pid {dir}/pid; error_log {dir}/error.log warn;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f;
    uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
    root {dir}/www; sendfile on; keepalive_timeout 60;
    client_header_timeout 1h; send_timeout 1h;
    server {{ listen 80; add_header X-Node {name}; add_header X-Scheme http; }}
    server {{ listen {vip}:8443; add_header X-Node {name}; add_header X-Scheme https; }}
    server {{
        listen {vip}:8444 http2; add_header X-Node {name}; add_header X-Scheme http2;
        client_max_body_size 10m; location /put {{ dav_methods PUT; }}
    }}
}}
"""

APACHE = """ServerName {name}
PidFile {dir}/pid
ErrorLog {dir}/error.log
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule headers_module /usr/lib/apache2/modules/mod_headers.so
Listen 80
LoadModule http2_module /usr/lib/apache2/modules/mod_http2.so
Listen {vip}:8443
Protocols h2c http/1.1
DocumentRoot {dir}/www
User nobody
Group nogroup
Header set X-Node {name}
"""

LIGHTTPD = """server.document-root = "{dir}/www"
server.modules = ("mod_setenv")
server.port = 80
server.errorlog = "{dir}/error.log"
server.feature-flags = ("server.h2c" => "enable")
setenv.add-response-header = ("X-Node" => "{name}")
$SERVER["socket"] == "{vip}:8443" {{ }}
"""

FLASH = ("listen *:80\nlisten {vip}:8443\nroot {dir}/www\nheader X-Node {name}\nuser root\n"
         "header_timeout 3600\nsend_timeout 3600\n")

# They answer with what the libraries have for that.
NODE = """const http = require("http"), fs = require("fs");
const answer = (req, res) => fs.readFile("{dir}/www" + req.url, (err, data) => {{
    res.writeHead(err ? 404 : 200, {{"X-Node": "{name}", "Content-Length": err ? 0 : data.length}});
    res.end(err ? "" : data);
}});
for (const at of [{{port: 80}}, {{port: 8443, host: "{vip}"}}])
    http.createServer({{requestTimeout: 0, headersTimeout: 0, keepAliveTimeout: 0}}, answer).listen(at);
"""

PYTHON = """import functools, http.server, threading
class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def end_headers(self):
        self.send_header("X-Node", "{name}")
        super().end_headers()
    def log_request(self, *_):
        pass
def serve(*address):
    handler = functools.partial(Handler, directory="{dir}/www")
    http.server.ThreadingHTTPServer(address, handler).serve_forever()
threading.Thread(target=serve, args=("", 80), daemon=True).start()
serve("{vip}", 8443)
"""

# What each is told, and by which words; what it may say in its log.
SERVERS = {
    "nginx": (NGINX, ("nginx", "-c", "{dir}/conf", "-e", "{dir}/error.log"), ()),
    "apache2": (APACHE, ("apache2", "-D", "FOREGROUND", "-f", "{dir}/conf"), (":notice]",)),
    "lighttpd": (LIGHTTPD, ("lighttpd", "-D", "-f", "{dir}/conf"), ("server started",)),
    "flash": (FLASH, ("flash", "-c", "{dir}/conf"), ()),
    "flash that gives back": (FLASH + "hand_back fe\n", ("flash", "-c", "{dir}/conf"), ()),
    "node": (NODE, ("node", "{dir}/conf"), ()),
    "python3": (PYTHON, ("python3", "{dir}/conf"), ()),
}


class Site:
    """lardd on the front-end; on each back-end a server of those, without TLS."""

    def __init__(self, cluster, servers, *lines, level="debug", http2=0):
        self.c, self.dir = cluster, tempfile.mkdtemp(prefix="lard-tls-")
        os.chmod(self.dir, 0o755)
        tls.make_certificate()
        self.servers = dict(zip(cluster.be, servers))
        for be in cluster.be:
            self.serve(be)
        self.control = os.path.join(self.dir, "control")
        conf = os.path.join(self.dir, "conf")
        with open(conf, "w", encoding="ascii") as file:
            file.write("\n".join(("listen %s:443 tls%s" % (VIP4, " http2" if http2 else ""),
                                  "certificate %s %s" % (tls.CHAIN, tls.KEY),
                                  "proxy-port 80", "control " + self.control, "user root", "log-level " + level,
                                  "policy wrr") + lines) + "\n")
        self.log = open(os.path.join(self.dir, "log"), "wb")
        self.lardd = cluster.fe.spawn("lardd", "-c", conf, "--foreground", stderr=self.log)
        wait(lambda: "LISTEN" in cluster.fe.output("ss", "-Htln", "sport = :443"))
        wait(lambda: self.nodes_up() == len(cluster.be))

    @staticmethod
    @functools.lru_cache
    def body(size):
        """No part of it is like another."""
        return b"".join(b"%s%08d " % (MARK, i) for i in range(size // len(MARK) + 1))[:size]

    def serve(self, be):
        place = os.path.join(self.dir, be.name)
        os.makedirs(os.path.join(place, "www"))
        for size in SIZES:
            with open(os.path.join(place, "www", "f%d" % size), "wb") as file:
                file.write(self.body(size))
        conf, words, _ = SERVERS[self.servers[be]]
        values = {"dir": place, "vip": VIP4, "name": be.name}
        with open(os.path.join(place, "conf"), "w", encoding="ascii") as file:
            file.write(conf.format(**values))
        with open(os.path.join(place, "error.log"), "ab") as log:
            be.spawn(*(w.format(**values) for w in words), stderr=log)
        for port in 80, 8443, *([8444] if "8444" in conf else []):
            wait(lambda: "LISTEN" in be.output("ss", "-Htln", "sport = :%d" % port))

    def complaints(self):
        """What the servers have in their logs, but for what they say of themselves."""
        found = []
        for be, server in self.servers.items():
            with open(os.path.join(self.dir, be.name, "error.log"), encoding="utf-8") as log:
                found += [(server, line) for line in log if not any(x in line for x in SERVERS[server][2])]
        return found

    def ask(self, command):
        with inside(self.c.fe.ns), socket.socket(socket.AF_UNIX) as s:
            s.connect(self.control)
            s.sendall(json.dumps({"cmd": command}).encode() + b"\n")
            return json.loads(s.makefile().readline())

    def nodes_up(self):
        """As it says, once its control socket listens."""
        with contextlib.suppress(OSError):
            return self.ask("status")["nodes"]
        return None

    def counter(self, name):
        return self.ask("stats")["counters"][name]

    def handed_off(self, count):
        """That many connections with their keys: an answer may come before lardd has been told."""
        wait(lambda: self.counter("LardTlsHandedOff") >= count)
        assert self.counter("LardTlsHandedOff") == self.counter("LardHandedOff") == count, self.ask("stats")

    def run(self, *words):
        return subprocess.run(("ip", "netns", "exec", self.c.client.ns, *words), stdout=subprocess.PIPE, check=False)

    def curl(self, path, *options):
        """(fields of the header, body)"""
        done = self.run("curl", "-sk", "-m", str(PATIENCE), "-i", *([] if "--http2" in options else ["--http1.1"]),
                        *options, "https://%s%s" % (VIP4, path))
        assert done.returncode == 0, (done.returncode, path, self.says())
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        fields = dict(x.split(": ", 1) for x in head.decode().split("\r\n")[1:])
        assert head.startswith((b"HTTP/1.1 200 ", b"HTTP/2 200 ")), (head, self.says())
        fields[":protocol"] = head.split(b" ")[0].decode()
        return {k.lower(): v for k, v in fields.items()}, body

    def connect(self):
        """A client whose handshake is over."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context.wrap_socket(self.c.client.connect(443), suppress_ragged_eofs=False)

    def leaves(self, path):
        """Somebody asks and goes when the answer has begun, without a word."""
        client = self.connect()
        client.sendall(b"GET %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (path.encode(), VIP4.encode()))
        assert client.recv(100)
        client.close()

    def says(self):
        with open(self.log.name, "rb") as file:
            return file.read()[-2000:]

    def close(self):
        self.lardd.terminate()
        assert self.lardd.wait(PATIENCE) in (0, -15), self.says()


@contextlib.contextmanager
def site(*lines, secure=True, port=8443, http2=0, servers=("nginx", "flash"), level="debug"):
    """@http2: the port of back-ends that speak it. A busy guest's client may ask late."""
    with Cluster(len(servers), encrypted=secure) as c:
        s = Site(c, servers, *(["tls-port %d" % port] if port else []),
                 *(["tls-port-http2 %d" % http2, "http2-wait 60s"] if http2 else []), *lines, level=level, http2=http2)
        try:
            yield s
        finally:
            s.close()
