#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
# long: debug thousands of commands, some seconds each hundred
# cpus: 2
"""Commands for another node's cache, over the link between the two: what is done, who may, what hostile nodes reach."""
import contextlib
import errno
import json
import os
import random
import signal
import struct
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lib"), os.path.join(HERE, "../../../tests/lib")]
from afpa import Client, Device, Server, claim, equal, fails, main, place, request, wait_for   # noqa: E402
from fakeagent import FakeAgent                 # noqa: E402
from cluster import HELLO, E, FakePeer, UP, cluster, frame, hello   # noqa: E402
import afpa                                     # noqa: E402
import kit                                      # noqa: E402
import nets                                     # noqa: E402
from ssp import counters                        # noqa: E402

SITE = ("0.0.0.0", 80)
HOST = "www.test"
NODE = struct.Struct("=IIII32s")
REMOTE = struct.Struct("=IIII")
NOBODY, FRONTENDS, NODES = range(3)
FEATURES = (1 << 11) - 1
ABSENT, ASK, ANSWER = 5, 0x30, 0x31
HEAD = struct.Struct("!QIBB2x")
PUT, DEL, QUERY, TTL, NEXT, FLUSH, BANS, TICKET, EXPLAIN, INFO, NEXT_SITE, PROTOCOL = range(1, 13)
NUMBERS = (0, 1, 255, 256, 2048, 2049, 65535, 65536, 1 << 22, 1 << 32, (1 << 64) - 1)
ROUNDS = int(os.environ.get("MUTANTS", "600"))
SEED = int(os.environ.get("SEED", "1"))


class Far(Device):
    """The device for the cache of a node, by its name."""

    def __init__(self, name, timeout_ms=0):
        super().__init__()
        try:
            self.call(19, NODE, 0, timeout_ms, 0, name.encode())
        except OSError:
            os.close(self.fd)
            raise


def takes(device, whom=None):
    """Whose commands it carries out; with one, from now on."""
    return device.call(18, REMOTE, whom is not None, whom or 0, 0)[2]


class Place:
    """A node's cache, and a server at port 80."""

    def __init__(self, node, stack):
        self.node, self.name = node, node.name
        with self.inside():
            self.device = stack.enter_context(Device())
            self.server = Server(*SITE)
            stack.callback(self.server.close)
            self.device.site_add(SITE)
            self.server.pass_one()
        stack.callback(self.device.site_del, SITE)

    def inside(self):
        return nets.inside(self.node.ns)

    def far(self, other, **how):
        with self.inside():
            return Far(other.name, **how)

    def get(self, path):
        connections = self.server.accepted + 1
        with self.inside():
            client = Client((self.node.ip, 80))
        with client:
            self.server.settles(connections)
            return client.get(path, host=HOST)

    def cli(self, *words, **how):
        """(status, what it says)"""
        with self.inside():
            done = subprocess.run(("flotilla",) + words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                                  **how)
        return done.returncode, done.stdout.decode()


@contextlib.contextmanager
def places(count=2, insecure=True, whom=NODES):
    with contextlib.closing(Ended(count)) as c, contextlib.ExitStack() as stack:
        found = [Place(node, stack) for node in c.nodes]
        for here in found:
            here.node.nl.do("LOCAL_SET", local_insecure=int(insecure))
            takes(here.device, whom)
        yield found


class Ended:
    """A cluster."""

    def __init__(self, count):
        self.context = cluster(count)
        self.nodes = self.context.__enter__().nodes

    def close(self):
        self.context.__exit__(None, None, None)


