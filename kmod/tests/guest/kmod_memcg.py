#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 200
"""What root of a user namespace makes is paid for by its memory cgroup, and refused when that is full."""
import contextlib
import errno
import os
import signal
import struct
import sys
import threading
import time
import traceback
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cluster import HELLO, UP, Cluster, FakePeer, frame, hello  # noqa: E402
import kmsg                                               # noqa: E402
from cgroup import Cgroup                               # noqa: E402
from fltnl import Flotilla, NlError                     # noqa: E402
from netns import LIBC, batch, call                     # noqa: E402
from patience import PATIENCE                           # noqa: E402
from tap import claim, main_with, wait                  # noqa: E402

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
RX_BUFFER = 16384


class Group(Cgroup):
    """A memory cgroup."""

    def __init__(self):
        super().__init__("memory")

    def kernel(self):
        """Bytes that the kernel keeps for it."""
        return self.numbers("memory.stat")["kernel"]


class Child:
    """A process in the group that is nobody, in namespaces of its own, and does one step after the other."""

    def __init__(self, group, *steps):
        (self.answers, theirs), (orders, self.orders) = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(theirs)
            os.close(orders)
            return
        try:
            os.close(self.answers)
            os.close(self.orders)
            nl = stranger(group)
            for step in steps:
                os.read(orders, 1)
                os.write(theirs, step(nl).encode() + b"\n")
            os.read(orders, 1)
            os._exit(0)
        except BaseException:       # pylint: disable=broad-except
            traceback.print_exc()
            os._exit(1)

    def step(self):
        """What the next step says."""
        os.write(self.orders, b"g")
        said = os.read(self.answers, 4096).decode()
        if not said:
            self.end()
        return said.split()

    def end(self):
        os.close(self.orders)
        os.close(self.answers)
        status = os.waitpid(self.pid, 0)[1]
        assert status == 0, signal.Signals(status & 127).name if status & 127 else status


def stranger(group):
    group.join()
    # Its own memory is all there from now on: what is charged later is what the kernel keeps.
    call(LIBC.mlockall(1))
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    call(LIBC.unshare(CLONE_NEWUSER))
    call(LIBC.unshare(CLONE_NEWNET))
    return Flotilla()


