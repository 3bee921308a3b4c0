#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
# long: both minutes on either kernel
"""Whatever happens while a policy holds requests back, they are served and nothing of it is left."""
import contextlib
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from chain import NEW, Other                                # noqa: E402
from farm import COMMANDS                                   # noqa: E402,F401  # nginx that keeps connections
from fltnl import Flotilla, NlError                         # noqa: E402
from hof import PATIENCE, SLOW, VIP4, claim, main, receive, rounds, run, stalled, wait   # noqa: E402
from lasting import Lasting                                 # noqa: E402
from mallory import ABORT, ACK, COMMIT, HEAD, NAK   # noqa: E402
from policed import SERVICE, Nodes, get, nothing            # noqa: E402
from servers import SIZES, Site                  # noqa: E402

RESET = struct.pack("ii", 1, 0)


def unloads():
    """As soon as nobody uses it."""
    begin = time.monotonic()
    wait(lambda: not subprocess.run(("rmmod", "handoff"), capture_output=True, check=False).returncode)
    print("# unloaded in %.1f s" % (time.monotonic() - begin), flush=True)
    run("modprobe", "handoff")


# --- one request, at each stage ---

class Waiting:
    """A request that waits: held back for the policy, that its program reads, or for a node's answer."""

    STAGES = ("held", "read", "asked")

    def __init__(self, n, other, stage):
        self.n, self.other, self.got, self.reader = n, other, [], None
        n.policy(*("simple", "mallory") if stage == "asked" else ("delayed",))
        self.client = n.connect()
        self.sock = n.accepted()
        if stage == "read":
            self.sock.settimeout(None)
            self.reader = threading.Thread(target=self.reads)
            self.reader.start()
        self.client.sendall(get("/"))
        if stage == "asked":
            self.ident = other.offered(other.lines["be1"])[0]
        elif stage == "held":
            nothing(self.sock, 0.1)

    def reads(self):
        try:
            self.got.append(self.sock.recv(1000))
        except OSError as error:
            self.got.append(error.errno)

    def is_served(self):
        if self.reader:
            self.reader.join(PATIENCE)
            assert self.got == [get("/")], self.got
            self.sock.settimeout(PATIENCE)
        else:
            assert receive(self.sock, len(get("/"))) == get("/")
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        self.sock.sendall(answer)
        assert receive(self.client, len(answer)) == answer

    def ends(self):
        if self.reader:
            self.reader.join(PATIENCE)
            assert not self.reader.is_alive()
        self.client.close()
        self.sock.close()


def policy_is_off(w):
    w.n.flotilla("policy", "off", SERVICE)


def policy_is_replaced(w):
    """What is held already waits on, and then the new one is asked."""
    w.n.policy("stay")


def node_is_deleted(w):
    w.n.be[0].nl.do("NODE_DEL", node_name="mallory")
    policy_is_off(w)


def link_ends(w):
    w.other.lines["be1"].sock.close()
    policy_is_off(w)


def service_is_deleted(w):
    w.n.be[0].nl.do("SERVICE_DEL", service_addr4=VIP4)
    policy_is_off(w)
    w.n.be[0].nl.do("SERVICE_NEW", service_addr4=VIP4)


def listener_is_closed(w):
    w.n.listeners.pop().close()
    policy_is_off(w)
    w.n.listeners.append(w.n.be[0].listen())


def client_ends_its_side(w):
    w.client.shutdown(socket.SHUT_WR)


def another_asks_it(w):
    w.n.policy("simple", "self")
    w.n.flotilla("policy", "off", SERVICE)


def client_resets(w):
    w.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    w.client.close()
    return False


def program_ends_its_side(w):
    w.sock.shutdown(socket.SHUT_RDWR)
    return False


EVENTS = (policy_is_off, policy_is_replaced, node_is_deleted, link_ends, service_is_deleted, listener_is_closed,
          client_ends_its_side, another_asks_it, client_resets, program_ends_its_side)