@claim
def a_command_is_carried_out_at_the_node_that_is_named():
    with places(3) as (a, b, c):
        with contextlib.closing(Held(a.far(b))) as far:
            ticket = far.ticket()
            version = far.put(SITE, "/x", b"from afar" * 1000, host="WWW.test", headers="X-Y: z\r\n", tags="t u",
                              ttl_ms=60000)
            equal("a client there gets", b.get("/x"), b"from afar" * 1000)
            equal("elsewhere it is nobody's", (a.get("/x"), c.get("/x")), (b"server /x", b"server /x"))
            there = b.device.query(SITE, "/x", HOST)
            for what, value in far.query(SITE, "/x", HOST).items():
                equal(what, value, value if what in ("age_ms", "left_ms") else there[what])
            equal("version", there["version"], version)
            fails(errno.ESTALE, far.putting(SITE, "/x", b"old", host=HOST, since=ticket))
            far.put(SITE, "/x", b"", host=HOST, update=True, age=7)
            equal("an empty one, aged", (b.get("/x"), far.query(SITE, "/x", HOST)["age"]), (b"", 7))
            far.ttl(SITE, "/x", 5000, HOST)
            equal("ttl", b.device.query(SITE, "/x", HOST)["left_ms"] <= 5000, True)
            equal("names", far.names(), [(HOST, "/x")])
            equal("explained", far.explain(SITE, "/x", HOST)["state"], 1)
            equal("protocol", far.protocol(SITE), "http")
            equal("sites", far.next_site(0)["listeners"], 1)
            equal("info", far.info()["objects"], 1)
            far.delete(SITE, "/x", HOST)
            equal("then", b.get("/x"), b"server /x")
            equal("why", far.explain(SITE, "/x", HOST)["last"], "deleted")
            for path in ("/n/1", "/n/2", "/m"):
                far.put(SITE, path, b"x", host=HOST, tags="all")
            equal("ban", (far.ban(SITE, "/n/", HOST), far.ban(None, "all", tag=True), far.flush()), (2, 1, 0))
            equal("nothing is left", b.device.names(), [])


class Held:
    """A device, for contextlib.closing()."""

    def __init__(self, device):
        self.device = device

    def __getattr__(self, name):
        return getattr(self.device, name)

    def close(self):
        os.close(self.device.fd)


@claim
def errors_are_those_of_the_node_and_a_word_too_much_is_refused_here():
    with places() as (a, b):
        b.device.info(max_object=5 << 20)
        # On the debug kernel 4 MiB take longer than the five seconds that are the default.
        with contextlib.closing(Held(a.far(b, timeout_ms=60000))) as far:
            for what, dev in (("here", b.device), ("from afar", far)):
                print("# " + what)
                fails(errno.ENOENT, dev.query, SITE, "/none", HOST)
                fails(errno.ENOENT, dev.delete, SITE, "/none", HOST)
                fails(errno.ENOENT, dev.putting(SITE, "/none", b"", host=HOST, update=True))
                fails(errno.ENOENT, dev.putting(("0.0.0.0", 81), "/x", b"", host=HOST))
                fails(errno.ENOENT, dev.ban, ("0.0.0.0", 81), "/x")
                fails(errno.EINVAL, dev.putting(SITE, "no/slash", b"", host=HOST))
                fails(errno.EINVAL, dev.putting(SITE, "/x", b"", host=HOST, headers="no line"))
                fails(errno.EINVAL, dev.ban, SITE, "")
                fails(errno.EOPNOTSUPP, dev.call, 12, afpa.TICKET, 1, 0)
            body = os.urandom(1 << 20) * 4
            far.put(SITE, "/most", body, host=HOST)
            equal("the largest", b.get("/most"), body)
            fails(errno.EMSGSIZE, far.putting(SITE, "/more", body + b"x", host=HOST))
            b.device.info(max_object=1000)
            fails(errno.EFBIG, far.putting(SITE, "/x", b"x" * 1001, host=HOST))
            b.device.info(budget=4096)
            fails(errno.ENOSPC, far.putting(SITE, "/x", b"x" * 1000, host=HOST))
            # A file is one of the caller's; settings, sites and the log are this node's.
            with open("/etc/passwd", "rb") as file:
                fails(errno.EOPNOTSUPP, far.putting(SITE, "/x", b"", host=HOST, fd=file.fileno()))
            for call in (lambda: far.info(budget=1 << 30), lambda: far.site_add(SITE), lambda: far.site_del(SITE),
                         far.log, lambda: far.policy(1), far.policy, lambda: takes(far, NODES),
                         lambda: far.listen(SITE, "http")):
                fails(errno.EOPNOTSUPP, call)
            fails(errno.EBUSY, far.call, 19, NODE, 0, 0, 0, b"n2")
        with a.inside():
            for name, code in (("nobody", errno.ENODEV), ("", errno.ENODEV), ("x" * 32, errno.EINVAL)):
                fails(code, Far, name)
            fails(errno.EINVAL, Far, "n2", 60001)
            with Device() as log:
                log.log()
                fails(errno.EBUSY, log.call, 19, NODE, 0, 0, 0, b"n2")


