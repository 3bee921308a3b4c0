#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""inside.py SECONDS SIZES KINDS PATH [PARAMETER=VALUE...]: in the counted guest, one relay after the other.

Client, proxy and origin are namespaces of one kernel with one CPU. Prints one JSON line a cell:
instructions per answer of everything together. The row `direct` is the client in the proxy's place;
what a relay adds is the difference to it.
"""
import json
import os
import subprocess
import sys
import time
from pathlib import Path

TESTS = os.environ["FLT_TOP"] + "/build/tests"
PORT = 9000
CONNECTIONS = 4
# Answers that bench_relay_load does not count.
WARM = 4 * CONNECTIONS


def run(*line):
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout


def at(name, *line):
    return ["ip", "netns", "exec", name, *line]


# Of the devices: by `mtu` TCP cuts its segments, by `mtu-nosum` it also sums them, by `mtu-gro` the kernel cuts them
# before the device and joins them behind the next, as hosts do that meet on a wire.
FEATURES = {"offload": "", "mtu": "tso off gso off gro off", "mtu-nosum": "tso off gso off gro off tx off",
            "mtu-gro": "tso off gro on"}


def lan(features):
    for name in ("cli", "prx", "srv"):
        run("ip", "netns", "add", name)
        run(*at(name, "ip", "link", "set", "lo", "up"))
    for near, far, net in (("cli", "prx", 1), ("srv", "prx", 2)):
        run("ip", "link", "add", "eth0", "netns", near, "type", "veth", "peer", "name", near, "netns", far)
        for name, dev, host in ((near, "eth0", 1), (far, near, 2)):
            run(*at(name, "ip", "addr", "add", f"10.0.{net}.{host}/24", "dev", dev))
            run(*at(name, "ip", "link", "set", dev, "up"))
            if features:
                run(*at(name, "ethtool", "-K", dev, *features.split()))


def options(kind):
    """Of a kind such as sksplice+first2896+copy: the relay's options."""
    for word in kind.split("+")[1:]:
        if word == "copy":
            yield "-k"
        elif word.startswith("first"):
            yield from ("-f", word.removeprefix("first"))
        else:
            sys.exit(f"inside: no option {word}")


def start(name, *line):
    return subprocess.Popen(at(name, *line))


def measure(where, address, port, size, seconds):
    """Instructions per answer, with four connections."""
    for _ in range(50):
        done = subprocess.run(at(where, f"{TESTS}/bench_relay_load", "client", address, str(port), str(size),
                                 str(CONNECTIONS), str(seconds)), capture_output=True, text=True, check=False)
        if done.returncode == 0:
            answers, busy = map(int, done.stdout.split())
            return answers, round(busy / answers)
        if "refused" not in done.stderr:
            break
        time.sleep(0.05)
    return 0, done.stderr.strip()


def main():
    seconds, sizes, kinds = float(sys.argv[1]), [int(s) for s in sys.argv[2].split(",")], sys.argv[3].split(",")
    modules = os.environ["FLT_MODULES"]
    run("insmod", f"{modules}/flotilla.ko")
    run("insmod", f"{modules}/sksplice.ko", *sys.argv[5:])
    if os.environ.get("FLT_RESULTS"):
        with open("/proc/kallsyms", encoding="ascii") as symbols:
            Path(os.environ["FLT_RESULTS"], "kallsyms").write_text(symbols.read(), encoding="ascii")
    lan(FEATURES[sys.argv[4]])
    origin = start("srv", f"{TESTS}/bench_relay_load", "origin", str(PORT))
    for number, kind in enumerate(kinds, 1):
        name = kind.partition("+")[0]
        relay = None
        if name != "direct":
            relay = start("prx", f"{TESTS}/bench_relay", *options(kind), name, str(PORT + number),
                          "10.0.2.1", str(PORT))
        for size in sizes:
            print("begin", flush=True)
            if relay:
                answers, cost = measure("cli", "10.0.1.2", PORT + number, size, seconds)
            else:
                answers, cost = measure("prx", "10.0.2.1", PORT, size, seconds)
            print(json.dumps({"kind": kind, "size": size, "answers": answers, "warm": WARM,
                              "instructions": cost}), flush=True)
        if relay:
            relay.terminate()
            relay.wait()
    origin.terminate()


if __name__ == "__main__":
    main()
