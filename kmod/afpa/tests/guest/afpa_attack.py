#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 400
# long: debug it takes minutes there
# cpus: 2
"""Clients and programs that mean no good: who holds what, for how long, and that the module goes."""
import contextlib
import ctypes
import errno
import itertools
import os
import random
import select
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
from afpa import (THREAD, Client, Device, Kept, Server, Thread, body, claim, counted, equal, fails, kept,  # noqa: E402
                  load, main, reset, same, site, sleeps_in, unload, wait_for, wire)
import kit                                      # noqa: E402
import ssp                                      # noqa: E402
import traced                                   # noqa: E402
from cgroup import Cgroup                       # noqa: E402

IPPROTO_MPTCP = 262
IP_RECVERR = 11
ETH_P_IP = 0x800
RECVFROM, SETSOCKOPT, POLL = 45, 54, 7
# Objects that the cache looks at under its lock, listeners that get the layer in one look.
STEPS, LOOK = 256, 128
SEED = 17
# A connection has more than this of the layer, and of afpa: bytes.
LAYER, CONNECTION = 200, 300
libc = ctypes.CDLL(None)


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
        with kept(server.listener):
            equal("listeners, refused, errno", soon("site add", device.site_add, server.site), (1, 1, errno.EBUSY))
            soon("site del", device.site_del, server.site)
            soon("site add", device.site_add, server.site)
        wait_for("the other listener", lambda: device.next_site(0)["listeners"] == 2)
        device.site_del(server.site)


def strange_listener(site):
    """One of MPTCP beside the server's own."""
    try:
        strange = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
    except OSError as err:
        raise kit.Skip("no MPTCP") from err
    strange.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    strange.bind(site)
    strange.listen()
    return strange


@claim
def a_listener_that_takes_no_layer_hides_no_other():
    with Device() as device, contextlib.closing(Server()) as server:
        with strange_listener(server.site):
            equal("listeners, refused, errno", device.site_add(server.site), (1, 1, errno.EOPNOTSUPP))
        server.pass_one()
        device.put(server.site, "/a", b"kernel")
        with Client(server.site) as client:
            equal("body", client.get("/a"), b"kernel")
        device.site_del(server.site)


@claim
def a_client_that_takes_nothing_is_reset():
    stall_s = 4 * kit.SLOW      # long beside what this machine may keep the slow one from reading
    with site() as (device, server):
        device.info(stall_ms=1000 * stall_s)
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
                end, got = time.monotonic() + 2.5 * stall_s, 0
                while time.monotonic() < end:
                    got += len(slow.sock.recv(20000))
                    time.sleep(stall_s / 10)        # half of it until the end
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
        # On a machine that is slow until it has gone once at least.
        while time.monotonic() < end or not unloads and time.monotonic() < end + kit.PATIENCE:
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


@claim
def nothing_is_sent_from_within_tcps_own_sending():
    found = set()
    with site() as (device, server), traced.stacks_of("afpa_answer_send", found):
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


def locked():
    return ssp.counters("Afpa")["AfpaLocked"]


@claim
def a_request_that_came_while_the_lock_was_kept_is_answered():
    with site(accept=False) as (device, server), Client(server.site) as client:
        device.info(mode=THREAD)
        device.put(server.site, "/a", b"kernel")
        client.sock.settimeout(15 * kit.SLOW)
        with server.listener.accept()[0] as sock, counted(Locked=lambda n: n):
            for _ in range(20):
                before = locked()
                first = Kept(sock).wait()
                # It is looked at when the lock is given back, and the work item finds it another's again.
                client.ask("/a")
                second = Kept(sock)
                wait_for("another in setsockopt(2)", lambda t=second.thread: sleeps_in(t, SETSOCKOPT))
                first.end()
                second.wait()
                wait_for("it to give up", lambda n=before: locked() > n or select.select([client.sock], [], [], 0)[0])
                missed = locked() > before
                second.end()
                equal("body", client.answer()[1], b"kernel")
                if missed:
                    break


@claim
def who_keeps_the_lock_is_not_called_when_the_module_goes():
    found, half = set(), b"GET /a HTTP/1.1\r\nHost: h\r\n"
    with site(accept=False) as (device, server), Client(server.site) as client:
        device.put(server.site, "/a", b"kernel")
        with server.listener.accept()[0] as sock:
            equal("body", client.get("/a"), b"kernel")
            waiting = Thread(ssp.wait_event, sock, select.POLLIN)
            wait_for("poll(2)", lambda: sleeps_in(waiting, POLL))
            client.sock.sendall(half)
            os.close(device.fd)
            with kept(sock), traced.stacks_of("sock_def_readable", found):
                soon("rmmod", wait_for, "rmmod", lambda: unload("afpa"))
                equal("whoever waits is woken", waiting.join(), select.POLLIN)
            client.sock.sendall(b"\r\n")
            same("what the server read", sock.recv(1000), half + b"\r\n")
        load("afpa")
        device.fd = os.open("/dev/afpa", os.O_RDWR)
        device.site_add(server.site)
    called = [stack for stack in found if any("delete_module" in name for name in stack) and
              not any("netlink" in name or "unix" in name or "softirq" in name for name in stack)]
    equal("calls without the lock", called, [])


