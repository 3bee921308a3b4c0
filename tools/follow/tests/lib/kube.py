# SPDX-License-Identifier: GPL-2.0
"""What flotilla-follow asks of a Kubernetes API server, answered as its documentation says: no Kubernetes has run here.

List and watch of EndpointSlices of one Service by label, over TLS, with a bearer token; resourceVersion, 410 for
one that is too old, watches that end by timeoutSeconds.
"""
import http.server
import json
import os
import ssl
import subprocess
import threading
import time
import urllib.parse

PATH = "/apis/discovery.k8s.io/v1/namespaces/web/endpointslices"


def endpoint(node, *addresses, **conditions):
    return {"addresses": list(addresses), "nodeName": node, "conditions": conditions or {"ready": True}}


def slice_of(name, *endpoints, kind="IPv4", ports=()):
    return {"metadata": {"name": name, "labels": {"kubernetes.io/service-name": "flotilla"}},
            "addressType": kind, "endpoints": list(endpoints),
            "ports": [{"name": n, "port": p, "protocol": "TCP"} for n, p in ports]}


def certificate(directory):
    """A CA's certificate that is a server's, too."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", "/CN=kubernetes", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", "%s/key" % directory,
                    "-out", "%s/ca" % directory], check=True, capture_output=True)


class Kube:
    """slices may be changed by set(); CUT forgets all versions before now."""

    def __init__(self, directory, *slices, token="secret"):
        self.token, self.version, self.oldest = token, 10, 0
        self.events, self.slices = [], {}
        self.lists = self.watches = 0
        self.longest = 3600
        self.changed = threading.Condition()
        self.set(*slices)
        if not os.path.exists(directory + "/ca"):
            certificate(directory)
        with open(directory + "/token", "w", encoding="ascii") as f:
            f.write(token + "\n")
        kube = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                kube.get(self)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(directory + "/ca", directory + "/key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.options = ("--api", "https://127.0.0.1:%d" % self.server.server_port, "--cacert", directory + "/ca",
                        "--token", directory + "/token")
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def set(self, *slices):
        with self.changed:
            now = {s["metadata"]["name"]: s for s in slices}
            for name in {**self.slices, **now}:
                if now.get(name) != self.slices.get(name):
                    self.version += 1
                    kind = "DELETED" if name not in now else "MODIFIED" if name in self.slices else "ADDED"
                    self.events.append((self.version, {"type": kind, "object": now.get(name, self.slices.get(name))}))
            self.slices = now
            self.changed.notify_all()

    def cut(self):
        with self.changed:
            self.version += 100
            self.oldest = self.version
            self.events.clear()

    @staticmethod
    def say(handler, code, what):
        body = what if isinstance(what, bytes) else json.dumps(what).encode()
        handler.send_response(code)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def get(self, handler):
        url = urllib.parse.urlparse(handler.path)
        query = {k: v[0] for k, v in urllib.parse.parse_qs(url.query).items()}
        if handler.headers["Authorization"] != "Bearer " + self.token:
            self.say(handler, 401, {"kind": "Status", "message": "Unauthorized", "code": 401})
        elif url.path != PATH or query.get("labelSelector") != "kubernetes.io/service-name=flotilla":
            self.say(handler, 403, {"kind": "Status", "message": "Forbidden", "code": 403})
        elif query.get("watch") != "true":
            self.lists += 1
            self.say(handler, 200, {"kind": "EndpointSliceList", "metadata": {"resourceVersion": str(self.version)},
                                    "items": list(self.slices.values())})
        else:
            self.watches += 1
            seconds = min(self.longest, int(query["timeoutSeconds"]))
            self.watch(handler, int(query["resourceVersion"]), time.monotonic() + seconds)

    def watch(self, handler, since, end):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()

        def event(what):
            line = json.dumps(what).encode() + b"\n"
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            handler.wfile.flush()

        try:
            if since < self.oldest:
                event({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}})
                end = 0
            while time.monotonic() < end:
                with self.changed:
                    news = [e for e in self.events if e[0] > since]
                    if not news:
                        self.changed.wait(1)
                for version, what in news:
                    event(what)
                    since = version
            handler.wfile.write(b"0\r\n\r\n")
        except OSError:
            pass
