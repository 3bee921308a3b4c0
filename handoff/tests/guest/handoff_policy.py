#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 1200
# long: both minutes on either kernel
"""flotilla migrate policy: a request's node is decided before the server reads it; a failed move costs nothing."""
import contextlib
import errno
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import PATIENCE, SLOW, acknowledged, claim, main, receive, rounds, run, wait     # noqa: E402
from move import CONN, FLOTILLA, Move                   # noqa: E402
from policed import SERVICE, END, Nodes, body, get, nothing             # noqa: E402
from servers import SIZES, Site, installed              # noqa: E402

installed("nginx")
TCP_ULP = 31


@claim
def a_request_moves_before_its_server_has_read_it():
    with Nodes() as n:
        n.policy("simple", "be2")
        client = n.connect()
        old = n.accepted()
        client.sendall(get("/a"))
        new = n.moved(old, client, get("/a"))
        assert n.why() == {"moved": 1}, n.why()
        # And answers a second one there: the policy is be1's.
        client.sendall(get("/b"))
        n.answer(new, client, get("/b"))
        assert n.be[0].stat("PolicyMoved") == 1 and not n.be[1].stat("PolicyAsked")


@claim
def whichever_way_a_program_reads_it_finds_nothing_until_the_policy_knows():
    with Nodes() as n:
        n.policy("hash", "self")
        client = n.connect()
        sock = n.accepted()
        edge = select.epoll()
        edge.register(sock, select.EPOLLIN | select.EPOLLET)
        for path in ("/first", "/second"):
            nothing(sock)
            client.sendall(get(path)[:6])
            nothing(sock)
            assert not edge.poll(0)
            client.sendall(get(path)[6:])
            assert edge.poll(PATIENCE) == [(sock.fileno(), select.EPOLLIN)] and not edge.poll(0)
            n.answer(sock, client, get(path))
        assert n.why() == {"stayed": 2}, n.why()
        assert n.be[0].stat("PolicyAsked") == 4


@claim
def a_program_that_waits_in_its_read_gets_what_stays_and_end_of_file_of_what_moves():
    with Nodes() as n:
        for target, to in (("self", None), ("be2", 1)):
            n.policy("hash", target)
            client = n.connect()
            sock = n.accepted()
            sock.setblocking(True)
            got = []
            reader = threading.Thread(target=lambda sock=sock, got=got: got.append(sock.recv(100)))
            reader.start()
            client.sendall(b"GET ")
            reader.join(0.3)
            assert reader.is_alive(), got
            client.sendall(get("/")[4:])
            reader.join(PATIENCE)
            assert got == [get("/") if to is None else b""], got
            if to:
                n.answer(n.accepted(to), client, get("/"))


@claim
def a_request_in_segments_of_one_byte_moves_whole():
    with Nodes() as n:
        n.policy("hash", "be2")
        client = n.connect()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock = n.accepted()
        request = get("/%s" % ("x" * 20))
        for at in range(len(request)):
            client.sendall(request[at:at + 1])
            time.sleep(0.005)
        n.moved(sock, client, request)
        assert n.be[0].stat("PolicyAsked") > 10


@claim
def who_wants_more_than_comes_in_time_gets_no_more():
    with Nodes() as n:
        n.policy("delayed")
        n.wait_ms(2000 * SLOW)
        client = n.connect()
        sock = n.accepted()
        client.sendall(get("/"))
        nothing(sock, 0.1)
        n.answer(sock, client, get("/"))
        n.wait_ms(10000)
        n.be[0].sysctl("net.flotilla.migrate_bytes", 10)
        begin = time.monotonic()
        client.sendall(get("/"))
        n.answer(sock, client, get("/"))
        assert time.monotonic() - begin < 9, "it waited for time, not for bytes"
        assert n.why() == {"more": 2}, n.why()


