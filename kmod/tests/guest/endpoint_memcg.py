#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 90
"""The memory of an adopted connection is charged to the server that accepts it, and given back."""
import contextlib
import os
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
from endpoint import (Endpoint, Suite, listen, move, noise, pair, receive, unread,  # noqa: E402
                      until)
import kmsg  # noqa: E402
from cgroup import Cgroup  # noqa: E402
from patience import PATIENCE, SLOW   # noqa: E402
from stalled import stalled   # noqa: E402

suite = Suite()


def serve(group, listener, want, answer, hold):
    """Fork; the child is in the group, accepts, waits until `hold` is readable, reads `want` bytes and answers."""
    pid = os.fork()
    if pid:
        return pid
    try:
        group.join()
        with listener.accept()[0] as child:
            child.settimeout(PATIENCE)
            os.read(hold, 1)
            receive(child, want)
            child.sendall(answer)
            child.shutdown(socket.SHUT_WR)
            child.recv(1)
        os._exit(0)
    except Exception as error:  # pylint: disable=broad-except
        print("# server:", repr(error), flush=True)
        os._exit(1)


@suite.each((0, 1000, 65536, 1 << 20))
def unread_bytes_are_charged(world, count):
    """What was queued before accept is charged at accept; all is uncharged in the end."""
    client, server = pair(world, 8401)
    server.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
    body, answer = noise(count, 1), noise(500000, 2)
    sender = os.fork()
    if not sender:
        client.sendall(body)
        os._exit(0)
    until(lambda: unread(server) == count, "all is on a")
    os.waitpid(sender, 0)
    hold = os.pipe()
    with Cgroup("memory") as group, client, server, listen(world.b, 8401) as at_b:
        move(world, server, world.b)
        pid = serve(group, at_b, count, answer, hold[0])
        until(lambda: group.sock() >= count, f"{count} bytes are charged")
        os.write(hold[1], b"g")
        assert receive(client, len(answer)) == answer
        client.shutdown(socket.SHUT_WR)
        assert os.waitpid(pid, 0)[1] == 0
        until(lambda: group.sock() == 0, "everything is uncharged")
    for fd in hold:
        os.close(fd)


def underflows():
    """The kernel has said so often that it gave back what nobody had paid for; it says it once."""
    return sum(b"page_counter underflow" in record for record in kmsg.records())


@suite.each((1000, 65536, 1000000))
def unacknowledged_bytes_are_charged(world, count):
    """The write queue that comes along is charged at accept, while the client takes nothing; and given back."""
    client, server = pair(world, 8403, SO_RCVBUF=4096)
    server.setsockopt(socket.SOL_SOCKET, 32, 8 << 20)  # SO_SNDBUFFORCE
    first, answer = noise(count, 1), noise(100000, 2)
    world.a.ip("neigh replace 10.1.0.1 lladdr 02:00:00:00:00:99 nud permanent dev port")
    world.b.ip("neigh replace 10.2.0.1 lladdr 02:00:00:00:00:99 nud permanent dev port")
    hold = os.pipe()
    try:
        server.sendall(first)
        with Cgroup("memory") as group, client, server, listen(world.b, 8403) as at_b:
            move(world, server, world.b, send=Endpoint.MOST)
            pid = serve(group, at_b, 0, answer, hold[0])
            until(lambda: group.sock() >= count, f"{count} bytes are charged")
            world.b.ip("neigh del 10.2.0.1 dev port")
            assert receive(client, count) == first
            # Its first page may be there still; what it is charged follows what it holds.
            until(lambda: group.sock() <= 32768, "what was acknowledged is uncharged")
            os.write(hold[1], b"g")
            assert receive(client, len(answer)) == answer
            client.shutdown(socket.SHUT_WR)
            assert os.waitpid(pid, 0)[1] == 0
            until(lambda: group.sock() == 0, "everything is uncharged")
    finally:
        world.a.ip("neigh del 10.1.0.1 dev port")
    assert not underflows(), "more was given back than was charged"
    for fd in hold:
        os.close(fd)


@contextlib.contextmanager
def waiting_on_b(world, number):
    """So many connections that came with 1 MB unacknowledged wait for accept, each at its own listener; these."""
    with contextlib.ExitStack() as stack:
        ends = [pair(world, 8410 + n, SO_RCVBUF=4096) for n in range(number)]
        at_b = [stack.enter_context(listen(world.b, 8410 + n)) for n in range(number)]
        for node, gateway in ((world.a, "10.1.0.1"), (world.b, "10.2.0.1")):
            node.ip(f"neigh replace {gateway} lladdr 02:00:00:00:00:99 nud permanent dev port")
            stack.callback(node.ip, f"neigh del {gateway} dev port")
        for client, server in ends:
            stack.enter_context(client)
            stack.enter_context(server)
            server.setsockopt(socket.SOL_SOCKET, 32, 8 << 20)  # SO_SNDBUFFORCE
            server.sendall(noise(1000000, 1))
        for _, server in ends:
            move(world, server, world.b, send=Endpoint.MOST)
        yield at_b


def kill_all(node):
    """ss -K; how many it was."""
    kill = ["ip", "netns", "exec", node.name, "ss", "-HKtn", "state", "established"]
    return len(subprocess.run(kill, check=True, stdout=subprocess.PIPE).stdout.splitlines())


@suite.claim
def who_is_killed_right_after_accept_gives_back_what_was_paid(world):
    """The moment between accept's charge for the receive queue and ours for the rest, made long."""
    number = 4
    with Cgroup("memory") as group, waiting_on_b(world, number) as at_b, \
            stalled("flt_accept_destructor", 12 * SLOW) as stall:
        pids = []
        for listener in at_b:
            pids.append(os.fork())
            if not pids[-1]:
                group.join()
                with listener.accept()[0] as child:
                    os._exit(child.getsockopt(socket.SOL_TCP, socket.TCP_INFO, 1) != b"\7")
        until(lambda: stall() == number, "all are between the two")
        assert kill_all(world.b) == number, "not all were there"
        assert [os.waitpid(pid, os.WNOHANG)[0] for pid in pids] == [0] * number, "accept has returned before"
        for pid in pids:
            assert os.waitpid(pid, 0)[1] == 0
        until(lambda: group.sock() == 0, "everything is uncharged")
    assert not underflows(), "more was given back than was charged"


@suite.claim
def who_is_killed_before_accept_costs_nothing(world):
    with Cgroup("memory") as group, waiting_on_b(world, 2) as at_b:
        assert kill_all(world.b) == 2
        pid = os.fork()
        if not pid:
            group.join()
            with at_b[0].accept()[0], at_b[1].accept()[0]:
                pass
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        until(lambda: group.sock() == 0, "everything is uncharged")
    assert not underflows(), "more was given back than was charged"


@suite.claim
def aborted_children_cost_nothing(world):
    """Parked children are nobody's yet."""
    client, server = pair(world, 8402)
    client.sendall(noise(30000, 3))
    until(lambda: unread(server) == 30000, "all is on a")
    with Cgroup("memory") as group, client, server, listen(world.b, 8402), Endpoint() as endpoint:
        wire = endpoint.checkpoint(server)
        pid = os.fork()
        if not pid:
            group.join()
            for _ in range(50):
                if endpoint.adopt(world.b, wire) != "NONE":
                    os._exit(1)
                endpoint.abort()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        until(lambda: group.sock() == 0, "nothing is charged")


if __name__ == "__main__":
    suite.main()