@claim
def whose_commands_are_taken_is_said_there():
    with places(whom=NOBODY) as (a, b):
        equal("at first", takes(b.device), NOBODY)
        with contextlib.closing(Held(a.far(b))) as far:
            def may():
                try:
                    far.put(SITE, "/x", b"x", host=HOST)
                    return True
                except OSError as err:
                    return err.errno
            equal("nobody's", may(), errno.EACCES)
            fails(errno.EACCES, far.query, SITE, "/x", HOST)
            fails(errno.EINVAL, b.device.call, 18, REMOTE, 1, 3, 0)
            takes(b.device, FRONTENDS)
            equal("a back-end's", may(), errno.EACCES)
            b.node.nl.do("NODE_SET", node_name="n1", node_role=E["FLT_ROLE_FRONTEND"])
            equal("a front-end's", may(), True)
            b.node.nl.do("NODE_SET", node_name="n1", node_role=E["FLT_ROLE_BACKEND"])
            takes(b.device, NODES)
            equal("all nodes'", may(), True)
            b.node.nl.do("LOCAL_SET", local_insecure=0)
            equal("not over a link that nobody has authenticated", may(), errno.ENOKEY)
            b.node.nl.do("LOCAL_SET", local_insecure=1)
            a.node.nl.do("LOCAL_SET", local_insecure=0)
            equal("nor is it sent over one", (may(), b.node.nl.stat("AfpaRemoteRefused", "afpa")), (errno.ENOKEY, 4))
            a.node.nl.do("LOCAL_SET", local_insecure=1)
            equal("objects", b.device.names(), [(HOST, "/x")])
            # Who opened it for himself gives away no right with the descriptor.
            code = subprocess.run(["setpriv", "--bounding-set=-all", "--inh-caps=-all", "python3", "-c",
                                   "import fcntl, sys\n"
                                   "try:\n fcntl.ioctl(%d, %d, bytearray(%r))\n"
                                   "except OSError as e: sys.exit(e.errno)" % (
                                       far.fd, request(12, afpa.TICKET.size),
                                       afpa.TICKET.pack(16, 0, 0))], pass_fds=(far.fd,), check=False).returncode
            equal("without CAP_NET_ADMIN", code, errno.EPERM)


@claim
def over_an_authenticated_link_it_takes_no_more_than_the_setting():
    with contextlib.ExitStack() as stack:
        c = stack.enter_context(cluster(listed=False))
        for node in c.nodes:
            stack.callback(FakeAgent(node.ns).stop)
            node.become()
        here, there = c.nodes
        for node, other in ((here, there), (there, here)):
            node.list(other, node_auth=E["FLT_AUTH_X509"])
        c.wait_up()
        place_there = Place(there, stack)
        with place_there.inside():
            takes(place_there.device, NODES)
        with nets.inside(here.ns), contextlib.closing(Held(Far("n2"))) as far:
            far.put(SITE, "/x", b"proven" * 10000, host=HOST)
            equal("there", place_there.get("/x"), b"proven" * 10000)
            equal("names", far.names(), [(HOST, "/x")])