@claim
def what_no_node_takes_stays_with_its_bytes():
    with Nodes() as n:
        n.policy("simple", "be2")
        n.be[1].sysctl("net.flotilla.adopt", 0)
        client = n.connect()
        sock = n.accepted()
        client.sendall(get("/a"))
        n.answer(sock, client, get("/a"))
        n.be[1].sysctl("net.flotilla.adopt", 1)
        n.listeners.pop().close()
        client.sendall(get("/b"))
        n.answer(sock, client, get("/b"))
        assert n.why() == {"refused": 2}, n.why()
        assert n.be[0].stat("HandoffRefusedPolicy") == 1 and n.be[0].stat("HandoffRefusedNoListener") == 1
        # It does not answer, and is not asked again for a second.
        n.listeners.append(n.be[1].listen())
        n.cut(n.be[0], n.be[1])
        for path in ("/c", "/d"):
            client.sendall(get(path))
            n.answer(sock, client, get(path))
        why = n.why()
        assert why["refused"] == 3 and why["target"] == 1, why
        assert n.be[0].stat("HandoffRefusedTimeout") == 1
        n.mend(n.be[0])
        time.sleep(1.5)
        client.sendall(get("/e"))
        n.moved(sock, client, get("/e"))


@claim
def what_a_policy_has_moved_is_not_moved_again_before_its_next_request():
    with Nodes() as n:
        n.policy("simple", "be2")
        n.policy("simple", "be1", at=1)
        client = n.connect()
        sock = n.accepted()
        for turn, to in enumerate((1, 0, 1, 0)):
            request = get("/%d" % turn)
            client.sendall(request)
            sock = n.moved(sock, client, request, to)
        # Four hops are enough.
        client.sendall(get("/last"))
        n.answer(sock, client, get("/last"))
        assert n.why() == {"moved": 2, "came": 2, "hops": 1}, n.why()
        assert n.why(1) == {"moved": 2, "came": 2}, n.why(1)


@claim
def the_same_name_is_served_by_the_same_node():
    with Nodes() as n:
        for at, nodes in enumerate((("self", "be2"), ("be1", "self"))):
            n.policy("hash", *nodes, at=at)
            n.be[at].sysctl("net.flotilla.migrate_max_hops", 255)
        where = {}
        for path in ["/%d" % i for i in range(7)] * 2:
            client = n.connect()
            sock = n.accepted()
            client.sendall(get(path))
            ready = select.select([sock, n.listeners[1]], [], [], PATIENCE)[0]
            to = 1 if n.listeners[1] in ready or not sock.recv(1, socket.MSG_PEEK) else 0
            n.answer(n.accepted(1) if to else sock, client, get(path))
            assert where.setdefault(path, to) == to, (path, where)
        assert set(where.values()) == {0, 1}, where


@claim
def nodes_take_turns():
    with Nodes() as n:
        n.policy("round-robin", "self", "be2")
        for turn in range(4):
            client = n.connect()
            sock = n.accepted()
            client.sendall(get("/"))
            if turn % 2:
                n.moved(sock, client, get("/"))
            else:
                n.answer(sock, client, get("/"))
        assert n.why() == {"moved": 2, "stayed": 2}, n.why()


@claim
def a_body_is_no_request_and_pipelined_ones_stay_in_order():
    with Nodes() as n:
        n.policy("hash", "be2")
        n.be[0].sysctl("net.flotilla.migrate_max_hops", 0)
        client = n.connect()
        sock = n.accepted()
        head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 17\r\n\r\n"
        client.sendall(head)
        assert receive(sock, len(head)) == head
        sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        n.be[0].sysctl("net.flotilla.migrate_max_hops", 4)
        client.sendall(b"GET /a HTTP/1.1\r\n")
        assert receive(sock, 17) == b"GET /a HTTP/1.1\r\n"
        assert n.why() == {"hops": 1}, n.why()
        receive(client, 25)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        receive(client, 38)
        client.sendall(get("/next"))
        n.moved(sock, client, get("/next"))


@claim
def a_server_whose_accept_waits_for_data_moves_too():
    with Nodes() as n:
        n.listeners[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 5)
        n.policy("simple", "be2")
        client = n.connect()
        client.sendall(get("/"))
        n.moved(n.accepted(), client, get("/"))
        assert n.why() == {"moved": 1}, n.why()


