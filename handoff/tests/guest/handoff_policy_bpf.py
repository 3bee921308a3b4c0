#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# kernel: stock
# timeout: 600
# cpus: 4
"""Policies that are BPF programs: handoff/policy_bpf.c. The debug kernel has no types of modules (BTF)."""
import contextlib
import ctypes
import errno
import os
import select
import struct
import subprocess
import sys
import threading
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import PATIENCE, TOP, VIP4, Cluster, claim, main, run, wait  # noqa: E402

BPFFS = "/run/policy-bpf"
PIN = BPFFS + "/policy"
SERVICE = VIP4 + ":80"
LOAD = os.path.join(TOP, "build/tests/policy-load")
MAP_GET_FD_BY_ID, OBJ_GET, OBJ_GET_INFO_BY_FD, LINK_UPDATE = 14, 7, 15, 29


def load(name, pin=PIN, before=()):
    """Registers it, or takes the place of what is under the pin: (status, what was said)."""
    done = subprocess.run([*before, LOAD, f"{TOP}/build/gen/{name}.bpf.o", pin], check=False, capture_output=True,
                          text=True)
    return done.returncode, done.stderr


def loaded(name, pin=PIN):
    status, said = load(name, pin)
    assert status == 0, said


def is_refused(name, words, **more):
    status, said = load(name, **more)
    if os.path.exists(PIN):
        os.unlink(PIN)
    return status == 1 and words in said


def bpf(command, attr):
    """bpf(2)."""
    attr = ctypes.create_string_buffer(attr, 128)
    result = ctypes.CDLL(None, use_errno=True).syscall(321, command, attr, 128)
    if result < 0:
        raise OSError(ctypes.get_errno(), f"bpf {command}")
    return result


@contextlib.contextmanager
def opened(pin):
    """Descriptors of a policy's link, and of what it has registered."""
    path = ctypes.create_string_buffer(pin.encode())
    link = bpf(OBJ_GET, struct.pack("QII", ctypes.addressof(path), 0, 0))
    info = ctypes.create_string_buffer(64)
    bpf(OBJ_GET_INFO_BY_FD, struct.pack("IIQ", link, 64, ctypes.addressof(info)))
    policy = bpf(MAP_GET_FD_BY_ID, struct.pack("III", struct.unpack_from("I", info, 16)[0], 0, 0))
    try:
        yield link, policy
    finally:
        os.close(policy)
        os.close(link)


def update(link, policy):
    """The errno of putting it there; 0."""
    try:
        bpf(LINK_UPDATE, struct.pack("IIII", link, policy, 0, 0))
        return 0
    except OSError as error:
        return error.errno


@contextlib.contextmanager
def pins():
    """A BPF file system; what is left in it ends with it."""
    run("modprobe", "handoff")
    os.makedirs(BPFFS, exist_ok=True)
    run("mount", "-t", "bpf", "none", BPFFS)
    try:
        yield
    finally:
        run("umount", BPFFS)


