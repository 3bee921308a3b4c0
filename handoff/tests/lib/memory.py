# SPDX-License-Identifier: GPL-2.0
"""The memory that the kernel uses itself, searched for bytes that it should not have."""
import array
import mmap
import os
import struct
from collections import Counter

PAGE = mmap.PAGESIZE
PART = 4 << 20
PHDR = struct.Struct("=IIQQQQQQ")
PT_LOAD = 1
# linux/kernel-page-flags.h: free, or no memory; of programs and files; of the slab.
ABSENT, USERS, SLAB = 1 << 10 | 1 << 19 | 1 << 20, 1 << 5 | 1 << 11 | 1 << 12 | 1 << 14, 1 << 7


def wipes_what_it_frees():
    """Does the kernel? If not, a page that was somebody's, and waits for the next, tells nothing."""
    with open("/proc/cmdline", encoding="ascii") as file:
        return "init_on_free=1" in file.read().split()


def whole(file, size, offset):
    """That many bytes: one call may give less."""
    data = b""
    while len(data) < size:
        part = os.pread(file, size - len(data), offset + len(data))
        assert part, "%d of %d bytes at %d" % (len(data), size, offset)
        data += part
    return data


def segments(kcore):
    """(offset in the file, first page, pages) of what is memory."""
    head = os.pread(kcore, 64, 0)
    at, = struct.unpack_from("=Q", head, 32)
    size, count = struct.unpack_from("=HH", head, 54)
    with open("/proc/iomem", encoding="ascii") as file:
        ram = [tuple(int(end, 16) for end in line.split(" : ")[0].split("-")) for line in file
               if line.endswith(": System RAM\n") and not line.startswith(" ")]
    assert ram and ram[-1][1], "/proc/iomem hides addresses"
    for i in range(count):
        kind, _, offset, _, physical, length, _, _ = PHDR.unpack(os.pread(kcore, size, at + i * size))
        if kind == PT_LOAD and any(physical >= low and physical + length - 1 <= high for low, high in ram):
            yield offset, physical // PAGE, length // PAGE


def runs(flags):
    """(first, pages) of neighbours that are the kernel's own."""
    first = None
    for page, flag in enumerate(flags):
        # What a page of the slab has in the place of other pages' mapping may look like a program's.
        own = flag & SLAB or not flag & (ABSENT | USERS)
        if first is not None and (not own or (page - first) * PAGE >= PART):
            yield first, page - first
            first = None
        if own and first is None:
            first = page
    if first is not None:
        yield first, len(flags) - first


def found(needles):
    """How often they are in pages of the slab, and in others of the kernel's own; what of these was searched, in MB."""
    count, searched = Counter(), 0
    kcore, flags_of = os.open("/proc/kcore", os.O_RDONLY), os.open("/proc/kpageflags", os.O_RDONLY)
    try:
        for offset, start, pages in list(segments(kcore)):
            flags = array.array("Q", whole(flags_of, 8 * pages, 8 * start))
            for first, size in runs(flags):
                data = whole(kcore, size * PAGE, offset + first * PAGE)
                searched += len(data)
                for needle in needles:
                    at = data.find(needle)
                    while at >= 0:
                        count["slab" if flags[first + at // PAGE] & SLAB else "others"] += 1
                        at = data.find(needle, at + 1)
    finally:
        os.close(kcore)
        os.close(flags_of)
    count["MB"] = searched >> 20
    assert count["MB"] > 50, "most of the kernel's memory was not searched: %s" % count
    return count
