#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
# long: both three nodes and their doors, minutes
# cpus: 2
"""The door: programs on other machines put and take back what the kernel answers with; three nodes do it together."""
import contextlib
import functools
import os
import signal
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
from afpa import Client, Device, Server, Thread, claim, equal, main, wait_for         # noqa: E402
import door                                     # noqa: E402
import kit                                      # noqa: E402
import nets                                     # noqa: E402

SITE = ("0.0.0.0", 80)
HOST = "www.test"


class Node:
    """A network namespace with a server at port 80, a site, and a door."""

    def __init__(self, net, stack, number):
        self.name, self.address = net.add(number), net.ip4(number)
        self.inside = functools.partial(nets.inside, self.name)
        with self.inside():
            self.device = stack.enter_context(Device())
            self.server = Server(*SITE)
            stack.callback(self.server.close)
            equal("listeners, refused, errno", self.device.site_add(SITE), (1, 0, 0))
            self.server.pass_one()
        stack.callback(self.device.site_del, SITE)
        self.door, self.lock = None, threading.Lock()

    def open(self, stack, *lines, peers=()):
        self.door = stack.enter_context(door.Door(
            *lines, host=self.address, number=7473, peers=["http://%s:7473" % peer.address for peer in peers],
            program=door.REAL, inside=self.inside))

    def get(self, path, by=None):
        """What a client gets, on a connection of its own."""
        with self.lock:
            connections = self.server.accepted + 1
            with (by or self.inside)():
                client = Client((self.address, 80))
            with client:
                self.server.settles(connections)
                return client.get(path, host=HOST)

    def has(self, path):
        return self.get(path) != b"server " + path.encode()


@contextlib.contextmanager
def nodes(count, *lines):
    """Nodes that are in step, and a namespace for who asks them."""
    net = nets.Net()
    with contextlib.closing(net), contextlib.ExitStack() as stack:
        outside = functools.partial(nets.inside, net.add(100))
        all_of = [Node(net, stack, number) for number in range(1, count + 1)]
        for node in all_of:
            node.open(stack, *lines, peers=[other for other in all_of if other is not node])
        for node in all_of:
            node.door.in_step(*(other.door for other in all_of if other is not node))
        yield all_of, outside


@claim
def what_was_put_from_another_machine_the_kernel_answers():
    with nodes(1) as ((node,), outside):
        status, said = node.door.put(HOST + "/a?b=%2f", b"from afar", by=outside, Content_Type="text/plain",
                                     Cache_Control="max-age=60", xkey="front")
        equal("put", (status, said["put"][0]["site"]), (201, "0.0.0.0:80"))
        equal("a client gets", node.get("/a?b=%2f", by=outside), b"from afar")
        equal("the server read", node.server.read, [])
        said = node.door.ask("GET", "/v1/object/www.test/a?b=%2f", by=outside)[1]
        equal("hits", (said["at"][0]["hits"], said["at"][0]["left_ms"] <= 60000), (1, True))
        equal("delete", node.door.delete(HOST + "/a?b=%2f", by=outside), (200, {"deleted": 1}))
        equal("then a client gets", node.get("/a?b=%2f", by=outside), b"server /a?b=%2f")
        equal("delete again", node.door.delete(HOST + "/a?b=%2f", by=outside), (200, {"deleted": 0}))


@claim
def conditions_lifetimes_tags_and_tickets_do_what_they_say():
    with nodes(1) as ((node,), outside):
        d = node.door
        equal("update of nothing", d.put(HOST + "/a", by=outside, If_Match="*")[0], 412)
        equal("new", d.put(HOST + "/a", b"one", by=outside, If_None_Match="*")[0], 201)
        equal("new again", d.put(HOST + "/a", b"two", by=outside, If_None_Match="*")[0], 412)
        equal("stays", node.get("/a"), b"one")
        equal("update", d.put(HOST + "/a", b"two", by=outside, If_Match="*", xkey="t1, t2")[0], 200)
        equal("new body", node.get("/a"), b"two")
        ticket = str(d.ask("GET", "/v1/ticket")[1]["ticket"])
        equal("ban", d.ask("POST", "/v1/ban", xkey="t2")[1], {"deleted": 1})
        equal("a fill that was under way", d.put(HOST + "/a", b"old", Afpa_Since=ticket)[0], 409)
        equal("is not there", node.has("/a"), False)
        d.put(HOST + "/n/1")
        d.put(HOST + "/n/2")
        d.put(HOST + "/m")
        equal("ban", d.ask("POST", "/v1/ban/%s/n/" % HOST)[1], {"deleted": 2})
        equal("ttl", d.ask("PATCH", "/v1/object/%s/m" % HOST, Afpa_TTL="500ms")[0], 200)
        wait_for("its end", lambda: not node.has("/m"))
        d.put("*/any")
        equal("of any host", node.get("/any"), b"body")
        # Among them may be one that has expired.
        equal("flush", d.ask("POST", "/v1/flush")[1]["deleted"] in (1, 2), True)
        equal("what is left", node.device.names(), [])


