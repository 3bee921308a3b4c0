# SPDX-License-Identifier: GPL-2.0
"""A server and its load in one guest of one CPU, whose clock counts instructions and leaps over idle time.

Nothing outside the guest takes part, so two runs differ by less than a percent however busy the machine is. What is
counted are the nanoseconds, which are instructions, that the scheduler gave the server's processes: their own, their
system calls, and the interrupts that came meanwhile. Over loopback these send the answer as far as into the client's
socket; the request's own way into the server's is made by the client and is in `all` only, as the client itself is.
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from counted import CPU, TOP

ICOUNT = "-icount shift=0,sleep=off"


def boot(script, words, name):
    """What @script, run in the guest as `--inside WORDS`, kept; None if it kept nothing."""
    with tempfile.TemporaryDirectory(prefix="flotilla-bench-") as results:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        command = [TOP / "tools/vm/guest", "--accel", "tcg", "--cpus", "1", "--cpu", CPU, "--mem", "1G", "--name", name,
                   "--results", results, "--qemu", ICOUNT, "--", Path(script).resolve(), "--inside", *words]
        try:
            status = subprocess.run([str(c) for c in command], check=False).returncode
        except SystemExit:
            status = "by a signal"
        found = Path(results) / "kept.json"
        if status:
            print(f"{name}: the guest ended early ({status})", file=sys.stderr)
        return json.loads(found.read_text()) if found.exists() else None


def keep(what):
    """In the guest: what there is so far."""
    (Path(os.environ["FLT_RESULTS"]) / "kept.json").write_text(json.dumps(what))


def wait(port, path="/"):
    end = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
                return answer.read()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def processes(name):
    """Of that name, workers and master."""
    found = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            if path.read_text().strip() == name:
                found.append(path.parent)
        except OSError:
            continue
    return found


def executed(of):
    """Instructions that ran in the context of these processes, all threads; none of them runs now."""
    return sum(int(task.read_text().split()[0]) for process in of for task in process.glob("task/*/schedstat"))


def busy():
    """Instructions of the whole guest."""
    clocks = Path("/proc/timer_list").read_text()
    idle = sum(int(n) for n in re.findall(r"\.(?:idle|iowait)_sleeptime\s*:\s*(\d+)", clocks))
    return int(re.search(r"now at (\d+) nsecs", clocks).group(1)) - idle


def measure(of, load):
    """Instructions per request of one run of @load() -> requests."""
    before = executed(of), busy()
    requests = load()
    after = executed(of), busy()
    return {"requests": requests, "instructions": round((after[0] - before[0]) / requests),
            "all": round((after[1] - before[1]) / requests)}
