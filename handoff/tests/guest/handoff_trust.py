#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# long: debug it takes two minutes there
# timeout: 200
"""A node takes connections only from whom, for what and of whom it may, and the refusal has a name."""
import os
import socket
import subprocess
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import (DONE, E, FAILED, TOP, VIP4, VIP6, Cluster, Refused, accept, claim, main,  # noqa: E402
                 peek, receive, run, usable, wait)
sys.path.insert(0, os.path.join(TOP, "kmod", "tests", "lib"))
from fakeagent import FakeAgent                         # noqa: E402
from mallory import Mallory, forge                      # noqa: E402
from fltnl import refused                               # noqa: E402

CLIENT4, CLIENT6 = "10.9.0.100", "fd09::100"


def present(node):
    """Connections of the service, without those that are over."""
    return [line for line in node.sockets() if not line.startswith("TIME-WAIT")]


class Case:
    """A connection that the front-end has accepted, and who waits for it on the first back-end."""

    def __init__(self, cluster, family=4, port=80):
        self.fe, self.be = cluster.fe, cluster.be[0]
        self.dev = self.fe.handoff()
        self.front = self.fe.listen(port, family)
        self.back = self.be.listen(port, family)
        self.client = cluster.client.connect(port, family)
        self.client.sendall(b"GET")
        self.here = accept(self.front)
        peek(self.here, 3)

    def give(self, node="be1"):
        self.dev.submit(self.here, self.fe.id[node], 1)

    def refused(self, name):
        """It stays here, and works; nobody there has seen it."""
        self.give()
        self.dev.expect(FAILED, 1, name)
        self.absent()
        self.stays()

    def not_given(self, name):
        """Refused here already: the node hears nothing of it."""
        before = self.be.stat("AdoptRequests")
        try:
            self.give()
            raise AssertionError("it was given")
        except Refused as error:
            assert error.refusal == name, error
        self.dev.no_event()
        assert self.be.stat("AdoptRequests") == before
        self.absent()
        self.stays()

    def absent(self):
        """The node has nothing; an earlier one may be on its way out."""
        wait(lambda: present(self.be) == [], name="%s has no connection" % self.be.name)

    def stays(self):
        self.back.setblocking(False)
        try:
            self.back.accept()
            raise AssertionError("the back-end's server got a connection")
        except BlockingIOError:
            pass
        assert receive(self.here, 3) == b"GET"
        usable(self.here, self.client)

    def taken(self):
        self.give()
        self.dev.expect(DONE, 1)
        there = accept(self.back)
        assert receive(there, 3) == b"GET"
        usable(there, self.client)
        there.close()

    def close(self):
        for sock in (self.client, self.here, self.back, self.front):
            sock.close()
        self.dev.close()


def outcome(cluster, what, *args, **kwargs):
    case = Case(cluster, **kwargs)
    try:
        getattr(case, what)(*args)
    finally:
        case.close()


@claim
def link_without_authentication_gives_nothing_unless_the_switch_is_on():
    with Cluster(1, insecure=False) as c:
        be = c.be[0]
        c.fe.nl.do("LOCAL_SET", local_insecure=1)
        assert be.nl.do("LOCAL_GET")[0]["LOCAL_INSECURE"] == 0
        assert be.nl.node("fe")["NODE_PROVEN"] == 0
        outcome(c, "refused", "insecure")
        be.nl.do("LOCAL_SET", local_insecure=1)
        outcome(c, "taken")
        be.nl.do("LOCAL_SET", local_insecure=0)
        outcome(c, "refused", "insecure")
        assert "INSECURE" in os.popen("dmesg").read()