def acknowledged(client, server_port):
    """What the client has acknowledged, as a number of its last packet: it answers probes of a full window."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IP)) as tap:
        tap.settimeout(kit.PATIENCE)
        tap.bind(("lo", ETH_P_IP))
        ports = struct.pack(">HH", client.sock.getsockname()[1], server_port)
        while True:
            packet = tap.recv(100)
            if packet[9] == socket.IPPROTO_TCP and packet[20:24] == ports:
                return packet[28:32]


@claim
def an_error_of_the_network_amid_an_answer_is_its_programs():
    with site(accept=False) as (device, server), Client(server.site, rcvbuf=20000) as client, \
            socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as icmp:
        device.put(server.site, "/big", body(1000000))
        with server.listener.accept()[0] as sock:
            sock.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
            client.ask("/big")
            wait_for("the answer", lambda: client.sock.recv(1, socket.MSG_PEEK))
            here = socket.inet_aton("127.0.0.1")
            sent = struct.pack(">BBHHHBBH4s4sHH", 0x45, 0, 60, 1, 0, 64, socket.IPPROTO_TCP, 0, here, here,
                               server.site[1], client.sock.getsockname()[1])
            sent += acknowledged(client, server.site[1])
            # "Host unreachable", of what was not acknowledged.
            message = struct.pack(">BBHI", 3, 1, 0, 0) + sent
            total = sum(struct.unpack(f">{len(message) // 2}H", message))
            while total >> 16:
                total = (total & 0xFFFF) + (total >> 16)
            icmp.sendto(message[:2] + struct.pack(">H", ~total & 0xFFFF) + message[4:], ("127.0.0.1", 0))
            client.sock.settimeout(1)
            with contextlib.suppress(TimeoutError):
                while client.sock.recv(65536):
                    pass
            wait_for("the end of the answer", lambda: not device.next_site(0)["conns"])
            equal("SO_ERROR", sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), errno.EHOSTUNREACH)


@claim
def bytes_that_cannot_be_read_are_the_programs():
    with site(accept=False) as (device, server), Client(server.site) as client:
        device.put(server.site, "/a", b"kernel")
        with server.listener.accept()[0] as sock:
            equal("body", client.get("/a"), b"kernel")
            reader = Thread(sock.recv, 1000)
            wait_for("recv(2)", lambda: sleeps_in(reader, RECVFROM))
            subprocess.run(("insmod", f"{os.environ['FLT_MODULES']}/flt_unread_test.ko", f"port={server.site[1]}"),
                           check=True)
            try:
                client.ask("/a")
                fails(errno.EFAULT, reader.join)
            finally:
                subprocess.run(("rmmod", "flt_unread_test"), check=True)


@claim
def the_cache_does_not_keep_its_lock_for_all_objects():
    with site() as (device, server), contextlib.ExitStack() as stack:
        before = device.info()["budget"]
        stack.callback(lambda: device.info(budget=before))
        for number in range(2 * STEPS + 100):
            device.put(server.site, f"/{number}", b"x")
        with traced.calls(("afpa_object_put", "__cond_resched_lock")) as seen:
            device.info(budget=0)
            names = [call[0] for call in seen()]
    runs = [len(list(run)) for name, run in itertools.groupby(names) if name == "afpa_object_put"]
    equal("objects", sum(runs), 2 * STEPS + 100)
    if max(runs) > STEPS:
        raise AssertionError(f"{runs} objects with the lock kept")


@claim
def one_look_finds_so_many_listeners_and_the_next_ones_the_others():
    with Device() as device, contextlib.closing(Server()) as server, contextlib.ExitStack() as stack:
        for _ in range(LOOK + 11):
            listener = stack.enter_context(socket.socket())
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.bind(server.site)
            listener.listen()
        equal("listeners, refused, errno", device.site_add(server.site), (LOOK, 0, 0))
        wait_for("the others", lambda: device.next_site(0)["listeners"] == LOOK + 12)
        device.site_del(server.site)


@claim
def a_listener_that_takes_no_layer_is_not_waited_for():
    with site() as (device, server):
        with strange_listener(server.site):
            with traced.calls(("synchronize_rcu", "afpa_site_scan"), stacks=True) as seen:
                wait_for("looks", lambda: [call[0] for call in seen()].count("afpa_site_scan") > 3)
                waits = [stack for name, _, stack in seen() if name == "synchronize_rcu" and "afpa_site_scan" in stack]
    equal("grace periods", waits, [])


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
def a_cgroup_pays_for_its_connections():
    """What the kernel has of one since its handshake, and what it has since its first bytes."""
    number, pairs = 100, []

    def cost(group, listener, data):
        """Bytes a connection, when the kernel has summed up."""
        before = group.numbers("memory.stat")["kernel"]
        for _ in range(number):
            client = socket.create_connection(listener.getsockname())
            pairs.extend((client, listener.accept()[0]))
            client.sendall(data)
        time.sleep(6)
        return (group.numbers("memory.stat")["kernel"] - before) // number
    with Cgroup("memory") as group, Device() as device, group.member(), socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        cost(group, listener, b"G")
        plain = cost(group, listener, b"G")
        equal("listeners, refused, errno", device.site_add(listener.getsockname()), (1, 0, 0))
        layer, both = cost(group, listener, b""), cost(group, listener, b"G")
        for sock in pairs:
            sock.close()
        device.site_del(listener.getsockname())
        print(f"# {plain} bytes a connection, {layer} with a layer, {both} with what it waits in")
        if layer - plain < LAYER or both - layer < CONNECTION:
            raise AssertionError("they are not charged")


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
