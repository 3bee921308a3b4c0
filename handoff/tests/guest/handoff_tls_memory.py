#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# long: both it searches the kernel's memory several times
# timeout: 300
"""Keys of connections of TLS that were handed off are in no memory of the kernel's afterwards, and in no trace.

Memory of programs, which have had the keys, is left out. Of the kernel's own pages those of the slab count, where
structures are. A kernel that was booted with init_on_free=1 (tools/vm/guest --append init_on_free=1) is held to more:
there no page (stacks, packets on the link) has what it had before it was freed.
"""
import contextlib
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import FAILED, PATIENCE, accept, claim, main, run, wait  # noqa: E402
import memory                                           # noqa: E402
from tap import Skip                                    # noqa: E402
import tls                                              # noqa: E402
from tls import set_up                                  # noqa: E402

TRACING = "/sys/kernel/tracing"
ROOMS = "flotilla", "handoff"


def write(name, text):
    with open(os.path.join(TRACING, name), "w", encoding="ascii") as file:
        file.write(text)


@contextlib.contextmanager
def traced():
    """All events of the modules; what they have said."""
    if not os.path.exists(TRACING + "/trace"):
        run("mount", "-t", "tracefs", "tracefs", TRACING)
    write("trace", "\n")
    for room in ROOMS:
        write("events/%s/enable" % room, "1")

    def said():
        with open(TRACING + "/trace", encoding="ascii", errors="replace") as file:
            return file.read()
    try:
        yield said
    finally:
        for room in ROOMS:
            write("events/%s/enable" % room, "0")


def begun(c, front, suite):
    """A client that has asked with this cipher, its front-end's socket, their secrets."""
    client = tls.Curl(c.client, suite, 10 * PATIENCE)
    sock, secrets = front.accept()
    assert secrets.cipher == tls.CIPHERS[suite][0], suite
    front.peek(sock)
    return client, sock, secrets


def taken(front, be, listener, sock, secrets):
    """By its server, which has read the request."""
    front.settled(front.give(sock, secrets, be))
    sock.close()
    server = accept(listener)
    assert server.recv(4096).startswith(b"GET /x HTTP/1.1\r\n")
    return server


def end(client, server):
    server.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nanswer")
    server.close()
    assert client.answer() == b"answer"


def need_memory():
    if not os.path.exists("/proc/kcore"):
        raise Skip("this kernel has no /proc/kcore")


def nothing_is_left(be, needles):
    """The kernel frees some of it a little later."""
    seen = None

    def gone():
        nonlocal seen
        seen = memory.found(needles)
        return not seen["slab"] and not (memory.wipes_what_it_frees() and seen["others"])
    wait(lambda: not be.sockets(443))
    try:
        wait(gone, 3 * PATIENCE)
    finally:
        print("# afterwards: %s" % dict(seen), flush=True)


@claim
def keys_are_in_no_memory_of_the_kernels_when_they_are_not_used_any_more():
    need_memory()
    with set_up() as (c, front, be):
        listener = be.listen(443)
        needles = []
        for suite in tls.CIPHERS:
            client, sock, secrets = begun(c, front, suite)
            needles += secrets.keys()
            # Of one that nobody takes, too.
            front.settled(front.give(sock, secrets, be, port=8443), FAILED, "nolistener")
            server = taken(front, be, listener, sock, secrets)
            # kTLS has them as long as it needs them: so they would be found.
            there = memory.found(secrets.keys())
            print("# %s: %s" % (suite, dict(there)), flush=True)
            assert there["slab"] >= 2, there
            end(client, server)
        nothing_is_left(be, needles)


@claim
def nor_of_those_that_no_program_has_accepted():
    need_memory()
    with set_up() as (c, front, be):
        listener = be.listen(443)
        client, sock, secrets = begun(c, front, "TLS_AES_256_GCM_SHA384")
        front.settled(front.give(sock, secrets, be))
        sock.close()
        there = memory.found(secrets.keys())
        assert there["slab"] >= 2, there
        listener.close()
        assert client.child.wait(), "answered"
        nothing_is_left(be, secrets.keys())


@claim
def traces_have_no_key():
    with traced() as said, set_up() as (c, front, be):
        listener = be.listen(443)
        client, sock, secrets = begun(c, front, "TLS_AES_128_GCM_SHA256")
        front.settled(front.give(sock, secrets, be, port=8443), FAILED, "nolistener")
        end(client, taken(front, be, listener, sock, secrets))
        trace = said()
        for event in "hof_submit", "hof_adopt", "hof_commit":
            assert event in trace, trace[-2000:]
        # In digits, however they are put together, and as they are.
        digits = "".join(x for x in trace.lower() if x in "0123456789abcdef")
        for key in secrets.keys():
            for part in key[:6], key[-6:], key[:6][::-1]:
                assert part.hex() not in digits and part.decode("latin-1") not in trace


if __name__ == "__main__":
    main()
