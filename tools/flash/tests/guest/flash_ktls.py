#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
"""HTTPS with records that the kernel makes: files by sendfile, bodies by hash, ends and new keys."""
import contextlib
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.environ["FLT_TOP"], "tools/flash/tests/lib"))
from flashtest import equal, main       # noqa: E402
from secured import SIZES, VERSIONS, Secured, content, same     # noqa: E402
from keyupdates import KeyUpdates        # noqa: E402

# A guest whose kernel checks itself takes its time, and none of flash's: a client is idle to it as soon as the kernel
# has all of an answer, which is long before a slow one has read that.
PATIENT = "".join(f"{what}_timeout 600s\n" for what in ("handshake", "header", "send", "keepalive"))


def load():
    """A reason why there is no such kernel; else nothing."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    subprocess.run(["modprobe", "tls"], check=False, capture_output=True)
    return None if os.path.exists("/proc/net/tls_stat") else "this kernel has no TLS"


def tls_stat(name):
    """Of the kernel's own counters."""
    with open("/proc/net/tls_stat", encoding="ascii") as f:
        return int(re.search(rf"^{name}\s+(\d+)", f.read(), re.M).group(1))


def files_go_from_the_kernels_memory():
    """In each of the ciphers, one connection for all sizes; the counters tell who made the records."""
    why = load()
    if why:
        return why
    for kind in ("", "transfer mmap", "memory_cache 0\nchunk 4k", "architecture mt\nthreads 4"):
        sizes = SIZES[:-1] if kind else SIZES       # a guest of the debug kernel takes its time
        with Secured(PATIENT + kind, sizes=sizes).start() as s:
            for version in VERSIONS:
                before = tls_stat("TlsTxSw"), s.count("tls_kernel"), s.count("tls_sendfile")
                c = s.secure(s.context(version))
                for size in sizes:
                    same(c.get(f"/size/{size}").body, content(size), f"{kind} {version} {size}")
                r = c.get("/size/1048576", "Range: bytes=1000-500999")
                same(r.body, content(1 << 20)[1000:501000], "range")
                equal(tls_stat("TlsTxSw"), before[0] + 1, f"{kind} {version} TlsTxSw")
                equal(s.count("tls_kernel"), before[1] + 1, f"{kind} {version} tls_kernel")
                if "mmap" not in kind:
                    assert s.count("tls_sendfile") - before[2] > sum(sizes[-2:]), (kind, version)
                c.close()
    return None


def off_is_off():
    why = load()
    if why:
        return why
    with Secured(PATIENT + "ktls off", sizes=SIZES[:-1]).start() as s:
        before = tls_stat("TlsTxSw")
        for version in VERSIONS:
            c = s.secure(s.context(version))
            for size in SIZES[:-1]:
                same(c.get(f"/size/{size}").body, content(size), f"{version} {size}")
        equal((tls_stat("TlsTxSw"), s.count("tls_kernel"), s.count("tls_sendfile")), (before, 0, 0))
    return None


def workers_without_rights_have_it_too():
    """Root alone makes the kernel bring the module: the master asks for it."""
    why = load()
    if why:
        return why
    subprocess.run(["rmmod", "tls"], check=False, capture_output=True)      # it may be built in
    with Secured("user nobody", args=("--user", "nobody")) as s:
        for path in (s.dir, s.root):
            os.chmod(path, 0o755)
        s.start()
        same(s.secure().get("/size/1048576").body, content(1 << 20), "as nobody")
        equal(s.count("tls_kernel"), 1)
    return None


def pipelines_and_slow_readers_get_their_bytes():
    """Many answers at once to one who does not read, others meanwhile; then all of them."""
    why = load()
    if why:
        return why
    with Secured(PATIENT + "send_buffer 64k").start() as s:
        for version in VERSIONS:
            c = s.secure(s.context(version))
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            sizes = [64, 1048576, 0, 1048576, 100000, 1048576, 16385, 1, 1048576, 1048576, 64]
            c.send("".join(f"GET /size/{n} HTTP/1.1\r\nHost: h\r\n\r\n" for n in sizes))
            time.sleep(1)
            same(s.secure().get("/size/64").body, content(64), "another")
            for n in sizes:
                same(c.response().body, content(n), f"{version} {n}")
    return None


def many_at_once_get_their_own():
    why = load()
    if why:
        return why
    wrong = []

    def ask(s, version):
        try:
            for _ in range(2):
                c = s.secure(s.context(version))
                for size in SIZES[2:-1]:
                    same(c.get(f"/size/{size}").body, content(size), size)
                c.close()
        except Exception as e:      # noqa: B902
            wrong.append(e)

    with Secured(PATIENT + "workers 2", sizes=SIZES[:-1]).start() as s:
        threads = [threading.Thread(target=ask, args=(s, VERSIONS[i % 2])) for i in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not wrong, wrong
        equal(s.count("tls_kernel"), 16)
    return None


def the_end_is_said():
    """close_notify by the kernel's way, behind all that was sent."""
    why = load()
    if why:
        return why
    with Secured("keepalive_timeout 5s").start() as s:
        for version in VERSIONS:
            for ask in ("GET /size/10000019 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
                        "GET /size/64 HTTP/1.0\r\n\r\n", "nonsense\r\n\r\n",
                        "GET /size/1 HTTP/1.1\r\nHost: h\r\n\r\n"):
                c = s.secure(s.context(version), suppress_ragged_eofs=False)
                c.send(ask)
                assert c.rest().startswith(b"HTTP/1.1 "), ask       # SSLEOFError, if it is not said
            c = s.secure(s.context(version), suppress_ragged_eofs=False)
            same(c.get("/size/64").body, content(64), version)
            c.sock.unwrap()
    return None


def new_keys_are_known_or_end_it():
    """A client that has new keys goes on; one that wants ours to be new gets right bytes or none."""
    why = load()
    if why:
        return why
    with Secured().start() as s:
        for both in (0, 1):
            c = KeyUpdates(s.tcp())
            same(c.get("/size/100000", 100000), content(100000), "before")
            c.tcp.sendall(c.records(1, both))
            got = c.get("/size/100000", 100000)
            if both:
                assert got in (b"", content(100000)), got[:80]
            else:
                same(got, content(100000), "after")
        with contextlib.suppress(ssl.SSLError):
            same(s.secure().get("/size/64").body, content(64), "another")
        equal(s.count("tls_kernel"), 3)
    return None


if __name__ == "__main__":
    main([files_go_from_the_kernels_memory, off_is_off, workers_without_rights_have_it_too,
          pipelines_and_slow_readers_get_their_bytes, many_at_once_get_their_own, the_end_is_said,
          new_keys_are_known_or_end_it])
