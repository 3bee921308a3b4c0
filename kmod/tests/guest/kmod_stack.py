#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
# cpus: 2
"""Layers on a socket: order, swallowing, removal in any order, children, sockmap, kTLS."""
import itertools
import os
import select
import socket
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
from patience import PATIENCE                           # noqa: E402
from stacktest import (FAMILIES, Device, Sockmap, closing, connect, equal, held, listener, main, pair,  # noqa: E402
                       set_ktls, talk, wait_for)

dev = None


def newest_layer_hears_first(family, address):
    with pair(family, address) as (client, server):
        for layer in "abc":
            dev.add(server, layer)
        dev.order()
        talk(client, server)
        equal("order", dev.order()[:3], ["c", "b", "a"])


def layer_swallows(family, address):
    with pair(family, address) as (client, server):
        dev.reset()
        dev.add(server, "a")
        dev.add(server, "b")
        dev.swallow("b", "data_ready")
        server.settimeout(0.3)
        dev.order()
        with select.epoll() as ep:
            ep.register(server, select.EPOLLIN | select.EPOLLET)
            ep.poll(0)
            client.sendall(b"unheard")
            wait_for("the event", lambda: dev.counts("b")["data_ready"] > 0)
            equal("wakeups", ep.poll(0.2), [])
            equal("below the swallower", dev.counts("a")["data_ready"], 0)
            dev.swallow("b")
            client.sendall(b"heard")
            equal("wakeups", len(ep.poll(PATIENCE)), 1)
        equal("data", server.recv(100), b"unheardheard")


def every_order_of_removal(family, address):
    for order in itertools.permutations("abc"):
        with pair(family, address) as (client, server):
            for layer in "abc":
                dev.add(server, layer)
            left = ["c", "b", "a"]
            for layer in order:
                dev.remove(server, layer)
                left.remove(layer)
                dev.order()
                talk(client, server)
                equal(f"heard by, removing {order}", dev.order()[:len(left)], left)
            equal("pointers", dev.pointers(server), set())


def only_needed_pointers_change():
    with pair() as (_, server):
        equal("before", dev.pointers(server), set())
        dev.add(server, "end")
        equal("end", dev.pointers(server), {"destruct", "hook"})
        dev.add(server, "a")
        heard = {"data_ready", "write_space", "state_change", "error_report", "destruct", "hook"}
        equal("end, a", dev.pointers(server), heard)
        dev.add(server, "ops2")
        equal("end, a, ops2", dev.pointers(server), heard | {"ops"})
        for layer in ("end", "ops2", "a"):
            dev.remove(server, layer)
        equal("none", dev.pointers(server), set())


def settle():
    """A closed socket lets go of its module when its last RCU reader may have gone."""
    wait_for("earlier sockets let go of flotilla.ko", lambda: not held())


def bad_requests_change_nothing():
    settle()
    with pair() as (client, server), closing(listener(socket.AF_INET, "127.0.0.1")) as lsn:
        dev.add(server, "a")
        before = dev.pointers(server), held(), dev.live()
        for sock, layer, atomic, error in ((server, "a", False, 17), (lsn, "b", True, 22),
                                           (client, "ops1", True, 22)):
            try:
                dev.add(sock, layer, atomic)
                raise AssertionError(f"{layer} was added")
            except OSError as e:
                equal("errno", e.errno, error)
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as udp, \
                closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as unix:
            for sock in (udp, unix):
                try:
                    dev.add(sock, "a")
                    raise AssertionError("not TCP")
                except OSError as e:
                    equal("errno", e.errno, 95)
        equal("state", (dev.pointers(server), held(), dev.live()), before)
        equal("listener", dev.pointers(lsn), set())
        # a listener of a sockmap: what is done to a listener beforehand is undone
        with closing(Sockmap()) as sockmap:
            sockmap.add(lsn)
            try:
                dev.add(lsn, "a")
                raise AssertionError("a layer on a sockmap's listener")
            except OSError as e:
                equal("errno", e.errno, 95)
            equal("hook", "hook" in dev.pointers(lsn), False)


