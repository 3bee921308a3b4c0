#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# long: debug it takes two minutes there
# timeout: 300
"""Netlink family and sysfs class: what is accepted, what is refused, by whom, and who hears of it."""
import errno
import glob
import os
import select
import struct
import subprocess
import sys
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from cluster import cluster                             # noqa: E402
from fltnl import E, NLM_F_DUMP, Flotilla, NlError, attr, refused  # noqa: E402
import kmsg                                             # noqa: E402
from netns import CLONE_NEWNET, LIBC, SysfsView, call, flotilla, inside, run  # noqa: E402
from patience import PATIENCE, rounds                   # noqa: E402
from tap import claim, main_with, wait                  # noqa: E402

CLONE_NEWUSER = 0x10000000


def one():
    return cluster(1, listed=False)


def new(nl, **attrs):
    return nl.do("NODE_NEW", **{"node_" + k: v for k, v in attrs.items()})


def settings(row):
    """What was given; the rest tells of the link, which tries to connect meanwhile."""
    return {k: v for k, v in row.items() if k not in (
        "NODE_STATE", "NODE_REASON", "NODE_RTT_US", "NODE_UPTIME_MS", "NODE_RECONNECTS")}


BAD_NODES = [
    (errno.EINVAL, dict(addr4="10.0.0.1"), "name"),
    (errno.EINVAL, dict(name="x"), "address"),
    (errno.EINVAL, dict(name="", addr4="10.0.0.1"), "empty"),
    (errno.EINVAL, dict(name="a b", addr4="10.0.0.1"), "letters"),
    (errno.EINVAL, dict(name="a/b", addr4="10.0.0.1"), "letters"),
    (errno.EINVAL, dict(name=b"caf\xe9\0", addr4="10.0.0.1"), "letters"),
    (errno.EINVAL, dict(name="..", addr4="10.0.0.1"), "no node names"),
    (errno.EINVAL, dict(name="x", addr4="0.0.0.0"), "one host"),
    (errno.EINVAL, dict(name="x", addr4="224.0.0.1"), "one host"),
    (errno.EINVAL, dict(name="x", addr4="255.255.255.255"), "one host"),
    (errno.EINVAL, dict(name="x", addr6="::"), "one host"),
    (errno.EINVAL, dict(name="x", addr6="ff02::1"), "one host"),
    (errno.EINVAL, dict(name="x", addr6="::ffff:10.0.0.1"), "as such"),
    (errno.EINVAL, dict(name="x", addr6="fe80::1"), "link-local"),
    (errno.EINVAL, dict(name="x", addr4="10.0.0.1", addr6="fd00::1"), "one address"),
    (errno.EINVAL, dict(name="x", addr4="10.0.0.1", fwd_addr4="1.1.1.1", fwd_addr6="fd00::1"), "one"),
    (errno.EINVAL, dict(name="x", addr4="10.0.0.1", fwd_addr4="239.1.1.1"), "one host"),
    (errno.EINVAL, dict(name="x" * 32, addr4="10.0.0.1"), ""),
    (errno.ERANGE, dict(name="x", addr4="10.0.0.1", weight=65536), "range"),
    (errno.ERANGE, dict(name="x", addr4="10.0.0.1", admin=3), "range"),
    (errno.ERANGE, dict(name="x", addr4="10.0.0.1", role=2), "range"),
    (errno.ERANGE, dict(name="x", addr4="10.0.0.1", forward=3), "range"),
    (errno.ERANGE, dict(name="x", addr4="10.0.0.1", auth=3), "range"),
    (errno.ERANGE, dict(name="x", addr4="10.0.0.1", port=0), "range"),
    (errno.EINVAL, dict(name="x", addr4="10.0.0.1", state=2), ""),
    (errno.EINVAL, dict(name="x", addr4="10.0.0.1", load=2), ""),
    (errno.EINVAL, dict(name="x", addr4=b"\1\2\3"), ""),
    (errno.ERANGE, dict(name="x", addr6=b"\1\2\3\4"), ""),
    (errno.EINVAL, dict(name="x", addr4="10.0.0.1", weight=b"\1"), ""),
    (errno.EINVAL, dict(name=b"nonul", addr4="10.0.0.1"), ""),
]


