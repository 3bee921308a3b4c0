# SPDX-License-Identifier: GPL-2.0
"""A disk that stands still, or fails, when it is told to: a process of its own is behind an NBD."""
import contextlib
import fcntl
import mmap
import os
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

SET_SOCK, SET_BLKSIZE, DO_IT, CLEAR_SOCK = 0xab00, 0xab01, 0xab03, 0xab04
SET_SIZE_BLOCKS, DISCONNECT = 0xab07, 0xab08
REQUEST, REPLY = struct.Struct(">IIQQI"), struct.Struct(">IIQ")
READ, WRITE, CLOSE = range(3)
EIO = 5
DEVICE, SIZE, BLOCK = "/dev/nbd0", 48 << 20, 4096
HOLDS, FAILS, WAITING = range(3)                # bytes that both processes see


class Behind:
    """What answers the kernel's requests."""

    def __init__(self, shared):
        self.shared, self.lock, self.image = shared, threading.Lock(), tempfile.TemporaryFile()
        self.image.truncate(SIZE)
        self.ours, theirs = socket.socketpair()
        device = os.open(DEVICE, os.O_RDONLY)
        for call, value in ((SET_BLKSIZE, BLOCK), (SET_SIZE_BLOCKS, SIZE // BLOCK), (SET_SOCK, theirs.fileno())):
            fcntl.ioctl(device, call, value)
        threading.Thread(target=self.serve, daemon=True).start()
        fcntl.ioctl(device, DO_IT)
        fcntl.ioctl(device, CLEAR_SOCK)

    def take(self, size):
        data = b""
        while len(data) < size:
            part = self.ours.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def serve(self):
        with contextlib.suppress(OSError, EOFError):
            while True:
                _, kind, handle, start, size = REQUEST.unpack(self.take(REQUEST.size))
                kind &= 0xffff
                if kind == CLOSE:
                    return
                if kind == WRITE:
                    os.pwrite(self.image.fileno(), self.take(size), start)
                if kind == READ:
                    # What stands still is the read, not the disk's other requests.
                    threading.Thread(target=self.read, args=(handle, start, size), daemon=True).start()
                else:
                    self.reply(0, handle)

    def reply(self, error, handle, data=b""):
        with self.lock:
            self.ours.sendall(REPLY.pack(0x67446698, error, handle) + data)

    def read(self, handle, start, size):
        while self.shared[HOLDS]:
            self.shared[WAITING] = 1
            time.sleep(0.01)
        if self.shared[FAILS]:
            self.reply(EIO, handle)
        else:
            self.reply(0, handle, os.pread(self.image.fileno(), size, start))


class Disk:
    """With an ext4, mounted at .path."""

    def __init__(self):
        subprocess.run(["modprobe", "nbd", "nbds_max=2"], check=False)
        subprocess.run(["modprobe", "ext4"], check=False)
        self.shared = mmap.mmap(-1, mmap.PAGESIZE)
        self.behind = os.fork()
        if not self.behind:
            with contextlib.suppress(BaseException):
                Behind(self.shared)
            os._exit(0)
        self.path = tempfile.mkdtemp()
        self.wait_for_size()
        subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", DEVICE], check=True)
        subprocess.run(["mount", "-t", "ext4", DEVICE, self.path], check=True)

    @staticmethod
    def wait_for_size():
        for _ in range(1000):
            with contextlib.suppress(OSError, ValueError), \
                    open(f"/sys/block/{os.path.basename(DEVICE)}/pid", encoding="ascii") as file:
                if int(file.read()):
                    return
            time.sleep(0.02)

    def holds(self, holds=True):
        """No read is answered from now on, or all are."""
        self.shared[WAITING] = 0
        self.shared[HOLDS] = holds

    def fails(self, fails=True):
        self.shared[FAILS] = fails

    def waits(self):
        """Somebody has wanted to read since holds()."""
        return bool(self.shared[WAITING])

    def file(self, name, data):
        """A file of that name with these bytes, which are on the disk and not in memory; its path."""
        path = os.path.join(self.path, name)
        with open(path, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        forget(path)
        return path

    def close(self):
        self.fails(False)
        self.holds(False)
        subprocess.run(["umount", "-l", self.path], check=False, stderr=subprocess.DEVNULL)
        fd = os.open(DEVICE, os.O_RDONLY)
        fcntl.ioctl(fd, DISCONNECT)
        os.close(fd)
        for _ in range(500):
            if os.waitpid(self.behind, os.WNOHANG)[0]:
                break
            time.sleep(0.02)
        else:
            os.kill(self.behind, signal.SIGKILL)
            os.waitpid(self.behind, 0)
        os.rmdir(self.path)


def forget(path, start=0):
    """What is in memory of it from there on goes."""
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, start, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def remember(path, size=None):
    """So much of it comes into memory, and no more; None: all."""
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    os.read(fd, size or os.fstat(fd).st_size)
    os.close(fd)
