#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 400
# cpus: 2
"""Clients and programs that mean no good: who holds what, for how long, and that the module goes."""
import contextlib
import ctypes
import errno
import os
import random
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
from afpa import (THREAD, Client, Device, Server, Thread, body, claim, counted, equal, fails, load, main,  # noqa: E402
                  reset, same, site, unload, wait_for, wire)
import kit                                      # noqa: E402
import stall                                    # noqa: E402
from cgroup import Cgroup                       # noqa: E402

IPPROTO_MPTCP = 262
TCP_MD5SIG = 14
MD5SIG_SIZE = 216
SEED = 17
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p


def soon(what, function, *args, most=60 * kit.SLOW):
    """Its value; it must not take long."""
    begin = time.monotonic()
    value = function(*args)
    if time.monotonic() - begin > most:
        raise AssertionError(f"{what} took {time.monotonic() - begin:.1f} s")
    return value


@claim
def a_listener_whose_lock_is_kept_holds_up_nobody():
    with Device() as device, contextlib.closing(Server()) as server, socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(server.site)
        other.listen()
        page = stall.Stall()
        # The number that each option begins with is read first, so it lies in a page before; the
        # rest is read with the socket locked. What it says does not matter.
        if libc.mmap(ctypes.c_void_p(page.page - 4096), 4096, 3, 0x100022, -1, 0) in (None, 2**64 - 1):
            raise AssertionError("no page before")
        held = Thread(libc.setsockopt, server.listener.fileno(), socket.IPPROTO_TCP, TCP_MD5SIG,
                      ctypes.c_void_p(page.page - 100), MD5SIG_SIZE)
        page.wait()
        equal("listeners, refused, errno", soon("site add", device.site_add, server.site), (1, 1, errno.EBUSY))
        soon("site del", device.site_del, server.site)
        soon("site add", device.site_add, server.site)
        page.fill()
        held.join()
        wait_for("the other listener", lambda: device.next_site(0)["listeners"] == 2)
        device.site_del(server.site)


@claim
def a_listener_that_takes_no_layer_hides_no_other():
    with Device() as device, contextlib.closing(Server()) as server:
        try:
            strange = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
        except OSError as err:
            raise kit.Skip("no MPTCP") from err
        with strange:
            strange.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            strange.bind(server.site)
            strange.listen()
            equal("listeners, refused, errno", device.site_add(server.site), (1, 1, errno.EOPNOTSUPP))
        server.pass_one()
        device.put(server.site, "/a", b"kernel")
        with Client(server.site) as client:
            equal("body", client.get("/a"), b"kernel")
        device.site_del(server.site)


@claim
def a_client_that_takes_nothing_is_reset():
    with site() as (device, server):
        device.info(stall_ms=2000)
        device.put(server.site, "/big", body(1000000))
        device.put(server.site, "/small", body(1000))
        with counted(ResetStalled=3):
            stuck = [server.client(rcvbuf=4096) for _ in range(2)]
            for client in stuck:
                client.ask("/big")
            # Nothing is owed by the kernel's engine here, only by TCP.
            many = server.client(rcvbuf=4096)
            many.sock.sendall(wire("/small") * 20)
            with Client(server.site, rcvbuf=20000) as slow:
                slow.ask("/big")
                end, got = time.monotonic() + 6, 0
                while time.monotonic() < end:
                    got += len(slow.sock.recv(20000))
                    time.sleep(0.2)
            wait_for("resets", lambda: all(is_reset(client.sock) for client in [*stuck, many]))
            if got < 100000:
                raise AssertionError(f"the slow one got {got} bytes")
        device.info(stall_ms=30000)


def is_reset(sock):
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) or \
        sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) == b"\x07"


@claim
def a_site_goes_in_the_midst_of_answers_and_so_does_the_module():
    for mode in (1, THREAD):
        with site() as (device, server):
            device.info(mode=mode)
            device.put(server.site, "/big", body(1000000))
            clients = [server.client(rcvbuf=4096) for _ in range(10)]
            for client in clients[:5]:
                client.ask("/big")
                wait_for("the answer", lambda: client.sock.recv(1, socket.MSG_PEEK))
            for client in clients[5:]:
                client.sock.sendall(b"GET /big HTTP/1.1\r\n")
            wait_for("connections", lambda: device.next_site(0)["conns"] == 10)
            equal("rmmod", soon("rmmod", unload, "afpa"), False)
            with counted(ResetSite=5):
                soon("site del", device.site_del, server.site)
            for client in clients[:5]:
                wait_for("reset", lambda: is_reset(client.sock))
            for client in clients[5:]:
                client.sock.sendall(b"Host: h\r\n\r\n")
                equal("by the server", client.answer()[1], b"server /big")
            device.site_add(server.site)
        wait_for("rmmod", lambda: unload("afpa"))
        load("afpa")