@claim
def whatever_happens_to_a_request_that_waits_it_is_served():
    with Nodes(1) as n:
        n.be[0].sysctl("net.flotilla.handoff_timeout_ms", 500 * SLOW)
        other = Other(n)
        for event in EVENTS:
            for stage in Waiting.STAGES:
                other.meet(n.be[0], "BACKEND", NEW)
                n.be[0].sysctl("net.flotilla.migrate_wait_ms", 2000 if event is policy_is_replaced else 10000)
                w = Waiting(n, other, stage)
                if event(w) is not False:
                    w.is_served()
                w.ends()
                subprocess.run(("ip", "netns", "exec", n.be[0].ns, "flotilla", "migrate", "policy", "off", SERVICE),
                               check=False, capture_output=True)
                subprocess.run(("ip", "netns", "exec", n.be[0].ns, "flotilla", "node", "del", "mallory"),
                               check=False, capture_output=True)
                other.lines.pop("be1").sock.close()
                other.listener.settimeout(0.05)
                try:
                    while True:
                        other.listener.accept()[0].close()
                except TimeoutError:
                    other.listener.settimeout(PATIENCE)
                print("# %s, %s" % (event.__name__, stage), flush=True)
        other.close()
    unloads()


@claim
def module_goes_at_each_stage():
    """Its policies with it; who waits in a read keeps it."""
    for stage in ("held", "asked"):
        with Nodes(1) as n:
            other = Other(n)
            other.meet(n.be[0], "BACKEND", NEW)
            w = Waiting(n, other, stage)
            begin = time.monotonic()
            run("rmmod", "handoff")
            assert time.monotonic() - begin < 10 * SLOW
            w.is_served()
            w.ends()
            other.close()
            run("modprobe", "handoff")


@claim
def module_goes_beside_a_move_that_just_begins():
    with Nodes(1) as n:
        other = Other(n)
        other.meet(n.be[0], "BACKEND", NEW)
        n.policy("simple", "mallory")
        client = n.connect()
        sock = n.accepted()
        with stalled("hof_transfer_give", 3 * SLOW) as hits:
            client.sendall(get("/"))
            wait(lambda: hits() == 1)
            run("rmmod", "handoff")
        n.answer(sock, client, get("/"))
        other.close()
        run("modprobe", "handoff")


@claim
def namespace_goes_at_each_stage():
    for stage in Waiting.STAGES:
        n = Nodes(1)
        other = Other(n)
        other.meet(n.be[0], "BACKEND", NEW)
        w = Waiting(n, other, stage)
        n.net.delete(n.be[0].ns)
        time.sleep(0.5)
        w.sock.shutdown(socket.SHUT_RDWR)
        w.ends()
        other.close()
        n.__exit__()
    unloads()


# --- load ---

class Web(Lasting):
    """Its one connection lasts, whatever the policy says."""

    def __init__(self, n, site, pause=0.01):
        super().__init__(n.client.connect(), (3, 6, 1), pause)
        self.site = site

    def exchange(self, request):
        self.sock.sendall(get("/f%d" % request))
        self.answered(self.site[request])


def one_byte_a_time(n, site):
    with n.client.connect() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in get("/f1"):
            sock.sendall(bytes([byte]))
        assert receive(sock, 12) == b"HTTP/1.1 200"


def two_and_a_half(n, site):
    """Pipelined: the answers come in the order of the requests; the third never ends."""
    with n.client.connect() as sock:
        sock.sendall(get("/f1") + get("/f3") + get("/f2")[:9])
        data = b""
        while data.count(b"\r\n\r\n") < 2 or not data.endswith(site[3]):
            data += (part := sock.recv(65536))
            assert part, data
        assert site[1] in data and data.index(site[1]) < data.index(site[3])


