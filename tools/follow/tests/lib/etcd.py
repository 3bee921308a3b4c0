# SPDX-License-Identifier: GPL-2.0
"""An etcd of our own, and what a member of a cluster would say to it."""
import base64
import json
import os
import subprocess
import tempfile
import urllib.request

from follow import kit, port


def encoded(text):
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


class Etcd:
    """Until the end of the block; stop() and start() are an outage."""

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory()
        self.url, self.peer = ("http://127.0.0.1:%d" % port() for _ in range(2))
        self.process = None

    def start(self):
        with open(os.path.join(self.directory.name, "log"), "ab") as log:
            self.process = subprocess.Popen(
                ["etcd", "--data-dir", os.path.join(self.directory.name, "data"), "--listen-client-urls", self.url,
                 "--advertise-client-urls", self.url, "--listen-peer-urls", self.peer,
                 "--initial-advertise-peer-urls", self.peer, "--initial-cluster", "default=" + self.peer],
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
