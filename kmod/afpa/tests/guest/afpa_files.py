#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 480
# long: both a disk that stands still, minutes
# cpus: 2
"""Files as objects: no copy of them, no change of them, and a disk that nobody waits for who does not need it."""
import contextlib
import ctypes
import errno
import fcntl
import os
import select
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "lib"))
from afpa import (HYBRID, SOFTIRQ, THREAD, Client, Device, Thread, body, claim, counted, equal, fails,  # noqa: E402
                  load, main, same, site, unload, wait_for, wire)
from cgroup import Cgroup                       # noqa: E402
import ssp                                      # noqa: E402
import disk as disks                            # noqa: E402
import kit                                      # noqa: E402
import nets                                     # noqa: E402

BIG, NOBODY, CHUNK = 1000000, 65534, 65536
QUEUES, DISK = 8, 43                            # of threads that read; the number of the NBD
PR_SET_KEEPCAPS, CAP_NET_ADMIN, CAPABILITY_3 = 8, 12, 0x20080522


def unmounts(path):
    return not subprocess.run(["umount", path], check=False, stderr=subprocess.DEVNULL).returncode


@contextlib.contextmanager
def memory(size="64m"):
    """A tmpfs, which is another file system than the root."""
    path = tempfile.mkdtemp()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], check=True)
    try:
        yield path
    finally:
        wait_for("umount", lambda: unmounts(path))
        os.rmdir(path)


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)
    return path


def may_write(path):
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as err:
        equal("errno", err.errno, errno.ETXTBSY)
        return False
    return True


@contextlib.contextmanager
def disk():
    """(device, server, disk): the mode is hybrid, and what the disk has goes before it does."""
    with contextlib.closing(disks.Disk()) as found, site() as (device, server):
        device.info(mode=HYBRID)
        try:
            yield device, server, found
        finally:
            found.holds(False)
            device.flush()


@claim
def a_file_is_answered_from_the_page_cache_and_not_copied():
    with memory() as path, site() as (device, server), Client(server.site) as client:
        for size in (0, 1, 4095, 4096, 65536, 65537, BIG):
            write(f"{path}/f", body(size, size))
            with counted(Hits=3, Heads=1, Misses=0, Reads=0):
                device.put_file(server.site, "/f", f"{path}/f", headers="X: y\r\n", age=5)
                same(f"{size} bytes", client.get("/f"), body(size, size))
                client.ask("/f", method="HEAD")
                headers = client.answer("HEAD")[0]
                equal("length", (headers["content-length"], headers["x"]), (str(size), "y"))
                equal("age", int(headers["age"]) >= 5, True)
                with Client(server.site) as last:
                    last.ask("/f", fields="Connection: close\r\n")
                    same("the last", last.answer()[1], body(size, size))
                    equal("end", last.at_end(), True)
            says = device.query(server.site, "/f")
            equal("query", (says["body_len"], says["file"]), (size, True))
            if not 2048 < says["charged"] < 12000:
                raise AssertionError(f"{says['charged']} bytes are charged")
            device.delete(server.site, "/f")
            wait_for("the last acknowledgment", lambda: may_write(f"{path}/f"))
        equal("what the server read", server.read, [])


@claim
def pipelined_files_come_in_order():
    with memory() as path, site() as (device, server), Client(server.site) as client:
        for number in range(8):
            device.put_file(server.site, f"/{number}", write(f"{path}/{number}", body(40000, number)))
        device.put(server.site, "/text", b"text")
        client.sock.sendall(b"".join(wire(f"/{number % 8}") + wire("/text") for number in range(16)))
        for number in range(16):
            same(f"{number}", client.answer()[1], body(40000, number % 8))
            equal("between", client.answer()[1], b"text")


