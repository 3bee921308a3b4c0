#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""programs.py: in the counted guest, what the converted programs cost, as JSON.

One CPU that is never idle: the clock is the count of instructions. Each command runs with the module,
with IOLITE=off (the same program, by copying) and as the ordinary program; starting it is included.
"""
import json
import os
import statistics
import subprocess
import time

TEXT = "/run/www/text"
RUNS = 3
CASES = {
    "wc": (f"iol-wc {TEXT}", f"wc {TEXT}"),
    "cat | grep": (f"iol-cat {TEXT} | iol-grep needle", f"cat {TEXT} | grep -F needle"),
    "permute | wc": ("iol-permute 9 | iol-wc", "iol-permute 9 | wc"),
    "cat | cat": (f"iol-cat {TEXT} | iol-cat >/dev/null", f"cat {TEXT} | cat >/dev/null"),
}


def counters():
    """All of them."""
    with open("/sys/kernel/debug/iolite/counters", encoding="ascii") as f:
        return {name: int(value) for name, value in (line.split() for line in f)}


def count(command, env):
    """Median of the runs after the first, which warms."""
    counts = []
    for _ in range(RUNS + 1):
        start = time.monotonic_ns()
        subprocess.run(["bash", "-c", command], env=env, stdout=subprocess.DEVNULL, check=False)
        counts.append(time.monotonic_ns() - start)
    return round(statistics.median(counts[1:]))


def main():
    with open(TEXT, "w", encoding="ascii") as f:
        for i in range(60000):
            f.write(f"{i} hay {'hay' if i % 97 else 'needle'} hay hay hay\n")
    os.sync()
    time.sleep(0.1)
    result = {"bytes": os.path.getsize(TEXT), "cases": {}}
    off = dict(os.environ, IOLITE="off")
    for name, (ours, theirs) in CASES.items():
        before = counters()
        case = {"iolite": count(ours, os.environ)}
        after = counters()
        case["counters"] = {key: after[key] - before[key] for key in after if after[key] != before[key]}
        case["copying"] = count(ours, off)
        if "iol-" in theirs:
            case["ordinary"] = count(theirs, off)
        else:
            case["ordinary"] = count(theirs, os.environ)
        result["cases"][name] = case
    print(json.dumps(result))


main()
