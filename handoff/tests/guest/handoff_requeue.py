#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
# cpus: 4
"""A connection goes to another listener of the machine: when, and when not (flotilla/move.h)."""
import contextlib
import errno
import os
import socket
import struct
import subprocess
import sys
import threading
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from hof import (BUSY, CLOSED, DONE, IDLE, PATIENCE, TOP, VIP4, WANT_IDLE, Cluster, accept, claim, main,   # noqa: E402
                 peek, receive, rounds, run, usable, wait)
from stall import Stall                                 # noqa: E402
from move import CONN, FROM, TO, Move, connect, listen, loopback_up, no_resets  # noqa: E402
from shifted import ANSWER, GET, Pair                   # noqa: E402

RACE = os.path.join(TOP, "build/tests/handoff-move-race")


def congestion_window(sock):
    """In segments (struct tcp_info.tcpi_snd_cwnd)."""
    return struct.unpack_from("I", sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192), 80)[0]


@claim
def an_idle_connection_changes_its_listener_and_stays_the_client_s():
    for address in (("127.0.0.1", 8080), ("::1", 8081)):
        with no_resets(), Pair(address, idle_ms=50) as p:
            p.move.give(CONN, p.served)
            there = p.moved()
            for _ in range(3):
                usable(there, p.client)
            big = os.urandom(1 << 20)
            there.setblocking(True)
            child = os.fork()
            if not child:
                there.sendall(big)
                os._exit(0)
            assert receive(p.client, len(big)) == big
            os.waitpid(child, 0)
            there.close()
            assert p.client.recv(1) == b""


@claim
def its_congestion_window_stays_its_own():
    """The way to its client is the same: it does not begin anew."""
    route = "ip route change local 127.0.0.1 dev lo table local proto kernel scope host src 127.0.0.1".split()
    begins, other = 10, 33      # RFC 6928, and what we make the first of them begin with
    run(*route, "initcwnd", str(other))
    p = Pair(idle_ms=50)
    run(*route)
    with no_resets(), p:
        assert congestion_window(p.served) == other
        p.move.give(CONN, p.served)
        there = p.moved()
        assert congestion_window(there) == other, congestion_window(there)
        usable(there, p.client)
        there.close()
    with Pair() as p:
        assert congestion_window(p.served) == begins


@claim
def a_connection_that_was_never_used_moves_at_once():
    with no_resets(), Pair(answered=0) as p:
        p.move.give(CONN, p.served)
        there = p.moved()
        usable(there, p.client)
        there.close()


@claim
def the_next_request_goes_unread_to_the_new_server():
    for body in (b"", os.urandom(65536)):
        with no_resets(), Pair() as p:
            p.move.give(CONN, p.served)
            p.stays()
            assert p.move.status()["waiting"] == 1
            p.seen()
            request = b"POST /%s HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (b"x" * 2000, len(body)) + body
            p.client.sendall(request)
            there = p.moved()
            assert receive(there, len(request)) == request
            p.answered(there)
            there.close()


@claim
def an_answer_under_way_is_ended_by_who_began_it():
    with no_resets(), Pair(answered=0) as p:
        p.client.sendall(GET)
        receive(p.served, len(GET))
        p.move.give(CONN, p.served)
        p.stays()
        assert p.move.status()["busy"] == 1
        for byte in range(len(ANSWER)):
            p.served.sendall(ANSWER[byte:byte + 1])
            time.sleep(0.02)
        assert receive(p.client, len(ANSWER)) == ANSWER
        p.stays()
        p.seen()
        p.next_moves()