@claim
def nobody_writes_to_a_file_that_is_an_object():
    with memory() as path, site() as (device, server), Client(server.site) as client:
        name = write(f"{path}/f", b"old")
        with open(name, "r+b"):
            fails(errno.ETXTBSY, device.put_file, server.site, "/f", name)
        device.put_file(server.site, "/f", name)
        for call in (lambda: os.open(name, os.O_WRONLY), lambda: os.open(name, os.O_RDONLY | os.O_TRUNC),
                     lambda: os.truncate(name, 1)):
            fails(errno.ETXTBSY, call)
        # Its name is another matter.
        os.rename(write(f"{path}/new", b"new"), name)
        equal("what was put", client.get("/f"), b"old")
        device.put_file(server.site, "/f", name)
        os.unlink(name)
        equal("of no name", client.get("/f"), b"new")
        name = write(f"{path}/g", b"g")
        for end in (lambda: device.delete(server.site, "/g"), lambda: device.put(server.site, "/g", b""), device.flush,
                    lambda: device.ban(server.site, "/g"), lambda: device.ttl(server.site, "/g", 1)):
            device.put_file(server.site, "/g", name)
            equal("while it is there", may_write(name), False)
            end()
            wait_for("its end", lambda: may_write(name))
        # Two objects of it, and each one keeps it.
        device.put_file(server.site, "/g", name)
        device.put_file(server.site, "/h", name)
        device.delete(server.site, "/g")
        equal("the other one", may_write(name), False)
        device.delete(server.site, "/h")
        equal("none", may_write(name), True)
        # A put that fails keeps nothing.
        device.info(max_object=1)
        fails(errno.EFBIG, device.put_file, server.site, "/g", write(f"{path}/i", b"12"))
        device.info(max_object=16 << 20)
        fails(errno.ESTALE, device.put_file, server.site, "/g", f"{path}/i", since=1)
        fails(errno.EINVAL, device.put_file, server.site, "/g", f"{path}/i", headers="bad")
        equal("nothing", may_write(f"{path}/i"), True)


@claim
def an_answer_under_way_is_whole_and_its_file_is_kept_so_long_only():
    with memory() as path, site() as (device, server):
        name = write(f"{path}/f", body(BIG, 1))
        device.put_file(server.site, "/f", name)
        with Client(server.site, rcvbuf=20000) as client:
            client.ask("/f")
            wait_for("the answer", lambda: client.sock.recv(1, socket.MSG_PEEK))
            device.delete(server.site, "/f")
            equal("amid it", may_write(name), False)
            same("the body", client.answer()[1], body(BIG, 1))
            wait_for("its end", lambda: may_write(name))
        # Who takes nothing, or little by little, does not keep it for ever.
        device.put_file(server.site, "/f", name)
        with Client(server.site, rcvbuf=4096) as slow, counted(ResetFile=1):
            slow.ask("/f")
            wait_for("the answer", lambda: slow.sock.recv(1, socket.MSG_PEEK))
            device.info(stall_ms=3000)
            try:
                device.delete(server.site, "/f")
                end = time.monotonic() + kit.PATIENCE
                while not may_write(name):
                    with contextlib.suppress(OSError):
                        slow.sock.recv(1000)
                    time.sleep(0.2)
                    if time.monotonic() > end:
                        raise AssertionError("a slow client keeps the file")
            finally:
                device.info(stall_ms=30000)
            with contextlib.suppress(ConnectionResetError):
                while slow.sock.recv(65536):
                    pass


@claim
def an_answer_is_over_when_it_is_acknowledged():
    with memory() as path, site() as (device, server), Client(server.site, rcvbuf=2304) as client:
        name = write(f"{path}/f", body(20000, 2))
        device.put_file(server.site, "/f", name)
        client.ask("/f")
        # All of it is in the server's queue: the client has no room.
        wait_for("the answer", lambda: client.sock.recv(1, socket.MSG_PEEK))
        time.sleep(0.5)
        device.delete(server.site, "/f")
        time.sleep(0.5)
        equal("what has not been acknowledged", may_write(name), False)
        same("the body", client.answer()[1], body(20000, 2))
        wait_for("its end", lambda: may_write(name))
        equal("the connection goes on", client.get("/g"), b"server /g")


