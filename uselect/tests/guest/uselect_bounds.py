#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
# long: debug minutes there
# cpus: 2
"""What an event costs has a bound, and probes that cannot fire are not relied upon."""
import contextlib
import errno
import fcntl
import mmap
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "splice", "tests", "lib"))
sys.path.insert(1, os.path.join(HERE, "..", "..", "..", "kmod", "tests", "lib"))
from ssp import claim, connection, equal, fails, load, refs, unload, wait_for  # noqa: E402
import kit  # noqa: E402
from cgroup import Cgroup  # noqa: E402
from stacktest import Sockmap, set_ktls  # noqa: E402

SETUP = struct.Struct("8I32x")
USEL_SETUP = 3 << 30 | SETUP.size << 16 | ord("u") << 8 | 0x90
USEL_TRACK = 1 << 30 | 4 << 16 | ord("u") << 8 | 0x91
EDGES = 4
FD_EDGES = 1 << 28
TRACE_FD = 2
LOST = 1 << 29
MAP_WANT = 0x20000000
WANT_ALL = 2


class Set:
    """A set of interest; the region is mapped by the first."""

    def __init__(self, nfds=16384, flags=0):
        self.fd = os.open("/dev/uselect", os.O_RDWR | os.O_CLOEXEC)
        buf = bytearray(SETUP.pack(1, flags, nfds, 64, 0, 0, 0, 0))
        try:
            fcntl.ioctl(self.fd, USEL_SETUP, buf)
        except OSError:
            os.close(self.fd)
            raise
        (_, _, self.nfds, _, self.features, self.size, _, self.want_size) = SETUP.unpack(buf)

    def want_all(self):
        """Each event is told of."""
        self.want = mmap.mmap(self.fd, self.want_size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE,
                              offset=MAP_WANT)
        struct.pack_into("I", self.want, 12, WANT_ALL)

    def map(self):
        self.memory = mmap.mmap(self.fd, self.size, mmap.MAP_SHARED, mmap.PROT_READ)
        self.head = struct.unpack_from("9I", self.memory)

    def active(self, fd):
        return self.memory[self.head[4] + fd // 8] >> fd % 8 & 1

    def readable(self, fd):
        return self.memory[self.head[5] + fd // 8] >> fd % 8 & 1

    def events(self, fd):
        return struct.unpack_from("I", self.memory, self.head[8] + 32 * fd + 4)[0]

    def track(self, fd):
        fcntl.ioctl(self.fd, USEL_TRACK, struct.pack("i", fd))

    def close(self):
        for area in ("memory", "want"):
            if hasattr(self, area):
                getattr(self, area).close()
        os.close(self.fd)


def usual(call, times=31):
    """The middle one: a machine that has other things to do makes single ones long."""
    took = []
    for _ in range(times):
        begin = time.monotonic()
        call()
        took.append(time.monotonic() - begin)
    return sorted(took)[times // 2]


@claim
def many_sets_and_many_copies_of_a_descriptor_do_not_make_a_write_long():
    resource.setrlimit(resource.RLIMIT_NOFILE, (16384, 16384))
    sets = []
    try:
        for _ in range(300):
            sets.append(Set())
    except OSError as err:
        equal("errno", err.errno, errno.EMFILE)
    # As for copies below: each is looked at for each event.
    equal("sets", len(sets), int(read("/sys/module/uselect/parameters/max_sets")))
    sets[0].map()
    far, near = connection()

    def write():
        far.send(b"x")
        near.recv(10)
    alone = usual(write)
    copies = [os.dup(near.fileno()) for _ in range(10000)]
    crowded = usual(write)
    print(f"# {len(sets)} sets: {alone * 1e3:.2f} ms, with copies {crowded * 1e3:.2f} ms", flush=True)
    far.send(b"x")
    # Each copy is either right or says that it has to be asked for.
    wait_for("readable", lambda: sets[0].readable(near.fileno()))
    # Those that are followed are looked at for each event, so they are few; a clock says less than their number.
    followed = sum(sets[0].active(fd) for fd in copies)
    if not 0 < followed <= 64:
        raise AssertionError(f"{followed} copies are followed")
    for fd in copies:
        if not (sets[0].active(fd) and sets[0].readable(fd)) and sets[0].events(fd) != LOST:
            raise AssertionError(f"copy {fd}: active {sets[0].active(fd)}, "
                                 f"events {sets[0].events(fd):#x}")
    for fd in copies:
        os.close(fd)
    for one in sets:
        one.close()
    far.close()
    near.close()
    if crowded > 0.03 + 20 * alone:
        raise AssertionError(f"{crowded * 1e3:.1f} ms for a write")


def ftrace(text):
    with open("/proc/sys/kernel/ftrace_enabled", "w", encoding="ascii") as f:
        f.write(text)


def ftrace_goes_off():
    """The probes stay for a moment after the last one that they served."""
    try:
        ftrace("0")
    except OSError as why:
        equal("errno", why.errno, errno.EBUSY)
        return False
    return True


@claim
def with_ftrace_off_nobody_is_told_that_descriptors_are_followed():
    wait_for("ftrace off", ftrace_goes_off)
    try:
        one = Set()
        equal("followed", one.features & TRACE_FD, 0)
        one.close()
    finally:
        ftrace("1")
    one = Set()
    equal("followed again", one.features & TRACE_FD, TRACE_FD)
    one.close()


@claim
def ftrace_cannot_be_switched_off_under_whom_it_serves():
    one = Set()
    one.map()
    fails(errno.EBUSY, ftrace, "0")
    far, near = connection()
    copy = os.dup(near.fileno())
    equal("the copy is tracked", one.active(copy), 1)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, copy)
    equal("the number names another file", one.active(copy), 0)
    for fd in (null, copy):
        os.close(fd)
    far.close()
    near.close()
    one.close()
    wait_for("ftrace off", ftrace_goes_off)
    ftrace("1")


@claim
def ktls_and_a_sockmap_take_a_socket_and_leave_nothing():
    for take, flags in (("before", 0), ("after", 0), ("after", EDGES)):
        for who in ("tls", "sockmap"):
            one = Set(flags=flags)
            one.map()
            far, near = connection()
            # What edges only are wanted of is not seen any more after its first receive.
            far.send(b"x")
            equal("data", near.recv(10), b"x")
            equal("edges only", bool(one.events(near.fileno()) & FD_EDGES), bool(flags))
            sockmap = Sockmap() if who == "sockmap" else None

            def taken():
                if sockmap:
                    sockmap.add(near)
                    return
                for sock in (far, near):
                    sock.setsockopt(socket.SOL_TCP, 31, b"tls")
                    set_ktls(sock, 1)
                    set_ktls(sock, 2)
            if take == "before":
                one.close()
                taken()
                one = Set()
                one.map()
                fails(errno.EOPNOTSUPP, one.track, near.fileno())
            else:
                taken()
                if sockmap:
                    far.send(b"x")
                select.select([near], [], [], 0)
                wait_for("no more tracked", lambda: not one.active(near.fileno()))
            far.close()
            near.close()
            if sockmap:
                sockmap.close()
            one.close()
            wait_for("the module is free", lambda: refs("uselect") == 0)


def put(path, text):
    with open(path, "w", encoding="ascii") as f:
        f.write(text)


def read(path):
    with open(path, encoding="ascii") as f:
        return f.read()


@contextlib.contextmanager
def traced(event):
    """Its lines in the kernel's trace, of an instance of our own."""
    top = "/sys/kernel/tracing"
    if not os.path.ismount(top):
        subprocess.run(["mount", "-t", "tracefs", "none", top], check=True)
    ours = os.path.join(top, "instances", "uselect-bounds")
    os.mkdir(ours)

    def lines():
        with open(os.path.join(ours, "trace"), encoding="ascii") as f:
            return [line for line in f if f" {event.split('/')[1]}: " in line]
    try:
        put(f"{ours}/events/{event}/enable", "1")
        yield lines
    finally:
        put(f"{ours}/events/{event}/enable", "0")
        os.rmdir(ours)


def interrupts_off(line):
    """From the column of flags, which follows the CPU's: [001] d.s1."""
    return line.split("]", 1)[1].split()[0][0] in "dD"


@claim
def who_loses_descriptors_to_ktls_is_told_with_interrupts_on():
    """How long they are off depends on nothing that a user can have many of: not a clock, the kernel's own word."""
    one = Set()
    one.map()
    one.want_all()
    # From here on somebody waits, all the time.
    waiter = select.epoll()
    waiter.register(one.fd, select.EPOLLIN)
    far, near = connection()
    copies = [os.dup(near.fileno()) for _ in range(20)]
    equal("all are tracked", [one.active(fd) for fd in copies], [1] * 20)
    with traced("uselect/usel_wake") as lines:
        for sock in (far, near):
            sock.setsockopt(socket.SOL_TCP, 31, b"tls")
            set_ktls(sock, 1)
            set_ktls(sock, 2)
        select.select([near], [], [], 0)
        wait_for("no more tracked", lambda: not any(one.active(fd) for fd in copies))
        # The last ones may be on their way.
        wait_for("all are told of", lambda: len({line.split("usel_wake: ")[1] for line in lines()}) >= 20)
        told = lines()
    waiter.close()
    for fd in copies:
        os.close(fd)
    far.close()
    near.close()
    one.close()
    equal("with interrupts off", [line for line in told if interrupts_off(line)], [])


@claim
def nobody_waits_for_who_has_no_cpu_time_left():
    with Cgroup("cpu") as group:
        if not group.has("cpu.max"):
            raise kit.Skip("the kernel has no bound for a group's CPU time")
        group.write("cpu.max", "1000 1000000")

        def throttled():
            return group.numbers("cpu.stat")["nr_throttled"]
        told, tell = os.pipe()
        member = os.fork()
        if not member:
            while True:
                Set(1 << 20).close()
                os.write(tell, b".")
        os.close(tell)
        # From its second set on it is nearly always where memory is taken; a millisecond would not bring it there.
        equal("told", os.read(told, 1), b".")
        # Who does wait for it is let go after this, and says how long it took.
        relief = threading.Timer(25, group.write, ("cpu.max", "max"))
        longest = calls = 0
        try:
            group.write("cgroup.procs", member)
            relief.start()
            wait_for("the member to be throttled", lambda: throttled() >= 3)
            until = throttled() + 12
            while relief.is_alive() and throttled() < until:
                begin = time.monotonic()
                Set(512).close()
                longest = max(longest, time.monotonic() - begin)
                calls += 1
        finally:
            relief.cancel()
            os.kill(member, signal.SIGKILL)
            group.write("cpu.max", "max")
            os.waitpid(member, 0)
            os.close(told)
    print(f"# {calls} calls, the longest {longest:.2f} s", flush=True)
    if longest > 20:
        raise AssertionError(f"a call took {longest:.1f} s")


@claim
def the_device_is_root_s_and_its_group_s():
    equal("mode", os.stat("/dev/uselect").st_mode & 0o777, 0o660)


if __name__ == "__main__":
    load("flotilla", "uselect")
    sys.exit(kit.run(kit.CLAIMS, last=[
        ("the_module_unloads", lambda: wait_for("rmmod uselect", lambda: unload("uselect")))]))
