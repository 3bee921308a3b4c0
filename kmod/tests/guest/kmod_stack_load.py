#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# long: debug it takes four minutes there
# timeout: 300
# cpus: 2
"""Layers put on and off under load: 10,000 rounds (2,000 on the debug kernel) on busy sockets,
connections that come and go under a listener whose layers change, modules that unload meanwhile."""
import hashlib
import os
import random
import socket
import sys
import threading
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from patience import PATIENCE, SLOW, rounds             # noqa: E402
from stacktest import (FAMILIES, HAMMER, LAYERS, Device, closing, connect, equal, listener, load,  # noqa: E402
                       main, pair, unload, wait_for)
from stalled import stalled                             # noqa: E402

SEED = int(os.environ.get("FLT_SEED", "20261121"))
ROUNDS = int(os.environ.get("FLT_ROUNDS", rounds(10000, 2000)))
dev = None


class Stream:
    """A process of its own that sends through @client and checks what the reader saw, to a stop."""

    def __init__(self, client, server, seed):
        self.stop_r, self.stop_w = os.pipe()
        self.pids = [self.fork(self.send, client, seed), self.fork(self.receive, server, seed)]

    @staticmethod
    def fork(function, *args):
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            os.close(dev.fd)    # it holds the test module
            function(*args)
            status = 0
        finally:
            os._exit(status)

    def send(self, client, seed):
        """Blocks of known content and odd lengths; ends with the digest of all."""
        rnd, digest = random.Random(seed), hashlib.sha1()
        os.set_blocking(self.stop_r, False)
        block = rnd.randbytes(1 << 17)
        stopped = False
        client.settimeout(PATIENCE)
        while not stopped:
            try:
                stopped = bool(os.read(self.stop_r, 1))
            except BlockingIOError:
                pass
            part = block[:rnd.randrange(1, len(block))]
            digest.update(part)
            client.sendall(part)
        client.sendall(digest.digest())
        client.shutdown(socket.SHUT_WR)

    @staticmethod
    def receive(server, seed):
        digest, tail = hashlib.sha1(), b""
        server.settimeout(PATIENCE)  # does not block in recv(), which would hold the layer's module
        while data := server.recv(65536):
            tail += data
            digest.update(tail[:-20])
            tail = tail[-20:]
        if tail != digest.digest():
            raise AssertionError("the stream is damaged")

    def end(self):
        os.write(self.stop_w, b"xx")
        for pid in self.pids:
            equal("stream", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        os.close(self.stop_r)
        os.close(self.stop_w)


def hammer_busy_sockets(family, address):
    """Both ends of a stream at full speed, while the layers of one change."""
    dev.reset()
    with pair(family, address) as (client, server), pair(family, address) as (there, back):
        streams = [Stream(client, server, SEED), Stream(there, back, SEED + 1)]
        dev.ask(HAMMER, server, arg=ROUNDS // 4, seed=SEED)
        dev.ask(HAMMER, there, arg=ROUNDS // 4, seed=SEED + 2)
        for stream in streams:
            stream.end()
        wait_for("pointers", lambda: not dev.pointers(server))
    wait_for("layers gone", lambda: dev.live() == 0)
    counts = {layer: dev.counts(layer) for layer in LAYERS}
    print(f"# seed {SEED}, {sum(c['added'] for c in counts.values())} layers added,",
          f"{sum(c['data_ready'] + c['write_space'] for c in counts.values())} events heard")
    equal("events after the end", sum(c["after_end"] for c in counts.values()), 0)


def hammer_two_at_once():
    """Two threads put layers on and off the same socket; ENOENT and EEXIST are theirs to lose."""
    dev.reset()
    changes = ROUNDS // 20
    with pair() as (client, server):
        stream = Stream(client, server, SEED + 3)

        def change(layers, seed):
            rnd = random.Random(seed)
            for _ in range(changes):
                layer = rnd.choice(layers)
                if dev.has(server, layer):
                    rnd.choice((dev.remove, dev.detach))(server, layer)
                else:
                    dev.add(server, layer, atomic=layer in ("a", "b") and rnd.random() < 0.5)

        threads = [threading.Thread(target=change, args=args) for args in
                   ((("a", "ops1", "end"), SEED), (("b", "c", "ops2"), SEED + 1))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stream.end()
    wait_for("layers gone", lambda: dev.live() == 0)
    equal("events after the end", sum(dev.counts(layer)["after_end"] for layer in LAYERS), 0)


class Churn:
    """Short connections to a listener, each with a question and an answer, until stopped."""

    def __init__(self, server):
        self.server, self.stop, self.done, self.errors = server, False, 0, []
        self.threads = [threading.Thread(target=self.serve, args=(server,)),
                        *(threading.Thread(target=self.call, args=(server,)) for _ in range(2))]
        server.settimeout(0.2)
        for thread in self.threads:
            thread.start()

    def serve(self, server):
        while not self.stop:
            try:
                child = server.accept()[0]
            except TimeoutError:
                continue
            with closing(child):
                child.settimeout(PATIENCE)
                try:
                    child.sendall(child.recv(64))
                except OSError as e:
                    self.errors.append(repr(e))

    def call(self, server):
        rnd = random.Random(SEED)
        while not self.stop:
            try:
                with closing(connect(server)) as client:
                    if rnd.random() < 0.1:
                        continue    # closed before accept, or before the question
                    client.settimeout(PATIENCE)
                    client.sendall(b"question")
                    if client.recv(64) != b"question":
                        raise OSError("wrong answer")
                    self.done += 1
            except OSError as e:
                if not self.stop:
                    self.errors.append(repr(e))

    def end(self):
        self.stop = True
        self.threads[0].join()
        self.server.close()         # who waits for it hears so at once
        for thread in self.threads[1:]:
            thread.join()
        equal("errors", [e for e in self.errors if not e.startswith("ConnectionReset")][:5], [])
        if not self.done:
            raise AssertionError("no question was answered")


def listener_changes_under_connections(family, address):
    dev.reset()
    with closing(listener(family, address)) as server:
        churn = Churn(server)
        try:
            dev.ask(HAMMER, server, arg=ROUNDS // 10, seed=SEED + 5)
            before = churn.done
            dev.add(server, "a")
            wait_for("connections", lambda: churn.done > before + 20)
            dev.remove(server, "a")
        finally:
            churn.end()
        print(f"# {churn.done} connections, {dev.counts('a')['init_child']} children with layer a")
    wait_for("layers gone", lambda: dev.live() == 0)
    equal("events after the end", sum(dev.counts(layer)["after_end"] for layer in LAYERS), 0)


def module_unloads_under_load():
    """The owner of the layers goes, several times, under a stream and under new connections."""
    global dev
    for _ in range(3):
        with pair() as (client, server), closing(listener(socket.AF_INET, "127.0.0.1")) as lsn:
            for layer in LAYERS:
                dev.add(server, layer)
                dev.add(client, layer)
                dev.add(lsn, layer)
            stream, churn = Stream(client, server, SEED), Churn(lsn)
            time.sleep(0.2)
            dev.close()
            try:
                wait_for("rmmod", lambda: unload("flt_stack_test"))
            finally:
                stream.end()
                churn.end()
        load("flt_stack_test")
        dev = Device()


def blocking_reader_does_not_keep_the_module():
    """Neither does it wait in the module's exit for a peer's next byte."""
    global dev
    with pair() as (client, server):
        dev.add(server, "ops1")
        pid = os.fork()
        if not pid:
            dev.close()
            os._exit(0 if server.recv(10) == b"wake" else 1)
        wait_for("the reader", lambda: dev.counts("ops1")["recvmsg"] >= 1)
        dev.close()
        wait_for("rmmod", lambda: unload("flt_stack_test"))
        client.sendall(b"wake")
        equal("reader's status", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
    load("flt_stack_test")
    dev = Device()


def a_call_that_had_our_operations_keeps_flotilla():
    """It read them just before the last layer went, and has then slept in TCP for as long as its peer likes."""
    global dev
    with pair() as (client, server), stalled("flt_on_recvmsg", 3 * SLOW, busy=True) as stall:
        dev.add(server, "ops1")
        pid = os.fork()
        if not pid:
            dev.close()
            os._exit(0 if server.recv(10) == b"wake" else 1)
        try:
            wait_for("the reader", lambda: stall() == 1)
            dev.remove(server, "ops1")
            equal("TCP's own are back", dev.pointers(server), set())
            dev.close()
            wait_for("rmmod flt_stack_test", lambda: unload("flt_stack_test"))
            equal("rmmod flotilla", unload("flotilla"), False)
        finally:
            client.sendall(b"wake")
        equal("reader's status", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
    wait_for("rmmod flotilla", lambda: unload("flotilla"))
    load("flotilla")
    load("flt_stack_test")
    dev = Device()


def claims(tap):
    global dev
    dev = Device()
    for name, (family, address) in FAMILIES.items():
        tap.claim(f"{name}: {ROUNDS // 2} changes under streams", hammer_busy_sockets, family, address)
        tap.claim(f"{name}: a listener's layers change under connections",
                  listener_changes_under_connections, family, address)
    tap.claim("two threads change one socket's layers", hammer_two_at_once)
    tap.claim("a blocking reader does not keep the layers' module", blocking_reader_does_not_keep_the_module)
    tap.claim("the layers' module unloads under load", module_unloads_under_load)
    tap.claim("a call that had our operations keeps flotilla.ko", a_call_that_had_our_operations_keeps_flotilla)
    dev.close()


if __name__ == "__main__":
    main(claims)