@claim
def the_command_line_names_one_node_or_all():
    with places(3) as (a, b, c):
        equal("put", a.cli("cache", "put", HOST + "/a", "-", "--remote", "n2", input=b"hello"), (0, ""))
        equal("there", (b.get("/a"), c.get("/a"), a.get("/a")), (b"hello", b"server /a", b"server /a"))
        row = json.loads(a.cli("-j", "cache", "query", HOST + "/a", "--remote", "n2")[1])
        equal("query", (row[0]["bytes"], row[0]["site"]), (5, "0.0.0.0:80"))
        equal("file", a.cli("cache", "put", "--remote", "*", HOST + "/b", "/etc/hostname"), (0, ""))
        with open("/etc/hostname", "rb") as file:
            text = file.read()
        equal("everywhere else", (a.get("/b"), b.get("/b"), c.get("/b")), (b"server /b", text, text))
        equal("query of what is not there", a.cli("cache", "query", HOST + "/a", "--remote", "n3"),
              (1, "flotilla: node n3: cannot query %s/a: there is no such object\n" % HOST))
        takes(c.device, NOBODY)
        equal("of two one refuses", a.cli("cache", "del", HOST + "/b", "--remote", "n3", "--remote", "n2"),
              (1, "flotilla: node n3: cannot delete %s/b: it takes no commands of this node (there: flotilla afpa "
                  "set remote)\n" % HOST))
        equal("the other has done it", (b.get("/b"), c.get("/b")), (b"server /b", text))
        equal("set", c.cli("afpa", "set", "remote", "nodes"), (0, ""))
        equal("shown", json.loads(c.cli("-j", "afpa")[1])["remote"], "nodes")
        equal("ban", a.cli("cache", "ban", "*/", "--remote", "*"), (0, ""))
        equal("nothing is left", (b.device.names(), c.device.names()), ([], []))
        equal("no such node", a.cli("cache", "flush", "--remote", "n9"),
              (1, "flotilla: node n9: cannot flush the cache: there is no such node (flotilla node show)\n"))
        equal("a file", a.cli("cache", "file", HOST + "/f", "/etc/hostname", "--remote", "n2"),
              (1, "flotilla: node n2: cannot put %s/f: that cannot be done from another node\n" % HOST))
        equal("input twice", a.cli("cache", "put", HOST + "/f", "-", "--remote", "*")[0], 2)
        equal("no name", a.cli("cache", "flush", "--remote")[0], 2)
        a.node.nl.do("NODE_DEL", node_name="n2")
        a.node.nl.do("NODE_NEW", node_name="n2", node_addr4="10.77.77.77")
        equal("a link that is not up", a.cli("cache", "flush", "--remote", "n2"),
              (1, "flotilla: node n2: cannot flush the cache: its link is not up, or has ended meanwhile (flotilla "
                  "node show)\n"))


@contextlib.contextmanager
def stranger(features=FEATURES):
    """Node 2 with a cache, and node 1, which is a program: (place, peer)."""
    with contextlib.ExitStack() as stack:
        c = stack.enter_context(cluster(2, listed=False))
        low, high = c.nodes
        high.become()
        high.list(low)
        here = Place(high, stack)
        high.nl.do("LOCAL_SET", local_insecure=1)
        takes(here.device, NODES)
        peer = meet(low, high, features)
        stack.callback(peer.close)
        yield here, peer


def meet(low, high, features=FEATURES):
    peer = FakePeer(low, high).connect()
    peer.send(frame(HELLO, hello("n1") + struct.pack("!Q", features)))
    equal("HELLO", peer.frame()[0], HELLO)
    wait_for("the link", lambda: high.state(low) == UP)
    return peer


def again(here, peer):
    """A link that ended for what no node says bars its node for a while, unless it is listed anew."""
    peer.close()
    here.node.nl.do("NODE_DEL", node_name="n1")
    here.node.list(peer.node)
    return meet(peer.node, here.node)


def next_of(peer, *kinds):
    while (got := peer.frame()) is not None:
        if got[0] in kinds:
            return got
    raise EOFError("the link has ended")


def asking(here, call):
    """Node 2 asks node 1; (thread, what became of it)."""
    said = []

    def run():
        try:
            said.append(call(far))
        except OSError as err:
            said.append(err.errno)
    with here.inside():
        far = Far("n1", 20000)
    thread = threading.Thread(target=run)
    thread.start()
    return thread, said, far