@claim
def so_it_is_where_the_program_writes_or_closes_amid_it():
    """The rest is in TCP's queue then, and no answer of ours any more."""
    def write_amid(sock):
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmine")

    def shut(sock):
        sock.shutdown(socket.SHUT_WR)
    large = body(150000, 3)
    with memory() as path, site(accept=False) as (device, server):
        name = write(f"{path}/f", large)
        for leaves in (write_amid, shut, socket.socket.close):
            device.put_file(server.site, "/f", name)
            with Client(server.site, rcvbuf=4096) as client, counted(Flushed=1):
                sock = server.listener.accept()[0]
                client.ask("/f")
                wait_for("the answer", lambda c=client: c.sock.recv(1, socket.MSG_PEEK))
                leaves(sock)
                device.delete(server.site, "/f")
                time.sleep(2.5)
                equal("what has not been acknowledged", may_write(name), False)
                same("the body", client.answer()[1], large)
                wait_for("its end", lambda: may_write(name))
                sock.close()
    # Nor does one who takes nothing keep it for ever, or one who is gone, or hold up the module.
    with memory() as path, site(accept=False) as (device, server):
        name = write(f"{path}/f", large)
        for goes in (False, True):
            device.put_file(server.site, "/f", name)
            with Client(server.site, rcvbuf=4096) as client:
                sock = server.listener.accept()[0]
                client.ask("/f")
                wait_for("the answer", lambda c=client: c.sock.recv(1, socket.MSG_PEEK))
                sock.close()
                device.info(stall_ms=30000 if goes else 2000)
                device.delete(server.site, "/f")
                if goes:
                    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    client.sock.close()
                wait_for("its end", lambda: may_write(name))
                device.info(stall_ms=30000)


