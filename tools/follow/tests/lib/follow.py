# SPDX-License-Identifier: GPL-2.0
"""flotilla-follow against a table that a file says: what it would change, and what it says."""
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.environ.get("FLT_TOP", os.path.join(HERE, "../../../.."))
sys.path.insert(0, os.path.join(TOP, "tools/testing/lib"))
import kit                                      # noqa: E402

PROGRAM = os.path.join(TOP, "build/bin/flotilla-follow")
ANNOUNCE = os.path.join(TOP, "build/bin/flotilla-announce")
FE = "local name fe address 10.0.0.1\n"
HOSTILE = "\x1b]0;owned\x07"


def write(path, text):
    """By a rename, as a careful writer does."""
    with open(path + ".tmp", "w", encoding="utf-8") as f:
        f.write(text)
    os.rename(path + ".tmp", path)


def port():
    """A free one."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Follower:
    """One that goes on until the end of the block; TABLE is what there is at first."""

    def __init__(self, source, *options, table=FE, limit=None):
        self.directory = tempfile.TemporaryDirectory()
        live = os.path.join(self.directory.name, "live")
        write(live, table)
        command = [PROGRAM, "--dry-run", "--against", live, "--log", "json", *options, source]
        if limit:
            command = ["bash", "-c", "ulimit -v %d; exec \"$@\"" % (limit << 10), "bash"] + command
        self.lines = []
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            self.lines.append(json.loads(line))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)
        self.reader.join()
        self.process.stderr.close()
        self.directory.cleanup()

    def changes(self):
        return ["%s %s" % (line["change"], line["what"]) for line in list(self.lines) if "change" in line]

    def messages(self):
        return [line["message"] for line in list(self.lines) if "change" not in line]

    def wait_changes(self, *expected):
        """Exactly these so far, in any order."""
        try:
            kit.wait(lambda: len(self.changes()) >= len(expected), 20)
        except AssertionError:
            pass
        kit.equal("changes (said: %s)" % self.messages(), sorted(self.changes()), sorted(expected))

    def wait_message(self, part):
        try:
            kit.wait(lambda: any(part in m for m in self.messages()), 40)
        except AssertionError as error:
            raise AssertionError("nothing said has %r: %s" % (part, self.lines)) from error


def once(source, *options, table=FE, log="text", env=None):
    """Status and what was said, of one reading."""
    with tempfile.TemporaryDirectory() as directory:
        live = os.path.join(directory, "live")
        write(live, table)
        run = subprocess.run([PROGRAM, "--once", "--dry-run", "--against", live, "--log", log, *options, source],
                             capture_output=True, timeout=90, check=False, env=env)
        return run.returncode, run.stderr.decode().replace("flotilla-follow: ", "").replace(": would be\n", "\n")


def refused(status, sentence, got):
    kit.equal("status and sentence", got, (status, sentence + "\n"))
