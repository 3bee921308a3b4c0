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


class Stall:
    """A page whose reader sleeps until it is filled."""

    def __init__(self):
        self.fd = libc.syscall(323, os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "userfaultfd")
        self.page = libc.mmap(None, 4096, 3, 0x22, -1, 0)
        self.threads = []
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

    def lock(self, sock, receive=False):
        """Its program keeps it locked until fill(): by sending, or by receiving what is there."""
        sock.setblocking(True)
        thread = threading.Thread(target=libc.recv if receive else libc.send, daemon=True,
                                  args=(sock.fileno(), self.page, 4096, 0 if receive else MSG_NOSIGNAL))
        thread.start()
        self.threads.append(thread)
        self.wait()

    def fill(self, text=b"text"):
        """Whoever sleeps goes on."""
        content = ctypes.create_string_buffer(text, 8192)
        start = (ctypes.addressof(content) + 4095) & ~4095
        ctypes.memmove(start, text, len(text))
        self.call(0xC028AA03, struct.pack("QQQQq", self.page, start, 4096, 0, 0))
        os.close(self.fd)
        for thread in self.threads:
            thread.join(PATIENCE)