@claim
def bad_nodes_are_refused_with_a_sentence():
    with one() as c:
        nl = c.nodes[0].nl
        for code, attrs, words in BAD_NODES:
            text = refused(code, new, nl, **attrs)
            assert words in text, (attrs, text)
            if not any(isinstance(v, bytes) for v in attrs.values()):
                assert text, attrs
        assert nl.nodes() == []


@claim
def names_and_addresses_are_unique():
    with one() as c:
        n = c.nodes[0]
        new(n.nl, name="x", addr4="10.0.0.1")
        assert "name" in refused(errno.EEXIST, new, n.nl, name="x", addr4="10.0.0.2")
        assert "address" in refused(errno.EEXIST, new, n.nl, name="y", addr4="10.0.0.1", port=99)
        n.become()
        assert "itself" in refused(errno.EEXIST, new, n.nl, name=n.name, addr4="10.0.0.9")
        assert "itself" in refused(errno.EEXIST, new, n.nl, name="z", addr4=n.ip)
        new(n.nl, name="w", addr4="10.9.0.77")
        refused(errno.EEXIST, n.nl.do, "LOCAL_SET", local_name="x")
        assert [r["NODE_NAME"] for r in n.nl.nodes()] == ["x", "w"]
        assert n.nl.do("LOCAL_GET")[0]["LOCAL_NAME"] == n.name


@claim
def node_is_shown_as_it_was_given():
    with one() as c:
        nl = c.nodes[0].nl
        new(nl, name="be-1.x_Y", addr6="fd00::7", port=1234, weight=0, role=1, admin=1, forward=2,
            fwd_addr4="10.1.2.3")
        row = nl.node("be-1.x_Y")
        want = dict(NODE_ADDR6="fd00::7", NODE_PORT=1234, NODE_WEIGHT=0, NODE_ROLE=1, NODE_ADMIN=1,
                    NODE_FORWARD=2, NODE_FWD_ADDR4="10.1.2.3", NODE_AUTH=0, NODE_STATE=0,
                    NODE_LOAD=0, NODE_RECONNECTS=0, NODE_UPTIME_MS=0)
        assert {k: row.get(k) for k in want} == want, row
        assert nl.do("NODE_GET", node_id=row["NODE_ID"])[0]["NODE_NAME"] == "be-1.x_Y"
        new(nl, name="d", addr4="10.0.0.5")
        row = nl.node("d")
        assert (row["NODE_WEIGHT"], row["NODE_PORT"]) == (100, E["FLT_LINK_PORT"])
        assert "NODE_FWD_ADDR4" not in row


@claim
def set_changes_what_is_given_and_no_more():
    with one() as c:
        nl = c.nodes[0].nl
        new(nl, name="x", addr4="10.0.0.1", weight=7)
        nl.do("NODE_SET", node_name="x", node_admin=1)
        row = nl.node("x")
        assert (row["NODE_WEIGHT"], row["NODE_ADMIN"]) == (7, 1)
        refused(errno.ENOENT, nl.do, "NODE_SET", node_name="y", node_admin=1)
        refused(errno.ENOENT, nl.do, "NODE_SET", node_name="y", node_id=row["NODE_ID"])
        refused(errno.EINVAL, nl.do, "NODE_SET", node_admin=1)
        refused(errno.EINVAL, nl.do, "NODE_SET", node_name="x", node_addr4="10.0.0.2")
        refused(errno.ERANGE, nl.do, "NODE_SET", node_name="x", node_weight=70000, node_admin=0)
        assert settings(nl.node("x")) == settings(row)
        refused(errno.ENOENT, nl.do, "NODE_DEL", node_name="y")
        refused(errno.ENOENT, nl.do, "NODE_GET", node_id=4711)
        nl.do("NODE_DEL", node_id=row["NODE_ID"])
        assert nl.nodes() == []


@claim
def ids_are_not_reused_at_once():
    with one() as c:
        nl = c.nodes[0].nl
        seen = set()
        for _ in range(20):
            new(nl, name="x", addr4="10.0.0.1")
            seen.add(nl.node("x")["NODE_ID"])
            nl.do("NODE_DEL", node_name="x")
        assert len(seen) == 20 and 0 not in seen


