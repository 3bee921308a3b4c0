#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 700
# long: both two minutes and more
"""How clients come to nodes whose policies move connections: by routers that know of nothing, by two front-ends."""
import itertools
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from chain import Chain                                     # noqa: E402
from farm import COMMANDS                                   # noqa: E402,F401  # nginx that keeps connections
from hof import DONE, FAILED, E, VIP4, accept, claim, main, peek, receive, rounds, usable, wait  # noqa: E402
from lasting import Lasting                                 # noqa: E402
from pair import Pair                                       # noqa: E402
from policed import SERVICE, get                            # noqa: E402
from servers import SIZES, Site                             # noqa: E402

FILES = (1, 3, 4, 6)
COUNT = ("table ip passed { counter asked { }; counter answered { }; chain c { type filter hook forward priority 0; "
         "ip daddr %s counter name asked; ip saddr %s counter name answered; }; }") % (VIP4, VIP4)


class Web(Lasting):
    """Its one connection lasts, whichever nodes serve it."""

    def __init__(self, r, pause=0.02):
        super().__init__(r.client.connect(), FILES, pause)
        self.bodies = r.bodies

    def exchange(self, request):
        self.sock.sendall(get("/f%d" % request))
        self.answered(self.bodies[request])


class Routed(Chain):
    """Three nodes that serve one address; a client whose packets go by a router that spreads them by a hash."""

    def __init__(self):
        super().__init__(3, names=("client", "r1", "r2"))
        self.routers = self.clients[1:]
        for router in self.routers:
            self.spreads(router, 1)
            router.run("nft", COUNT)
        for node in self.clients:
            node.sysctl("net.ipv4.conf.all.accept_redirects", 0)
        self.site = Site(self)
        self.bodies = []
        for number in range(len(SIZES)):
            with open(os.path.join(self.site.root, "f%d" % number), "rb") as file:
                self.bodies.append(file.read())
        for be in self.be:
            self.site.serve(be, "nginx")
            be.sysctl("net.flotilla.forward_linger_ms", 500)
            be.sysctl("net.flotilla.forward_linger_rst_ms", 500)
            be.sysctl("net.flotilla.migrate_max_hops", 64)
        self.by(0)

    def spreads(self, router, seed):
        """By addresses, ports and this seed. Policy 1 would take what the client's socket has hashed."""
        for name, value in (("ip_forward", 1), ("conf.all.send_redirects", 0), ("conf.eth0.send_redirects", 0),
                            ("fib_multipath_hash_policy", 3), ("fib_multipath_hash_fields", 0x37),
                            ("fib_multipath_hash_seed", seed)):
            router.sysctl("net.ipv4." + name, value)
        hops = itertools.chain.from_iterable(("nexthop", "via", self.net.ip4(be.number)) for be in self.be)
        router.run("ip", "route", "replace", VIP4 + "/32", *hops)

    def by(self, number):
        """The client's packets go by this router from here on."""
        self.client.run("ip", "route", "replace", VIP4 + "/32", "via", self.net.ip4(self.routers[number].number))

    def policy(self, *words):
        """At each node; `self` in the place of its own name, so that all have the same order."""
        for be in self.be:
            be.run("flotilla", "migrate", "policy", "set", SERVICE, *["self" if w == be.name else w for w in words])

    def passed(self, number, which):
        """Packets to the address, or from it, that the router has sent on."""
        return int(self.routers[number].output("nft", "list counter ip passed " + which).split("packets")[1].split()[0])

    def entries(self):
        return [x for be in self.be for x in be.conns()]

    def came(self):
        """How many connections each node has accepted from clients or other nodes and still serves."""
        return [len(be.output("ss", "-Htn", "state", "established", "sport = :80").splitlines()) for be in self.be]


def goes_on(clients, times=4):
    goal = [(k, k.done + times) for k in clients]
    wait(lambda: all(k.done >= n for k, n in goal) or any(k.error for k in clients))
    assert not any(k.error for k in clients), [repr(k.error) for k in clients if k.error]


def begin(r, number):
    clients = [Web(r) for _ in range(number)]
    for one in clients:
        one.start()
    goes_on(clients)
    return clients


def end(clients):
    for one in clients:
        one.close()
    assert not any(k.error for k in clients), [repr(k.error) for k in clients if k.error]


