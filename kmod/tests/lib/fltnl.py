# SPDX-License-Identifier: GPL-2.0
"""Generic netlink family "flotilla" for tests: raw messages, so that wrong ones can be sent too.

Names and numbers are read from the uapi header: nothing is listed twice.
"""
import errno
import os
import re
import socket
import struct

from patience import PATIENCE

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
HEADER = os.path.join(TOP, "kmod", "uapi", "flotilla", "flotilla.h")

NETLINK_GENERIC = 16
NETLINK_EXT_ACK = 11
NETLINK_CAP_ACK = 10
NETLINK_ADD_MEMBERSHIP = 1
SOL_NETLINK = 270
NLM_F_REQUEST, NLM_F_MULTI, NLM_F_ACK, NLM_F_DUMP = 1, 2, 4, 0x300
NLM_F_DUMP_INTR = 0x10
NLMSG_ERROR, NLMSG_DONE = 2, 3
GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 16, 3, 1, 2
CTRL_ATTR_MCAST_GROUPS = 7


def enums(path=HEADER):
    """Every enumerator and numeric define of the header."""
    text = re.sub(r"/\*.*?\*/", "", open(path, encoding="utf-8").read(), flags=re.S)
    found = {}
    for body in re.findall(r"enum\s+\w+\s*{(.*?)}", text, flags=re.S):
        value = -1
        for item in body.split(","):
            item = item.strip()
            if not item:
                continue
            name, _, given = (part.strip() for part in item.partition("="))
            value = eval(given, {}, found) if given else value + 1      # numbers, shifts, names before
            found[name] = value
    for name, value in re.findall(r"#define\s+(\w+)\s+(\d+)\s*$", text, flags=re.M):
        found[name] = int(value)
    return found


E = enums()
A = {n[len("FLT_A_"):]: v for n, v in E.items() if n.startswith("FLT_A_")}
A_NAME = {v: n for n, v in A.items()}

KIND = {}
for _n in A:
    if _n in ("LOCAL_NAME", "NODE_NAME", "CONN_NODE", "CONN_STATE", "STAT_ROOM", "STAT_NAME",
              "NODE_REASON", "POLICY_NAME", "POLICY_ARGS", "NODE_VERSION", "REPORT_WRONG"):
        KIND[_n] = "str"
    elif _n.endswith("ADDR4"):
        KIND[_n] = "ip4"
    elif _n.endswith("ADDR6"):
        KIND[_n] = "ip6"
    elif _n.endswith("PORT"):
        KIND[_n] = "H"
    elif _n in ("NODE_STATE", "NODE_ADMIN", "NODE_ROLE", "NODE_FORWARD", "NODE_AUTH", "EVENT_TYPE",
                "LOCAL_INSECURE", "NODE_PROVEN"):
        KIND[_n] = "B"
    elif _n in ("NODE_UPTIME_MS", "CONN_PACKETS", "CONN_BYTES", "CONN_AGE_MS", "STAT_VALUE",
                "NODE_FEATURES"):
        KIND[_n] = "Q"
    elif _n == "NODE_KEY":
        KIND[_n] = "i"
    elif _n == "NODE_CLOCK_US":
        KIND[_n] = "q"
    else:
        KIND[_n] = "I"


class NlError(OSError):
    """An error answer; .text is the kernel's sentence."""

    def __init__(self, code, text):
        super().__init__(code, "%s: %s" % (os.strerror(code), text))
        self.text = text


def attr(kind, data):
    return struct.pack("=HH", len(data) + 4, kind) + data + b"\0" * (-len(data) % 4)


def encode(name, value):
    if isinstance(value, bytes):
        return attr(A[name], value)
    kind = KIND[name]
    if kind == "str":
        data = value.encode() + b"\0"
    elif kind == "ip4":
        data = socket.inet_pton(socket.AF_INET, value)
    elif kind == "ip6":
        data = socket.inet_pton(socket.AF_INET6, value)
    else:
        data = struct.pack("=" + kind, value)
    return attr(A[name], data)


def split(data):
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        yield kind & 0x3fff, data[4:length]
        data = data[(length + 3) & ~3:]