def ended(thread, said, far):
    thread.join(kit.PATIENCE)
    os.close(far.fd)
    return said[0]


@claim
def what_a_node_lacks_is_said_by_name():
    with stranger(FEATURES & ~E["FLT_FEATURE_CACHE"]) as (here, peer):
        with here.inside(), contextlib.closing(Held(Far("n1"))) as far:
            fails(errno.EPROTONOSUPPORT, far.ticket)
        equal("said", here.cli("cache", "flush", "--remote", "n1"),
              (1, "flotilla: node n1: cannot flush the cache: its version of Flotilla takes no such commands\n"))
    with stranger() as (here, peer):
        waits = asking(here, Far.ticket)
        equal("it asks", next_of(peer, ASK)[1][12], TICKET)
        peer.send(frame(ABSENT, struct.pack("!B3x", ASK)))
        equal("without afpa.ko", ended(*waits), errno.ENXIO)
    # The other way round: who has no afpa.ko says so, to who understands it, and keeps the link.
    afpa.wait_for("rmmod afpa", lambda: afpa.unload("afpa"))
    try:
        for features, answer in ((FEATURES, True), (FEATURES & ~E["FLT_FEATURE_CACHE"], False)):
            with cluster(2, listed=False) as c:
                low, high = c.nodes
                high.become()
                high.list(low)
                peer = meet(low, high, features)
                for body in (HEAD.pack(1, 0, TICKET, 0), bytes(100000)):
                    peer.send(frame(ASK, body))
                    if answer:
                        equal("answer", next_of(peer, ABSENT)[1], struct.pack("!B3x", ASK))
                peer.send(frame(1, bytes(8)))
                equal("the link lives", next_of(peer, ABSENT, 2)[0], 2)
                peer.close()
    finally:
        afpa.load("afpa")


@claim
def who_never_answers_or_goes_is_waited_for_no_longer_than_said():
    with stranger() as (here, peer):
        with here.inside(), contextlib.closing(Held(Far("n1", 300))) as far:
            began = time.monotonic()
            fails(errno.ETIMEDOUT, far.ticket)
            equal("not sooner", time.monotonic() - began >= .29, True)
        late = next_of(peer, ASK)[1]
        peer.send(frame(ANSWER, late[:8] + struct.pack("!IBB2xQ", 0, TICKET, 1, 77)))
        waits = asking(here, Far.ticket)
        mine = next_of(peer, ASK)[1]
        equal("another number", mine[:8] != late[:8], True)
        peer.send(frame(ANSWER, mine[:8] + struct.pack("!IBB2xQ", 0, TICKET, 1, 78)))
        equal("the answer is that of its own", ended(*waits), 78)
        # A signal ends the wait, and nothing holds the module then.
        with here.inside():
            child = subprocess.Popen(["flotilla", "cache", "flush", "--remote", "n1"], stderr=subprocess.DEVNULL)
        next_of(peer, ASK)
        child.send_signal(signal.SIGINT)
        equal("interrupted", child.wait(kit.PATIENCE) != 0, True)
        # As many as may, and one more.
        waits = [asking(here, Far.ticket) for _ in range(64)]
        for _ in waits:
            next_of(peer, ASK)
        with here.inside(), contextlib.closing(Held(Far("n1"))) as far:
            fails(errno.EBUSY, far.ticket)
        peer.close()
        equal("its link ends", {ended(*one) for one in waits}, {errno.ENOTCONN})
        peer = again(here, peer)
        waits = asking(here, Far.ticket)
        mine = next_of(peer, ASK)[1]
        here.node.nl.do("NODE_DEL", node_name="n1")
        equal("it is no node any more", ended(*waits), errno.ENOTCONN)
        peer.close()


