# SPDX-License-Identifier: GPL-2.0
"""Profiles side by side: a guest counted by QEMU's plugin of bench/pathlen, cell after cell."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "pathlen"))
from blocks import Profile, Symbols, table_of  # noqa: E402
from counted import CPU, ICOUNT, TOP  # noqa: E402

ALL = 1 << 20
# What the devices between client, proxy and origin do: see inside.py.
PATHS = ("offload", "mtu-gro", "mtu", "mtu-nosum")
TABLE = "by function: instructions, calls"


def run(line, work, timeout, more, icount):
    """(cell, the blocks that ran for it) of each cell that the guest's command announces and prints."""
    plugin = Profile(f"{work}/profile")
    guest = [TOP / "tools/vm/guest", "--accel", "tcg", "--cpus", "1", "--cpu", CPU,
             "--qemu", f"{icount} {Profile.qemu(plugin.path)}", "--timeout", str(timeout), "--results", work,
             *more, "--", *line]
    found = []
    with subprocess.Popen([str(word) for word in guest], stdout=subprocess.PIPE, text=True) as process:
        for text in process.stdout:
            if text.startswith("begin"):
                plugin.clear()
            elif text.startswith("{"):
                found.append((json.loads(text), plugin.dump()))
    if process.returncode:
        sys.exit(f"the guest ended with {process.returncode}")
    return found


def profiles(line, requests, timeout=600, lines=ALL, more=(), icount=ICOUNT):
    """Cells with their tables; @requests says of a cell over how many its blocks went."""
    with tempfile.TemporaryDirectory() as work:
        found = run(line, work, timeout, more, icount)
        symbols = Symbols((Path(work) / "kallsyms").read_text())
    return [table_of(blocks, symbols, requests(cell), lines) | cell for cell, blocks in found]


def show(cells, lines):
    """One function a line, instructions and calls of each cell; first where they differ most."""
    rows = {}
    for number, cell in enumerate(cells):
        for name, module, count, calls in cell[TABLE]:
            rows.setdefault((name, module), [(0, 0)] * len(cells))[number] = (count, calls)

    def weight(row):
        counts = [count for count, _ in row[1]]
        return max(counts) - (min(counts) if len(cells) > 1 else 0)

    for (name, module), row in sorted(rows.items(), key=weight, reverse=True)[:lines]:
        print("".join(f"{count:9d} {calls:9.2f}" for count, calls in row), f" {name} [{module}]")
