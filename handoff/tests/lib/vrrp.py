# SPDX-License-Identifier: GPL-2.0
"""keepalived on a front-end, with a file that is shipped."""
import os
import shutil
import subprocess
import tempfile

from hof import TOP
from kit import need


class Keepalived:
    """The daemon of one front-end; @changes: what is in the file and what stands there in its place."""

    def __init__(self, node, name, changes):
        place = tempfile.mkdtemp(prefix="keepalived-")
        with open(os.path.join(TOP, "tools/flotilla/examples", name), encoding="ascii") as file:
            text = file.read()
        for old, new in changes + [("/usr/bin/flotilla", shutil.which("flotilla"))]:
            assert old in text, old
            text = text.replace(old, new)
        with open(place + "/conf", "w", encoding="ascii") as file:
            file.write(text)
        # Namespaces of the network share the places of these files.
        self.child = node.spawn(need("keepalived"), "--dont-fork", "--log-console", "--vrrp", "-f", place + "/conf",
                                "-p", place + "/pid", "-r", place + "/vrrp.pid",
                                stdout=open(place + "/log", "wb"), stderr=subprocess.STDOUT)
        self.log = place + "/log"

    def said(self):
        with open(self.log, encoding="utf-8") as file:
            return file.read()

    def stop(self):
        self.child.terminate()
        self.child.wait()


def has_address(node, address):
    return " %s/" % address in node.output("ip", "-4", "addr", "show", "dev", "eth0")
