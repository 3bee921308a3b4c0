# SPDX-License-Identifier: GPL-2.0
"""Connections that a front-end has handed on: the call of flotilla/relocate.h, and what two nodes say."""
import contextlib
import fcntl
import struct
import time

from hof import E, PATIENCE
from mallory import RECORD

RELOCATE, RELOCATED = 0x1d, 0x1e
ASK = struct.Struct("!QIIHHI")
SAID = struct.Struct("!QIIIIIIIIIIQQIIIIII")
FIELDS = ("run", "seq", "refusal", "known", "up", "begun", "had", "queued", "held", "fixed", "absent", "moved",
          "ended", "waiting", "busy", "stuck", "through", "reasons", "pad")
IOC = (3 << 30) | (800 << 16) | (0xF1 << 8) | 17
OVER = 1


def asks(line, run_id, seq=1, names=(b"be2",), records=b"", idle=10, flags=0, conns=None, nodes=None):
    """As a front-end."""
    size = RECORD.size
    line.send(RELOCATE, ASK.pack(run_id, seq, idle, flags, len(names) if nodes is None else nodes,
                                 len(records) // size if conns is None else conns) +
              b"".join(n.ljust(E["FLT_NAME_MAX"], b"\0") for n in names) + records)


def hears(line, run_id, seq=1):
    while True:
        said = dict(zip(FIELDS, SAID.unpack_from(line.await_kind(RELOCATED)[1])))
        if (said["run"], said["seq"]) == (run_id, seq):
            return said


def answered(line, run_id, seq=1, **more):
    """As a front-end does it: again and again until there is an answer."""
    before = line.sock.gettimeout()
    line.sock.settimeout(0.25)
    try:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            asks(line, run_id, seq, **more)
            with contextlib.suppress(TimeoutError):
                return hears(line, run_id, seq)
    finally:
        line.sock.settimeout(before)
    raise AssertionError("no answer")


def relocate(device, size=800, flags=1, run_id=0, node=1, idle=0, timeout=100, most=0, to=(2,), tuple_=b""):
    args = struct.pack("=IIQIIIII", size, flags, run_id, node, idle, timeout, most, len(to)) + \
        struct.pack("=16I", *to, *[0] * (16 - len(to))) + tuple_.ljust(40, b"\0")
    fcntl.ioctl(device, IOC, bytearray(args.ljust(800, b"\0")))
