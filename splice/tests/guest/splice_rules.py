#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 180
# cpus: 2
"""What is refused, what is permitted meanwhile, who learns of the end, and what an end leaves."""
import errno
import os
import select
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
from ssp import (ACTIVE, AUTORELEASE, BIDIR, DONE, Device, IDLE, KEEPCOPY, LIMIT, PATIENCE,  # noqa: E402
                 Proxy, Thread, body, claim, close_device, connection, device, equal,
                 events, fails, listener, main, recv_exactly, refs, reset, same, unload,
                 wait_event, wait_for)

ABORTS = int(os.environ.get("FLT_ABORTS", 200))


def no_wait(sock):
    sock.setblocking(False)
    return sock


@claim
def all_twelve_cells_of_what_is_permitted():
    for flags, allowed in ((BIDIR, ""), (0, "wr"), (KEEPCOPY, "cwr")):
        with Proxy() as p:
            device().splice(p.src, p.dst, flags=flags)
            for sock, reading, writing in ((p.src, "c", "w"), (p.dst, "r", "")):
                no_wait(sock)
                fails(errno.EAGAIN if reading in allowed and reading else errno.EBUSY,
                      sock.recv, 10)
                if writing and writing in allowed:
                    equal("sent", sock.send(b"request"), 7)
                    equal("request", recv_exactly(p.server, 7), b"request")
                else:
                    fails(errno.EBUSY, sock.send, b"no")
            device().unsplice(p.src, p.dst)
            p.src.settimeout(PATIENCE)
            p.dst.settimeout(PATIENCE)
            p.still_ordinary()


@claim
def splice_sendfile_and_shutdown_are_no_way_around():
    with Proxy() as p:
        device().splice(p.src, p.dst)
        into, out = os.pipe()
        try:
            fails(errno.EBUSY, os.splice, p.src.fileno(), out, 100)
            os.write(out, b"x")
            fails(errno.EBUSY, os.splice, into, p.dst.fileno(), 1)
        finally:
            os.close(into)
            os.close(out)
        fails(errno.EBUSY, p.dst.shutdown, socket.SHUT_WR)
        fails(errno.EBUSY, p.src.shutdown, socket.SHUT_RD)
        device().unsplice(p.src, p.dst)
        p.still_ordinary()


@claim
def bad_requests_are_refused_and_change_nothing():
    with Proxy() as p, Proxy() as q:
        for flags in (1 << 9, 1 << 31, 16):
            fails(errno.EOPNOTSUPP, device().splice, p.src, p.dst, flags=flags)
        for flags in (BIDIR | LIMIT, BIDIR | KEEPCOPY):
            fails(errno.EINVAL, device().splice, p.src, p.dst, flags=flags)
        fails(errno.EINVAL, device().splice, p.src, p.src)
        fails(errno.EINVAL, device().splice, p.src, p.dst, min2read=1)
        fails(errno.EINVAL, device().splice, p.src, p.dst, flags=KEEPCOPY, min2read=10, max2cache=9)
        fails(errno.EBADF, device().splice, 999, p.dst)
        fails(errno.EBADF, device().splice, p.src, 999)
        fails(errno.ENOTSOCK, device().splice, p.src, device().fd)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            fails(errno.EOPNOTSUPP, device().splice, p.src, udp)
        with listener() as ear:
            fails(errno.ENOTCONN, device().splice, p.src, ear)
            fails(errno.ENOTCONN, device().splice, ear, p.dst)
        with socket.socket() as fresh:
            fails(errno.ENOTCONN, device().splice, p.src, fresh)
        device().splice(p.src, p.dst, limit=10)
        for pair in ((p.src, q.dst), (q.src, p.dst), (p.dst, p.src), (q.src, p.src)):
            fails(errno.EBUSY, device().splice, *pair)
        fails(errno.ENOENT, device().unsplice, p.src, q.dst)
        fails(errno.ENOENT, device().unsplice, q.src, q.dst)
        equal("none yet", device().result(q.src).status, IDLE)
        p.server.sendall(b"0123456789")
        equal("still works", recv_exactly(p.client, 10), b"0123456789")
        wait_event(p.dst, select.POLLOUT)
        equal("DONE without AUTORELEASE", device().result(p.src).status, DONE)
        fails(errno.EBUSY, device().splice, p.src, p.dst)
        p.still_ordinary()
        equal("moved", device().unsplice(p.src, p.dst).moved01, 10)
        fails(errno.ENOENT, device().unsplice, p.src, p.dst)
        equal("kept", device().result(p.dst).moved01, 10)
        q.still_ordinary()