class Server(threading.Thread):
    """Answers each request of each connection with the name of its node."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.name, self.listener = node.name, node.listen()
        self.listener.settimeout(None)
        self.start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                # As servers do: an accept() that waits since before the policy was set is older than the policy.
                select.select([self.listener], [], [])
                threading.Thread(target=self.serve, args=(self.listener.accept()[0],), daemon=True).start()

    def serve(self, sock):
        name, data = self.name.encode(), b""
        with sock:
            while part := sock.recv(4096):
                data += part
                while b"\r\n\r\n" in data:
                    data = data.split(b"\r\n\r\n", 1)[1]
                    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(name), name))


class Client:
    """A kept connection."""

    def __init__(self, cluster):
        self.sock = cluster.client.connect()

    def ask(self, path, cut=()):
        """Who answers, to a request that is sent in pieces."""
        words = f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        for here, there in zip((0, *cut), (*cut, len(words))):
            if here:
                time.sleep(0.1)
            self.sock.sendall(words[here:there])
        data = b""
        while b"\r\n\r\n" not in data or data[-3:] not in (b"be1", b"be2", b"\nfe"):
            part = self.sock.recv(4096)
            assert part, f"end of file after {data}"
            data += part
        return data.rsplit(b"\n", 1)[1].decode()

    def close(self):
        self.sock.close()


def ask(cluster, path, cut=()):
    """On a new connection."""
    client = Client(cluster)
    try:
        return client.ask(path, cut)
    finally:
        client.close()


class Place(Cluster):
    """Servers on the front-end and on two nodes, and a policy for the one on the front-end."""

    def __init__(self):
        super().__init__(2)
        self.servers = [Server(node) for node in self.nodes]
        # What comes in pieces is waited for on a slow machine, too.
        self.fe.sysctl("net.flotilla.migrate_wait_ms", 10000)

    def policy(self, *words):
        self.fe.run("flotilla", "migrate", "policy", *words)

    def has(self, *words):
        self.policy("set", SERVICE, *words)

    def answers(self, *expected):
        """Pairs of a path and who answers it on a new connection."""
        got = [(path, ask(self, path)) for path, _ in expected]
        assert got == list(expected), (got, self.fe.output("flotilla", "migrate", "explain"))


class Load:
    """Clients that open connections and ask on each of them, until they are stopped."""

    def __init__(self, cluster):
        self.cluster, self.stopping = cluster, False
        self.answers, self.failures = {}, []
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(4)]
        for thread in self.threads:
            thread.start()

    def run(self):
        while not self.stopping:
            try:
                client = Client(self.cluster)
                for path in ("/small", "/big", "/other", "/big/2"):
                    who = client.ask(path)
                    self.answers[path, who] = self.answers.get((path, who), 0) + 1
                client.close()
            except (OSError, AssertionError) as error:
                self.failures.append(repr(error))

    def total(self):
        return sum(self.answers.values())

    def goes_on(self):
        before = self.total()
        wait(lambda: self.total() > before + 16)

    def stop(self):
        self.stopping = True
        for thread in self.threads:
            thread.join(PATIENCE)
        assert not self.failures, self.failures[:5]


@claim
def what_a_program_says_is_done():
    with Place() as c, pins():
        assert ask(c, "/big") == "fe"
        loaded("big")
        assert ask(c, "/big") == "fe", "without being asked for"
        c.has("big", "be2", "be1")
        c.answers(("/big", "be2"), ("/small", "fe"))
        for cut in ((1,), (5,), (7, 8), (9,), tuple(range(1, 14))):
            assert ask(c, "/bigger", cut) == "be2", cut
            assert ask(c, "/bi", cut) == "fe", cut
        client = Client(c)
        assert [client.ask(path) for path in ("/", "/a", "/big", "/a")] == ["fe", "fe", "be2", "be2"]
        client.close()
        assert "big" in c.fe.output("flotilla", "migrate", "policy", "show")


@claim
def all_that_a_program_may_call_answers():
    with Place() as c, pins():
        loaded("policy_everything")
        c.has("tried", "be1")
        c.answers(("/", "fe"), ("/x", "be1"))                                     # bytes of the path, and a node
        c.answers(("/t", "be1"), ("/t", "fe"), ("/t", "be1"), ("/t", "fe"))       # turns
        c.has("tried", "be1", "bound=0")
        c.answers(("/x", "be2"))        # an option, and a node by its name


@claim
def what_is_no_verdict_leaves_the_request_here():
    with Place() as c, pins():
        loaded("policy_nonsense")
        c.has("tried", "be1")
        c.answers(("/big", "fe"), ("/", "fe"))
        assert c.fe.stat("PolicyAsked") == 2, c.fe.stats()


UNSAFE = {
    "policy_writes": "only read is supported",
    "policy_overruns": "invalid indirect access to stack",
    "policy_forges": "must point to scalar",
    "policy_loops": "infinite loop detected",
    "policy_sleeps": "attach to unsupported member",
    "policy_elsewhere": "bpf_hof_turn is not allowed",
    "policy_empty": "cannot register policy: Invalid argument",
    "policy_nameless": "cannot register policy: Invalid argument",
    "policy_spaced": "cannot register policy: Invalid argument",
    "policy_taken": "cannot register policy: Device or resource busy",
}


@claim
def unsafe_programs_are_refused():
    with pins():
        wrong = [case for case in UNSAFE.items() if not is_refused(*case)]
        assert not wrong, wrong
        loaded("big", BPFFS + "/first")
        assert is_refused("big", "cannot register big: Device or resource busy")


@claim
def another_policys_place_is_not_taken():
    with pins():
        loaded("big")
        loaded("policy_nonsense", BPFFS + "/other")
        with opened(PIN) as (link, mine), opened(BPFFS + "/other") as (_, other):
            assert update(link, other) == errno.EINVAL
            assert update(link, mine) == 0


@claim
def registering_takes_the_right_to_administer_the_network():
    without = ("setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin")
    with pins():
        os.chmod(BPFFS, 0o777)
        assert is_refused("big", "Operation not permitted", before=("setpriv", "--reuid", "65534", "--clear-groups"))
        assert is_refused("big", "cannot register big: Operation not permitted", before=without)
        loaded("big")
        status, said = load("policy_staying", before=without)
        assert status == 1 and "Operation not permitted" in said, said
        with opened(PIN) as (link, mine):
            child = os.fork()
            if not child:
                # capset(2): all but CAP_NET_ADMIN (12).
                low = 0xffffffff & ~(1 << 12)
                failed = ctypes.CDLL(None).syscall(126, struct.pack("II", 0x20080522, 0),
                                                   struct.pack("6I", low, low, 0, 0x1ff, 0x1ff, 0))
                os._exit(99 if failed else update(link, mine))
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == errno.EPERM


@claim
def a_policy_is_replaced_under_load_and_nobody_notices():
    with Place() as c, pins():
        loaded("big")
        c.has("big", "be1")
        asking = Load(c)
        asking.goes_on()
        for _ in range(6):
            loaded("policy_staying")
            assert ask(c, "/big") == "fe"
            asking.goes_on()
            loaded("big")
            assert ask(c, "/big") == "be1"
            asking.goes_on()
        asking.stop()
        assert ("/small", "be1") not in asking.answers, asking.answers
        assert asking.answers["/big", "be1"] and asking.answers["/big", "fe"], asking.answers


@claim
def a_policy_goes_under_load_and_its_service_serves_itself():
    with Place() as c, pins():
        for _ in range(3):
            loaded("big")
            c.has("big", "be1")
            asking = Load(c)
            asking.goes_on()
            assert ask(c, "/big") == "be1"
            os.unlink(PIN)
            wait(lambda: ask(c, "/big") == "fe")
            asking.goes_on()
            asking.stop()
            asking = Load(c)
            asking.goes_on()
            asking.stop()
            assert all(who == "fe" for _, who in asking.answers), asking.answers


@claim
def the_module_stays_as_long_as_a_program_of_it():
    with pins():
        loaded("big")
        done = subprocess.run(["rmmod", "handoff"], check=False, capture_output=True, text=True)
        assert done.returncode and "in use" in done.stderr, done
        loaded("policy_staying")
        assert subprocess.run(["rmmod", "handoff"], check=False, capture_output=True).returncode
        os.unlink(PIN)
        wait(lambda: not subprocess.run(["rmmod", "handoff"], check=False, capture_output=True).returncode)
        run("modprobe", "handoff")
        loaded("big")


if __name__ == "__main__":
    try:
        main()
    finally:
        # Programs that nobody has any more are freed after a while, and hold the module until then.
        wait(lambda: not subprocess.run(["modprobe", "-r", "handoff"], check=False, capture_output=True).returncode)
