#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""guest.py ROUNDS PEER,... [PORT]: in a guest, the same reads of the same disk by card and its peers.

The disk is a RAM disk of this kernel; exporter and reader are two namespaces joined by a bridge;
fio reads with O_DIRECT. Peers take turns, ROUNDS times. Prints a line of JSON for each run: the load,
the peer, instructions for an I/O, both ends and fio together (only meaningful under QEMU's -icount
shift=0 on one CPU, where busy nanoseconds are instructions), task switches for an I/O, fio's IOPS.

With PORT, somebody at that port of the host is told when a counted run begins and ends.
"""
import contextlib
import json
import os
import re
import socket
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "card", "tests", "lib"))
from card import attach, detach, export, tool, wait     # noqa: E402
from cluster import Cluster                             # noqa: E402
from netns import inside, run                           # noqa: E402

DISK, MIB = "/dev/ram0", 1 << 20
SIZE = 64 * MIB
NQN = "nqn.2024-01.test:card"
NVMET = "/sys/kernel/config/nvmet"
# name, fio's arguments, I/Os of the counted run
LOADS = (("4k random, depth 1", ("--rw=randread", "--bs=4k", "--iodepth=1"), 800),
         ("4k random, depth 32", ("--rw=randread", "--bs=4k", "--iodepth=32"), 1600),
         ("128k sequential, depth 1", ("--rw=read", "--bs=128k", "--iodepth=1"), 240),
         ("128k sequential, depth 32", ("--rw=read", "--bs=128k", "--iodepth=32"), 320))


class Host:
    """Whoever counts from outside, if anybody does."""

    def __init__(self, port):
        self.file = None
        if port:
            self.file = socket.create_connection(("10.0.2.2", port)).makefile("rw", encoding="ascii")

    def say(self, what, **more):
        if self.file:
            self.file.write(json.dumps({"say": what, **more}) + "\n")
            self.file.flush()
            self.file.readline()


def put(path, text):
    with open(path, "w", encoding="ascii") as f:
        f.write(str(text))


def get(path):
    with open(path, encoding="ascii") as f:
        return f.read()


def busy():
    """Nanoseconds in which a CPU was not idle."""
    clocks = get("/proc/timer_list")
    now = int(re.search(r"now at (\d+) nsecs", clocks).group(1))
    idle = sum(int(n) for n in re.findall(r"\.(?:idle|iowait)_sleeptime\s*:\s*(\d+)", clocks))
    return now * os.cpu_count() - idle


def switches():
    return int(re.search(r"^ctxt (\d+)", get("/proc/stat"), re.M).group(1))


def fio(path, words, number):
    """Busy nanoseconds, task switches, and I/Os a second, of a run of @number I/Os."""
    before, switched = busy(), switches()
    done = subprocess.run(
        ["fio", "--name=b", "--filename=" + path, "--size=%d" % SIZE, "--direct=1", "--thread",
         "--ioengine=libaio", "--clocksource=clock_gettime", "--randseed=1", "--output-format=json",
         "--norandommap", "--number_ios=%d" % number, *words],
        check=True, capture_output=True, text=True)
    switched = switches() - switched
    return busy() - before, switched, json.loads(done.stdout)["jobs"][0]["read"]["iops"]


def measure(host, path, load, peer):
    """What starting fio costs is in a short run as in a long one: the difference counts."""
    name, words, number = load
    short = number // 8
    host.say("clear")
    few = fio(path, words, short)
    host.say("few")
    many = fio(path, words, number)
    host.say("many", load=name, peer=peer, ios=number - short)
    print(json.dumps({"load": name, "peer": peer,
                      "instructions": round((many[0] - few[0]) / (number - short)),
                      "switches": round((many[1] - few[1]) / (number - short), 2),
                      "iops": round(many[2])}), flush=True)


@contextlib.contextmanager
def by_disk(_):
    yield DISK


@contextlib.contextmanager
def by_card(c, *words):
    export(c.nodes[0], "bench", DISK, *words)
    card = attach(c.nodes[1], "bench")
    yield "/dev/" + card
    detach(c.nodes[1], card)
    tool(c.nodes[0], "unexport", "bench")


def new_devices(pattern):
    return [n for n in os.listdir("/dev") if re.fullmatch(pattern, n)]


@contextlib.contextmanager
def nvme_target(c):
    system, port = NVMET + "/subsystems/" + NQN, NVMET + "/ports/1"
    link = port + "/subsystems/" + NQN
    os.mkdir(system)
    put(system + "/attr_allow_any_host", 1)
    os.mkdir(system + "/namespaces/1")
    put(system + "/namespaces/1/device_path", DISK)
    put(system + "/namespaces/1/enable", 1)
    os.mkdir(port)
    for name, value in (("trtype", "tcp"), ("adrfam", "ipv4"), ("traddr", c.nodes[0].ip),
                        ("trsvcid", 4420)):
        put("%s/addr_%s" % (port, name), value)
    # The listener stands in the namespace of whoever makes the link.
    with inside(c.nodes[0].ns):
        os.symlink(system, link)
    yield
    os.unlink(link)
    os.rmdir(port)
    put(system + "/namespaces/1/enable", 0)
    os.rmdir(system + "/namespaces/1")
    os.rmdir(system)


@contextlib.contextmanager
def by_nvme(c, more=""):
    with nvme_target(c):
        with inside(c.nodes[1].ns), open("/dev/nvme-fabrics", "r+b", 0) as f:
            f.write(("nqn=%s,transport=tcp,traddr=%s,trsvcid=4420%s" % (
                NQN, c.nodes[0].ip, more)).encode())
            number = re.search(r"instance=(\d+)", f.read(256).decode()).group(1)
        pattern = r"nvme%s(c\d+)?n1" % number
        wait(lambda: new_devices(pattern), 60)
        yield "/dev/nvme%sn1" % number
        put("/sys/class/nvme/nvme%s/delete_controller" % number, 1)
        wait(lambda: not new_devices(pattern), 60)


@contextlib.contextmanager
def by_nbd(c):
    config = "/tmp/nbd.conf"
    put(config, "[generic]\n[bench]\nexportname = %s\nreadonly = true\n" % DISK)
    server = subprocess.Popen(["ip", "netns", "exec", c.nodes[0].ns, "nbd-server", "-d", "-C", config],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    inner = ["ip", "netns", "exec", c.nodes[1].ns, "nbd-client"]
    wait(lambda: not subprocess.run([*inner, c.nodes[0].ip, "/dev/nbd0", "-N", "bench", "-R"],
                                    check=False, capture_output=True).returncode, 60, 0.5)
    yield "/dev/nbd0"
    run(*inner, "-d", "/dev/nbd0")
    server.terminate()
    server.wait()


PEERS = {
    "disk": by_disk,
    "card": by_card,
    "NVMe/TCP": by_nvme,
    "NVMe/TCP, data digest": lambda c: by_nvme(c, ",data_digest"),
    "NBD": by_nbd,
    # Ways of card, for comparison.
    "card, serve event": lambda c: by_card(c, "serve", "event"),
    "card, serve thread": lambda c: by_card(c, "serve", "thread"),
    "card, deliver async": lambda c: by_card(c, "deliver", "async"),
    "card, deliver sync": lambda c: by_card(c, "deliver", "sync"),
}


def prepare():
    run("modprobe", "-a", "card", "nvmet-tcp", "nvme-tcp", "nbd")
    run("modprobe", "brd", "rd_nr=1", "rd_size=%d" % (SIZE // 1024))
    run("dd", "if=/dev/urandom", "of=" + DISK, "bs=1M", "oflag=direct", "count=64", "status=none")
    if not os.path.ismount("/sys/kernel/config"):
        run("mount", "-t", "configfs", "none", "/sys/kernel/config")


def main():
    rounds, peers = int(sys.argv[1]), sys.argv[2].split("+")
    host = Host(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    prepare()
    host.say("symbols", text=get("/proc/kallsyms"))
    c = Cluster(2)
    for _ in range(rounds):
        for peer in peers:
            with PEERS[peer](c) as path:
                fio(path, ("--rw=randread", "--bs=4k"), 64)     # paths and slabs warm
                for load in LOADS:
                    measure(host, path, load, peer)
    c.close()
    run("rmmod", "card")


main()