@claim
def a_client_that_ends_its_side_is_served_here():
    with Nodes() as n:
        n.policy("delayed")
        client = n.connect()
        sock = n.accepted()
        client.sendall(get("/"))
        nothing(sock)
        client.shutdown(socket.SHUT_WR)
        n.answer(sock, client, get("/"))
        assert sock.recv(1) == b""
        assert n.why() == {"ended": 1}, n.why()


@claim
def switched_off_what_is_held_is_let_through_and_new_ones_are_not_asked_about():
    with Nodes() as n:
        n.policy("delayed")
        client = n.connect()
        sock = n.accepted()
        edge = select.epoll()
        edge.register(sock, select.EPOLLIN | select.EPOLLET)
        idle = n.connect()
        other = n.accepted()
        other.settimeout(None)
        reader = threading.Thread(target=lambda: other.recv(100))
        reader.start()
        client.sendall(get("/"))
        nothing(sock)
        assert not edge.poll(0)
        n.flotilla("policy", "off", SERVICE)
        assert edge.poll(5), "its program is not told"
        n.answer(sock, client, get("/"))
        idle.sendall(get("/"))
        reader.join(5)
        assert not reader.is_alive()
        for which in (client, n.connect()):
            if which is not client:
                sock = n.accepted()
            which.sendall(get("/more"))
            n.answer(sock, which, get("/more"))
        assert n.be[0].stat("PolicyAsked") == 1 and n.flotilla("policy", "show") == []
        assert "has no policy" in n.flotilla("policy", "off", SERVICE, check=1)


@claim
def who_waits_in_a_read_does_not_keep_the_module_when_the_policy_is_off():
    with Nodes() as n:
        n.policy("stay")
        client = n.connect()
        sock = n.accepted()
        sock.settimeout(None)
        got = []
        reader = threading.Thread(target=lambda: got.append(sock.recv(100)))
        reader.start()
        time.sleep(1)

        def unloads():
            return not subprocess.run(("rmmod", "handoff"), check=False, capture_output=True).returncode
        assert not unloads(), "it is gone while somebody is in it"
        n.flotilla("policy", "off", SERVICE)
        wait(unloads, 5 * SLOW)
        client.sendall(get("/"))
        reader.join(PATIENCE)
        assert got == [get("/")], got
        run("modprobe", "handoff")


@claim
def a_module_has_a_policy_and_stays_as_long_as_a_service_has_it():
    run("modprobe", "hof_policy_posts")
    with Nodes() as n:
        n.policy("posts", "be2")
        client = n.connect()
        sock = n.accepted()
        client.sendall(get("/"))
        n.answer(sock, client, get("/"))
        post = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
        for part in (post[:3], post[3:]):
            client.sendall(part)
        n.moved(sock, client, post)
        assert n.why() == {"stayed": 1, "moved": 1}, n.why()
        assert subprocess.run(("rmmod", "hof_policy_posts"), check=False, capture_output=True).returncode
        n.policy("stay")
        run("rmmod", "hof_policy_posts")
        assert "no such policy" in n.flotilla("policy", "set", SERVICE, "posts", check=1)