@claim
def data_that_does_not_fit_is_not_spliced_but_counted():
    with Proxy(sndbuf=4096) as p:
        data = body(3 << 20)
        error = fails(errno.EAGAIN, device().splice, p.src, p.dst, limit=5, data=data)
        done = error.answer.data_done
        if not 0 < done < len(data):
            raise AssertionError(f"data_done {done}")
        same("accepted", recv_exactly(p.client, done), data[:done])
        p.still_ordinary()
        fails(errno.ENOENT, device().unsplice, p.src, p.dst)


@claim
def a_transfer_that_is_taken_back_goes_on_at_user_level():
    with Proxy() as p:
        sent = body(600000)
        device().splice(p.src, p.dst, limit=len(sent))
        sender = Thread(p.server.sendall, sent)
        got = recv_exactly(p.client, 100000)
        result = device().unsplice(p.src, p.dst)
        equal("cause", result.cause, "unspliced" if result.moved01 < len(sent) else "limit")
        if result.moved01 < 100000:
            raise AssertionError(repr(result))
        rest = recv_exactly(p.src, len(sent) - result.moved01)
        sender.join()
        reader = Thread(recv_exactly, p.client, len(sent) - 100000)
        p.dst.sendall(rest)
        same("all", got + reader.join(), sent)
        p.still_ordinary()


@claim
def writability_tells_the_end_to_select_poll_and_epoll():
    with Proxy() as p, select.epoll() as level, select.epoll() as edge:
        level.register(p.dst, select.EPOLLOUT)
        edge.register(p.dst, select.EPOLLOUT | select.EPOLLIN | select.EPOLLET)
        equal("first edge", len(edge.poll(0)), 1)
        device().splice(p.src, p.dst, limit=300000, flags=AUTORELEASE)
        equal("source", events(p.src), "O")
        sent = body(300000)
        p.server.sendall(sent[:150000])
        recv_exactly(p.client, 150000)
        equal("destination", events(p.dst), "")
        equal("level", level.poll(0), [])
        equal("edge", edge.poll(0), [])
        equal("select", select.select([], [p.dst], [], 0)[1], [])
        equal("source", events(p.src), "O")
        p.server.sendall(sent[150000:])
        equal("edge at the end", edge.poll(90)[0][1] & select.EPOLLOUT, select.EPOLLOUT)
        equal("level at the end", level.poll(90)[0][1], select.EPOLLOUT)
        equal("select at the end", select.select([], [p.dst], [], 90)[1], [p.dst])
        same("rest", recv_exactly(p.client, 150000), sent[150000:])


@claim
def each_transfer_is_told_of_though_its_sockets_were_looked_at_before():
    sent = body(2000)
    with Proxy() as p:
        for _ in range(5):
            # A look at a socket without a transfer has poll() pass us by until the next one.
            for _ in range(3):
                equal("before", (events(p.src), events(p.dst)), ("O", "O"))
            device().splice(p.src, p.dst, limit=len(sent), flags=AUTORELEASE)
            p.server.sendall(sent[:1000])
            same("one half", recv_exactly(p.client, 1000), sent[:1000])
            equal("under way", (events(p.src), events(p.dst)), ("O", ""))
            p.server.sendall(sent[1000:])
            same("the other half", recv_exactly(p.client, 1000), sent[1000:])
            wait_event(p.dst, select.POLLOUT)


@claim
def an_abort_of_the_client_is_an_error_of_the_destination():
    with Proxy() as p:
        device().splice(p.src, p.dst, limit=1 << 20, flags=AUTORELEASE)
        p.server.sendall(b"x" * 1000)
        recv_exactly(p.client, 1000)
        reset(p.client)
        wait_event(p.dst, 0)
        wait_for("end", lambda: device().result(p.src).status == DONE)
        result = device().result(p.src)
        equal("result", (result.cause, result.error, result.moved01),
              ("sink", errno.ECONNRESET, 1000))
        p.server.sendall(b"rest")
        equal("source", recv_exactly(p.src, 4), b"rest")


@claim
def an_abort_of_the_server_is_told_with_the_count():
    with Proxy() as p:
        device().splice(p.src, p.dst, limit=1 << 20, flags=AUTORELEASE)
        p.server.sendall(b"x" * 1000)
        recv_exactly(p.client, 1000)
        reset(p.server)
        got = wait_event(p.dst, select.POLLOUT)
        if not got & select.POLLERR:
            raise AssertionError("no error on the destination")
        result = device().result(p.dst)
        equal("result", (result.cause, result.error, result.moved01),
              ("source", errno.ECONNRESET, 1000))
        equal("SO_ERROR", p.dst.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), errno.ECONNRESET)
        p.dst.sendall(b"sorry")
        equal("client", recv_exactly(p.client, 5), b"sorry")


