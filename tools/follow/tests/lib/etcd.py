# SPDX-License-Identifier: GPL-2.0
"""An etcd of our own, and what a member of a cluster would say to it."""
import base64
import contextlib
import json
import os
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request

from follow import kit, port


def encoded(text):
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


class Way:
    """To a server, by an address of its own; stop it, and it takes all and gives nothing."""

    def __init__(self, url):
        self.to, self.stopped = ("127.0.0.1", int(url.rsplit(":", 1)[1])), False
        self.server = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.server.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                peer, server = self.server.accept()[0], socket.create_connection(self.to)
            except OSError:
                return
            for one, other in ((peer, server), (server, peer)):
                threading.Thread(target=self.carry, args=(one, other), daemon=True).start()

    def carry(self, one, other):
        with contextlib.suppress(OSError), other:
            while data := one.recv(65536):
                while self.stopped:
                    time.sleep(0.1)
                other.sendall(data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()


class Etcd:
    """Until the end of the block; stop() and start() are an outage."""

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory()
        self.url, self.peer = ("http://127.0.0.1:%d" % port() for _ in range(2))
        self.process = None

    def start(self):
        with open(os.path.join(self.directory.name, "log"), "ab") as log:
            self.process = subprocess.Popen(
                [kit.need("etcd"), "--data-dir", os.path.join(self.directory.name, "data"),
                 "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
                 "--listen-peer-urls", self.peer, "--initial-advertise-peer-urls", self.peer,
                 "--initial-cluster", "default=" + self.peer],
                stdout=log, stderr=log)
        kit.wait(self.answers, name="etcd answers")

    def answers(self):
        try:
            self.ask("kv/range", key=encoded("x"))
            return True
        except OSError:
            return False

    def stop(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        self.directory.cleanup()

    def ask(self, what, **fields):
        request = urllib.request.Request("%s/v3/%s" % (self.url, what), json.dumps(fields).encode())
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def put(self, key, value, **more):
        self.ask("kv/put", key=encoded(key), value=encoded(value), **more)

    def delete(self, key):
        self.ask("kv/deleterange", key=encoded(key))

    def get(self, key):
        pairs = self.ask("kv/range", key=encoded(key)).get("kvs", [])
        return pairs and base64.b64decode(pairs[0]["value"]).decode()