@claim
def link_without_authentication_is_given_nothing_unless_the_switch_is_on():
    """What the client has sent is not told to whoever holds the link."""
    with Cluster(1, insecure=False) as c:
        fe, be = c.fe, c.be[0]
        be.nl.do("LOCAL_SET", local_insecure=1)
        outcome(c, "not_given", "insecure")
        assert fe.stat("HandoffRefusedInsecure") == 1 and fe.stat("HandoffSubmitted") == 0
        fe.nl.do("LOCAL_SET", local_insecure=1)
        outcome(c, "taken")
        fe.nl.do("LOCAL_SET", local_insecure=0)
        outcome(c, "not_given", "insecure")


@claim
def authenticated_link_gives_and_is_given():
    with Cluster(1, insecure=False) as c:
        fe, be = c.fe, c.be[0]
        agents = [FakeAgent(node.ns) for node in c.nodes]
        try:
            for node, other in ((fe, be), (be, fe)):
                node.nl.do("NODE_SET", node_name=other.name, node_auth=E["FLT_AUTH_X509"])
            wait(lambda: fe.nl.node("be1")["NODE_PROVEN"] and be.nl.node("fe")["NODE_PROVEN"])
            outcome(c, "taken")
        finally:
            for agent in agents:
                agent.stop()


@claim
def only_services_on_the_list_are_adopted():
    with Cluster(1, services=False) as c:
        do = c.be[0].nl.do
        outcome(c, "refused", "service")
        do("SERVICE_NEW", service_addr4=VIP4, service_port=81)
        do("SERVICE_NEW", service_addr4="10.9.0.2")
        do("SERVICE_NEW", service_addr6=VIP6, service_port=80)
        outcome(c, "refused", "service")
        outcome(c, "taken", family=6)
        do("SERVICE_NEW", service_addr4=VIP4, service_port=80)
        outcome(c, "taken")
        refused(17, do, "SERVICE_NEW", service_addr4=VIP4, service_port=80)
        do("SERVICE_DEL", service_addr4=VIP4, service_port=80)
        refused(2, do, "SERVICE_DEL", service_addr4=VIP4, service_port=80)
        outcome(c, "refused", "service")
        rows = c.be[0].nl.dump("SERVICE_GET")
        assert [r.get("SERVICE_PORT") for r in rows] == [81, None, 80], rows
        for bad in ("127.0.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255"):
            refused(22, do, "SERVICE_NEW", service_addr4=bad)
        for bad in ("::1", "::", "ff02::1", "::ffff:10.9.0.200"):
            refused(22, do, "SERVICE_NEW", service_addr6=bad)
        refused(22, do, "SERVICE_NEW", service_port=80)


def captured(c, mallory, family):
    """A checkpoint of a client's connection, and the connection."""
    case = Case(c, family)
    case.give("mallory")
    wire = mallory.take(c.fe)
    case.dev.expect(FAILED, 1, "policy")
    return wire, case


@claim
def nobody_connects_in_the_name_of_an_address_that_no_client_can_have():
    with Cluster(1) as c:
        be, mallory = c.be[0], Mallory(c)
        mallory.meet(c.fe)
        mallory.meet(be, "FRONTEND")
        for family, client, bad in (
                (4, CLIENT4, ("127.0.0.1", "127.3.2.1", "0.0.0.0", "0.1.2.3", "224.0.0.1",
                              "255.255.255.255", "10.9.0.255", "10.9.0.2", VIP4)),
                (6, CLIENT6, ("::1", "::", "ff02::1", "::ffff:127.0.0.1", "::127.0.0.1",
                              "fd09::2", VIP6, "fe80::1"))):
            wire, case = captured(c, mallory, family)
            # It is the address alone: as it is, it would be taken.
            assert mallory.give(be, wire) == "none"
            for address in bad:
                why = mallory.give(be, forge(wire, client, address))
                assert why in ("client", "malformed"), (address, why)
            assert present(be) == []
            case.close()
        mallory.close()