def drop_to_net_admin():
    """Nobody, but with CAP_NET_ADMIN."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    sets = (ctypes.c_uint32 * 6)(1 << CAP_NET_ADMIN, 1 << CAP_NET_ADMIN, 0, 0, 0, 0)
    if libc.capset((ctypes.c_uint32 * 2)(CAPABILITY_3, 0), sets):
        raise OSError(ctypes.get_errno(), "capset")


@claim
def what_cannot_be_an_object_is_refused():
    with memory() as path, site() as (device, server):
        name = write(f"{path}/f", b"x" * 5000)
        os.mkfifo(f"{path}/fifo")
        with open(f"{path}/holes", "wb") as file:
            file.truncate(1 << 20)
        put = device.put_file
        fails(errno.EINVAL, put, server.site, "/f", path, os.O_RDONLY | os.O_DIRECTORY)
        fails(errno.EINVAL, put, server.site, "/f", f"{path}/fifo", os.O_RDONLY | os.O_NONBLOCK)
        fails(errno.EINVAL, put, server.site, "/f", f"{path}/holes")
        fails(errno.EINVAL, put, server.site, "/f", "/dev/null")
        fails(errno.EBADF, put, server.site, "/f", name, os.O_PATH)
        fails(errno.EBADF, put, server.site, "/f", name, os.O_WRONLY)
        for odd in (-1, 1 << 20, 1 << 32, (1 << 64) - 1):
            fails(errno.EBADF, device.put, server.site, "/f", b"", fd=odd & ((1 << 64) - 1))
        # An overlay, whose pages are others'; a server's; pages of no file system.
        for foreign in ("/etc/passwd", __file__, "/proc/version", "/sys/kernel/notes"):
            if os.path.exists(foreign):
                fails(errno.EOPNOTSUPP, put, server.site, "/f", foreign)
        # Its maker could write to it all the same.
        with contextlib.closing(os.fdopen(os.memfd_create("f"), "r+b", 0)) as own:
            own.write(b"x")
            fails(errno.EOPNOTSUPP, device.put, server.site, "/f", b"", fd=own.fileno())
            fails(errno.EOPNOTSUPP, put, server.site, "/f", f"/proc/self/fd/{own.fileno()}")
        with contextlib.suppress(OSError), contextlib.closing(open(name, opener=lambda n, _: os.open(
                n, os.O_RDONLY | os.O_DIRECT), encoding="ascii")) as direct:    # noqa: SIM115
            fails(errno.EINVAL, device.put, server.site, "/f", b"", fd=direct.fileno())
        # Who could not write to it keeps nobody from it.
        os.chmod(name, 0o444)
        os.chmod(path, 0o755)
        pid = os.fork()
        if not pid:
            with contextlib.suppress(BaseException):
                drop_to_net_admin()
                device.put(server.site, "/mine", b"x")
                fails(errno.EACCES, device.put_file, server.site, "/f", name)
                os._exit(0)
            os._exit(1)
        equal("status", os.waitpid(pid, 0)[1], 0)
        equal("it is free", may_write(name), True)
        equal("no object", device.names(), [("*", "/mine")])
        os.chmod(name, 0o644)
        device.put_file(server.site, "/f", name)


@claim
def what_a_program_locks_is_free_when_it_has_gone():
    with memory() as path, site() as (device, server), Client(server.site) as client:
        name = write(f"{path}/f", b"locked")
        pid = os.fork()
        if not pid:
            with contextlib.suppress(BaseException):
                fd = os.open(name, os.O_RDONLY)
                fcntl.flock(fd, fcntl.LOCK_EX)
                fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
                device.put(server.site, "/f", b"", fd=fd)
                os._exit(0)
            os._exit(1)
        equal("status", os.waitpid(pid, 0)[1], 0)
        fd = os.open(name, os.O_RDONLY)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Nor does what is done with a descriptor matter to the object.
        device.put(server.site, "/g", b"", fd=fd)
        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_SETFL, os.O_DIRECT)
        os.close(fd)
        equal("the object", (client.get("/f"), client.get("/g")), (b"locked", b"locked"))


@claim
def who_has_a_read_only_mount_keeps_nobody_from_writing():
    with memory() as path, memory() as own, site() as (device, server):
        write(f"{path}/f", b"x")
        subprocess.run(["mount", "--bind", path, own], check=True)
        try:
            subprocess.run(["mount", "-o", "remount,bind,ro", own], check=True)
            fails(errno.EROFS, device.put_file, server.site, "/f", f"{own}/f")
            equal("it is free", may_write(f"{path}/f"), True)
            # Where nobody can write there is nobody to be kept from it.
            subprocess.run(["mount", "-o", "remount,ro", path], check=True)
            device.put_file(server.site, "/f", f"{own}/f")
            device.flush()
        finally:
            subprocess.run(["umount", "-l", own], check=True)


@claim
def in_mode_softirq_what_is_not_in_memory_is_the_servers():
    with disk() as (device, server, found):
        name = found.file("f", body(BIG))
        device.info(mode=SOFTIRQ)
        device.put_file(server.site, "/f", name)
        with Client(server.site) as client, counted(Absent=1, Hits=0, Misses=1, Reads=0):
            equal("body", client.get("/f"), b"server /f")
        # The first chunk is there; of an answer that has begun what is missing is read.
        disks.remember(name, CHUNK)
        with Client(server.site) as client, counted(Absent=0, Hits=1, Reads=lambda n: n > 2):
            same("body", client.get("/f"), body(BIG))


@claim
def in_mode_hybrid_a_thread_reads_and_who_does_not_need_it_does_not_wait():
    with disk() as (device, server, found), contextlib.ExitStack() as stack:
        name, warm = found.file("f", body(100000, 3)), found.file("warm", body(50000, 4))
        device.put_file(server.site, "/f", name)
        device.put_file(server.site, "/warm", warm)
        disks.remember(warm)
        device.put(server.site, "/a", b"memory")
        other = stack.enter_context(server.client())
        found.holds()
        # More of them than threads that read.
        waiting = [stack.enter_context(server.client()) for _ in range(70)]
        for client in waiting:
            client.ask("/f")
        wait_for("the disk", found.waits)
        with counted(HitsSoftirq=lambda n: n >= 30, Hits=40, Reads=0):
            for _ in range(20):
                equal("memory", other.get("/a"), b"memory")
                same("a file in memory", other.get("/warm"), body(50000, 4))
        equal("answered", select.select([client.sock for client in waiting], [], [], 0)[0], [])
        with counted(Hits=70, HitsWorker=lambda n: n > 0, Reads=lambda n: n >= 70, Misses=0):
            found.holds(False)
            for client in waiting:
                same("the body", client.answer()[1], body(100000, 3))
        with counted(HitsSoftirq=1, Reads=0):
            same("the second time", other.get("/f"), body(100000, 3))
        equal("what the server read", server.read, [])


def come_and_go(server, path, number):
    """So many clients at once, whose requests the kernel has seen when they reset their connections."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(server.site)) for _ in range(number)]
        before = ssp.counters("Afpa")["AfpaAbsent"]
        for client in clients:
            client.ask(path)
        wait_for("the requests", lambda: ssp.counters("Afpa")["AfpaAbsent"] == before + number)
        for client in clients:
            client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@claim