@claim
def who_has_no_token_changes_nothing():
    with nodes(1) as ((node,), outside):
        d = node.door
        d.put(HOST + "/a", b"kept")
        for token in (None, "", "x", door.TOKEN[:-1], door.TOKEN + "x", door.TOKEN.upper()):
            equal("put with %r" % token, d.put(HOST + "/a", token=token, by=outside)[0], 401)
            equal("delete with %r" % token, d.delete(HOST + "/a", token=token, by=outside)[0], 401)
        equal("a peer's token", d.delete(HOST + "/a", token=door.PEER)[0], 403)
        equal("a client as a peer", d.ask("POST", "/v1/peer", b'{"from": "x", "changes": []}')[0], 403)
        equal("a client gets", node.get("/a"), b"kept")


@claim
def the_door_has_one_right_and_is_nobody():
    with nodes(1) as ((node,), _):
        with open("/proc/%d/status" % node.door.process.pid, encoding="ascii") as file:
            says = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        equal("uid", says["Uid"].split(), ["65534"] * 4)
        for name in ("CapPrm", "CapEff", "CapBnd"):
            equal(name, int(says[name], 16), 1 << 12)
        equal("no new rights", (says["NoNewPrivs"], says["Groups"].strip()), ("1", ""))
        with open("/proc/%d/task/%d/status" % (node.door.process.pid, max(
                int(task) for task in os.listdir("/proc/%d/task" % node.door.process.pid))), encoding="ascii") as file:
            equal("of its threads, too", "CapEff:\t0000000000001000\n" in file.read(), True)


@claim
def only_sites_can_be_named_and_never_its_own_address():
    with nodes(1) as ((node,), _):
        d = node.door
        for page in ("www.test:81/a", "www.test:7473/a"):
            equal(page, d.put(page)[0], 404)
        equal("another site", d.put(HOST + "/a", Afpa_Site="10.9.0.1:80")[0], 404)
        for target in ("/v1/object/www.test", "/v1/object//a", "/v1/object/www.test/../a", "/v1/object/www.test/%00",
                       "/v1/object/www.test./a", "/v1/object/www.test/a b", "/v1/object/www.test:080/a"):
            with d.connect() as s:
                s.sendall(b"PUT %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 0\r\n\r\n" % (
                    target.encode(), door.TOKEN.encode()))
                # What is no HTTP is closed without a word.
                equal(target, (s.recv(1000) or b"HTTP/1.1 400").split(b" ")[1][:1], b"4")
        equal("there is nothing", node.device.names(), [])
        with node.inside():
            says = door.refused(door.REAL, d.directory, "listen %s:80" % node.address, "user nobody",
                                "token " + d.path("token"))
            equal("at a site", says, "afpad: %s:80: it is a site, where everybody comes" % node.address)


@claim
def what_one_node_is_told_all_know_before_it_answers():
    with nodes(3) as ((a, b, c), outside):
        for node in (a, b, c):
            for path in ("/x", "/y", "/z"):
                equal("put", node.door.put(HOST + path, xkey="t", Afpa_Peers="none", by=outside)[0], 201)
        confirmed = {b.door.url: "confirmed", c.door.url: "confirmed"}
        equal("delete", a.door.delete(HOST + "/x", by=outside), (200, {"deleted": 1, "peers": confirmed}))
        equal("have it", [node.has("/x") for node in (a, b, c)], [False] * 3)
        equal("newer", a.door.put(HOST + "/y", b"newer", by=outside)[1]["peers"], confirmed)
        equal("have the old one", [node.get("/y") for node in (a, b, c)], [b"newer", b"server /y", b"server /y"])
        equal("ban", c.door.ask("POST", "/v1/ban", xkey="t", by=outside)[1]["peers"],
              {a.door.url: "confirmed", b.door.url: "confirmed"})
        equal("have it", [node.has("/z") for node in (a, b, c)], [False] * 3)
        b.door.put(HOST + "/w", Afpa_Automatic="yes")
        a.door.put(HOST + "/w", Afpa_Automatic="yes")
        equal("what can be had again both have", [node.has("/w") for node in (a, b)], [True, True])
        equal("flush", b.door.ask("POST", "/v1/flush", by=outside)[0], 200)
        equal("there is", [node.device.names() for node in (a, b, c)], [[], [], []])