def decode(data):
    row = {}
    for number, value in split(data):
        name = A_NAME.get(number, number)
        kind = KIND.get(name)
        if kind == "str":
            value = value.rstrip(b"\0").decode()
        elif kind == "ip4":
            value = socket.inet_ntop(socket.AF_INET, value)
        elif kind == "ip6":
            value = socket.inet_ntop(socket.AF_INET6, value)
        elif kind and name not in ("PAD", "CONN_TUPLE"):
            value = struct.unpack("=" + kind, value)[0]
        row[name] = value
    return row


class Flotilla:
    """A netlink socket in the network namespace of the calling thread."""
    FAMILY = b"flotilla\0"

    def __init__(self, timeout=PATIENCE):
        self.sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
        self.sock.bind((0, 0))
        self.sock.settimeout(timeout)
        self.sock.setsockopt(SOL_NETLINK, NETLINK_EXT_ACK, 1)
        self.sock.setsockopt(SOL_NETLINK, NETLINK_CAP_ACK, 1)
        self.seq = 0
        self.interrupted = False
        row = self.talk(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, attr(CTRL_ATTR_FAMILY_NAME, self.FAMILY))
        attrs = dict(split(row[0]))
        self.family = struct.unpack("=H", attrs[CTRL_ATTR_FAMILY_ID])[0]
        self.groups = {}
        for _, group in split(attrs.get(CTRL_ATTR_MCAST_GROUPS, b"")):
            items = dict(split(group))
            self.groups[items[1].rstrip(b"\0").decode()] = struct.unpack("=I", items[2])[0]

    def close(self):
        self.sock.close()

    def talk(self, family, cmd, payload=b"", flags=NLM_F_ACK, version=1):
        self.seq += 1
        body = struct.pack("=BBH", cmd, version, 0) + payload
        self.sock.send(struct.pack("=IHHII", len(body) + 16, family, NLM_F_REQUEST | flags,
                                   self.seq, 0) + body)
        rows = []
        while True:
            data = self.sock.recv(65536)
            while data:
                length, kind, mflags, seq, _ = struct.unpack_from("=IHHII", data)
                body, data = data[16:length], data[(length + 3) & ~3:]
                if seq != self.seq:
                    continue
                if mflags & NLM_F_DUMP_INTR:
                    self.interrupted = True
                if kind == NLMSG_DONE:
                    return rows
                if kind == NLMSG_ERROR:
                    code = -struct.unpack_from("=i", body)[0]
                    if not code:
                        return rows
                    text = dict(split(body[20:])).get(1, b"").rstrip(b"\0").decode()
                    raise NlError(code, text)
                rows.append(body[4:])

    def do(self, cmd, **attrs):
        payload = b"".join(encode(k.upper(), v) for k, v in attrs.items())
        return [decode(r) for r in self.talk(self.family, E["FLT_CMD_" + cmd], payload)]

    def dump(self, cmd, **attrs):
        payload = b"".join(encode(k.upper(), v) for k, v in attrs.items())
        self.interrupted = False
        return [decode(r) for r in self.talk(self.family, E["FLT_CMD_" + cmd], payload, NLM_F_DUMP)]

    def node(self, name):
        return self.do("NODE_GET", node_name=name)[0]

    def nodes(self):
        return self.dump("NODE_GET")

    def stats(self):
        return {(r["STAT_ROOM"], r["STAT_NAME"]): r["STAT_VALUE"] for r in self.dump("STATS_GET")}

    def stat(self, name, room="flotilla"):
        return self.stats()[(room, name)]

    def subscribe(self):
        self.sock.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, self.groups["events"])

    def event(self):
        """The next event; socket.timeout when none comes."""
        length, _, _, _, _ = struct.unpack_from("=IHHII", data := self.sock.recv(65536))
        return decode(data[20:length])


def refused(code, call, *args, **kwargs):
    """The sentence of a call that must fail with this errno."""
    try:
        call(*args, **kwargs)
    except NlError as err:
        if err.errno == code:
            return err.text
        raise AssertionError("errno %s (%s) instead of %s for %r" % (
            errno.errorcode[err.errno], err.text, errno.errorcode[code], kwargs)) from err
    raise AssertionError("%r was accepted; %s expected" % (kwargs, errno.errorcode[code]))