def socket_that_dies_tells_its_layers(family, address):
    dev.reset()
    with pair(family, address) as (client, server):
        dev.add(client, "a")
        dev.add(client, "end", atomic=True)
        dev.add(server, "end")
        talk(client, server)
    wait_for("destruct", lambda: dev.counts("end")["destruct"] == 2)
    wait_for("destruct of a", lambda: dev.counts("a")["destruct"] == 1)
    wait_for("layers gone", lambda: dev.live() == 0)


def child_inherits(family, address):
    dev.reset()
    with closing(listener(family, address)) as server:
        dev.add(server, "a")
        dev.add(server, "ops1")
        with closing(connect(server)) as client:
            client.sendall(b"before accept")
            wait_for("the child's data_ready", lambda: dev.counts("ops1")["data_ready"] >= 2)
            equal("children", dev.counts("a")["init_child"], 1)
            equal("state_change of the child", dev.counts("a")["state_change"], 1)
            child = server.accept()[0]
            with closing(child):
                equal("accepted", dev.counts("ops1")["accepted"], 1)
                equal("has", (dev.has(child, "a"), dev.has(child, "ops1")), (True, True))
                equal("ops", "ops" in dev.pointers(child), True)
                equal("data", child.recv(100), b"before accept")
                equal("recvmsg", dev.counts("ops1")["recvmsg"], 1)
                # the listener's going does not touch the child
                dev.remove(server, "ops1")
                dev.remove(server, "a")
                talk(client, child)
                equal("recvmsg", dev.counts("ops1")["recvmsg"] > 1, True)
    wait_for("layers gone", lambda: dev.live() == 0)


def child_of_bare_listener_is_bare(family, address):
    with closing(listener(family, address)) as server:
        dev.add(server, "ops1")
        dev.remove(server, "ops1")
        equal("listener", dev.pointers(server), set())
        with closing(connect(server)) as client:
            child = server.accept()[0]
            with closing(child):
                equal("child", dev.pointers(child), set())
                talk(client, child)


def layers_after_the_handshake_leave_the_child_alone():
    """The child is in the accept queue, bare, when the listener gets its operations."""
    with closing(listener(socket.AF_INET, "127.0.0.1")) as server, \
            closing(connect(server)) as client:
        dev.add(server, "ops1")
        child = server.accept()[0]
        with closing(child):
            equal("child", dev.pointers(child), set())
            talk(client, child)


def mapped_child_inherits():
    """An IPv4 client of an IPv6 listener."""
    dev.reset()
    with closing(socket.socket(socket.AF_INET6, socket.SOCK_STREAM)) as server:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind(("::", 0))
        server.listen(8)
        dev.add(server, "a")
        dev.add(server, "ops2")
        with closing(socket.create_connection(("127.0.0.1", server.getsockname()[1]))) as client:
            child = server.accept()[0]
            with closing(child):
                equal("inherited", dev.counts("a")["init_child"], 1)
                talk(client, child)
                talk(child, client)
                # IPV6_ADDRFORM makes it an IPv4 socket; layers and operations stay
                child.setsockopt(socket.IPPROTO_IPV6, 1, socket.AF_INET)
                before = dev.counts("ops2")["recvmsg"]
                talk(client, child)
                equal("recvmsg is heard", dev.counts("ops2")["recvmsg"] > before, True)
                dev.remove(child, "ops2")
                dev.remove(child, "a")
    wait_for("layers gone", lambda: dev.live() == 0)


def child_closed_before_accept(family, address):
    """By its client's reset, and by its listener's close."""
    for reset in (True, False):
        dev.reset()
        with closing(listener(family, address)) as server:
            dev.add(server, "a")
            dev.add(server, "ops1")
            clients = [connect(server) for _ in range(8)]
            wait_for("children", lambda: dev.counts("a")["init_child"] == 8)
            if reset:
                for client in clients:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    client.close()
        for client in clients:
            client.close()
        wait_for("every end is heard", lambda: dev.counts("a")["destruct"] == 9)
        wait_for("layers gone", lambda: dev.live() == 0)


