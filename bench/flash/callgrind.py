# SPDX-License-Identifier: GPL-2.0
"""Instructions that flash itself executes, kernel not included, counted by callgrind."""
import re
import socket
import subprocess
import time

from counted import TOP, free_port


def collected(root, clients, requests, load_class, options=()):
    """Of a whole run with @clients connections and so many @requests; @load_class(port) makes them."""
    port = free_port()
    flash = subprocess.Popen(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", TOP / "build/bin/flash", "--workers", "0",
         "--root", root, "--listen", f"127.0.0.1:{port}", "--keepalive-timeout", "600", *options],
        stderr=subprocess.PIPE, text=True)
    load, end = load_class(port), time.monotonic() + 60
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if flash.poll() is not None or time.monotonic() > end:
                    raise
                time.sleep(0.1)
        load.grow(clients)
        load.ask(requests)
    finally:
        flash.terminate()
        said = flash.communicate()[1]
        load.close()
    return int(re.search(r"Collected : (\d+)", said).group(1))
