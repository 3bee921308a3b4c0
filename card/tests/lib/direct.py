# SPDX-License-Identifier: GPL-2.0
"""A device opened for direct reads and writes of 4 KB."""
import mmap
import os


class Direct:
    """Open until close(): an error of a flush is told to who had the device open then."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_RDWR | os.O_DIRECT)
        self.buf = mmap.mmap(-1, 4096)

    def put(self, byte, at=0):
        self.buf[:] = bytes([byte]) * 4096
        assert os.pwrite(self.fd, self.buf, at) == 4096
        return self

    def get(self, at=0):
        """The first byte."""
        os.preadv(self.fd, [self.buf], at)
        return self.buf[0]

    def sync(self):
        """The errno of fsync()."""
        try:
            os.fsync(self.fd)
            return 0
        except OSError as err:
            return err.errno

    def close(self):
        os.close(self.fd)