@claim
def only_an_administrator_of_the_machine_sets_a_policy():
    with Nodes() as n:
        def nobody(*words):
            return subprocess.run(("ip", "netns", "exec", n.be[0].ns, "setpriv", "--reuid", "65534", "--clear-groups",
                                   "--inh-caps=-all", FLOTILLA, "migrate", "policy") + words, check=False,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True)
        n.policy("simple", "be2")
        for words in (("set", SERVICE, "stay"), ("off", SERVICE)):
            done = nobody(*words)
            assert done.returncode == 1 and "CAP_NET_ADMIN" in done.stderr, done
            # Root of a user namespace of its own has none, either.
            done = subprocess.run(("unshare", "--user", "--net", "--map-root-user", FLOTILLA, "migrate", "policy",
                                   *words), check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            assert done.returncode == 1 and "administrator of the machine" in done.stderr, done
        assert "simple" in nobody("show").stdout
        for words, text in (((SERVICE, "simple", "x=y"), "NAME=NUMBER"), ((SERVICE, "nothing"), "no such policy"),
                            ((SERVICE, "a" * 20), "")):
            assert text in n.flotilla("policy", "set", *words, check=1)
        assert n.flotilla("policy", "show")[0]["policy"] == "simple"


@claim
def who_asks_before_he_is_answered_stays_for_good():
    """A server that reads ahead owes an answer that a move would leave behind: the next one would be taken for it."""
    with Nodes() as n:
        n.policy("stay")
        client = n.connect()
        sock = n.accepted()
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n%02d"

        def asks(number):
            client.sendall(get("/%d" % number))
            assert receive(sock, len(get("/1"))) == get("/%d" % number)

        def answers(number):
            sock.sendall(answer % number)
            assert receive(client, len(answer % 0)) == answer % number
            wait(lambda: acknowledged(sock))
        asks(1)
        asks(2)
        answers(1)
        asks(3)
        answers(2)
        n.policy("simple", "be2")
        asks(4)
        answers(3)
        answers(4)
        asks(5)
        answers(5)
        assert "moved" not in n.why(), n.why()


@claim
def nothing_in_a_tunnel_is_a_request():
    with Nodes() as n:
        n.policy("stay")
        client = n.connect()
        sock = n.accepted()
        for request in (b"CONNECT far:80 HTTP/1.1" + END, get("/1"), get("/2"), get("/3")):
            client.sendall(request)
            n.answer(sock, client, request)
            wait(lambda: acknowledged(sock))
            n.policy("simple", "be2")
        assert "moved" not in n.why(), n.why()


@claim
def who_waits_in_a_read_since_before_the_request_waits_for_the_policy():
    with Nodes() as n:
        n.policy("hash", "self")
        client = n.connect()
        sock = n.accepted()
        client.sendall(get("/"))
        n.answer(sock, client, get("/"))
        sock.settimeout(None)
        # TCP would look at its queue once more when the time is up.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 2, 0))
        got = []

        def read():
            try:
                got.append(sock.recv(100))
            except BlockingIOError as error:
                got.append(error.errno)
        reader = threading.Thread(target=read)
        reader.start()
        time.sleep(0.5)
        client.sendall(get("/")[:4])
        reader.join(PATIENCE)
        assert got == [errno.EAGAIN], got
        client.sendall(get("/")[4:])
        n.answer(sock, client, get("/"))


@claim
def what_has_an_upper_layer_is_not_asked_about():
    with Nodes() as n:
        n.policy("delayed")
        client = n.connect()
        sock = n.accepted()
        sock.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
        edge = select.epoll()
        edge.register(sock, select.EPOLLIN | select.EPOLLET)
        edge.poll(0)
        client.sendall(get("/"))
        assert edge.poll(5), "its program is not told"
        n.answer(sock, client, get("/"))
        assert not n.be[0].stat("PolicyAsked") and n.why() == {"unsure": 1}, n.why()


@claim
def a_node_with_a_policy_is_drained():
    with Nodes() as n:
        n.policy("stay")
        client = n.connect()
        sock = n.accepted()
        client.sendall(get("/a"))
        n.answer(sock, client, get("/a"))
        with n.be[0].inside():
            move = Move(idle_ms=100)
        with move:
            move.node(n.be[0].id["be2"])
            move.give(CONN, sock)
            new = n.accepted(1)
        assert sock.recv(1) == b""
        client.sendall(get("/b"))
        n.answer(new, client, get("/b"))


@claim
def nginx_serves_kept_connections_that_go_where_their_names_are():
    with Nodes(listening=False) as n:
        site = Site(n)
        for at, nodes in enumerate((("self", "be2"), ("be1", "self"))):
            n.policy("hash", *nodes, at=at)
            site.serve(n.be[at], "nginx")
            n.be[at].sysctl("net.flotilla.migrate_max_hops", 255)
        time.sleep(2)       # listeners that come are looked for each second
        bodies = [body(site, number) for number in range(len(SIZES))]
        kept = [n.connect() for _ in range(4)]
        for turn in range(rounds(20, 6)):
            for number, client in enumerate(kept):
                which = (turn + number) % (len(SIZES) - 1)
                client.sendall(get("/f%d" % which))
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    head += receive(client, 1)
                assert head.startswith(b"HTTP/1.1 200"), head
                assert receive(client, len(bodies[which])) == bodies[which], which
        moves = n.be[0].stat("PolicyMoved"), n.be[1].stat("PolicyMoved")
        print("# moves %s, be1 %s, be2 %s" % (moves, n.why(), n.why(1)), flush=True)
        assert all(moves) and "refused" not in n.why(), n.why()
        for be in n.be:
            with open(os.path.join(site.where, be.name, "error.log"), encoding="utf-8") as file:
                log = file.read()
            assert not log, log


class Server(threading.Thread):
    """Serves each connection of a listener by a thread, and says who it is."""

    def __init__(self, listener, name):
        super().__init__(daemon=True)
        self.listener, self.name_, self.served = listener, name, 0

    def serve(self, sock):
        with sock, contextlib.suppress(OSError):
            data = b""
            while True:
                while b"\r\n\r\n" not in data:
                    part = sock.recv(4096)
                    if not part:
                        return
                    data += part
                head, data = data.split(b"\r\n\r\n", 1)
                body = b"%s %s" % (self.name_, head.split(b" ")[1])
                self.served += 1
                sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                sock = self.listener.accept()[0]
                sock.settimeout(None)
                threading.Thread(target=self.serve, args=(sock,), daemon=True).start()


class Client(threading.Thread):
    """Asks on one connection, again and again."""

    def __init__(self, sock, number):
        super().__init__(daemon=True)
        self.sock, self.number, self.done, self.ends, self.error = sock, number, 0, False, None
        self.nodes = set()

    def exchange(self):
        path = "/%d/%d" % (self.number, self.done)
        self.sock.sendall(get(path))
        data = b""
        while not data.endswith(path.encode()):
            part = self.sock.recv(4096)
            assert part, "end of file after %d requests" % self.done
            data += part
        self.nodes.add(data.split(b"\r\n\r\n", 1)[1].split(b" ")[0])
        self.done += 1

    def run(self):
        try:
            while not self.ends:
                self.exchange()
        except Exception as error:              # pylint: disable=broad-except
            self.error = error


def served(n, number):
    """Servers on both nodes, clients on kept connections that come to be1."""
    for at, listener in enumerate(n.listeners):
        listener.settimeout(None)
        Server(listener, b"be%d" % (at + 1)).start()
    for be in n.be:
        be.sysctl("net.flotilla.migrate_max_hops", 255)
    clients = [Client(n.connect(), i) for i in range(number)]
    for client in clients:
        client.start()
    return clients


def more(clients, times):
    goal = [(c, c.done + times) for c in clients]
    wait(lambda: all(c.done >= done for c, done in goal) or any(c.error for c in clients))
    assert not any(c.error for c in clients), [repr(c.error) for c in clients]


@claim
def policies_are_replaced_under_load_and_no_request_fails():
    with Nodes() as n:
        n.policy("stay")
        n.policy("round-robin", "self", "be1", at=1)
        clients = served(n, 6)
        for turn in range(rounds(60, 12)):
            words = (("simple", "be2"), ("hash", "self", "be2"), ("round-robin", "self", "be2"), ("stay",),
                     ("delayed",), ("size", "below=20000", "self", "be2"))[turn % 6]
            n.wait_ms(20)
            n.policy(*words)
            more(clients, 2)
        for client in clients:
            client.ends = True
            client.join(PATIENCE)
        assert not any(c.error for c in clients) and n.be[0].stat("PolicyMoved") and n.be[1].stat("PolicyMoved")
        print("# %d requests, %d moves, %s" % (sum(c.done for c in clients), n.be[0].stat("PolicyMoved") +
                                               n.be[1].stat("PolicyMoved"), n.why()), flush=True)


@claim
def the_module_goes_under_load_and_who_is_here_is_served_on():
    with Nodes() as n:
        n.policy("hash", "self")
        # Programs that wait in a read are in the layer.
        client = n.connect()
        sock = n.accepted()
        client.sendall(b"GET /")
        nothing(sock)
        run("rmmod", "handoff")
        client.sendall(get("/")[5:])
        n.answer(sock, client, get("/"))
        run("modprobe", "handoff")


if __name__ == "__main__":
    main()
