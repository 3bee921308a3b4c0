#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
# mem: 1G
# long: both a minute, and on the debug kernel it takes five minutes
"""Nothing is swapped to a remote disk: to free memory it would need memory. Writing a file system
while a program takes all the memory makes progress."""
import ctypes
import errno
import os
import signal
import subprocess
import sys
import threading
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from card import MIB, SLOW, attach, export, mounted, pair, run, stat            # noqa: E402
from tap import Skip, claim, main                       # noqa: E402
from trio import Groups                                 # noqa: E402

HERE = "/tmp/card-here"
# Takes memory until it is killed, and reads back what it wrote.
HOG = """
import sys
have = []
try:
    while len(have) < int(sys.argv[1]):
        have.append(bytearray(bytes([len(have) % 251 + 1]) * (1 << 20)))
    sys.exit(any(b[0] != i % 251 + 1 for i, b in enumerate(have)))
except MemoryError:
    sys.exit(3)
"""
# A system call as a 32-bit program makes it: its arguments have 32 bits.
INT80 = """
import ctypes, mmap, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
MAP_32BIT = 0x40
at = libc.mmap(None, 4096, 7, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_32BIT, -1, 0)
path = sys.argv[2].encode() + bytes(1)
ctypes.memmove(at + 1024, path, len(path))
word = lambda value: value.to_bytes(4, "little")
# push rbx; mov eax, number; mov ebx, path; xor ecx, ecx; int 0x80; pop rbx; ret
code = bytes([0x53, 0xb8]) + word(int(sys.argv[1])) + bytes([0xbb]) + word(at + 1024) + bytes.fromhex("31c9cd805bc3")
ctypes.memmove(at, code, len(code))
print(ctypes.CFUNCTYPE(ctypes.c_int)(at)())
"""
KILLED = -9
X32_GETPID, X32_SWAPON = 1 << 30 | 39, 1 << 30 | 167


def by_32_bit(number, path=""):
    """What a system call of a 32-bit program returns, whose arguments are the path and 0; None: there are none such."""
    with subprocess.Popen((sys.executable, "-c", INT80, str(number), path), stdout=subprocess.PIPE, text=True) as child:
        text = child.communicate()[0]
    assert child.returncode in (0, -signal.SIGSEGV), child.returncode
    return int(text) if not child.returncode else None


def by_x32(number, *arguments):
    """What a system call returns whose number has the bit of x32."""
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(ctypes.c_long(number), *arguments)
    return result if result >= 0 else -ctypes.get_errno()


def swaps():
    with open("/proc/swaps", encoding="ascii") as f:
        return [line.split()[0] for line in f][1:]


@claim
def swapon_is_refused_and_says_why():
    with pair(size=16 * MIB, words=("write",)) as (c, _):
        card = "/dev/" + attach(c.nodes[1], "data", "write")
        run("mkswap", card)
        done = subprocess.run(["swapon", card], stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode and "not supported" in done.stderr, done
        assert not swaps() and stat(c.nodes[1], "CardSwapRefused") == 1
        # Whoever claims it for something else may.
        run("mkfs.ext4", "-q", "-F", card)
        with mounted(card, HERE):
            pass


@claim
def a_32_bit_program_is_refused_as_well():
    """Its swapon() has another number."""
    if by_32_bit(20) is None:
        raise Skip("this kernel runs no 32-bit programs")
    with pair(size=16 * MIB, words=("write",)) as (c, _):
        card = "/dev/" + attach(c.nodes[1], "data", "write")
        run("mkswap", card)
        try:
            result = by_32_bit(87, card)
            assert result == -errno.EOPNOTSUPP, result
            assert not swaps() and stat(c.nodes[1], "CardSwapRefused") == 1
        finally:
            if swaps():
                run("swapoff", card)


@claim
def so_is_one_of_the_x32_abi():
    """The numbers of its system calls have a bit more."""
    if by_x32(X32_GETPID) != os.getpid():
        raise Skip("this kernel runs no programs of x32 (syscall.x32=y)")
    with pair(size=16 * MIB, words=("write",)) as (c, _):
        card = "/dev/" + attach(c.nodes[1], "data", "write")
        run("mkswap", card)
        try:
            result = by_x32(X32_SWAPON, card.encode(), 0)
            assert result == -errno.EOPNOTSUPP, result
            assert not swaps() and stat(c.nodes[1], "CardSwapRefused") == 1
        finally:
            if swaps():
                run("swapoff", card)


@claim
def swap_that_came_by_a_file_takes_no_page_and_harms_no_program():
    with pair(size=32 * MIB, offered=False) as (c, disk):
        run("mkfs.ext4", "-q", "-F", disk.device)
        export(c.nodes[0], "data", disk.device, "write")
        card = "/dev/" + attach(c.nodes[1], "data", "write")
        with mounted(card, HERE):
            file = HERE + "/swap"
            run("dd", "if=/dev/zero", "of=" + file, "bs=1M", "count=16", "status=none")
            os.chmod(file, 0o600)
            run("mkswap", file)
            run("swapon", file)
            groups = Groups("hog")
            try:
                groups.write("hog", "memory.max", str(24 * MIB))
                hog = groups.run("hog", sys.executable, "-c", HOG, "36")
                assert hog.wait(120 * SLOW) == KILLED, hog.returncode
                assert stat(c.nodes[1], "CardSwapRefused") > 0
            finally:
                groups.close()
                run("swapoff", file)
            # What is not swap was not touched by it.
            with open(HERE + "/f", "wb") as f:
                f.write(bytes(MIB))
                f.flush()
                os.fsync(f.fileno())
        assert stat(c.nodes[1], "CardErrors") == 0


@claim
def files_are_written_while_a_program_takes_all_the_memory():
    with pair(size=64 * MIB, offered=False) as (c, disk):
        run("mkfs.ext4", "-q", "-F", disk.device)
        export(c.nodes[0], "data", disk.device, "write")
        card = "/dev/" + attach(c.nodes[1], "data", "write")
        with mounted(card, HERE):

            def write():
                for i in range(10):
                    with open(HERE + "/f%d" % i, "wb") as f:
                        f.write(bytes([i + 1]) * (4 * MIB))
                        f.flush()
                        if i % 4 == 3:
                            os.fsync(f.fileno())
            thread = threading.Thread(target=write)
            thread.start()
            hog = subprocess.Popen([sys.executable, "-c",
                                    "open('/proc/self/oom_score_adj', 'w').write('1000')\n" + HOG, "4000"])
            # More than there is: the kernel has to take it from somebody.
            assert hog.wait(120 * SLOW) == KILLED, hog.returncode
            thread.join(120 * SLOW)
            assert not thread.is_alive(), "the writer hangs"
            run("sync", "-f", HERE)
            with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as f:
                f.write("3")
            for i in range(10):
                with open(HERE + "/f%d" % i, "rb") as f:
                    assert f.read() == bytes([i + 1]) * (4 * MIB), i
        assert stat(c.nodes[1], "CardErrors") == 0


if __name__ == "__main__":
    run("modprobe", "-a", "loop", "ext4", "card")
    try:
        main()
    finally:
        run("rmmod", "card")