@claim
def the_end_is_never_seen_before_its_error():
    """By one who asks again and again, on another processor than the reset comes in on."""
    for turn in range(ABORTS):
        with Proxy() as p:
            device().splice(p.src, p.dst, limit=1 << 20, flags=AUTORELEASE)
            poll = select.poll()
            poll.register(p.dst, select.POLLOUT)
            aborting = Thread(reset, p.server)
            end, got = time.monotonic() + PATIENCE, []
            while not got and time.monotonic() < end:
                got = poll.poll(0)
            aborting.join()
            if not got or not got[0][1] & select.POLLERR:
                raise AssertionError(f"abort {turn}: {got}")


@claim
def an_early_end_is_told_from_a_limit():
    with Proxy() as p:
        device().splice(p.src, p.dst, limit=5000, flags=AUTORELEASE)
        p.server.sendall(b"x" * 1000)
        p.server.close()
        recv_exactly(p.client, 1000)
        wait_event(p.dst, select.POLLOUT)
        result = device().result(p.dst)
        equal("result", (result.cause, result.moved01), ("eof", 1000))


@claim
def urgent_data_ends_the_transfer():
    with Proxy() as p:
        device().splice(p.src, p.dst, limit=5000, flags=AUTORELEASE)
        p.server.sendall(b"x" * 1000)
        recv_exactly(p.client, 1000)
        p.server.send(b"!", socket.MSG_OOB)
        wait_event(p.dst, select.POLLOUT)
        equal("cause", device().result(p.src).cause, "urgent")
        # Python's own wait is for POLLIN, which urgent data does not set.
        equal("urgent", no_wait(p.src).recv(1, socket.MSG_OOB), b"!")
        p.src.settimeout(PATIENCE)
        p.server.sendall(b"on")
        equal("goes on", recv_exactly(p.src, 2), b"on")


@claim
def closing_a_descriptor_ends_it():
    for which in ("src", "dst"):
        for flags in (0, AUTORELEASE, BIDIR, KEEPCOPY):
            if flags == KEEPCOPY and which == "dst":
                continue
            with Proxy() as p:
                device().splice(p.src, p.dst, flags=flags)
                p.server.sendall(b"hello")
                equal("hello", recv_exactly(p.client, 5), b"hello")
                getattr(p, which).close()
                left, far = (p.dst, p.client) if which == "src" else (p.src, p.server)
                equal("cause", device().result(left).cause, "closed")
                left.sendall(b"alive")
                equal("alive", recv_exactly(far, 5), b"alive")
                # What the source has received and nobody read makes its close a reset.
                try:
                    equal("FIN", (p.server if which == "src" else p.client).recv(1), b"")
                except ConnectionResetError:
                    pass


@claim
def a_killed_proxy_leaves_nothing():
    with Proxy() as p:
        pid = os.fork()
        if not pid:
            mine = Device()
            mine.splice(p.src, p.dst, flags=KEEPCOPY)
            os.kill(os.getpid(), signal.SIGSTOP)
            os._exit(1)
        os.waitpid(pid, os.WUNTRACED)
        p.src.close()
        p.dst.close()
        p.server.sendall(b"x" * 5000)
        recv_exactly(p.client, 5000)
        equal("under way", device().info()["active"], 1)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        wait_for("end", lambda: device().info()["active"] == 0)
        try:
            equal("client", p.client.recv(1), b"")
        except ConnectionResetError:
            pass


@claim
def the_module_stays_while_a_transfer_is_under_way():
    with Proxy() as p:
        device().splice(p.src, p.dst, limit=10, flags=AUTORELEASE)
        close_device()
        equal("rmmod", unload(), False)
        p.server.sendall(b"0123456789")
        equal("goes on", recv_exactly(p.client, 10), b"0123456789")
        wait_event(p.dst, select.POLLOUT)
        wait_for("references", lambda: refs() == 0)


@claim
def the_switch_refuses_new_transfers_only():
    with Proxy() as p:
        device().splice(p.src, p.dst, limit=4, flags=AUTORELEASE)
        name = "/sys/module/sksplice/parameters/enabled"
        with open(name, "w", encoding="ascii") as f:
            f.write("N")
        try:
            far, near = connection()
            fails(errno.EOPNOTSUPP, device().splice, near, p.dst)
            far.close()
            near.close()
            p.server.sendall(b"1234")
            equal("goes on", recv_exactly(p.client, 4), b"1234")
        finally:
            with open(name, "w", encoding="ascii") as f:
                f.write("Y")


@claim
def the_lowest_mark_of_the_source_does_not_hold_back_the_tail():
    with Proxy() as p:
        p.src.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1000)
        equal("status", device().splice(p.src, p.dst, limit=10, flags=AUTORELEASE).status, ACTIVE)
        p.src.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 2000)
        p.server.sendall(b"0123456789")
        equal("tail", recv_exactly(p.client, 10), b"0123456789")
        wait_event(p.dst, select.POLLOUT)
        equal("put back", p.src.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT), 2000)


@claim
def nothing_is_left_under_way():
    wait_for("transfers", lambda: device().info()["active"] == 0)
    close_device()


if __name__ == "__main__":
    main()
