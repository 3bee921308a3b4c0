# SPDX-License-Identifier: GPL-2.0
"""A page whose reader sleeps until it is filled, by userfaultfd: send(2) from it keeps its socket locked."""
import ctypes
import os
import select
import struct
import threading

from kit import PATIENCE

MSG_NOSIGNAL = 0x4000
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.recv.argtypes = libc.send.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.recv.restype = libc.send.restype = ctypes.c_ssize_t


class Stall:
    """A page whose reader sleeps until it is filled, behind BEFORE bytes that are there."""

    def __init__(self, before=0):
        self.fd = libc.syscall(323, os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "userfaultfd")
        self.page = libc.mmap(None, before + 4096, 3, 0x22, -1, 0) + before
        self.threads = []
        self.returned = []
        self.call(0xC018AA3F, struct.pack("QQQ", 0xAA, 0, 0))
        self.call(0xC020AA00, struct.pack("QQQQ", self.page, 4096, 1, 0))

    def call(self, number, text):
        buf = ctypes.create_string_buffer(text, len(text))
        if libc.ioctl(self.fd, ctypes.c_ulong(number), buf):
            raise OSError(ctypes.get_errno(), f"userfaultfd {number:#x}")

    def wait(self):
        """Until one more reader sleeps."""
        if not select.select([self.fd], [], [], PATIENCE)[0]:
            raise AssertionError("nobody has read the page")
        os.read(self.fd, 32)

    def lock(self, sock, receive=False, flags=0):
        """Its program keeps it locked until fill(): by sending, or by receiving what is there."""
        function = libc.recv if receive else libc.send

        def run(fd):
            self.returned.append(function(fd, self.page, 4096, flags if receive else flags | MSG_NOSIGNAL))
        sock.setblocking(True)
        thread = threading.Thread(target=run, daemon=True, args=(sock.fileno(),))
        thread.start()
        self.threads.append(thread)
        self.wait()

    def fill(self, text=b"text"):
        """Whoever sleeps goes on; what their calls returned is in .returned."""
        content = ctypes.create_string_buffer(text, 8192)
        start = (ctypes.addressof(content) + 4095) & ~4095
        ctypes.memmove(start, text, len(text))
        self.call(0xC028AA03, struct.pack("QQQQq", self.page, start, 4096, 0, 0))
        os.close(self.fd)
        for thread in self.threads:
            thread.join(PATIENCE)

    def text(self, length):
        """What is in the page, once it is filled."""
        return ctypes.string_at(self.page, length)