@claim
def an_answer_of_a_hostile_node_reaches_nothing_but_its_asker():
    """Longer than the room, of another call, errors that are none, cut off, of a number that nobody waits for."""
    with stranger() as (here, peer):
        def answer(call, *forms):
            waits = asking(here, call)
            asked = next_of(peer, ASK)[1]
            for form in forms:
                peer.send(frame(ANSWER, form(asked[:8])))
            return ended(*waits)

        def said(error=0, values=(), text=b"", number=TICKET):
            return lambda mine: mine + struct.pack("!IBB2x", error, number, len(values)) + struct.pack(
                "!%dQ" % len(values), *values) + text
        for error, code in ((errno.ENOENT, errno.ENOENT), (133, 133), (134, errno.EREMOTEIO), (512, errno.EREMOTEIO),
                            (4096, errno.EREMOTEIO), (0xffffffff, errno.EREMOTEIO)):
            equal("error %d" % error, answer(Far.ticket, said(error)), code)
        equal("too much behind it", answer(Far.ticket, said(values=(1,), text=b"x")), errno.EPROTO)
        equal("values of a later version", answer(Far.ticket, said(values=(5, 6, 7))), 5)
        equal("none", answer(Far.ticket, said()), 0)
        equal("a number that is another's first", answer(Far.ticket, lambda mine: said(values=(9,))(bytes(8)),
                                                         said(values=(10,))), 10)
        room = (0, 2, 80, 0, 0)

        def name(far):
            where = [place(bytes(255)), place(bytes(2048))]
            f = far.call(8, afpa.KEY, 0, bytes(20), 255, 2048, where[0][0], where[1][0], *[0] * 8)
            return where[0][1].raw[:f[3]] + where[1][1].raw[:f[4]]
        for host, path, text in ((300, 5, b"h" * 305), (65535, 5, b""), (70000, 5, b""), (4, 5, b"hos"),
                                 (4, 5, b"host/patx"), (0, 3000, b"x" * 2000)):
            equal("a name of %d and %d bytes" % (host, path),
                  answer(name, said(values=room + (host, path, 1) + (0,) * 7, text=text, number=NEXT)),
                  text if text == b"host/patx" else errno.EPROTO)
        for body in (b"", bytes(15), bytes(14) + b"\1\0", bytes(13) + b"\x21" + bytes(400), bytes(3000)):
            waits = asking(here, Far.ticket)
            next_of(peer, ASK)
            peer.send(frame(ANSWER, body))
            equal("its link ends", ended(*waits), errno.ENOTCONN)
            peer = again(here, peer)
        peer.close()


def ask(number, *values, text=b"", ident=1):
    return HEAD.pack(ident, 0, number, len(values)) + struct.pack("!%dQ" % len(values), *values) + text


AT = (2, 80, 0, 0)


def commands():
    """One of each, sound."""
    put = (0,) + AT + (len(HOST), 2, 10, 6, 3, 4, 0, 0, 0)
    key = (0,) + AT + (len(HOST), 2, 0)
    host = HOST.encode()
    return [ask(PUT, *put, text=host + b"/m" + b"text/plain" + b"A: b\r\n" + b"tag" + b"body"),
            ask(DEL, *key, text=host + b"/m"), ask(QUERY, *key, text=host + b"/m"), ask(TTL, *key, text=host + b"/m"),
            ask(NEXT, 0, 255, 2048, 0), ask(FLUSH, 1, *AT), ask(BANS, 0, *AT, len(HOST), 2, text=host + b"/m"),
            ask(TICKET, 0), ask(EXPLAIN, 0, *AT, len(HOST), 2, 0, text=host + b"/m"), ask(INFO, 0), ask(NEXT_SITE, 0),
            ask(PROTOCOL, 0, *AT)]