def nothing_is_read_for_who_has_gone():
    with disk() as (device, server, found), contextlib.ExitStack() as stack:
        device.put_file(server.site, "/f", found.file("f", body(5000, 3)))
        device.put_file(server.site, "/gone", found.file("g", body(5000, 4)))
        found.holds()
        waiting = [stack.enter_context(server.client()) for _ in range(64)]
        for client in waiting:
            client.ask("/f")
        wait_for("the disk", found.waits)
        come_and_go(server, "/gone", 50)
        with counted(Reads=64, Hits=64):
            found.holds(False)
            for client in waiting:
                same("the body", client.answer()[1], body(5000, 3))
            time.sleep(1)
        device.info(mode=SOFTIRQ)
        with server.client() as client:
            equal("what is not in memory", client.get("/gone"), b"server /gone")


@contextlib.contextmanager
def unread(size):
    """
    A file whose pages have to be made first, as if they were read, of a file system whose number is unlike the disk's.
    """
    with contextlib.ExitStack() as stack:
        path = stack.enter_context(memory())
        while os.minor(os.stat(path).st_dev) % QUEUES == DISK % QUEUES:
            path = stack.enter_context(memory())
        with open(f"{path}/f", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)
        yield f"{path}/f"


@claim
def a_disk_that_is_silent_does_not_keep_others_waiting():
    with unread(100000) as other, disk() as (device, server, found), contextlib.ExitStack() as stack:
        device.put_file(server.site, "/f", found.file("f", body(5000, 3)))
        device.put_file(server.site, "/other", other)
        found.holds()
        waiting = [stack.enter_context(server.client()) for _ in range(70)]
        for client in waiting:
            client.ask("/f")
        wait_for("the disk", found.waits)
        with server.client() as client, counted(Reads=lambda n: n > 0, Hits=1):
            same("the other's", client.get("/other"), bytes(100000))
        found.holds(False)
        for client in waiting:
            same("the body", client.answer()[1], body(5000, 3))
        device.flush()


@claim
def reads_that_wait_have_a_bound():
    with disk() as (device, server, found):
        device.put_file(server.site, "/f", found.file("f", body(5000, 3)))
        found.holds()
        with counted(Misses=0):
            for _ in range(10):
                come_and_go(server, "/f", 100)
        with counted(Misses=76):
            come_and_go(server, "/f", 100)
        found.holds(False)
        with server.client() as client:
            same("the body", client.get("/f"), body(5000, 3))


@claim
def mode_thread_reads_as_well():
    with disk() as (device, server, found):
        device.put_file(server.site, "/f", found.file("f", body(BIG)))
        device.info(mode=THREAD)
        with server.client() as client, counted(Hits=1, HitsWorker=1, Reads=lambda n: n > 0):
            same("the body", client.get("/f"), body(BIG))


@claim
def what_cannot_be_read_is_the_servers_or_ends_the_connection():
    with disk() as (device, server, found):
        name = found.file("f", body(BIG))
        device.put_file(server.site, "/f", name)
        found.fails()
        with server.client() as client, counted(ReadErrors=1, Hits=0, ResetFile=0):
            equal("body", client.get("/f"), b"server /f")
        found.fails(False)
        disks.remember(name, 2 * CHUNK)
        found.fails()
        with server.client() as client, counted(ReadErrors=1, Hits=1, ResetFile=1):
            client.ask("/f")
            got = b""
            with contextlib.suppress(ConnectionResetError):
                while part := client.sock.recv(65536):
                    got += part
            head = got.index(b"\r\n\r\n") + 4
            if not head < len(got) < head + BIG:
                raise AssertionError(f"{len(got)} bytes")
            same("as far as it came", got[head:], body(BIG)[:len(got) - head])
        found.fails(False)
        with server.client() as client:
            same("again", client.get("/f"), body(BIG))


