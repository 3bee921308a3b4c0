#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
# long: debug it takes five minutes there
"""Buffers that change while they are sent or received are their owner's affair and no error."""
import contextlib
import mmap
import os
import sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from card import MIB, attach, chunks, hash_of, pair, run, stat     # noqa: E402
from tap import claim, main                             # noqa: E402

ROUNDS = int(os.environ.get("CARD_ROUNDS", "300"))
# One attempt: whatever is repeated because of a changed buffer must not need another.
ONCE = ("retries", "0", "timeout", "60000")


@contextlib.contextmanager
def scribbled(size, fill):
    """A buffer that another process changes without end; fill(i) gives what it writes there."""
    buf = mmap.mmap(-1, size)
    child = os.fork()
    if not child:
        i = 0
        while os.getppid() != 1:
            i += 1
            buf[:] = fill(i)
        os._exit(0)
    try:
        yield buf
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


@claim
def direct_writes_from_a_buffer_that_changes_do_not_fail():
    size = 256 * 1024
    with pair(size=MIB, words=("write",)) as (c, disk):
        card = "/dev/" + attach(c.nodes[1], "data", "write", *ONCE)
        fd = os.open(card, os.O_WRONLY | os.O_DIRECT)
        with scribbled(size, lambda i: bytes([i % 255 + 1]) * size) as buf:
            for i in range(ROUNDS):
                assert os.pwrite(fd, buf, i % 4 * size) == size, i
        os.close(fd)
        print("# %d of %d repeated" % (stat(c.nodes[0], "CardBuffersChanged"), ROUNDS))
        # Something of the buffer was written: whatever it was, not what was there before.
        assert not any(0 in data for data in chunks(disk.path)), "a write was lost"
        assert hash_of(card, direct=True) == disk.hash()
        assert stat(c.nodes[1], "CardErrors") == 0


@claim
def one_page_read_into_twice_is_no_error():
    with pair(size=MIB) as (c, disk):
        card = "/dev/" + attach(c.nodes[1], "data", *ONCE)
        with open(disk.path, "rb") as f:
            want = f.read(MIB)
        fd = os.open(card, os.O_RDONLY | os.O_DIRECT)
        for size, n in ((4096, 2), (4096, 8), (65536, 2), (512, 8)):
            buf = mmap.mmap(-1, max(size, 4096))
            part = memoryview(buf)[:size]
            assert os.preadv(fd, [part] * n, 0) == size * n
            assert bytes(part) in [want[i * size:(i + 1) * size] for i in range(n)], (size, n)
        os.close(fd)
        assert stat(c.nodes[1], "CardErrors") == 0


@claim
def reads_into_a_buffer_that_changes_do_not_fail():
    size = 256 * 1024
    with pair(size=MIB) as (c, disk):
        card = "/dev/" + attach(c.nodes[1], "data", *ONCE)
        fd = os.open(card, os.O_RDONLY | os.O_DIRECT)
        with scribbled(size, lambda i: bytes([i % 256]) * size) as buf:
            for i in range(ROUNDS):
                assert os.preadv(fd, [buf], i % 4 * size) == size, i
        os.close(fd)
        print("# %d of %d repeated" % (stat(c.nodes[1], "CardBuffersChanged"), ROUNDS))
        # Left alone, the buffer has what the disk has.
        assert hash_of(card, direct=True) == disk.hash()
        assert stat(c.nodes[1], "CardErrors") == 0


@claim
def pages_of_the_exporter_that_change_while_they_are_sent_do_not_fail_a_read():
    """A program there writes to the exported disk's cache, which a claim does not prevent."""
    size = 256 * 1024
    with pair(size=MIB) as (c, disk):
        card = "/dev/" + attach(c.nodes[1], "data", *ONCE)
        there = os.open(disk.device, os.O_RDWR)
        with mmap.mmap(there, size) as cached:
            child = os.fork()
            if not child:
                i = 0
                while os.getppid() != 1:
                    i += 1
                    cached[:] = bytes([i % 256]) * size
                os._exit(0)
            try:
                fd = os.open(card, os.O_RDONLY | os.O_DIRECT)
                buf = mmap.mmap(-1, size)
                for i in range(ROUNDS):
                    assert os.preadv(fd, [buf], 0) == size, i
                os.close(fd)
            finally:
                os.kill(child, 9)
                os.waitpid(child, 0)
        os.close(there)
        print("# %d of %d repeated" % (stat(c.nodes[1], "CardBuffersChanged"), ROUNDS))
        assert stat(c.nodes[1], "CardErrors") == 0


if __name__ == "__main__":
    run("modprobe", "-a", "loop", "card")
    try:
        main()
    finally:
        run("rmmod", "card")