def plain_socket_with_layers_listens():
    """Layers from before listen(), as a tracker of all sockets has them."""
    dev.reset()
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as server:
        dev.add(server, "ops1")
        server.bind(("127.0.0.1", 0))
        server.listen(4)
        equal("listen is reported", dev.counts("ops1")["returned"] >= 1, True)
        with closing(connect(server)) as client:
            child = server.accept()[0]
            with closing(child):
                equal("inherited", dev.has(child, "ops1"), True)
                talk(client, child)


def operations_go_from_newest_to_oldest(family, address):
    dev.reset()
    with pair(family, address) as (client, server):
        dev.add(server, "ops1")
        dev.add(server, "a")
        dev.add(server, "ops2")
        client.sendall(b"hello")
        select.select([server], [], [], PATIENCE)
        dev.order()
        equal("data", server.recv(10), b"hello")
        equal("order", dev.order(), ["ops2", "ops1"])
        server.sendall(b"back")
        equal("data", client.recv(10), b"back")
        server.shutdown(socket.SHUT_WR)
        equal("eof", client.recv(10), b"")
        for layer in ("ops1", "ops2"):
            counts = dev.counts(layer)
            equal(f"{layer} sendmsg", counts["sendmsg"], 1)
            equal(f"{layer} shutdown", counts["shutdown"], 1)
            equal(f"{layer} poll", counts["poll"] >= 1, True)
    equal("release", dev.counts("ops2")["release"], 1)
    wait_for("layers gone", lambda: dev.live() == 0)


def data_pass_by_a_layer_that_has_nothing_to_say(family, address):
    dev.reset()

    def heard(layer="ops1"):
        """What it hears of a receive and a send each."""
        before = dev.counts(layer)
        client.sendall(b"x")
        equal("data", server.recv(1), b"x")
        server.sendall(b"y")
        equal("answer", client.recv(1), b"y")
        after = dev.counts(layer)
        return tuple(after[c] - before[c] for c in ("recvmsg", "received", "sendmsg", "sent"))

    with pair(family, address) as (client, server):
        dev.add(server, "ops1")
        equal("calls", heard(), (1, 1, 1, 1))
        dev.plain(server, "ops1", False, data=True)
        equal("until it says so", heard(), (1, 1, 0, 0))
        equal("when it has nothing to say", heard(), (0, 0, 0, 0))
        equal("pointers", "ops" in dev.pointers(server), True)
        select.select([server], [], [], 0)
        equal("polls", dev.counts("ops1")["poll"], 1)
        dev.plain(server, "ops1", False)
        equal("when it has something to say", heard(), (1, 1, 1, 1))
        dev.plain(server, "ops1", False, data=True)
        heard()
        dev.add(server, "ops2")
        equal("of a layer that came later", heard("ops2"), (1, 1, 1, 1))
        equal("below one that hears", heard(), (1, 1, 1, 1))
        dev.remove(server, "ops2")
        heard()
        equal("when that is gone", heard(), (0, 0, 0, 0))
        dev.plain(server, "ops1", True, data=True)
        select.select([server], [], [], 0)
        equal("neither", heard(), (0, 0, 0, 0))
        server.shutdown(socket.SHUT_WR)
        equal("shutdown", dev.counts("ops1")["shutdown"], 1)
        dev.remove(server, "ops1")
        equal("pointers of a socket without layers", dev.pointers(server), set())
        equal("the end", client.recv(1), b"")
    wait_for("layers gone", lambda: dev.live() == 0)


def poll_passes_by_a_layer_that_has_nothing_to_say(family, address):
    dev.reset()

    def polls(sock, layer="ops1", times=3):
        before = dev.counts(layer)["poll"]
        for _ in range(times):
            equal("readable", select.select([sock], [], [], 0)[0], [sock])
        return dev.counts(layer)["poll"] - before

    with pair(family, address) as (client, server):
        client.sendall(b"hello")
        wait_for("the data", lambda: select.select([server], [], [], 0)[0])
        dev.add(server, "ops1")
        equal("polls", polls(server), 3)
        dev.plain(server, "ops1", True)
        equal("polls until it says so", polls(server), 1)
        equal("polls of a plain socket", polls(server), 0)
        equal("pointers", "ops" in dev.pointers(server), True)
        dev.order()
        equal("data", server.recv(1), b"h")
        equal("other operations", dev.order(), ["ops1"])
        dev.plain(server, "ops1", False)
        equal("polls when it has something to say", polls(server), 3)
        dev.plain(server, "ops1", True)
        polls(server)
        dev.add(server, "ops2")
        equal("polls of a layer that came later", polls(server, "ops2"), 3)
        equal("polls below one that has something to say", polls(server), 3)
        dev.remove(server, "ops2")
        polls(server)
        equal("polls when that is gone", polls(server), 0)
        # Any change of what is on the socket may ask all anew.
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        equal("polls after a call", polls(server) <= 1, True)
        dev.remove(server, "ops1")
        equal("pointers of a socket without layers", dev.pointers(server), set())
        equal("data", server.recv(10), b"ello")
    wait_for("layers gone", lambda: dev.live() == 0)