@claim
def half_requests_are_the_servers_when_the_module_goes():
    with contextlib.ExitStack() as stack:
        with site(accept=True) as (device, server):
            device.put(server.site, "/a", b"kernel")
            client = stack.enter_context(server.client())
            equal("body", client.get("/a"), b"kernel")
            client.sock.sendall(b"GET /a HTTP/1.1\r\nHost: h\r\n")
            wait_for("the connection", lambda: device.next_site(0)["conns"])
            os.close(device.fd)
            soon("rmmod", wait_for, "rmmod", lambda: unload("afpa"))
            client.sock.sendall(b"\r\n")
            equal("by the server", client.answer()[1], b"server /a")
            load("afpa")
            device.fd = os.open("/dev/afpa", os.O_RDWR)
            device.site_add(server.site)


@claim
def a_close_amid_an_answer_queues_no_more_than_a_program_could():
    with open("/proc/sys/net/ipv4/tcp_wmem", encoding="ascii") as file:
        most = int(file.read().split()[2])
    with site(accept=False) as (device, server), Client(server.site, rcvbuf=20000) as client:
        device.put(server.site, "/big", body(2 * most))
        sock = server.listener.accept()[0]
        client.ask("/big")
        wait_for("the answer", lambda: client.sock.recv(1, socket.MSG_PEEK))
        with counted(Flushed=0):
            fails(errno.EPIPE, sock.send, b"more")
            sock.close()
        wait_for("reset", lambda: is_reset(client.sock))


def storm(target, stop, seed):
    """A client of all sorts: keeps, leaves, resets, pipelines, reads late."""
    rnd, asked = random.Random(seed), 0
    while not stop.is_set():
        try:
            with Client(target, rcvbuf=rnd.choice((0, 4096))) as client:
                for _ in range(rnd.randrange(1, 6)):
                    paths = [rnd.choice(("/a", "/big", "/miss")) for _ in range(rnd.randrange(1, 4))]
                    client.sock.sendall(b"".join(map(wire, paths)))
                    asked += len(paths)
                    if rnd.random() < 0.2:
                        reset(client.sock)
                        break
                    for path in paths:
                        data = client.answer()[1]
                        if data not in (b"server " + path.encode(), BODIES.get(path)):
                            raise AssertionError(f"{path}: {data[:40]!r}, {len(data)} bytes")
        except (OSError, EOFError):
            pass
    return asked


BODIES = {"/a": b"kernel", "/big": body(200000)}


@claim
def under_load_sites_and_the_module_come_and_go():
    print(f"# seed {SEED}")
    with contextlib.closing(Server()) as server:
        stop = threading.Event()
        clients = [Thread(storm, server.site, stop, SEED + n) for n in range(4)]
        rnd, end, unloads = random.Random(SEED), time.monotonic() + 40, 0
        while time.monotonic() < end:
            with Device() as device:
                device.site_add(server.site)
                for path, data in BODIES.items():
                    device.put(server.site, path, data)
                device.info(mode=rnd.choice((1, THREAD)))
                time.sleep(rnd.random())
                if rnd.random() < 0.7:
                    soon("site del", device.site_del, server.site)
            if soon("rmmod", unload, "afpa"):
                unloads += 1
                load("afpa")
        stop.set()
        asked = sum(client.join() for client in clients)
        print(f"# {asked} requests, {unloads} unloads")
        if not unloads or asked < 50:
            raise AssertionError("too few")
        with Device() as device, contextlib.suppress(FileNotFoundError):
            device.site_del(server.site)


TRACING = "/sys/kernel/tracing"


