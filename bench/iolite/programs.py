# SPDX-License-Identifier: GPL-2.0
"""In the counted guest, what the converted programs cost.

Each command runs with the module,
with IOLITE=off (the same program, by copying) and as the ordinary program; starting it is included.
"""
import os
import statistics
import subprocess
import time
from pathlib import Path

import inside

TOP = Path(__file__).resolve().parents[2]
RUNS = 3
CASES = {
    "wc": ("iol-wc {text}", "wc {text}"),
    # grep stops at the first line when it sees that nobody reads.
    "cat | grep": ("iol-cat {text} | iol-grep needle | cat", "cat {text} | grep -F needle | cat"),
    "permute | wc": ("iol-permute 9 | iol-wc", "iol-permute 9 | wc"),
    "cat | cat": ("iol-cat {text} | iol-cat >/dev/null", "cat {text} | cat >/dev/null"),
}


def counters():
    """All of them."""
    with open("/sys/kernel/debug/iolite/counters", encoding="ascii") as f:
        return {name: int(value) for name, value in (line.split() for line in f)}


def count(command, env):
    """Median of the runs after the first, which warms."""
    counts = []
    for _ in range(RUNS + 1):
        start = inside.busy()
        subprocess.run(["bash", "-c", command], env=env, stdout=subprocess.DEVNULL, check=False)
        counts.append(inside.busy() - start)
    return round(statistics.median(counts[1:]))


def run(text):
    """All cases, on a text that this writes."""
    with open(text, "w", encoding="ascii") as f:
        for i in range(60000):
            f.write(f"{i} hay {'hay' if i % 97 else 'needle'} hay hay hay\n")
    os.sync()
    time.sleep(0.1)
    result = {"bytes": os.path.getsize(text), "cases": {}}
    off = dict(os.environ, IOLITE="off")
    for name, lines in CASES.items():
        ours, theirs = (line.format(text=text) for line in lines)
        before = counters()
        case = {"iolite": count(ours, os.environ)}
        after = counters()
        case["counters"] = {key: after[key] - before[key] for key in after if after[key] != before[key]}
        case["copying"] = count(ours, off)
        case["ordinary"] = count(theirs, off if "iol-" in theirs else os.environ)
        result["cases"][name] = case
    return result


def compiled(env):
    """The paper's 27 files of 167 KB by gcc, its passes joined by pipes: instructions, and a sum of what came out."""
    sources = sorted((TOP / "tools/flash").glob("*.c"))[:27]
    rooms = ("kmod", "handoff", "iolite", "uselect")
    include = (".", *(f"{room}/{part}" for room in rooms for part in ("lib", "uapi")))
    options = " ".join(f"-I{TOP / directory}" for directory in include)
    script = (f"set -e; for f; do gcc -pipe -no-integrated-cpp -std=gnu11 -D_GNU_SOURCE {options} -c $f -o /tmp/o.o; "
              "md5sum </tmp/o.o; done")
    start = inside.busy()
    out = subprocess.run(["bash", "-c", script, "sh", *sources], env=env, check=True, stdout=subprocess.PIPE).stdout
    return inside.busy() - start, out, sum(f.stat().st_size for f in sources)


def gcc():
    """gcc as it is, and with libiolstdio."""
    preload = dict(os.environ, LD_PRELOAD=str(TOP / "build/lib/libiolstdio.so"))
    compiled(os.environ)
    ordinary, want, size = compiled(os.environ)
    before = counters()
    iolite, got, _ = compiled(preload)
    after = counters()
    if want != got:
        raise RuntimeError("gcc with libiolstdio made other objects")
    return {"bytes": size, "iolite": iolite, "ordinary": ordinary,
            "counters": {key: after[key] - before[key] for key in after if after[key] != before[key]}}