@claim
def whatever_a_hostile_node_says_the_cache_stays_whole():
    """Mutated commands: each is answered, or ends the link; what is in the cache is what sound ones have put."""
    rng = random.Random(SEED)
    with stranger() as (here, peer):
        for number, body in enumerate(commands(), 1):
            # Each finds an object, also behind those that take it away.
            for name, what in ((PUT, commands()[0]), (number, body)):
                peer.send(frame(ASK, what))
                said = next_of(peer, ANSWER)[1]
                equal("command %d" % name, (HEAD.unpack_from(said)[:3]), (1, 0, name))
        links = answers = 0
        for turn in range(ROUNDS):
            body = bytearray(rng.choice(commands()))
            for _ in range(rng.randrange(1, 4)):
                kind = rng.randrange(4)
                if kind == 0:
                    body[rng.randrange(len(body))] = rng.choice((0, 1, 0x7f, 0x80, 0xff, rng.randrange(256)))
                elif kind == 1:
                    del body[rng.randrange(len(body)):]
                    body = body or bytearray(1)
                elif kind == 2:
                    body += rng.randbytes(rng.randrange(40))
                elif len(body) > 24:
                    at = 16 + rng.randrange((len(body) - 16) // 8) * 8
                    body[at:at + 8] = struct.pack("!Q", rng.choice(NUMBERS))
            peer.send(frame(ASK, bytes(body)))
            try:
                next_of(peer, ANSWER)
                answers += 1
            except EOFError:
                links += 1
                peer = again(here, peer)
        print("# %d answers, %d links ended, seed %d" % (answers, links, SEED))
        equal("both happened", answers > 0 and links > 0, True)
        here.device.flush()
        here.device.put(SITE, "/kept", b"kept", host=HOST)
        equal("a client gets", here.get("/kept"), b"kept")
        equal("it is all there is", here.device.names(), [(HOST, "/kept")])
        peer.close()


@claim
def a_flood_of_commands_is_bounded_and_answered_one_by_one():
    with stranger() as (here, peer):
        count = 2000
        body = ask(PUT, 0, *AT, len(HOST), 2, 0, 0, 0, 60000, 0, 0, 0, text=HOST.encode() + b"/m" + bytes(60000))
        reader = threading.Thread(target=lambda: [peer.send(frame(ASK, body)) for _ in range(count)])
        reader.start()
        said = [HEAD.unpack_from(next_of(peer, ANSWER)[1])[1] for _ in range(count)]
        reader.join()
        print("# %d done, %d refused" % (said.count(0), said.count(errno.EBUSY)))
        equal("nothing else", set(said) <= {0, errno.EBUSY}, True)
        equal("some were done", said.count(0) > 0, True)
        equal("objects", here.device.names(), [(HOST, "/m")])
        # Each looks at all objects, which takes longer than it takes to come: of one node sixteen wait, not more.
        for number in range(3000):
            here.device.put(SITE, "/many/%d" % number, b"x", host=HOST)
        body = ask(BANS, 0, *AT, len(HOST), 5, text=HOST.encode() + b"/none")
        peer.send(frame(ASK, body) * 100)
        said = [HEAD.unpack_from(next_of(peer, ANSWER)[1])[1] for _ in range(100)]
        print("# of 100 at a time: %d done, %d refused" % (said.count(0), said.count(errno.EBUSY)))
        equal("as many as may wait were done", said.count(0) >= 16, True)
        equal("some were refused", said.count(errno.EBUSY) > 0, True)
        # What waits meanwhile is not done any more once the setting has changed.
        drop = ask(DEL, 0, *AT, len(HOST), 7, 0, text=HOST.encode() + b"/many/0")
        peer.send(frame(ASK, body) * 15 + frame(ASK, drop))
        next_of(peer, ANSWER)
        takes(here.device, NOBODY)
        done = counters("Afpa")["AfpaRemoteDone"]
        said = [HEAD.unpack_from(next_of(peer, ANSWER)[1])[1] for _ in range(15)]
        print("# after it was switched off: %d of 15 refused" % said.count(errno.EACCES))
        equal("the last", said[-1], errno.EACCES)
        equal("done since", counters("Afpa")["AfpaRemoteDone"] - done, 0)
        equal("a client gets", here.get("/many/0"), b"x")
        takes(here.device, NODES)
        # Who takes no answers: the node stays, its memory bounded, and other programs are served.
        for _ in range(300):
            peer.send(frame(ASK, ask(NEXT, 0, 255, 2048, 0)))
        here.device.put(SITE, "/n", b"x", host=HOST)
        equal("a client gets", here.get("/n"), b"x")


main()