@claim
def router_that_only_hashes_has_no_table_and_sees_no_answer():
    """What has not moved has no entry anywhere; what has moved is known where it came in, until it ends."""
    with Routed() as r:
        r.policy("stay")
        clients = begin(r, 12)
        came = r.came()
        assert sum(came) == len(clients) and min(came) > 0, came
        assert not r.entries(), r.entries()
        r.policy("hash", "be1", "be2", "be3")
        goes_on(clients)
        wait(lambda: any(x["CONN_STATE"] == "FORWARD" for x in r.entries()))
        goes_on(clients, 8)
        moved = sum(be.stat("PolicyMoved") for be in r.be)
        print("# came to %s; %d moves; %d entries" % (came, moved, len(r.entries())), flush=True)
        assert moved > len(clients), moved
        assert r.passed(0, "asked") > 100 and not r.passed(0, "answered"), r.passed(0, "asked")
        end(clients)
        wait(lambda: not r.entries())


@claim
def router_that_hashes_alike_takes_over_from_another_amid_moves():
    with Routed() as r:
        r.policy("hash", "be1", "be2", "be3")
        clients = begin(r, 12)
        r.by(1)
        r.routers[0].run("ip", "link", "set", "eth0", "down")
        goes_on(clients, 8)
        more = begin(r, 6)
        assert r.passed(1, "asked") and not r.passed(1, "answered")
        goes_on(clients + more)
        end(clients + more)
        wait(lambda: not r.entries())


@claim
def packets_that_take_two_routers_by_turns_come_to_the_same_node():
    """As where several have the address, and what is before them spreads packets over them."""
    with Routed() as r:
        r.policy("hash", "be1", "be2", "be3")
        clients = begin(r, 6)
        for turn in range(rounds(12, 6)):
            r.by(turn % 2)
            goes_on(clients, 1)
        assert all(r.passed(number, "asked") for number in (0, 1))
        end(clients)


@claim
def router_that_hashes_otherwise_ends_connections():
    """What the claims above would not show if nodes sent on what is not theirs."""
    with Routed() as r:
        r.policy("stay")
        clients = begin(r, 12)
        r.spreads(r.routers[1], 77)
        r.by(1)
        wait(lambda: any(k.error for k in clients))
        for one in clients:
            one.ends = True
            one.join()
            one.sock.close()


class Two(Pair):
    """Two front-ends that have the address at the same time, each with a client of its own; back-ends hand on."""

    def __init__(self):
        super().__init__(2, names=("client", "other"))
        self.hold_vip(self.fe2)
        self.clients[1].run("ip", "route", "add", VIP4 + "/32", "via", self.net.ip4(self.fe2.number))
        pairs = list(itertools.permutations(self.be, 2))
        for a, b in pairs:
            self.list(a, b)
            a.nl.do("NODE_SET", node_name=b.name, node_role=E["FLT_ROLE_FRONTEND"])
        wait(lambda: all(a.nl.node(b.name)["NODE_STATE"] == E["FLT_NODE_UP"] for a, b in pairs))

    @staticmethod
    def states(node):
        return [(x["CONN_NODE"], x["CONN_STATE"]) for x in node.conns()]


def give(device, sock, node, name, listener):
    """By the program of one node to another's."""
    while True:
        device.submit(sock, node.id[name], 1, timeout_ms=60000)
        while (event := device.event())[0] not in (DONE, FAILED):
            pass
        if event[0] == DONE:
            sock.close()
            return accept(listener)
        assert event[3] == "changed", event


@claim
def connections_of_two_front_ends_move_and_each_hears_of_its_own():
    """be1 hands on to be2 what both have given it: each forwards straight there, and each ends its own."""
    with Two() as c:
        be1, be2 = c.be
        fronts, backs = [c.fe.listen(), c.fe2.listen()], [be.listen() for be in c.be]
        devices = {node.name: node.handoff() for node in (c.fe, c.fe2, be1)}
        made = []
        for client, front, listener in zip(c.clients, (c.fe, c.fe2), fronts):
            ends = client.connect()
            ends.sendall(b"GET")
            here = accept(listener)
            peek(here, 3)
            made.append((ends, give(devices[front.name], here, front, "be1", backs[0])))
        made = [(ends, give(devices["be1"], there, be1, "be2", backs[1])) for ends, there in made]
        for ends, there in made:
            assert receive(there, 3) == b"GET"
            usable(there, ends)
        for front in (c.fe, c.fe2):
            wait(lambda front=front: c.states(front) == [("be2", "FORWARD")])
        # Each knows of its own alone.
        made[0][0].close()
        assert made[0][1].recv(1) == b""
        made[0][1].close()
        wait(lambda: c.states(c.fe) == [("be2", "LINGER")])
        assert c.states(c.fe2) == [("be2", "FORWARD")]
        usable(made[1][1], made[1][0])
        made[1][0].close()
        assert made[1][1].recv(1) == b""
        made[1][1].close()
        wait(lambda: c.states(c.fe2) == [("be2", "LINGER")])
        for one in (*fronts, *backs, *devices.values()):
            one.close()


if __name__ == "__main__":
    main()