def address(number):
    return "10.%d.%d.%d" % (1 + number // 62500, number // 250 % 250, 1 + number % 250)


def adder(first, last):
    """A step: add these nodes until one is refused; the number of the last, and the errno."""
    def step(nl):
        for number in range(first, last):
            try:
                nl.do("NODE_NEW", node_name="n%d" % number, node_addr4=address(number))
            except NlError as error:
                return "%d %d" % (number, error.errno)
        return "%d 0" % last
    return step


@claim
def nodes_of_a_user_namespace_are_charged():
    with Group() as group:
        child = Child(group, adder(0, 10), adder(10, 1010))
        child.step()
        before = group.kernel()
        assert child.step() == ["1010", "0"]
        # A node and its link are more than half a kilobyte; the kernel sums up now and then.
        wait(lambda: group.kernel() - before > 1000 * 512, name="they are charged")
        print("# %d bytes a node" % ((group.kernel() - before) // 1000))
        child.end()
        wait(lambda: group.kernel() < before, name="what was charged is given back")


@claim
def nodes_that_the_group_has_no_room_for_are_refused_and_nobody_is_killed():
    with Group() as group:
        # The second step fails on the way that the third does.
        child = Child(group, adder(0, 100), adder(99, 100), adder(100, 5000))
        child.step()
        assert child.step() == ["99", str(errno.EEXIST)]
        group.write("memory.max", group.number("memory.current") + (1 << 20))
        number, error = map(int, child.step())
        print("# %d nodes in a mebibyte" % number)
        assert 300 < number < 4000 and error == errno.ENOMEM, (number, error)
        child.end()
        events = group.numbers("memory.events")
        assert events["max"] and not events["oom_kill"], events


@claim
def links_are_charged_to_who_added_the_node():
    """A kernel thread makes them: they are not its own."""
    with Group() as group:
        c = Cluster(1, listed=False)
        node, count = c.nodes[0], 60
        node.become()
        # Nobody answers there: the links are being made.
        batch(node.ns, "link add nowhere type dummy", "addr add 10.77.0.1/16 dev nowhere", "link set nowhere up")
        before = group.kernel()
        with group.member():
            for number in range(count):
                node.nl.do("NODE_NEW", node_name="x%d" % number, node_addr4="10.77.1.%d" % (number + 1))
        wait(lambda: group.kernel() - before > count * RX_BUFFER, name="their buffers are charged")
        wait(lambda: group.sock() > 0, name="what they send is charged")
        c.close()


def met(group):
    """A cluster, its higher node, who pays for its peers out of the group, and a socket that is such a peer."""
    c = Cluster(2, listed=False)
    low, high = c.nodes
    high.become()
    with group.member():
        high.list(low)
    peer = FakePeer(low, high).connect()
    peer.send(frame(HELLO, hello("n1", heartbeat=60000)))
    assert peer.frame()[0] == HELLO
    wait(lambda: high.state(low) == UP)
    return c, high, peer


@claim
def what_waits_for_a_peer_is_charged():
    with Group() as group:
        c, high, peer = met(group)
        before, most = group.kernel(), int(high.sysfs("links/queue_bytes"))

        def send():
            with contextlib.suppress(OSError):
                high.test("storm n1 100000 20000")
        # It reads nothing. Who sends is not in the group.
        sender = threading.Thread(target=send)
        sender.start()
        wait(lambda: high.nl.stat("SendNoBuffers") > 0)
        # The kernel sums up now and then.
        wait(lambda: group.kernel() - before > most * 3 // 4, name="it is charged")
        high.nl.do("NODE_DEL", node_name="n1")
        sender.join()
        wait(lambda: group.kernel() - before < most // 4, PATIENCE, name="it is given back")
        peer.close()
        c.close()


@claim
def what_an_accepted_link_has_received_is_charged():
    with Group() as group:
        c, high, peer = met(group)
        # Its handler sleeps: what comes behind lies in the socket, and much of it.
        peer.send(frame(0xf3, struct.pack("!I", 20000)))
        peer.sock.settimeout(2)
        with contextlib.suppress(TimeoutError):
            peer.sock.sendall(frame(0x20, bytes(1 << 20)) * 8)
        wait(lambda: group.sock() >= 32768, name="it is charged")
        peer.close()
        high.nl.do("NODE_DEL", node_name="n1")
        wait(lambda: not group.sock(), PATIENCE, name="it is given back")
        c.close()
    assert not any(b"page_counter underflow" in record for record in kmsg.records())


@claim
def what_a_message_is_received_into_is_charged():
    """Its head says how long it is, and the rest does not come."""
    with Group() as group:
        c, high, peer = met(group)
        before = group.kernel()
        peer.send(frame(0xf0, b"begin", length=1 << 20))
        wait(lambda: group.kernel() - before > 3 << 18, name="it is charged")
        peer.close()
        high.nl.do("NODE_DEL", node_name="n1")
        wait(lambda: group.kernel() - before < 1 << 18, name="it is given back")
        c.close()


@claim
def a_message_for_a_room_that_is_not_loaded_takes_no_memory():
    with Group() as group:
        c, high, peer = met(group)
        before = group.kernel()
        peer.send(frame(0x20, bytes(7 << 20), length=8 << 20))
        wait(lambda: high.nl.stat("LinkBytesIn") > 7 << 20)
        # The kernel sums up every two seconds.
        time.sleep(3)
        assert group.kernel() - before < 1 << 18, group.kernel() - before
        # Behind it all goes on.
        peer.send(bytes(1 << 20) + frame(0xf1, b"call"))
        wait(lambda: high.numbers()["calls"] == 1)
        assert high.nl.stat("MessagesNoHandler") == 1 and high.nl.stat("LinkDown") == 0
        peer.close()
        c.close()


if __name__ == "__main__":
    main_with("flotilla", "flt_link_test", needs=("dummy",))