@claim
def local_identity_is_checked():
    with one() as c:
        n = c.nodes[0]
        assert n.nl.do("LOCAL_GET") == [{"LOCAL_INSECURE": 0}]
        refused(errno.EINVAL, n.nl.do, "LOCAL_SET", local_name="a")
        refused(errno.EINVAL, n.nl.do, "LOCAL_SET", local_addr4=n.ip)
        text = refused(errno.EADDRNOTAVAIL, n.nl.do, "LOCAL_SET", local_name="a",
                       local_addr4="10.77.0.1")
        assert "machine" in text
        assert n.nl.do("LOCAL_GET") == [{"LOCAL_INSECURE": 0}]
        n.become()
        with inside(n.ns):
            import socket
            other = socket.create_server((n.ip, 9999))
        refused(errno.EADDRINUSE, n.nl.do, "LOCAL_SET", local_port=9999)
        other.close()
        want = dict(LOCAL_NAME=n.name, LOCAL_ADDR4=n.ip, LOCAL_PORT=E["FLT_LINK_PORT"],
                    LOCAL_INSECURE=0)
        assert n.nl.do("LOCAL_GET")[0] == want
        n.nl.do("LOCAL_SET", local_port=9998, local_addr6=c.net.ip6(1))
        want.update(LOCAL_PORT=9998, LOCAL_ADDR6=c.net.ip6(1))
        assert n.nl.do("LOCAL_GET")[0] == want


@claim
def who_may_set_the_switch_cannot_flood_the_log():
    """Root of a container may, for his own network."""
    before = kmsg.last()
    with one() as c:
        for _ in range(100):
            for on in 1, 0:
                c.nodes[0].nl.do("LOCAL_SET", local_insecure=on)
    for line in b"is INSECURE now", b"over authenticated links only":
        said = sum(line in record for record in kmsg.records(before))
        assert 0 < said < 50, (line, said)