@claim
def an_address_of_its_own_comes_before_all_addresses():
    """As for new clients: nobody gets the connections of another service of the same port."""
    for own, every in ((("127.0.0.1", 8080), ("0.0.0.0", 8080)), (("127.0.0.1", 8080), ("::", 8080)),
                       (("0.0.0.0", 8080), ("::", 8080)), (("::1", 8081), ("::", 8081))):
        old = listen(own if own[0] != "0.0.0.0" else ("127.0.0.1", 8080))
        address = ("::1", 8081) if own[0] == "::1" else ("127.0.0.1", 8080)
        clients = [connect(address) for _ in range(6)]
        served = [accept(old) for _ in clients]
        wrong, right, too = listen(every), listen(own), listen(own)
        with Move() as move:
            for listener in (wrong, right, too):
                move.give(TO, listener)
            for sock in served:
                move.give(CONN, sock)
            wait(lambda move=move: move.status()["moved"] == len(clients))
        there = [accept(listener) for listener in (right, too) for _ in range(len(clients) // 2)]
        for sock in clients + served + there + [old, wrong, right, too]:
            sock.close()


@claim
def what_cannot_move_now_is_tried_less_and_less_often():
    with Pair(answered=0) as p:
        p.client.send(b"!", socket.MSG_OOB)
        p.move.give(CONN, p.served)
        wait(p.tries)
        time.sleep(3)
        assert p.tries() < 40, p.move.status()


@claim
def a_move_of_nothing_costs_nothing():
    with open(TRACING + "events/workqueue/workqueue_execute_start/enable", "w", encoding="ascii") as file:
        file.write("1")
    with Pair() as p, contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(Move())
        time.sleep(0.5)
        assert looks() == 0
        p.move.give(CONN, p.served)
        wait(looks)
        p.client.close()
        p.served.close()
        wait(lambda: p.move.status()["ended"] == 1)
        time.sleep(0.5)
        before = looks()
        time.sleep(0.5)
        assert looks() == before
    with open(TRACING + "events/workqueue/workqueue_execute_start/enable", "w", encoding="ascii") as file:
        file.write("0")


TRACING = "/sys/kernel/tracing/"


def looks():
    """How often connections that are to move have been looked at."""
    with open(TRACING + "trace", encoding="ascii", errors="replace") as file:
        return sum("hof_move_look" in line for line in file)


@claim
def a_move_that_is_refused_leaves_the_connection_as_it_was():
    with no_resets(), Pair(idle_ms=50) as p:
        p.move.give(FROM, p.old)
        p.new.listen(0)                         # one fills its queue
        filler = connect(p.address)
        p.move.give(CONN, p.served)
        wait(lambda: p.move.status()["refused"].get("full", 0) > 1)
        usable(p.served, p.client)
        accept(p.new).close()
        filler.close()
        there = p.moved()
        usable(there, p.client)
        there.close()
    with Pair(idle_ms=50) as p:                 # the new server dies
        p.move.give(CONN, p.served)
        p.new.close()
        p.stays()
        for _ in range(3):
            p.exchange()
        assert p.move.status()["listeners"] == 0
    with Pair() as p:                           # the tool dies
        p.move.give(CONN, p.served)
        p.move.close()
        p.move = Move()
        for _ in range(3):
            p.exchange()


@claim
def what_another_node_gave_moves_and_who_gave_it_hears_of_it_as_before():
    with Cluster(1) as c:
        fe, be = c.fe, c.be[0]
        device, front = fe.handoff(), fe.listen()
        with be.inside():
            old = listen((VIP4, 80))
        client = c.client.connect()
        here = accept(front)
        device.submit(here, fe.id["be1"], 7, flags=WANT_IDLE)
        device.expect(DONE, 7)
        served = accept(old)
        with be.inside():
            new, move = listen((VIP4, 80)), Move(50)
        client.sendall(GET)
        assert receive(served, len(GET)) == GET
        served.sendall(ANSWER)
        assert receive(client, len(ANSWER)) == ANSWER
        device.expect(IDLE, 7)
        move.give(TO, new)
        move.give(CONN, served)
        there = accept(new)
        assert served.recv(1) == b""
        served.close()
        device.no_event()
        client.sendall(GET)
        device.expect(BUSY, 7)
        assert receive(there, len(GET)) == GET
        there.sendall(ANSWER)
        assert receive(client, len(ANSWER)) == ANSWER
        device.expect(IDLE, 7)
        there.close()
        assert client.recv(1) == b""
        client.close()
        device.expect(CLOSED, 7)
        wait(lambda: not be.stat("AdoptLive"))
        for thing in (device, front, here, old, new, move):
            thing.close()


@claim
def one_connection_is_in_one_move_only():
    with Pair() as p, Move() as other:
        other.give(TO, p.new)
        p.move.give(CONN, p.served)
        try:
            other.give(CONN, p.served)
            raise AssertionError("two moves have it")
        except OSError as error:
            assert error.errno == errno.EEXIST, error
        p.seen()
        p.client.sendall(GET)
        p.moved().close()


@claim
def what_a_server_has_opened_itself_from_its_port_is_no_client_s():
    """And what it has accepted is one, of each family, also when it has moved before."""
    for address, far in ((("127.0.0.1", 8080), ("127.0.0.1", 9090)), (("::1", 8081), ("::1", 9091)),
                         (("::", 8082), ("127.0.0.1", 9090)), (("::ffff:127.0.0.1", 8083), ("::ffff:127.0.0.1", 9092))):
        with no_resets(), listen(far) as ear, listen(address) as old, listen(address) as new, Move() as move:
            with socket.socket(old.family) as own:
                own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                own.bind((far[0], address[1]) if address[0] != "::" else address)
                own.connect(far if address[0] != "::" else ("::ffff:" + far[0], far[1]))
                with accept(ear) as there:
                    move.give(TO, new)
                    move.give(TO, old)
                    try:
                        move.give(CONN, own)
                        raise AssertionError("taken for a client's: %s" % (address,))
                    except OSError as error:
                        assert error.errno == errno.EADDRNOTAVAIL, error
                    usable(own, there)
        moves_twice(address if address[0] != "::" else ("127.0.0.1", 8082), address)


def moves_twice(client_to, address):
    with no_resets(), listen(address) as first, connect(client_to) as client:
        served = accept(first)
        for _ in range(2):
            with listen(address) as second, Move() as move:
                move.give(TO, second)
                move.give(CONN, served)
                there = accept(second)
                served.close()
                served = there
        usable(served, client)
        served.close()


@claim
def a_listener_is_hidden_by_one_move_at_a_time():
    """Else the first that ends shows it while the other still hides it."""
    with no_resets(), Pair() as p, Move() as other:
        other.give(TO, p.new)
        p.move.give(FROM, p.old)
        for what in (FROM, TO):
            try:
                other.give(what, p.old)
                raise AssertionError("taken")
            except OSError as error:
                assert error.errno == errno.EBUSY, error
        p.move.close()
        p.move = Move()
        other.give(FROM, p.old)
        for _ in range(10):
            with connect(p.address):
                accept(p.new).close()


@claim
def movers_that_race_for_a_listener_hide_it_until_the_last_has_ended():
    times, had = rounds(100, 30), [0, 0]
    with no_resets(), Pair() as p:
        wrong = []

        def mover(number):
            for _ in range(times):
                with Move() as move:
                    move.give(TO, p.new)
                    try:
                        move.give(FROM, p.old)
                    except OSError as error:
                        if error.errno != errno.EBUSY:
                            wrong.append(error)
                        continue
                    had[number] += 1
                    if not hidden(p.old):
                        wrong.append("clients find the old one while a move hides it")
        movers = [threading.Thread(target=mover, args=(number,)) for number in range(2)]
        for thread in movers:
            thread.start()
        for thread in movers:
            thread.join()
        assert not wrong, (wrong[:3], len(wrong))
        print("# hidden by the one %d times, by the other %d times" % tuple(had))
        assert not hidden(p.old), "no client finds it again"


def hidden(listener):
    """Whether the kernel's table of listeners has it."""
    with open("/proc/net/tcp", encoding="ascii") as file:
        return str(os.fstat(listener.fileno()).st_ino) not in {line.split()[9] for line in list(file)[1:]}


@claim
def who_is_in_a_call_on_his_socket_is_not_waited_for():
    with Pair() as p:
        stalled = Stall()
        stalled.lock(p.served)
        begin = time.monotonic()
        try:
            p.move.give(CONN, p.served)
            raise AssertionError("given")
        except OSError as error:
            assert error.errno == errno.EBUSY, error
        assert time.monotonic() - begin < PATIENCE / 3
        stalled.fill()
        wait(lambda: given(p.move, p.served))


def given(move, sock):
    try:
        move.give(CONN, sock)
    except OSError as error:
        assert error.errno == errno.EBUSY, error
        return False
    return True


@claim
def a_listener_without_room_is_asked_less_and_less_often():
    many = 40
    with Pair(answered=0) as p:
        pairs = []
        for _ in range(many):
            client = connect(p.address)
            pairs.append((client, accept(p.old) if select_readable(p.old) else accept(p.new)))
        p.move.give(FROM, p.old)
        p.new.listen(0)                         # one fills its queue
        filler = connect(p.address)
        for _, served in pairs:
            p.move.give(CONN, served)
        wait(lambda: p.move.status()["refused"].get("full", 0) >= many)
        time.sleep(2)                           # by now each waits for a second or nearly
        before, begin = p.move.status()["refused"]["full"], time.monotonic()
        time.sleep(2)
        after, seconds = p.move.status()["refused"]["full"], time.monotonic() - begin
        assert after - before < 3 * seconds * many, (after - before, seconds)
        for sock in [filler] + [sock for pair in pairs for sock in pair]:
            sock.close()
    wait(lambda: not ends_of(8080))             # what is reset is reset now


def ends_of(port):
    return subprocess.run(("ss", "-Htn", "exclude", "time-wait", "sport = :%d or dport = :%d" % (port, port)),
                          stdout=subprocess.PIPE, check=True).stdout


@claim
def a_listener_for_ipv6_alone_does_not_replace_one_for_both():
    with Move() as move, both(0) as old, both(1) as new:
        move.give(TO, new)
        try:
            move.give(FROM, old)
            raise AssertionError("taken")
        except OSError as error:
            assert error.errno == errno.EADDRNOTAVAIL, error
        with connect(("127.0.0.1", 9191)):
            accept(old).close()


def both(only):
    sock = socket.socket(socket.AF_INET6)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
    sock.bind(("::", 9191))
    sock.listen(16)
    sock.settimeout(PATIENCE)
    return sock


@claim
def clients_find_no_old_listener_while_the_move_is_open_nor_later_if_told_so():
    with no_resets(), Pair() as p:
        waits = connect(p.address)              # in one of the two queues
        p.move.give(FROM, p.old)
        clients = [connect(p.address) for _ in range(20)]
        p.new.setblocking(False)
        got = 0
        while got < 20:
            wait(lambda: select_readable(p.new))
            p.new.accept()[0].close()
            got += 1
        p.old.setblocking(False)
        left = 0
        for listener in (p.old, p.new):
            try:
                listener.accept()[0].close()
                left += 1
            except BlockingIOError:
                pass
        assert left == 1, left
        for sock in clients + [waits]:
            sock.close()
        p.move.close()
        p.new.close()
        p.old.settimeout(PATIENCE)
        with connect(p.address):
            accept(p.old).close()
        p.new, p.move = listen(p.address), Move()
        p.move.give(TO, p.new)
        p.move.give(FROM, p.old)
        p.move.keep()
        p.move.close()
        p.move = Move()
        for _ in range(10):
            with connect(p.address):
                accept(p.new).close()
        p.move.give(TO, p.old)                  # back again
        p.move.give(FROM, p.new)
        for _ in range(10):
            with connect(p.address):
                accept(p.old).close()


def select_readable(sock):
    import select
    return bool(select.select([sock], [], [], 0)[0])


@claim
def a_socket_that_is_no_connection_of_the_service_is_refused():
    with Pair() as p, listen(("127.0.0.1", 9090)) as other, socket.socket(socket.AF_UNIX) as unix:
        with connect(("127.0.0.1", 9090)) as client, accept(other) as served:
            for what, sock, code in ((TO, p.new, errno.EEXIST), (TO, served, errno.EOPNOTSUPP),
                                     (TO, unix, errno.EOPNOTSUPP), (FROM, other, errno.EADDRNOTAVAIL),
                                     (FROM, p.new, errno.EEXIST), (CONN, p.new, errno.ENOTCONN),
                                     (CONN, served, errno.EADDRNOTAVAIL), (CONN, client, errno.EADDRNOTAVAIL),
                                     (CONN, unix, errno.EOPNOTSUPP), (CONN, 999, errno.EBADF),
                                     (CONN, p.move.fd, errno.ENOTSOCK)):
                try:
                    p.move.give(what, sock)
                    raise AssertionError((what, sock))
                except OSError as error:
                    assert error.errno == code, (what, sock, error)


@claim
def without_privilege_nothing_is_moved():
    """Root of a user namespace has none here: what it costs is not counted as his."""
    for who in (("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"), ("unshare", "-Urn")):
        tries = "import sys; sys.path[:0] = %r; import move; move.Move()" % sys.path
        ran = subprocess.run([*who, sys.executable, "-c", tries],
                             stderr=subprocess.PIPE, text=True, check=False)
        assert ran.returncode and "PermissionError" in ran.stderr, ran


@claim
def the_module_stays_while_a_move_is_open_and_goes_when_it_is_closed():
    with Pair() as p:
        p.move.give(CONN, p.served)
        assert subprocess.run(("rmmod", "handoff"), stderr=subprocess.DEVNULL, check=False).returncode
        p.move.close()
        subprocess.run(("rmmod", "handoff"), check=True)
        for _ in range(3):
            p.exchange()
        subprocess.run(("modprobe", "handoff"), check=True)
        p.move = Move()
        p.move.give(TO, p.new)
        p.move.give(CONN, p.served)
        p.seen()
        p.client.sendall(GET)
        there = p.moved()
        assert peek(there, len(GET)) == GET
        there.close()


@claim
def a_queue_that_its_reader_empties_is_not_looked_at_without_its_lock():
    """In a network of its own: SO_RCVLOWAT keeps TCP from telling of each packet."""
    ran = subprocess.run(["unshare", "-n", "bash", "-c", "ip link set lo up && exec %s %d" % (RACE, rounds(25, 60))],
                         stdout=subprocess.PIPE, text=True, check=False)
    assert ran.returncode == 0, ran
    print("# " + ran.stdout.strip())
    assert int(ran.stdout.split()[0]) > 20, "too few moves were tried to say anything: " + ran.stdout


@claim
def moves_back_and_forth_lose_no_byte():
    with no_resets(), Pair(answered=0) as p:
        here, sides = p.served, [p.old, p.new]
        p.move.close()
        for n in range(rounds(50, 10)):
            word = GET + b"%d" % n
            with Move(idle_ms=0 if n % 3 else 10) as move:
                move.give(TO, sides[(n + 1) % 2])
                move.give(CONN, here)
                if n % 3:
                    p.client.sendall(GET)
                    wait(lambda: move.status()["refused"])
                    assert receive(here, len(GET)) == GET
                    p.answered(here)
                    p.client.sendall(word)
                    there = accept(sides[(n + 1) % 2])
                else:
                    there = accept(sides[(n + 1) % 2])
                    p.client.sendall(word)
                assert here.recv(1) == b""
                here.close()
                here = there
                assert receive(here, len(word)) == word
                here.sendall(word[::-1])
                assert receive(p.client, len(word)) == word[::-1]
        here.close()
        p.move = Move()


if __name__ == "__main__":
    loopback_up()
    main()