def layers_go_and_come_while_a_reader_sleeps():
    """Nothing waits for a read that sleeps in TCP; who hears of its end is who is there then."""
    dev.reset()
    with pair() as (client, server):
        dev.add(server, "ops1")
        dev.add(server, "a")
        pid = os.fork()
        if not pid:
            os._exit(0 if server.recv(10) == b"wake" else 1)
        wait_for("the reader", lambda: dev.counts("ops1")["recvmsg"] == 1)
        dev.remove(server, "a")
        dev.remove(server, "ops1")
        # It may have been on its way to sleep yet.
        wait_for("freed while it sleeps", lambda: dev.counts("ops1")["free"] == 1)
        dev.add(server, "ops2")
        client.sendall(b"wake")
        equal("reader's status", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        equal("who is gone hears", dev.counts("ops1")["received"], 0)
        equal("who has come is asked", dev.counts("ops2")["recvmsg"], 0)
        equal("who has come hears", dev.counts("ops2")["received"], 1)
    wait_for("layers gone", lambda: dev.live() == 0)


def layers_forbid_answer_and_pass(family, address):
    """Each has its say from the newest on; all hear what came of it."""
    dev.reset()
    with pair(family, address) as (client, server):
        for layer in ("ops1", "a", "ops2"):
            dev.add(server, layer)
        client.sendall(b"hello")
        for layer, say, result in (("ops2", 1, b"h"), ("ops1", 1, b"e"), ("ops2", 0, b"l"), ("ops1", -16, 16),
                                   ("ops2", 1, 16), ("ops2", -11, 11)):
            dev.say(layer, say)
            dev.order()
            before = {name: dev.counts(name) for name in ("ops1", "ops2")}
            try:
                got = server.recv(1)
            except OSError as e:
                got = e.errno
            equal(f"{layer} says {say}", got, result)
            equal("asked", dev.order(), ["ops2"] if say == -11 else ["ops2", "ops1"])
            for name in ("ops1", "ops2"):
                equal(f"{name} hears", dev.counts(name)["received"] - before[name]["received"], 1)
        equal("ops2 answered", dev.counts("ops2")["answered"], 3)
        equal("ops1 answered", dev.counts("ops1")["answered"], 2)
        server.sendall(b"back")
        equal("data", client.recv(10), b"back")
        equal("sent", (dev.counts("ops1")["sent"], dev.counts("ops2")["sent"]), (1, 1))
        dev.say("ops1", 0)
        dev.say("ops2", 0)
        equal("data", server.recv(10), b"lo")
    wait_for("layers gone", lambda: dev.live() == 0)


def dup_and_fork_share_the_stack():
    dev.reset()
    with pair() as (client, server):
        dev.add(server, "ops1")
        copy = server.dup()
        pid = os.fork()
        if not pid:
            server.close()
            copy.close()
            os._exit(0)
        os.waitpid(pid, 0)
        server.close()
        equal("release", dev.counts("ops1")["release"], 0)
        talk(client, copy)
        copy.close()
        equal("release", dev.counts("ops1")["release"], 1)
    wait_for("layers gone", lambda: dev.live() == 0)


def detach_gives_the_pointers_back(family, address):
    dev.reset()
    with pair(family, address) as (client, server):
        for layer in ("a", "ops1", "b"):
            dev.add(server, layer)
        for layer in ("ops1", "b", "a"):
            dev.detach(server, layer)
        wait_for("pointers", lambda: not dev.pointers(server))
        talk(client, server)
        wait_for("layers gone", lambda: dev.live() == 0)


def sockmap_on_top(keep):
    """It saves our pointers; they pass through until the socket dies. @keep: it stays that long."""
    dev.reset()
    settle()
    with closing(Sockmap()) as sockmap:
        with pair() as (client, server):
            dev.add(server, "a")
            sockmap.add(server)
            dev.remove(server, "a")
            equal("flotilla.ko is held", held() > 0, True)
            try:
                dev.add(server, "b")
                raise AssertionError("a layer on a sockmap's socket")
            except OSError as e:
                equal("errno", e.errno, 95)
            talk(client, server)
            if not keep:
                sockmap.take()
                talk(client, server)
                equal("ours are back", "write_space" in dev.pointers(server), True)
                equal("a hears nothing", dev.has(server, "a"), False)
        wait_for("flotilla.ko is free", lambda: not held())


def ktls_on_top(layers):
    """kTLS is set on a socket with layers: TLS works, our operations are out of its way."""
    dev.reset()
    settle()
    with pair() as (client, server):
        for layer in layers:
            dev.add(server, layer)
        for sock in (client, server):
            sock.setsockopt(socket.SOL_TCP, 31, b"tls")
            set_ktls(sock, 1)
            set_ktls(sock, 2)
        talk(client, server, b"secret" * 1000)
        talk(server, client, b"answer" * 1000)
        for layer in layers:
            dev.remove(server, layer)
        talk(client, server, b"after" * 1000)
        equal("flotilla.ko is held", held() > 0, True)
    wait_for("flotilla.ko is free", lambda: not held())


def ktls_elsewhere_knows_nothing_of_us():
    """The tables that kTLS made from the first socket, which had our operations."""
    with pair() as (client, server):
        for sock in (client, server):
            sock.setsockopt(socket.SOL_TCP, 31, b"tls")
            set_ktls(sock, 1)
            set_ktls(sock, 2)
        dev.reset()
        talk(client, server, b"secret")
        equal("recvmsg", dev.counts("ops1")["recvmsg"] + dev.counts("ops2")["recvmsg"], 0)


def claims(tap):
    global dev
    dev = Device()
    tap.claim("only what a layer needs is replaced", only_needed_pointers_change)
    tap.claim("refused requests change nothing", bad_requests_change_nothing)
    # first of all that concerns kTLS: it makes its tables now
    tap.claim("kTLS above layers with operations", ktls_on_top, ("ops1", "a", "ops2"))
    tap.claim("kTLS on other sockets has TCP's operations", ktls_elsewhere_knows_nothing_of_us)
    tap.claim("kTLS above callbacks alone", ktls_on_top, ("a",))
    for name, (family, address) in FAMILIES.items():
        for claim in (newest_layer_hears_first, layer_swallows, every_order_of_removal,
                      socket_that_dies_tells_its_layers, child_inherits,
                      child_of_bare_listener_is_bare, child_closed_before_accept,
                      operations_go_from_newest_to_oldest, layers_forbid_answer_and_pass,
                      poll_passes_by_a_layer_that_has_nothing_to_say,
                      data_pass_by_a_layer_that_has_nothing_to_say, detach_gives_the_pointers_back):
            tap.claim(f"{name}: {claim.__name__.replace('_', ' ')}", claim, family, address)
    tap.claim("IPv4 child of an IPv6 listener, then IPV6_ADDRFORM", mapped_child_inherits)
    tap.claim("a child made before its listener's layers stays bare",
              layers_after_the_handshake_leave_the_child_alone)
    tap.claim("layers from before listen()", plain_socket_with_layers_listens)
    tap.claim("layers go and come while a reader sleeps", layers_go_and_come_while_a_reader_sleeps)
    tap.claim("dup and fork share the stack", dup_and_fork_share_the_stack)
    tap.claim("sockmap above, taken away", sockmap_on_top, False)
    tap.claim("sockmap above, to the end", sockmap_on_top, True)
    dev.close()


if __name__ == "__main__":
    main(claims)
