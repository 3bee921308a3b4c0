"""A read-only FUSE file system of few files whose server can be told to stop: for the tests, as root."""
import ctypes
import os
import stat
import struct
import sys
import time

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT, OPENDIR, BATCH = \
    1, 2, 3, 14, 15, 17, 18, 25, 26, 27, 42
ROOT = 1
FILES = {b"cold": 2, b"warm": 3}


def attr(node):
    """struct fuse_attr."""
    mode = stat.S_IFDIR | 0o755 if node == ROOT else stat.S_IFREG | 0o644
    return struct.pack("<QQQQQQIIIIIIIIII", node, 4, 1, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def main():
    """fuse_stall.py DIRECTORY STALLS: while the file STALLS exists, opening "cold" is not answered."""
    where, stalls = sys.argv[1:]
    fd = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"stall", where.encode(), b"fuse", 0,
                  b"fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % fd):
        sys.exit(4)
    print("mounted", flush=True)
    while True:
        try:
            data = os.read(fd, 1 << 20)
        except OSError:
            return
        _, op, unique, node = struct.unpack_from("<IIQQ", data)
        body, err = b"", 0
        if op in (FORGET, BATCH):
            continue
        if op == INIT:
            body = struct.pack("<IIIIHHIIHHI", 7, 31, 65536, 0, 8, 8, 65536, 1, 0, 0, 0) + b"\0" * 28
        elif op == LOOKUP:
            found = FILES.get(data[40:].rstrip(b"\0"))
            err = 0 if found else -2
            body = struct.pack("<QQQQII", found or 0, 0, 3600, 3600, 0, 0) + attr(found or 0) if found else b""
        elif op == GETATTR:
            body = struct.pack("<QII", 3600, 0, 0) + attr(node)
        elif op in (OPEN, OPENDIR):
            if node == FILES[b"cold"] and os.path.exists(stalls):
                print("stalled", flush=True)
                while os.path.exists(stalls):
                    time.sleep(0.05)
            body = struct.pack("<QII", 0, 2, 0)
        elif op == READ:
            body = b"data"
        elif op == STATFS:
            body = b"\0" * 80
        elif op not in (RELEASE, FLUSH):
            err = -38
        os.write(fd, struct.pack("<IiQ", 16 + len(body), err, unique) + body)


main()
