#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
"""A connection moves between nodes: every byte, both ways, whatever its options."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
from endpoint import (Suite, connect, exchange, listen, move, noise, receive, tcp_info,  # noqa: E402
                      unread, until)

suite = Suite()


def pair(world, port, v=4, **options):
    """Client's and node a's socket of a connection, and node b's listener."""
    with listen(world.a, port, v) as at_a:
        client = connect(world, port, v, **options)
        server = at_a.accept()[0]
        server.settimeout(10)
    return client, server, listen(world.b, port, v)


@suite.each((0, 1, 1460, 8192, 65536))
def unread_bytes_move(world, count):
    """The request is read on b as the client sent it; streams go on both ways."""
    client, server, at_b = pair(world, 8001)
    with client, server, at_b:
        request = noise(count, count)
        client.sendall(request)
        until(lambda: unread(server) == count, "the request is on a")
        before = tcp_info(server)
        move(world, server, world.b)
        assert server.recv(1) == b"", "the giver does not read end of file"
        with at_b.accept()[0] as child:
            assert child.getpeername() == client.getsockname()
            assert unread(child) == count, f"{unread(child)} unread instead of {count}"
            after = tcp_info(child)
            for name in ("state", "options", "snd_wscale", "rcv_wscale", "snd_mss", "advmss", "pmtu",
                         "rtt", "snd_wnd"):
                assert before[name] == after[name], f"{name}: {before[name]} -> {after[name]}"
            assert after["rcv_wnd"] >= before["rcv_wnd"], "the window shrank"
            assert receive(child, count) == request
            exchange(client, child, noise(300000, 1), noise(3000000, 2))


if __name__ == "__main__":
    suite.main()
