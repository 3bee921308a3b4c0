#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 7200
"""lardd's TLS by other people's suites: tlsfuzzer's scripts, with ALL=1 all of them, and testssl.sh."""

import contextlib
import functools
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import conformance                                      # noqa: E402
from lardd import cluster, free_port, until             # noqa: E402
from secure import make_certificate                     # noqa: E402

DAEMONS = contextlib.ExitStack()
# Nothing is handed off here, but what has come is looked at as if it were (tls/seal.c).
SEALED = "tls-port 8443"


@functools.lru_cache(maxsize=None)
def serve(kind):
    """A lardd for all scripts of this kind: its port, and files."""
    files = conformance.clients(DAEMONS)
    lardd, port = DAEMONS.enter_context(cluster(1)), free_port()
    chain, key = make_certificate(lardd.directory.name, "localhost", "ec" if kind == "ec" else "rsa")
    more = f"client-ca {files['@ca']}" if kind == "client" else SEALED
    lardd.configure(f"listen 127.0.0.1:{port} tls{' client optional' * (kind == 'client')}\n"
                    f"certificate {chain} {key}\n{more}")
    lardd.reload()
    until(lambda: lardd.control("status")["reloads"] == 1, what="the reload")
    return port, files


if __name__ == "__main__":
    sys.exit(conformance.main("lardd", DAEMONS, serve, ("rsa", "ec", "client")))