@claim
def many_nodes_are_dumped_whole():
    count = rounds(1000, 300)
    with one() as c:
        n = c.nodes[0]
        n.become()
        for i in range(count):
            new(n.nl, name="node%d" % i, addr4="10.9.%d.%d" % (1 + i // 250, 1 + i % 250))
        rows = n.nl.nodes()
        assert [r["NODE_NAME"] for r in rows] == ["node%d" % i for i in range(count)]
        ids = [r["NODE_ID"] for r in rows]
        assert ids == sorted(ids) and not n.nl.interrupted
        assert n.nl.stat("Nodes") == count
        for i in range(0, count, 2):
            n.nl.do("NODE_DEL", node_name="node%d" % i)
        assert len(n.nl.nodes()) == count // 2


@claim
def dead_nodes_are_tried_in_turn():
    count, late, per_second = 150, 100, 50
    with one() as c:
        n = c.nodes[0]
        n.become()
        for i in range(count):
            # No route leads there: each attempt fails at once.
            new(n.nl, name="node%d" % i, addr4="10.9.1.%d" % (1 + i))
        # The first attempt of each does not wait for its turn.
        wait(lambda: n.nl.stat("LinkConnects") >= count)
        begin = time.monotonic()
        before = n.nl.stat("LinkConnects")
        wait(lambda: n.nl.stat("LinkConnects") > before + 300)
        tries = n.nl.stat("LinkConnects") - before
        seconds = time.monotonic() - begin
        print("# %d attempts in %.1f s" % (tries, seconds))
        assert tries <= late + seconds * per_second


@claim
def dump_that_the_table_changed_under_says_so():
    with one() as c:
        nl = c.nodes[0].nl
        for i in range(400):
            new(nl, name="node%d" % i, addr4="10.8.%d.%d" % (1 + i // 250, 1 + i % 250))
        reader = flotilla(c.nodes[0].ns)
        reader.sock.send(struct.pack("=IHHIIBBH", 20, reader.family, 1 | NLM_F_DUMP, 99, 0,
                                     E["FLT_CMD_NODE_GET"], 1, 0))
        first = reader.sock.recv(65536)
        assert first
        nl.do("NODE_DEL", node_name="node399")
        flags = 0
        while True:
            data = reader.sock.recv(65536)
            length, kind, mflags = struct.unpack_from("=IHH", data)
            flags |= mflags
            while length < len(data) and kind != 3:
                kind, = struct.unpack_from("=H", data, length + 4)
                length += (struct.unpack_from("=I", data, length)[0] + 3) & ~3
            if kind == 3:
                break
        assert flags & 0x10, "no NLM_F_DUMP_INTR"


@claim
def unknown_attributes_and_commands_are_refused():
    with one() as c:
        nl = c.nodes[0].nl
        for payload in (attr(200, b"1234"), attr(0, b""), attr(E["FLT_A_STAT_NAME"], b"x\0"), b"\1"):
            try:
                nl.talk(nl.family, E["FLT_CMD_LOCAL_GET"], payload)
                raise AssertionError("accepted %r" % payload)
            except NlError as err:
                assert err.errno == errno.EINVAL, err
        for cmd in (0, E["FLT_CMD_EVENT"], 200):
            try:
                nl.talk(nl.family, cmd)
                raise AssertionError("accepted command %d" % cmd)
            except NlError as err:
                assert err.errno == errno.EOPNOTSUPP, err


def in_child(func):
    """Exit status of func in a child process: 0 when it returns."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            func()
            code = 0
        except BaseException as err:                    # pylint: disable=broad-except
            print("# child: %r" % err, flush=True)
        os._exit(code)                                  # pylint: disable=protected-access
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@claim
def unprivileged_user_may_read_but_not_write():
    with one() as c:
        n = c.nodes[0]
        new(n.nl, name="x", addr4="10.0.0.1")
        view = SysfsView.of(n.ns)
        os.chmod(view.path, 0o755)

        def nobody():
            call(LIBC.setns(os.open("/run/netns/" + n.ns, os.O_RDONLY), CLONE_NEWNET))
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            nl = Flotilla()
            assert len(nl.nodes()) == 1 and nl.stats() and nl.do("LOCAL_GET")
            refused(errno.EPERM, new, nl, name="y", addr4="10.0.0.2")
            refused(errno.EPERM, nl.do, "NODE_DEL", node_name="x")
            refused(errno.EPERM, nl.do, "NODE_SET", node_name="x", node_weight=1)
            refused(errno.EPERM, nl.do, "LOCAL_SET", local_name="x", local_addr4=n.ip)
            refused(errno.EPERM, nl.dump, "CONN_GET")
            nl.subscribe()
            with view.open("dispatch/policy", "r") as f:
                assert f.read()
            try:
                view.open("dispatch/policy", "w")
                raise AssertionError("sysfs was writable")
            except PermissionError:
                pass
        assert in_child(nobody) == 0


@claim
def root_without_net_admin_may_not_write_attributes():
    """The root user of a container owns the files; the capability decides."""
    writes = {"dispatch/policy": "wrr", "dispatch/t_low": "3", "dispatch/t_high": "99",
              "dispatch/replication_seconds": "1", "dispatch/max_outstanding": "5",
              "links/heartbeat_ms": "500", "links/queue_bytes": "100000", "links/grace_ms": "5000"}
    with one() as c:
        n = c.nodes[0]
        view = SysfsView.of(n.ns)
        for name, value in writes.items():
            path = os.path.join(view.path, "class/flotilla", name)
            before = n.sysfs(name)
            ran = subprocess.run(("setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin",
                                  "tee", path), input=value.encode(),
                                 check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            assert ran.returncode and b"not permitted" in ran.stderr, (name, ran)
            assert n.sysfs(name) == before, name
            n.sysfs(name, value)


# Writes to each file what is in it, or 1 where that cannot be read, and says which refused it.
WRITER = """
import sys
for path in sys.argv[1:]:
    try:
        with open(path, "r+b" if path[:8] == "/sys/mod" else "wb", buffering=0) as file:
            file.write(file.read() if file.readable() else b"1")
    except PermissionError:
        print(path)
"""


@claim
def root_without_capabilities_sets_nothing_of_the_machine():
    """Parameters of modules, and what is in debugfs, whose files are root's as well."""
    modules = ("handoff", "uselect", "sksplice", "iolite", "card", "afpa")
    run("modprobe", "-a", *modules)
    if not os.path.ismount("/sys/kernel/debug"):
        run("mount", "-t", "debugfs", "none", "/sys/kernel/debug")
    ours = [name[:-3] for name in os.listdir(os.environ["FLT_MODULES"]) if name.endswith(".ko")]
    paths = [path for name in ours for path in glob.glob("/sys/module/%s/parameters/*" % name.replace("-", "_"))]
    paths += glob.glob("/sys/kernel/debug/card/*")
    paths = sorted(path for path in paths if os.stat(path).st_mode & 0o222)
    assert len(paths) > 20, paths
    for allowed, refuses in (("-all", True), ("-all,+sys_module", False), ("-all,+sys_admin", False), ("+all", False)):
        asked = [path for path in paths if allowed != "-all,+sys_module" or "/module/" in path]
        ran = subprocess.run(("setpriv", "--bounding-set", allowed, "--inh-caps", "-all", sys.executable, "-c",
                              WRITER, *asked), stdout=subprocess.PIPE, check=True, text=True)
        assert ran.stdout.split() == (asked if refuses else []), (allowed, ran.stdout)
    run("modprobe", "-r", *modules)


@claim
def user_namespace_rules_its_own_network_and_no_other():
    with one() as c:
        n = c.nodes[0]

        def stranger():
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            call(LIBC.unshare(CLONE_NEWUSER))
            # Privileged in a user namespace that does not own this network namespace.
            nl = Flotilla()
            refused(errno.EPERM, new, nl, name="y", addr4="10.0.0.2")
            call(LIBC.unshare(CLONE_NEWNET))
            nl = Flotilla()
            new(nl, name="y", addr4="10.0.0.2")
            nl.dump("CONN_GET")
            assert [r["NODE_NAME"] for r in nl.nodes()] == ["y"]
        assert in_child(stranger) == 0
        assert n.nl.nodes() == [] and Flotilla().nodes() == []


DISPATCH = dict(policy="lard/r", t_low="25", t_high="65", replication_seconds="20",
                max_outstanding="0", available_policies="wrr lb lard lard/r lc chbl")


@claim
def sysfs_shows_the_defaults():
    with one() as c:
        n = c.nodes[0]
        assert {k: n.sysfs("dispatch/" + k) for k in DISPATCH} == DISPATCH
        assert (n.sysfs("links/heartbeat_ms"), n.sysfs("links/queue_bytes")) == ("1000", "4194304")


BAD_VALUES = [
    ("policy", ["", "lru", "LARD", "lard ", "lard/", "lard r", "wrr lb"]),
    ("t_low", ["", "0", "1", "65", "66", "-1", "+30", "x", "30x", "3 0", "0x20", "1e1", "99999999999"]),
    ("t_high", ["", "0", "25", "24", "-1", "x", "1000001", "4294967361"]),
    ("replication_seconds", ["", "-1", "x", "99999999999", "20s"]),
    ("max_outstanding", ["", "-1", "Auto", "x", "99999999999", "auto 1"]),
]


@claim
def sysfs_refuses_bad_values_and_changes_nothing():
    with one() as c:
        n = c.nodes[0]
        for name, values in BAD_VALUES:
            for value in values:
                try:
                    fd = os.open(os.path.join(SysfsView.of(n.ns).path,
                                              "class/flotilla/dispatch", name), os.O_WRONLY)
                    got = os.write(fd, value.encode()) if value else None
                    # An empty write never reaches the driver: nothing to refuse.
                    assert not value or got is None, "%s took %r" % (name, value)
                except OSError as err:
                    assert err.errno == errno.EINVAL, (name, value, err)
                finally:
                    os.close(fd)
        try:
            n.sysfs("dispatch/available_policies", "x")
            raise AssertionError("available_policies was writable")
        except OSError:
            pass
        assert {k: n.sysfs("dispatch/" + k) for k in DISPATCH} == DISPATCH


@claim
def sysfs_values_are_effective_at_once_and_belong_to_the_namespace():
    with cluster(2, listed=False) as c:
        a, b = c.nodes
        for policy in DISPATCH["available_policies"].split():
            a.sysfs("dispatch/policy", policy + "\n")
            assert a.sysfs("dispatch/policy") == policy
        a.sysfs("dispatch/t_high", "100")
        a.sysfs("dispatch/t_low", "99")
        a.sysfs("dispatch/replication_seconds", "0")
        a.sysfs("dispatch/max_outstanding", "77")
        assert [a.sysfs("dispatch/" + k) for k in
                ("t_high", "t_low", "replication_seconds", "max_outstanding")] == \
            ["100", "99", "0", "77"]
        a.sysfs("dispatch/max_outstanding", "auto")
        assert a.sysfs("dispatch/max_outstanding") == "0"
        assert {k: b.sysfs("dispatch/" + k) for k in DISPATCH} == DISPATCH


@claim
def limit_follows_the_back_ends_that_are_ready():
    with cluster(4) as c:
        fe = c.nodes[0]

        def limit(should):
            wait(lambda: int(fe.sysfs("dispatch/max_outstanding")) == should, name="limit %d" % should)
        limit(2 * 65 + 24)
        fe.nl.do("NODE_SET", node_name="n2", node_admin=1)
        limit(65 + 24)
        fe.nl.do("NODE_SET", node_name="n3", node_role=1)
        limit(24)
        fe.nl.do("NODE_DEL", node_name="n4")
        limit(0)
        fe.nl.do("NODE_SET", node_name="n2", node_admin=0)
        limit(24)


def told(fd, value):
    """Each change since the attribute was last read is told of, the last one that to this value."""
    poll = select.poll()
    poll.register(fd, select.POLLPRI | select.POLLERR)
    got = None
    while got != value:
        assert poll.poll(PATIENCE * 1000), "it says %s, and nobody is told of another value" % got
        os.lseek(fd, 0, os.SEEK_SET)
        got = os.read(fd, 100).decode().strip()


@claim
def poll_tells_of_changes():
    with cluster(2, listed=False) as c:
        a, b = c.nodes
        ears = flotilla(a.ns)
        ears.subscribe()
        where = os.path.join(SysfsView.of(a.ns).path, "class/flotilla/dispatch")
        fds = {k: os.open(os.path.join(where, k), os.O_RDONLY) for k in ("policy", "max_outstanding")}
        for fd in fds.values():
            os.read(fd, 100)
        a.sysfs("dispatch/policy", "wrr")
        told(fds["policy"], "wrr")
        assert ears.event() == dict(EVENT_TYPE=E["FLT_EVENT_DISPATCH"])
        for node in c.nodes:
            node.become()
        a.list(b)
        b.list(a)
        c.wait_up()
        told(fds["max_outstanding"], "24")
        for fd in fds.values():
            os.close(fd)


@claim
def heartbeat_can_be_set():
    with cluster() as c:
        a, b = c.nodes
        for value in ("0", "49", "60001", "x", "-1"):
            try:
                a.sysfs("links/heartbeat_ms", value)
                raise AssertionError("took " + value)
            except OSError as err:
                assert err.errno == errno.EINVAL

        def renewed(ms, port):
            """Both sides: the slower one's interval counts. It is exchanged when a link comes up."""
            for node in c.nodes:
                node.sysfs("links/heartbeat_ms", str(ms))
            ups = a.nl.stat("LinkUp")
            a.nl.do("LOCAL_SET", local_port=port)
            # Changed settings end none.
            b.nl.do("NODE_DEL", node_name=a.name)
            b.list(a, node_port=port)
            wait(lambda: a.nl.stat("LinkUp") > ups and a.state(b) == E["FLT_NODE_UP"])
        # A link of the default, of a second, would be down before this is looked at.
        renewed(60000, 8000)
        run("ip", "-n", c.net.bridge, "link", "set", "p2", "down")
        time.sleep(8)
        assert a.state(b) == E["FLT_NODE_UP"] and a.nl.stat("LinkHeartbeatLost") == 0
        run("ip", "-n", c.net.bridge, "link", "set", "p2", "up")
        # And this one would be up for three minutes.
        renewed(300, 8001)
        run("ip", "-n", c.net.bridge, "link", "set", "p2", "down")
        wait(lambda: a.state(b) != E["FLT_NODE_UP"])


if __name__ == "__main__":
    main_with("flotilla")
