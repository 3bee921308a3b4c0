#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 7200
"""flash's TLS by other people's suites: tlsfuzzer's scripts, with ALL=1 all of them, and testssl.sh."""

import contextlib
import functools
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../lib"), os.path.join(HERE, "../../../../lard/tests/lib")]
import conformance                                      # noqa: E402
from secured import Secured                             # noqa: E402

DAEMONS = contextlib.ExitStack()


@functools.lru_cache(maxsize=None)
def serve(kind):
    """A flash for all scripts of this kind: its port, and no files of clients."""
    server = Secured(names=("localhost" + " rsa" * (kind != "ec"),), sizes=())
    server.write("index.html", b"here\n")
    DAEMONS.enter_context(server.start())
    return server.tls_port, {}


if __name__ == "__main__":
    # It asks no client for a certificate.
    sys.exit(conformance.main("flash", DAEMONS, serve, ("rsa", "ec")))