def trace(name, text):
    # The list of probes can neither be truncated, which empties it, nor sought in.
    fd = os.open(f"{TRACING}/{name}", os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


@contextlib.contextmanager
def stacks_of(function, found):
    """FOUND gets who called FUNCTION, each a tuple of names, the innermost first."""
    if not os.path.exists(f"{TRACING}/kprobe_events"):
        subprocess.run(("mount", "-t", "tracefs", "tracefs", TRACING), check=True)
    own = f"instances/afpa{os.getpid()}"
    os.mkdir(f"{TRACING}/{own}")
    trace("kprobe_events", f"p:afpaprobe/sends {function}")
    trace(f"{own}/options/stacktrace", "1")
    trace(f"{own}/events/afpaprobe/sends/enable", "1")
    try:
        yield
        with open(f"{TRACING}/{own}/trace", encoding="ascii", errors="replace") as file:
            for stack in file.read().split("<stack trace>")[1:]:
                found.add(tuple(line.split()[1].split("+")[0] for line in stack.splitlines() if line.startswith(" =>")))
    finally:
        trace(f"{own}/events/afpaprobe/sends/enable", "0")
        trace("kprobe_events", "-:afpaprobe/sends")
        os.rmdir(f"{TRACING}/{own}")


@claim
def nothing_is_sent_from_within_tcps_own_sending():
    found = set()
    with site() as (device, server), stacks_of("afpa_answer_send", found):
        data = body(1000000)
        device.put(server.site, "/big", data)
        for mode in (1, THREAD):
            device.info(mode=mode)
            for rcvbuf in (4096, 20000, 0):
                with server.client(rcvbuf=rcvbuf) as client:
                    client.ask("/big")
                    client.ask("/big")
                    same("body", client.answer()[1], data)
                    same("body", client.answer()[1], data)
                with server.client(rcvbuf=20000) as client:
                    client.ask("/big")
                    wait_for("the answer", lambda c=client: c.sock.recv(1, socket.MSG_PEEK))
                    server.socks[-1].shutdown(socket.SHUT_WR)
                    same("body", client.answer()[1], data)
    ways = set()
    for stack in found:
        # What a softirq has interrupted is no caller.
        end = next((n for n, name in enumerate(stack) if "do_softirq" in name or "handle_softirqs" in name), len(stack))
        inside = {"tcp_write_xmit", "__tcp_transmit_skb", "tcp_check_space", "tcp_event_new_data_sent"} & {*stack[:end]}
        if inside:
            raise AssertionError(f"sent from {stack[:end]}")
        ways |= {"afpa_data_ready", "afpa_queue_work", "afpa_conn_flush"} & {*stack[:end]}
    print(f"# {len(found)} ways")
    equal("ways", ways, {"afpa_data_ready", "afpa_queue_work", "afpa_conn_flush"})


@claim
def a_cgroup_pays_for_what_it_puts_and_nobody_is_killed():
    with Cgroup("memory") as group, site() as (device, server):
        group.write("memory.max", "40M")
        with group.member():
            before = group.number("memory.current")
            device.put(server.site, "/a", body(4 << 20))
            charged = group.number("memory.current") - before
            if charged < 3 << 20:
                raise AssertionError(f"{charged} bytes were charged for 4 MB")
            for number in range(30):
                with contextlib.suppress(OSError):
                    device.put(server.site, f"/{number}", body(4 << 20))
        equal("killed", group.numbers("memory.events")["oom_kill"], 0)
        with Client(server.site) as client:
            same("the last one", client.get("/29"), body(4 << 20))


@claim
def a_put_that_finds_no_memory_leaves_what_was_there():
    with Cgroup("memory") as group, site() as (device, server):
        put, update = (device.putting(server.site, "/a", body(14 << 20), update=flag) for flag in (False, True))
        group.write("memory.max", "24M")
        with group.member():
            before = put()
            fails(errno.ENOMEM, update)
        equal("version", device.query(server.site, "/a")["version"], before)


@claim
def without_memory_for_tcp_answers_wait_and_go_on():
    name = "/proc/sys/net/ipv4/tcp_mem"
    with open(name, encoding="ascii") as file:
        before = file.read()
    with site() as (device, server):
        data = body(500000)
        device.put(server.site, "/a", data)
        try:
            clients = [Client(server.site, rcvbuf=30000) for _ in range(6)]
            with open(name, "w", encoding="ascii") as file:
                file.write("1 1 1")
            for client in clients:
                client.ask("/a")
            time.sleep(2)
            # Who leaves now takes nothing along.
            for client in clients[:3]:
                reset(client.sock)
        finally:
            with open(name, "w", encoding="ascii") as file:
                file.write(before)
        for client in clients[3:]:
            same("body", client.answer()[1], data)
            client.close()
        wait_for("connections gone", lambda: not device.next_site(0)["conns"])
        wait_for("no answer under way", lambda: subprocess.run(
            ["cat", "/sys/module/afpa/refcnt"], capture_output=True, check=True).stdout == b"1\n")


main()
