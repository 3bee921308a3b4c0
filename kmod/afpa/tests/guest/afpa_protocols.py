#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 480
# cpus: 2
# long: both a memcached for each claim, half a minute
"""A second protocol: memcached's gets out of the kernel, in front of an unmodified memcached."""
import contextlib
import errno
import json
import os
import random
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
import afpa                                     # noqa: E402
from afpa import (PUT, SOFTIRQ, THREAD, Device, Server, Thread, address, body, claim, counted, equal,     # noqa: E402
                  fails, kept, load, main, place, same, unload, wait_for, wire)
from ssp import counters, loaded, refs                    # noqa: E402
import kit                                      # noqa: E402
import stall                                    # noqa: E402

MODULE = "afpa_memcached"
SEED = 17
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
NOOP = b"\x80\x0a" + bytes(22)                  # of the binary protocol
ODD = (b"get k \r\n", b"get  k\r\n", b"get k\n", b"gets k\r\n", b"get " + b"k " * 16 + b"k\r\n", b"get\r\n",
       b"get \r\n", b"GET k\r\n", b"\r\n", b"get " + b"x" * 251 + b"\r\n", b"get k\rx\r\n", b"get k\x00\r\n",
       b"mg k v\r\n", b"get k\r\r\n", b"get\tk\r\n", NOOP)


