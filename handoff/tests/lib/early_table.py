# SPDX-License-Identifier: GPL-2.0
"""What a dispatcher's policy says (flotilla/early_table.h): its table, and a cluster whose front-end has one."""
import ctypes
import fcntl
import mmap
import struct

from early import Early, early_ioctl

ARGS = struct.Struct("=IIIIQ")
TARGET = struct.Struct("=QQQII")
IOC_TABLE = (1 << 30) | (ARGS.size << 16) | (0xF1 << 8) | 19
CREATE, SET, CLEAR = 1, 2, 3
NONE, FEWEST, HASH, ASSIGNED, REPLICATED = range(5)
FLAG = 1
PAGE = 4096
EVER = (1 << 64) - 1
HEAD = ("version I", "policy I", "limit I", "cursor I", "eligible Q", "shares Q", "until_us Q", "replication_us Q",
        "waiting I", "fresh_ms I", "any_host I", "pad I")
SLOT = ("node I", "load I", "share I", "low I", "high I", "cap I", "forgotten I", "given I", "chosen Q",
        "taken Q")


def layout(fields):
    places, at = {}, 0
    for field in fields:
        name, kind = field.split()
        places[name] = (at, "=" + kind)
        at += struct.calcsize("=" + kind)
    return places, at


HEAD, SLOTS_AT = layout(HEAD)
SLOT, SLOT_SIZE = layout(SLOT)


def key_of(text):
    """As handoff/target_hash.h has it."""
    h = 0xcbf29ce484222325
    for byte in text.encode():
        h = (h ^ byte) * 0x100000001b3 % 2 ** 64
    for factor in 0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53:
        h = (h ^ h >> 33) * factor % 2 ** 64
    return h ^ h >> 33


def call(fd, op, nr, targets=0, size=ARGS.size, pad=0):
    return fcntl.ioctl(fd, IOC_TABLE, bytearray(ARGS.pack(size, op, nr, pad, targets)))


def records(*targets):
    """(key, nodes[, changed_us[, epoch[, pad]]]) of each, as the call has them."""
    data = b"".join(TARGET.pack(*(tuple(t) + (0, 0, 0))[:5]) for t in targets)
    return ctypes.create_string_buffer(data, len(data))


def put(fd, *targets):
    """For how many there was no room."""
    buffer = records(*targets)
    return call(fd, SET, len(targets), ctypes.addressof(buffer))


class Table:
    """The table of one open device; its fields are those of the page."""

    def __init__(self, fd, targets=64):
        self.fd = fd
        call(fd, CREATE, targets)
        self.page = mmap.mmap(fd, PAGE, mmap.MAP_SHARED)

    def close(self):
        self.page.close()

    def get(self, name, slot=None):
        at, kind = HEAD[name] if slot is None else SLOT[name]
        return struct.unpack_from(kind, self.page, at if slot is None else SLOTS_AT + SLOT_SIZE * slot + at)[0]

    def set(self, slot=None, **values):
        for name, value in values.items():
            at, kind = HEAD[name] if slot is None else SLOT[name]
            struct.pack_into(kind, self.page, at if slot is None else SLOTS_AT + SLOT_SIZE * slot + at, value)


class Told(Early):
    """fe's dispatcher has a table: be1 is in slot 0, be2 in slot 1; it keeps what it has, with much room."""

    def __init__(self, *args, targets=64, policy=ASSIGNED, **more):
        super().__init__(*args, begun=False, **more)
        self.table = None
        self.open(targets, policy)

    def open(self, targets=64, policy=ASSIGNED):
        self.table = Table(self.dev.fd, targets)
        for slot, be in enumerate(self.be):
            self.table.set(slot, node=self.fe.id[be.name], share=100, low=3, high=6, cap=12)
        self.table.set(policy=policy, limit=100, eligible=(1 << len(self.be)) - 1, shares=100 * len(self.be),
                       until_us=EVER, replication_us=EVER)
        self.begin()

    def begin(self, *which, dev=None):
        nodes = [self.fe.id[be.name] for be in which or self.be]
        return early_ioctl((dev or self.dev).fd, nodes, self.port, flags=FLAG)

    def shut(self):
        """The dispatcher has ended."""
        if self.table:
            self.table.close()
        if self.dev:
            self.dev.close()
        self.table = self.dev = None

    def close(self):
        self.shut()
        super().close()

    def says(self, target, nodes, **more):
        """@nodes: a set of slots."""
        return put(self.dev.fd, (key_of(target), nodes, more.get("changed_us", 0), more.get("epoch", 0)))

    def told(self, name):
        return self.fe.stat("EarlyTable" + name)