def large_header(n, site):
    with n.client.connect() as sock:
        try:
            for _ in range(16):
                sock.sendall(b"GET /f1 HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 65536)
            sock.recv(100)
        except OSError:
            pass


def ends_its_side(n, site):
    with n.client.connect() as sock:
        sock.sendall(get("/f6"))
        sock.shutdown(socket.SHUT_WR)
        data = b""
        while part := sock.recv(65536):
            data += part
        assert data.endswith(site[6]), len(data)


def resets(n, site):
    with n.client.connect() as sock:
        sock.sendall(random.choice((b"G", get("/f3"), get("/f6") + get("/f1")[:20])))
        time.sleep(random.choice((0, 0.001, 0.02)))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def never_ends(n, site):
    sock = n.client.connect()
    sock.sendall(b"GET /f1")
    n.opened.append(sock)


ODD = (one_byte_a_time, two_and_a_half, large_header, ends_its_side, resets, never_ends)
WORDS = (("hash", "self be2"), ("simple", "be2"), ("delayed", ""), ("round-robin", "be2 self"), ("stay", ""),
         ("simple", "nobody"))


@claim
def policies_come_and_go_under_load_and_no_answer_is_wrong():
    """In two threads, as do nodes; and beside odd clients."""
    with Nodes(2, listening=False) as n:
        where = Site(n)
        for be in n.be:
            where.serve(be, "nginx")
        site = []
        for number in range(len(SIZES)):
            with open(os.path.join(where.root, "f%d" % number), "rb") as file:
                site.append(file.read())
        n.wait_ms(20)
        kept = [Web(n, site) for _ in range(6)]
        stop, errors, turns = threading.Event(), [], [0, 0, 0]

        def loops(which, act):
            try:
                while not stop.is_set():
                    act()
                    turns[which] += 1
            except Exception as error:          # pylint: disable=broad-except
                errors.append(error)
        at = {"service_addr4": VIP4, "service_port": 80}

        def policies(nl):
            for name, args in random.sample(WORDS, len(WORDS)):
                nl.do("POLICY_SET", policy_name=name, policy_args=args, **at)
                time.sleep(random.choice((0, 0.05, 0.3)))
                nl.dump("POLICY_GET")
            with contextlib.suppress(NlError):      # the other was faster
                nl.do("POLICY_DEL", **at)
        threads = []
        for which in range(2):
            with n.be[0].inside():
                threads.append(threading.Thread(target=loops, args=(which, lambda nl=Flotilla(): policies(nl))))
        threads.append(threading.Thread(target=loops, args=(2, lambda: random.choice(ODD)(n, site))))
        for thread in kept + threads:
            thread.start()
        time.sleep(rounds(40, 20) * SLOW)
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)
        with contextlib.suppress(NlError):
            n.be[0].nl.do("POLICY_DEL", **at)
        print("# policies %d and %d, odd clients %d, answers %d, moved %d, refused %d" % (
            *turns, sum(k.done for k in kept), n.be[0].stat("PolicyMoved"),
            n.be[0].stat("PolicyStayedRefused")), flush=True)
        for one in kept:
            one.close()
        assert not errors and not any(k.error for k in kept), (errors, [k.error for k in kept])
        assert n.be[0].stat("PolicyMoved")
    unloads()


# --- a node gone bad ---

def babbles(line, ident, dice):
    """Answers of other ids, and then two of this one."""
    def answer(kind, number):
        line.send(kind, HEAD.pack(number & ((1 << 64) - 1), dice.choice((1, 2, 24, 40, 71, 72, 65535)), 0))
    for _ in range(50):
        answer(dice.choice((NAK, ACK, ABORT, COMMIT)), ident + dice.choice((1, -1, 1 << 32, 1 << 63)))
    for _ in range(2):
        answer(NAK, ident)


@claim
def node_that_answers_anything_gets_and_breaks_nothing():
    """Refusals that there are not, of ids that there are not, twice, too late, and of what is not its."""
    dice = random.Random(7)
    with Nodes(1) as n:
        n.be[0].sysctl("net.flotilla.handoff_timeout_ms", 300 * SLOW)
        other = Other(n)
        line = other.meet(n.be[0], "BACKEND", NEW)
        n.policy("simple", "mallory")
        client = n.connect()
        sock = n.accepted()
        for turn in range(rounds(60, 20)):
            client.sendall(get("/%03d" % turn))
            ident = other.offered(line)[0]
            if not turn % 2:
                try:
                    babbles(line, ident, dice)
                    if not turn % 4:
                        line.send(0x1e, b"odd")
                        while line.sock.recv(4096):     # its link is ended
                            pass
                except OSError:
                    pass
                if not turn % 4:
                    line.sock.close()
                    line = other.greet(n.be[0], features=NEW)
            n.answer(sock, client, get("/%03d" % turn))
            if turn % 2:
                time.sleep(1.1)         # it was silent, and is left alone for a second
        why = n.why()
        print("# %s" % why, flush=True)
        assert why["refused"] and "moved" not in why, why
        other.close()
    unloads()


if __name__ == "__main__":
    main()