class Memcached:
    """One of Debian's, and nothing in it."""

    def __init__(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.site = free.getsockname()
        self.process = subprocess.Popen([kit.need("memcached"), "-u", "root", "-l", self.site[0], "-p",
                                         str(self.site[1]), "-U", "0", "-t", "2"])
        wait_for("memcached", self.listens)

    def listens(self):
        with contextlib.suppress(ConnectionRefusedError), Client(self.site) as client:
            return client.ask(b"version\r\n", b"\r\n").startswith(b"VERSION")

    def set(self, key, data):
        with Client(self.site) as client:
            said = client.ask(b"set %s 0 0 %d\r\n%s\r\n" % (key, len(data), data), b"\r\n")
            equal("set", said, b"STORED\r\n")

    def gets(self):
        """Keys that it was asked for."""
        with Client(self.site) as client:
            lines = client.ask(b"stats\r\n", b"END\r\n").decode().split("\r\n")
        return int(next(line for line in lines if " cmd_get " in line).split()[2])

    def close(self):
        self.process.terminate()
        self.process.wait()


class Client:
    def __init__(self, site, rcvbuf=0):
        self.sock = socket.socket()
        self.sock.settimeout(kit.PATIENCE)
        if rcvbuf:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.sock.connect(site)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def until(self, end, times=1):
        got = b""
        while not (got.endswith(end) and got.count(end) >= times):
            part = self.sock.recv(65536)
            if not part:
                raise EOFError(f"it ends after {got[-100:]}")
            got += part
        return got

    def ask(self, text, end=b"END\r\n", times=1):
        self.sock.sendall(text)
        return self.until(end, times)


def value(key, data, flags=0):
    return b"VALUE %s %d %d\r\n%s\r\n" % (key, flags, len(data), data)


@contextlib.contextmanager
def served():
    """(device, memcached), with a site."""
    load(MODULE)
    with Device() as device, contextlib.closing(Memcached()) as server:
        equal("listeners, refused, errno", device.listen(server.site, "memcached"), (1, 0, 0))
        try:
            yield device, server
        finally:
            device.info(mode=SOFTIRQ)
            with contextlib.suppress(FileNotFoundError):
                device.site_del(server.site)


@contextlib.contextmanager
def listening(device, server, protocol="memcached"):
    """In front of one that is none of it; the site may be gone at the end."""
    load(MODULE)
    device.listen(server.site, protocol)
    server.go.set()
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            device.site_del(server.site)


@claim
def gets_are_answered_where_they_arrive():
    with served() as (device, server), Client(server.site) as client:
        device.put(server.site, "/k", b"from the kernel", kind="7")
        device.put(server.site, "/empty", b"", kind="")
        equal("the first", client.ask(b"get k\r\n"), value(b"k", b"from the kernel", 7) + b"END\r\n")
        with counted(Hits=40, HitsSoftirq=lambda n: n >= 30, Misses=0, Deferred=0):
            for _ in range(20):
                equal("get", client.ask(b"get k\r\n"), value(b"k", b"from the kernel", 7) + b"END\r\n")
                equal("get", client.ask(b"get empty\r\n"), value(b"empty", b"") + b"END\r\n")
        equal("hits", device.query(server.site, "/k")["hits"], 21)
        equal("what memcached was asked for", server.gets(), 0)
        device.info(mode=THREAD)
        with counted(HitsWorker=1):
            equal("thread", client.ask(b"get k\r\n"), value(b"k", b"from the kernel", 7) + b"END\r\n")


@claim
def several_keys_are_one_answer():
    with served() as (device, server), Client(server.site) as client:
        data = {b"key%d" % n: body(n * 700) for n in range(16)}
        for key, text in data.items():
            device.put(server.site, "/" + key.decode(), text, kind="")
        keys = list(data)
        orders = [keys, keys[::-1], keys[:1], keys[3:5] + keys[3:5], keys[7:8]]
        whole = b"".join(b"".join(value(key, data[key]) for key in order) + b"END\r\n" for order in orders)
        asked = b"".join(b"get %s\r\n" % b" ".join(order) for order in orders)
        with counted(Hits=len(orders), Bytes=len(whole)):
            client.sock.sendall(asked)
            same("pipelined", recv(client, len(whole)), whole)
        with counted(Hits=len(orders)):
            for byte in asked:
                client.sock.sendall(bytes([byte]))
            same("byte by byte", recv(client, len(whole)), whole)
        for key in keys:
            hits = device.query(server.site, "/" + key.decode())["hits"]
            equal(key, hits, 2 * sum(order.count(key) for order in orders))
        equal("what memcached was asked for", server.gets(), 0)


def recv(client, length):
    got = b""
    while len(got) < length:
        part = client.sock.recv(65536)
        if not part:
            raise EOFError(f"{len(got)} bytes of {length}")
        got += part
    return got


@claim
def a_burst_of_gets_is_a_work_items_after_64():
    with served() as (device, server), Client(server.site) as client:
        device.put(server.site, "/k", b"x", kind="")
        answer = value(b"k", b"x") + b"END\r\n"
        # Whoever of memcached's threads has it waits for it now.
        equal("the first", client.ask(b"get k\r\n"), answer)
        for number, soft, bursts in ((63, 63, 0), (64, 64, 1), (257, 64, 4)):
            with counted(Hits=number, HitsSoftirq=soft, HitsWorker=number - soft, Bursts=bursts):
                client.sock.sendall(b"get k\r\n" * number)
                same("answers", recv(client, number * len(answer)), answer * number)
        equal("what memcached was asked for", server.gets(), 0)


@claim
def large_values_come_in_order_to_a_slow_client():
    with served() as (device, server), Client(server.site, rcvbuf=20000) as client:
        data = {b"a": body(300000, 1), b"b": b"", b"c": body(200001, 2), b"d": body(65536, 3)}
        for key, text in data.items():
            device.put(server.site, "/" + key.decode(), text, kind="")
        whole = b"".join(value(key, text) for key, text in data.items()) + b"END\r\n"
        with counted(Hits=2, Continued=lambda n: n > 2, Bytes=2 * len(whole)):
            client.sock.sendall(b"get a b c d\r\nget a b c d\r\n")
            same("both", recv_slowly(client, 2 * len(whole)), whole + whole)
        client.sock.sendall(b"get a b c d\r\n")
        wait_for("the answer", lambda: client.sock.recv(1, socket.MSG_PEEK))
        # What is thrown out meanwhile is sent to its end.
        equal("objects", device.flush(server.site), 4)
        same("the third", recv_slowly(client, len(whole)), whole)
        wait_for("the objects' memory", lambda: counters("Afpa")["AfpaOutsideBytes"] == 0)


def recv_slowly(client, length):
    got = b""
    while len(got) < length:
        part = client.sock.recv(min(8000, length - len(got)))
        if not part:
            raise EOFError(f"{len(got)} bytes of {length}")
        got += part
    return got


@claim
def one_missing_key_makes_it_memcacheds():
    with served() as (device, server), Client(server.site) as client:
        device.put(server.site, "/k", b"kernel", kind="")
        server.set(b"m", b"memcached")
        equal("a hit", client.ask(b"get k\r\n"), value(b"k", b"kernel") + b"END\r\n")
        with counted(Hits=0, Misses=1):
            equal("one of two", client.ask(b"get k m\r\n"), value(b"m", b"memcached") + b"END\r\n")
            equal("a hit no more", client.ask(b"get k\r\n"), b"END\r\n")
            equal("a set", client.ask(b"set k 0 0 1\r\nx\r\n", b"STORED\r\n"), b"STORED\r\n")
        equal("what memcached was asked for", server.gets(), 3)
        # Whoever writes writes to the server.
        with Client(server.site) as other, counted(Hits=2, Deferred=1):
            asked = b"get k\r\nget k k\r\nset k 0 0 1 noreply\r\ny\r\nget k\r\n"
            equal("pipelined", other.ask(asked, times=3), value(b"k", b"kernel") + b"END\r\n" +
                  2 * value(b"k", b"kernel") + b"END\r\n" + value(b"k", b"y") + b"END\r\n")
        # What was there is held by nobody.
        equal("objects", device.flush(server.site), 1)
        wait_for("the object's memory", lambda: counters("Afpa")["AfpaOutsideBytes"] == 0)


@claim
def what_is_not_understood_is_as_without_the_kernel():
    """The same bytes to one with a site and to one without, both of which have the key."""
    with served() as (device, server), contextlib.closing(Memcached()) as bare:
        for each in (server, bare):
            each.set(b"k", b"data")
            each.set(b"x" * 250, b"long")
        device.put(server.site, "/k", b"not this", kind="")
        device.put(server.site, "/" + "x" * 250, b"not this", kind="")
        with counted(Hits=0, Deferred=len(ODD)):
            for text in ODD:
                # Some are wrong to memcached, which says so; its answer to the next command ends them all.
                asked, end = (text, bytes(16)) if text == NOOP else (text + b"verbosity 0\r\n", b"OK\r\n")
                with Client(server.site) as ours, Client(bare.site) as theirs:
                    equal(text, ours.ask(asked, end), theirs.ask(asked, end))


class Talk:
    """Requests of a client that SEED makes up: gets of what the kernel has, and some of what it has not."""

    def __init__(self, rng, keys, others):
        self.rng, self.keys, self.others = rng, keys, others
        # Now and then more than is looked at in one go.
        asked = [self.get(keys) for _ in range(rng.randrange(rng.choice((10, 100, 1000))))]
        asked += [self.other() for _ in range(rng.randrange(4))]
        text = b"".join(asked)
        self.ends = rng.random() < 0.4
        self.text = text + self.get(keys)[:-rng.randrange(1, 6)] if self.ends else text + b"mn\r\n"

    def get(self, keys):
        return b"get %s\r\n" % b" ".join(self.rng.choices(keys, k=self.rng.choice((1, 1, 1, 2, 5, 16))))

    def other(self):
        key = self.rng.choice(self.others)
        mixed = self.get([*self.keys[:3], key])
        return self.rng.choice((mixed, mixed, mixed, b"delete %s\r\n" % key,
                                b"set %s 3 0 2\r\nab\r\n" % key, b"get %s\n" % key, b"touch %s 0\r\n" % key))

    def pieces(self):
        """All at once, or cut anywhere."""
        cuts = [self.rng.randrange(len(self.text)) for _ in range(self.rng.choice((0, 1, 3, 30)))]
        cuts = [0, *sorted(cuts), len(self.text)]
        return [self.text[begin:end] for begin, end in zip(cuts, cuts[1:]) if begin < end]


def told(client, ends):
    """All that it is told."""
    if not ends:
        return client.until(b"MN\r\n")
    got = b""
    while part := client.sock.recv(65536):
        got += part
    return got


def talk(site, words, pieces):
    with Client(site) as client:
        reader = Thread(told, client, words.ends)
        for piece in pieces:
            client.sock.sendall(piece)
        if words.ends:
            client.sock.shutdown(socket.SHUT_WR)
        return reader.join()


@claim
def in_whatever_pieces_it_comes_the_answers_are_memcacheds():
    """Random pipelines, cut at random, with an end amid a get or what is memcached's, beside one without a site."""
    rng = random.Random(SEED)
    print(f"# seed {SEED}")
    keys, others = [b"k%d" % n + b"x" * (n % 3 * 100) for n in range(20)], [b"m%d" % n for n in range(6)]
    with served() as (device, server), contextlib.closing(Memcached()) as bare:
        for key in keys + others:
            data = rng.randbytes(rng.choice((0, 1, 30, 600))).hex().encode()
            for each in (server, bare):
                each.set(key, data)
            if key in keys:
                device.put(server.site, "/" + key.decode(), data, kind="")
        with counted(Hits=lambda n: n > 500, Deferred=lambda n: n > 3, Misses=lambda n: n > kit.rounds(1, 0)):
            for number in range(kit.rounds(40, 15)):
                words = Talk(rng, keys, others)
                pieces = words.pieces()
                same(f"{number}: {len(pieces)} pieces of {len(words.text)} bytes",
                     talk(server.site, words, pieces), talk(bare.site, words, pieces))


@claim
def lines_without_an_end_are_memcacheds():
    with served() as (device, server):
        device.put(server.site, "/k", b"kernel", kind="")
        for text in (b"get " + b"k" * 100000, b"get " + b"k " * 50000, b"x" * 100000, b"\x80" * 100000):
            with Client(server.site) as client, counted(Hits=0, Deferred=1):
                with contextlib.suppress(OSError):
                    client.sock.sendall(text)
                    client.sock.shutdown(socket.SHUT_WR)
                    while client.sock.recv(65536):
                        pass
        # Half a get and an end.
        with Client(server.site) as client, counted(Hits=0):
            client.sock.sendall(b"get k")
            client.sock.shutdown(socket.SHUT_WR)
            equal("end", client.sock.recv(100), b"")
        with Client(server.site) as client:
            equal("alive", client.ask(b"get k\r\n"), value(b"k", b"kernel") + b"END\r\n")


@claim
def objects_are_what_a_get_could_ask_for():
    with served() as (device, server):
        site = server.site
        for path in ("k", "kk", "/", "/a b", "/a\x7f", "/a\r", "/" + "x" * 251):
            fails(errno.EINVAL, device.put, site, path, b"", kind="")
        fails(errno.EINVAL, device.put, site, "/k", b"", kind="", host="h")
        fails(errno.EINVAL, device.put, site, "/k", b"", kind="", headers="A: b\r\n")
        fails(errno.EINVAL, device.put, site, "/k", b"", kind="", age=1)
        for flags in ("text/plain", "-1", "4294967296", "1 ", "+1", "00000000001"):
            fails(errno.EINVAL, device.put, site, "/k", b"", kind=flags)
        fails(errno.EINVAL, device.query, site, "/a b")
        device.put(site, "/a/../%zz?&", b"x", kind="4294967295")
        with Client(site) as client:
            equal("get", client.ask(b"get a/../%zz?&\r\n"), value(b"a/../%zz?&", b"x", 4294967295) + b"END\r\n")


@claim
def a_site_has_one_protocol():
    with served() as (device, server):
        equal("protocol", device.protocol(server.site), "memcached")
        fails(errno.EEXIST, device.listen, server.site, "http")
        equal("again", device.listen(server.site, "memcached"), (1, 0, 0))
        equal("again, whatever it has", device.site_add(server.site), (1, 0, 0))
        equal("protocol", device.protocol(server.site), "memcached")
        other = ("127.0.0.2", server.site[1])
        for name in ("gopher", "memcache"):
            fails(errno.EPROTONOSUPPORT, device.listen, other, name)
        for name in ("", "HTTP", "a b", "../x", "x" * 16):
            fails(errno.EINVAL, device.listen, other, name)
        fails(errno.ENOENT, device.protocol, other)
        device.listen(other, "http")
        equal("protocol", device.protocol(other), "http")
        device.site_del(other)


@claim
def a_protocol_that_is_in_use_stays():
    with served() as (device, server), Client(server.site) as client:
        device.put(server.site, "/k", b"kernel", kind="")
        equal("a hit", client.ask(b"get k\r\n"), value(b"k", b"kernel") + b"END\r\n")
        equal("rmmod", unload(MODULE), False)
        device.site_del(server.site)
        # The connection is memcached's, and holds nothing.
        wait_for("rmmod", lambda: unload(MODULE))
        equal("by memcached", client.ask(b"get k\r\n"), b"END\r\n")


@claim
def a_protocol_goes_under_load():
    with served() as (device, server):
        server.set(b"k", b"same")
        stop = []

        def load_it():
            asked = 0
            while not stop:
                with Client(server.site) as client:
                    for _ in range(20):
                        equal("get", client.ask(b"get k\r\nget k k\r\n", times=2), value(b"k", b"same") + b"END\r\n" +
                              2 * value(b"k", b"same") + b"END\r\n")
                        asked += 1
            return asked
        clients = [Thread(load_it) for _ in range(4)]
        for _ in range(kit.rounds(3, 2)):
            load(MODULE)
            device.listen(server.site, "memcached")
            device.put(server.site, "/k", b"same", kind="")
            with counted(Hits=lambda n: n > 0):
                wait_for("hits", lambda: device.query(server.site, "/k")["hits"] > 20)
                equal("rmmod", unload(MODULE), False)
            device.site_del(server.site)
            wait_for("rmmod", lambda: unload(MODULE))
        stop.append(True)
        equal("each has asked", all(thread.join() for thread in clients), True)
        load(MODULE)
        device.listen(server.site, "memcached")


@claim
def connections_hold_their_protocol_not_others():
    with served() as (device, server):
        before = refs(MODULE)
        with contextlib.ExitStack() as stack:
            for _ in range(10):
                client = stack.enter_context(Client(server.site))
                client.ask(b"version\r\n", b"\r\n")
            equal("references", refs(MODULE), before)


@claim
def a_connection_holds_its_protocol_when_its_site_is_gone():
    with Device() as device, contextlib.closing(Server(accept=False)) as server, listening(device, server):
        device.put(server.site, "/k", b"kernel", kind="")
        with server.client() as client:
            client.sock.sendall(b"get k\r\n")
            answer = value(b"k", b"kernel") + b"END\r\n"
            equal("a hit", client.file.read(len(answer)), answer)
            with kept(server.socks[-1]):
                device.site_del(server.site)
                equal("rmmod", unload(MODULE), False)
            wait_for("rmmod", lambda: unload(MODULE))


@claim
def what_is_being_put_is_not_another_protocols():
    with Device() as device, contextlib.closing(Server()) as server, listening(device, server):
        page, (host, keep) = stall.Stall(), place(b"*")
        putting = Thread(device.call, 5, PUT, 0, address(server.site), 1, 2, 0, 0, 0, host, page.page, 0, 0, host, 1,
                         0, 0, 0, 0, 0)
        try:
            page.wait()
            device.site_del(server.site)
            equal("rmmod", unload(MODULE), False)
            device.listen(server.site, "http")
        finally:
            page.fill(b"/k")
        fails(errno.ENOENT, putting.join)
        equal("objects", device.names(), [])
        wait_for("rmmod", lambda: unload(MODULE))
        del keep


@claim
def what_is_put_at_one_site_is_that_ones():
    """One port, of all addresses and of one, with a protocol each."""
    with Device() as device, contextlib.closing(Server(accept=False)) as one, \
            contextlib.closing(Server("0.0.0.0", one.site[1], accept=False)) as other, \
            listening(device, one), listening(device, other, "http"):
        device.put(one.site, "/k", b"of one", kind="")
        device.put(one.site, "/one", b"of one", kind="")
        device.put(other.site, "/k", b"of the other")
        device.put(other.site, "/other", b"of the other")
        fails(errno.ENOENT, device.query, one.site, "/other")
        web = ("127.0.0.2", one.site[1])
        with Client(one.site) as client, afpa.Client(web) as browser:
            equal("memcached", client.ask(b"get k one\r\n"), value(b"k", b"of one") + value(b"one", b"of one") +
                  b"END\r\n")
            equal("http", browser.get("/k"), b"of the other")
            client.sock.sendall(b"get other\r\n\r\n")
            equal("http", browser.get("/one"), b"server /one")
            wait_for("the server of one", lambda: one.read)
        for where, server, text in ((one.site, one, wire("/k")), (web, other, b"get k\r\n\r\n")):
            with afpa.Client(where) as client, counted(Hits=0, Deferred=1):
                client.sock.sendall(text)
                equal("status", client.answer()[0]["status"], "HTTP/1.1 200 OK")
                equal("what the server has read", server.read[-1], text)
        equal("what the server has read", one.read[0], b"get other\r\n\r\n")


def modprobe_knows():
    if subprocess.run(["modprobe", "-n", "afpa-protocol-memcached"], capture_output=True, check=False).returncode:
        raise kit.Skip("modprobe does not know the modules")


def in_a_container(function):
    """Root of a user namespace and of a network, and of nothing else, calls it."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            if stall.libc.unshare(CLONE_NEWUSER | CLONE_NEWNET):
                raise OSError("unshare")
            with open("/proc/self/uid_map", "w", encoding="ascii") as file:
                file.write("0 0 1")
            function()
            status = 0
        except (AssertionError, OSError) as err:
            print(f"# {err}", flush=True)
        finally:
            os._exit(status)
    equal("status", os.waitpid(pid, 0)[1], 0)


@claim
def root_of_a_container_has_the_protocols_that_are_loaded():
    site = ("127.0.0.1", 11211)

    def refused():
        with Device() as device:
            fails(errno.EPROTONOSUPPORT, device.listen, site, "memcached")

    def served_too():
        with Device() as device:
            equal("listeners, refused, errno", device.listen(site, "memcached"), (0, 0, 0))
            equal("protocol", device.protocol(site), "memcached")
    if loaded(MODULE):
        wait_for("rmmod", lambda: unload(MODULE))
    modprobe_knows()
    in_a_container(refused)
    equal("loaded", loaded(MODULE), False)
    load(MODULE)
    in_a_container(served_too)


@claim
def a_protocol_is_loaded_when_it_is_asked_for():
    with contextlib.closing(Memcached()) as server, Device() as device:
        if loaded(MODULE):
            wait_for("rmmod", lambda: unload(MODULE))
        modprobe_knows()
        equal("listeners, refused, errno", device.listen(server.site, "memcached"), (1, 0, 0))
        equal("loaded", loaded(MODULE), True)
        device.site_del(server.site)


def flotilla(*words, **how):
    return subprocess.run(["flotilla", *words], capture_output=True, check=False, text=True, **how)


@claim
def the_command_line_knows_protocols():
    load(MODULE)
    with contextlib.closing(Memcached()) as server, tempfile.NamedTemporaryFile(suffix=".svg") as file:
        name = f"{server.site[0]}:{server.site[1]}"
        equal("add", flotilla("afpa", "site", "add", name, "protocol", "memcached").stderr, "")
        try:
            equal("show", json.loads(flotilla("-j", "afpa", "site").stdout)[0]["protocol"], "memcached")
            file.write(b"of a file")
            file.flush()
            equal("put", flotilla("cache", "put", f"*:{server.site[1]}/user:7", file.name).stderr, "")
            equal("put", flotilla("cache", "put", f"*:{server.site[1]}/f", file.name, "type", "9").stderr, "")
            with Client(server.site) as client, log() as lines:
                answer = value(b"user:7", b"of a file") + value(b"f", b"of a file", 9) + b"END\r\n"
                equal("get", client.ask(b"get user:7 f\r\n"), answer)
                row = json.loads(lines())
            equal("log", (row["request"], row["body"], row["bytes"]), ("get user:7 f", 18, len(answer)))
            equal("other", flotilla("afpa", "site", "add", name, "protocol", "http").stderr,
                  f"flotilla: cannot add site {name}: the site has another protocol\n")
            equal("none", flotilla("afpa", "site", "add", "127.0.0.2:7", "protocol", "gopher").stderr,
                  "flotilla: cannot add site 127.0.0.2:7: there is no protocol gopher (modprobe afpa_gopher)\n")
        finally:
            flotilla("afpa", "site", "del", name)
            server.close()


@contextlib.contextmanager
def log():
    with subprocess.Popen(["flotilla", "-j", "afpa", "log", "count", "1"], stdout=subprocess.PIPE, text=True) as logger:
        with open(f"/proc/{logger.pid}/syscall", encoding="ascii") as file:
            def reads():
                file.seek(0)
                return file.read().startswith("0 ")
            wait_for("the logger", reads)
        yield logger.stdout.read


main(MODULE)
