# SPDX-License-Identifier: GPL-2.0
"""A lardd that offers HTTP/2."""

import contextlib
import re

import lardd as lardd_lib
from lardd import kit, until
from http2_client import agree
from secure import Site


class Http2Site(Site):
    """Its listener offers HTTP/2."""

    def configure(self, names, extra=""):
        super().configure(names, extra)
        with open(self.lardd.config_path, encoding="utf-8") as file:
            text = file.read()
        with open(self.lardd.config_path, "w", encoding="utf-8") as file:
            file.write(text.replace(f":{self.port} tls\n", f":{self.port} tls http2\n"))

    def http2(self, receive=None):
        """A socket of TLS on which HTTP/2 is agreed."""
        return agree(self.context(), self.port, receive)


@contextlib.contextmanager
def http2_site(extra="", nodes=1):
    with lardd_lib.cluster(nodes) as lardd:
        yield Http2Site(lardd, extra=extra)


def memory(lardd, which="VmRSS"):
    """In KiB, by its name in proc(5)."""
    with open(f"/proc/{lardd.process.pid}/status", encoding="ascii") as file:
        return int(next(line.split()[1] for line in file if line.startswith(which)))


def no_sanitizer():
    with open(lardd_lib.LARDD, "rb") as file:
        if re.search(b"__[at]san_init", file.read()):
            raise kit.Skip("a sanitizer's own memory is more")


def quiet(lardd):
    """Nothing is left of what was there."""
    until(lambda: not any(lardd.control("status")["connections"].values()), what="no connection")
    until(lambda: lardd.load() == 0, what="no load")