@claim
def a_node_that_dies_costs_its_share_and_comes_back_with_nothing_old():
    with nodes(3, "peer-timeout 2s") as ((a, b, c), outside):
        for node in (a, b, c):
            for path in ("/old", "/good", "/all"):
                node.door.put(HOST + path, Afpa_Peers="none")
        failed, stop, asked = [], threading.Event(), [0]

        def clients():
            while not stop.is_set():
                for node in (a, b):
                    if node.get("/all", by=outside) != b"body":
                        failed.append(node.name)
                    asked[0] += 1
        reader = Thread(clients)
        nets.run("ip", "-n", c.name, "link", "set", "eth0", "down")
        # Its clients are in its own namespace: it goes on, with what it has.
        equal("cut off", c.get("/old"), b"body")
        status, said = a.door.delete(HOST + "/old", by=outside)
        equal("delete", (status, said["peers"]), (202, {b.door.url: "confirmed", c.door.url: "pending"}))
        equal("others", [node.has("/old") for node in (a, b)], [False, False])
        # It is known to be away: nobody waits for it any more.
        equal("another one", b.door.delete(HOST + "/old", by=outside)[0], 202)
        equal("state", a.door.peer(c.door)["state"], "away")
        nets.run("ip", "-n", c.name, "link", "set", "eth0", "up")
        for node in (a, b):
            node.door.in_step(c.door)
        equal("what it missed", c.get("/old"), b"server /old")
        equal("what it did not", c.get("/good"), b"body")
        stop.set()
        reader.join()
        equal("errors of the others' clients", failed, [])
        print("# %d requests meanwhile" % asked[0])
        if not asked[0]:
            raise AssertionError("nobody asked")


@claim
def who_missed_too_much_or_is_told_by_a_new_process_flushes():
    with nodes(2, "queue 5", "peer-timeout 1s") as ((a, b), _):
        for path in ("/1", "/2"):
            b.door.put(HOST + path, Afpa_Peers="none")
        b.door.freeze()
        for number in range(8):
            equal("delete", a.door.delete("%s/other%d" % (HOST, number))[0], 202)
        b.door.process.send_signal(signal.SIGCONT)
        a.door.in_step(b.door)
        equal("flushed", (b.device.names(), a.door.peer(b.door)["flushes"]), ([], 1))

        b.door.put(HOST + "/1", Afpa_Peers="none")
        nets.run("ip", "-n", b.name, "link", "set", "eth0", "down")
        equal("delete", a.door.delete(HOST + "/1")[0], 202)
        a.door.stop(signal.SIGKILL)
        nets.run("ip", "-n", b.name, "link", "set", "eth0", "up")
        equal("it has it still", b.has("/1"), True)
        a.door.start()
        a.door.in_step(b.door)
        equal("and then no more", b.has("/1"), False)
        b.door.put(HOST + "/1", Afpa_Peers="none")
        a.door.stop()
        a.door.start()
        a.door.in_step(b.door)
        # Not by what is there: on a slow machine a flush of before may have come twice.
        equal("who lacks nothing is told nothing", a.door.peer(b.door)["flushes"], 0)


@claim
def slow_and_silent_clients_do_not_keep_others_out():
    with nodes(1, "max-connections 32", "max-connections-per-address 20", "timeout 3s",
               "request-timeout 4s") as ((node,), outside):
        d = node.door
        idle = []
        with outside():
            for text in (b"", b"PUT /v1/obj", b"PUT /v1/object/www.test/a HTTP/1.1\r\nHost: x\r\n"):
                for _ in range(12):
                    with contextlib.suppress(OSError):
                        idle.append(door.socket.create_connection((d.host, d.port), timeout=kit.PATIENCE))
                        idle[-1].sendall(text)
        equal("put meanwhile", d.put(HOST + "/a")[0], 201)
        slow = d.connect()
        slow.sendall(b"PUT /v1/object/www.test/b HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\nAuthorization: Bearer " +
                     door.TOKEN.encode() + b"\r\n\r\n")

        def is_ended():
            try:
                slow.sendall(b"x")
            except OSError:
                return True
            return False
        wait_for("the end of who sends a byte now and then", is_ended)
        wait_for("the silent ones' end", lambda: all(is_over(s) for s in idle))
        slow.close()
        equal("put then", d.put(HOST + "/a")[0], 200)
        equal("what was not whole", node.has("/b"), False)


def is_over(s):
    with contextlib.suppress(BlockingIOError):
        s.setblocking(False)
        try:
            return not s.recv(4096) or is_over(s)
        except OSError as err:
            if isinstance(err, BlockingIOError):
                raise
            return True
    return False


main()