@claim
def no_service_of_the_machine_itself_is_reached():
    with Cluster(1) as c:
        be, mallory = c.be[0], Mallory(c)
        mallory.meet(c.fe)
        mallory.meet(be, "FRONTEND")
        wire, case = captured(c, mallory, 4)
        with be.inside():
            local = socket.create_server(("127.0.0.1", 80))
            own = socket.create_server(("10.9.0.2", 80))
        inward = forge(wire, VIP4, "127.0.0.1")
        assert mallory.give(be, inward) == "service"
        assert mallory.give(be, forge(inward, CLIENT4, "127.0.0.1")) == "client"
        assert mallory.give(be, forge(wire, VIP4, "10.9.0.2")) == "service"
        for sock in (local, own):
            sock.setblocking(False)
            try:
                raise AssertionError("a local service got %s" % sock.accept()[1])
            except BlockingIOError:
                sock.close()
        case.close()
        mallory.close()


@claim
def only_who_may_give_gives():
    with Cluster(1) as c:
        be, mallory = c.be[0], Mallory(c)
        mallory.meet(c.fe)
        wire, case = captured(c, mallory, 4)
        mallory.meet(be, "BACKEND")
        assert mallory.give(be, wire) == "role"
        be.nl.do("NODE_SET", node_name="mallory", node_role=E["FLT_ROLE_FRONTEND"])
        assert mallory.give(be, wire) == "none"
        # What the front-end gave to another node is not mallory's to give back, whatever its role.
        case.give()
        case.dev.expect(DONE, 1)
        there = accept(case.back)
        for role in ("BACKEND", "FRONTEND"):
            c.fe.nl.do("NODE_SET", node_name="mallory", node_role=E["FLT_ROLE_" + role])
            assert mallory.give(c.fe, wire) == "role", role
        assert receive(there, 3) == b"GET"
        usable(there, case.client)
        # The one it was given to gives it back.
        with be.inside():
            dev = be.handoff()
        wait(lambda: "unacked:" not in be.output("ss", "-Htin", "sport = :80"))
        case.client.sendall(b"again")
        peek(there, 5)
        dev.submit(there, be.id["fe"], 2)
        dev.expect(DONE, 2)
        here = accept(case.front)
        assert receive(here, 5) == b"again"
        usable(here, case.client)
        for sock in (here, there):
            sock.close()
        dev.close()
        case.close()
        mallory.close()


# Writes to each file what is in it, and says which took it; with an argument in a namespace of its own, which it rules.
WRITER = """
import ctypes, glob, sys
files = [open(path, "r+b", buffering=0) for path in sorted(glob.glob("/proc/sys/net/flotilla/*"))]
if len(sys.argv) > 1 and ctypes.CDLL(None).unshare(0x10000000 | 0x40000000):
    sys.exit("unshare")
for file in files:
    try:
        text = file.read()
        file.seek(0)
        file.write(text)
        print(file.name.split("/")[-1])
    except PermissionError:
        pass
"""


def written(node, privileges, *words):
    """The files of net.flotilla that take what is written with these privileges."""
    with node.inside():
        ran = subprocess.run(("setpriv",) + privileges + (sys.executable, "-c", WRITER) + words,
                             stdout=subprocess.PIPE, check=True, text=True)
    return ran.stdout.split()


@claim
def who_may_not_administer_the_network_sets_nothing():
    """The machine's root, too, whom the mode of the files lets."""
    without = ("--bounding-set", "-net_admin", "--inh-caps", "-net_admin")
    with Cluster(1) as c:
        with c.fe.inside():
            names = sorted(os.listdir("/proc/sys/net/flotilla"))
        assert "insecure_keys" in names and written(c.fe, ()) == names
        assert not written(c.fe, without)
        # Nor when he has left for where he may.
        assert not written(c.fe, without, "leave")
        # The capability is enough.
        nobody = ("--reuid", "65534", "--regid", "65534", "--clear-groups")
        assert written(c.fe, nobody + ("--inh-caps", "+net_admin", "--ambient-caps", "+net_admin")) == names


if __name__ == "__main__":
    run("modprobe", "tls")
    main()