@claim
def memory_that_is_short_for_a_while_breaks_no_answer():
    with Cgroup("memory") as group, memory() as path, disk() as (device, server, found):
        name = found.file("f", body(BIG))
        device.put_file(server.site, "/f", name)
        with group.member():
            # Its pages are to be charged to the group, in which there is nothing else to reclaim.
            client = server.client()
            write(f"{path}/full", bytes(16 << 20))
        disks.remember(name, CHUNK)
        group.write("memory.max", group.number("memory.current") - (1 << 20))
        before = ssp.counters("Afpa")["AfpaReadErrors"]
        with client, counted(ResetFile=0, Hits=1):
            client.ask("/f")
            wait_for("no memory", lambda: ssp.counters("Afpa")["AfpaReadErrors"] > before)
            time.sleep(1)
            group.write("memory.max", "max")
            same("the body", client.answer()[1], body(BIG))


@claim
def a_client_or_a_site_that_goes_amid_a_read_is_no_matter():
    with disk() as (device, server, found):
        name = found.file("f", body(BIG))
        device.put_file(server.site, "/f", name)
        found.holds()
        gone, left = server.client(), server.client()
        for client in (gone, left):
            client.ask("/f")
        wait_for("the disk", found.waits)
        gone.close()
        equal("objects", device.site_del(server.site), 1)
        # Its request is the server's now, which hears of it at once.
        equal("left", left.answer()[1], b"server /f")
        left.close()
        equal("it is being read", may_write(name), False)
        found.holds(False)
        wait_for("its end", lambda: may_write(name))
        equal("listeners, refused, errno", device.site_add(server.site), (1, 0, 0))


@claim
def a_file_system_is_busy_while_objects_are_of_it():
    with contextlib.ExitStack() as stack:
        device, server, found = stack.enter_context(disk())
        name = found.file("f", body(BIG))
        device.put_file(server.site, "/f", name)
        equal("unmounted under an object", unmounts(found.path), False)
        with server.client() as client:
            same("the body", client.get("/f"), body(BIG))
        device.flush()
        wait_for("umount", lambda: unmounts(found.path))


@claim
def a_namespace_that_goes_leaves_the_files_alone():
    with memory() as path:
        name = write(f"{path}/f", b"x" * 100000)
        nets.add_namespace("afpafile")
        with contextlib.ExitStack() as stack:
            stack.callback(nets.delete_namespace, "afpafile")
            nets.run("ip", "-n", "afpafile", "link", "set", "lo", "up")
            with nets.inside("afpafile"), Device() as device, socket.create_server(("127.0.0.1", 80)):
                device.site_add(("127.0.0.1", 80))
                device.put_file(("127.0.0.1", 80), "/f", name)
        wait_for("its end", lambda: may_write(name))


@claim
def files_that_come_and_go_are_never_torn():
    with disk() as (device, server, found):
        names = [found.file(f"{number}", bytes([97 + number]) * 300000) for number in range(4)]
        stop, counts = threading.Event(), [0] * 3

        def read(number):
            while not stop.is_set():
                with Client(server.site) as client, contextlib.suppress(OSError, EOFError):
                    while not stop.is_set():
                        data = client.get("/f")
                        if data == b"server /f":
                            break
                        same("one file", data, data[:1] * 300000)
                        counts[number] += 1
        readers = [Thread(read, number) for number in range(len(counts))]
        end, turns = time.monotonic() + kit.rounds(8, 20), 0
        # On a machine that is slow until there is enough of each.
        while time.monotonic() < end or min(turns, *counts) < 10 and time.monotonic() < end + kit.PATIENCE:
            device.put_file(server.site, "/f", names[turns % 4])
            disks.forget(names[turns % 4], CHUNK * (turns % 3))
            if turns % 5 == 4:
                device.delete(server.site, "/f")
            turns += 1
            time.sleep(0.01)
        stop.set()
        for reader in readers:
            reader.join()
        print(f"# {turns} files, {counts} reads")
        if min(turns, *counts) < 10:
            raise AssertionError("too few")


@claim
def the_module_goes_with_its_files():
    with memory() as path:
        name = write(f"{path}/f", b"x")
        with site() as (device, server):
            device.put_file(server.site, "/f", name)
            os.close(device.fd)
            device.fd = os.open("/dev/null", os.O_RDONLY)
            wait_for("rmmod", lambda: unload("afpa") or not ssp.loaded("afpa"))
            equal("its file", may_write(name), True)
            load("afpa")
            device.__init__()
            device.site_add(server.site)


main()
