# SPDX-License-Identifier: GPL-2.0
"""afpad, and who asks it."""
import contextlib
import http.client
import json
import os
import pwd
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile

TOP = os.environ.get("FLT_TOP", os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../../.."))
sys.path.insert(0, os.path.join(TOP, "tools/testing/lib"))
import kit                                      # noqa: E402

REAL = os.path.join(TOP, "build/bin/afpad")
PRETEND = os.environ.get("AFPAD_PRETEND", os.path.join(TOP, "build/tests/afpad_pretend"))
TOKEN, OTHER, PEER = "client-0123456789abcdef", "second-0123456789abcdef", "among-us-0123456789abcdef"


def port():
    """A free one."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Door:
    """One that runs until the end of the block; INSIDE is entered for whatever touches its network."""

    def __init__(self, *lines, host="127.0.0.1", number=0, peers=(), program=PRETEND, inside=contextlib.nullcontext,
                 sites="0.0.0.0:80", arguments=(), start=True, tls=None):
        self.directory = tempfile.mkdtemp(prefix="afpad")
        os.chmod(self.directory, 0o755)
        self.host, self.port, self.inside = host, number or port(), inside
        self.program, self.sites, self.arguments = program, sites, arguments
        self.process = None
        # The certificate that clients believe.
        self.tls = ssl.create_default_context(cafile=tls) if tls else None
        self.write("token", TOKEN + "\n")
        self.write("peer-token", PEER + "\n")
        self.state = os.path.join(self.directory, "state")
        os.mkdir(self.state)
        if not os.getuid():
            os.chown(self.state, pwd.getpwnam("nobody").pw_uid, -1)
        shown = "[%s]" % host if ":" in host else host
        self.url = "%s://%s:%d" % ("https" if tls else "http", shown, self.port)
        self.configure("listen %s:%d" % (shown, self.port), "token " + self.path("token"),
                       "peer-token " + self.path("peer-token"), "state " + self.state, "user nobody",
                       *("peer " + peer for peer in peers), *lines)
        if start:
            self.start()

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, text, mode=0o600):
        """Of the user that it will be, or it could not read it again."""
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), mode)
        if not os.getuid():
            os.chown(self.path(name), pwd.getpwnam("nobody").pw_uid, -1)

    def configure(self, *lines):
        self.write("conf", "".join(line + "\n" for line in lines), 0o644)

    def start(self):
        with open(self.path("log"), "ab") as log, self.inside():
            self.process = subprocess.Popen([self.program, "--config", self.path("conf"), *self.arguments], stderr=log,
                                            stdin=subprocess.DEVNULL, env=dict(os.environ, AFPAD_SITES=self.sites))
        kit.wait_for("afpad", lambda: b"event=start" in self.log() or self.process.poll() is not None)
        if self.process.poll() is not None:
            raise AssertionError(self.log().decode())

    def log(self):
        with open(self.path("log"), "rb") as log:
            return log.read()

    def stop(self, how=signal.SIGTERM):
        """Its exit status."""
        process, self.process = self.process, None
        if not process:
            return None
        process.send_signal(how)
        status = process.wait(kit.PATIENCE)
        with open(self.path("log"), "wb"):
            pass
        return status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            kit.equal("afpad's end", self.stop(), 0)
        finally:
            shutil.rmtree(self.directory)

    def freeze(self):
        """It stands still when this has returned."""
        self.process.send_signal(signal.SIGSTOP)
        tasks = "/proc/%d/task/" % self.process.pid

        def stands():
            for task in os.listdir(tasks):
                with open(tasks + task + "/stat", encoding="ascii") as stat:
                    if stat.read().rpartition(")")[2].split()[0] != "T":
                        return False
            return True
        kit.wait_for("it stands still", stands)

    def connect(self, timeout=kit.PATIENCE):
        with self.inside():
            return socket.create_connection((self.host, self.port), timeout=timeout)

    def ask(self, method, target, body=None, token=TOKEN, by=None, **fields):
        """(status, what it says, header); BY is where the asker is. Afpa_Wait becomes Afpa-Wait."""
        header = {name.replace("_", "-"): value for name, value in fields.items()}
        if token:
            header["Authorization"] = "Bearer " + token
        if self.tls:
            connection = http.client.HTTPSConnection(self.host, self.port, timeout=kit.PATIENCE, context=self.tls)
        else:
            connection = http.client.HTTPConnection(self.host, self.port, timeout=kit.PATIENCE)
        with (by or self.inside)():
            connection.connect()
        with contextlib.closing(connection):
            connection.request(method, target, body, header)
            answer = connection.getresponse()
            said = answer.read()
            return answer.status, json.loads(said) if said else None, answer.headers

    def put(self, page, body=b"body", **how):
        return self.ask("PUT", "/v1/object/" + page, body, **how)[:2]

    def delete(self, page, **how):
        return self.ask("DELETE", "/v1/object/" + page, **how)[:2]

    def has(self, page):
        return self.ask("GET", "/v1/object/" + page)[0] == 200

    def status(self):
        return self.ask("GET", "/v1/status")[1]

    def peer(self, other):
        return next(peer for peer in self.status()["peers"] if peer["url"] == other.url)

    def in_step(self, *others):
        kit.wait_for("peers in step", lambda: all(self.peer(other)["state"] == "in step" for other in others))


def refused(program, directory, *lines, arguments=(), **env):
    """What it says when it does not start."""
    conf = os.path.join(directory, "conf")
    with open(conf, "w", encoding="utf-8") as file:
        file.write("".join(line + "\n" for line in lines))
    done = subprocess.run([program, "--config", conf, *arguments], capture_output=True, text=True, check=False,
                          timeout=kit.PATIENCE, env=dict(os.environ, **env))
    if done.returncode != 1:
        raise AssertionError("it ends with %d: %s" % (done.returncode, done.stderr))
    return done.stderr.strip()
