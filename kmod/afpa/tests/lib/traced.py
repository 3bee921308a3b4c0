# SPDX-License-Identifier: GPL-2.0
"""What the kernel does meanwhile: events of an instance of its tracing that is of this process alone."""
import contextlib
import os
import re
import subprocess

TRACING = "/sys/kernel/tracing"
OWN = f"instances/afpa{os.getpid()}"


def trace(name, text):
    # The list of probes can neither be truncated, which empties it, nor sought in.
    fd = os.open(f"{TRACING}/{name}", os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


@contextlib.contextmanager
def events(name, stacks=False):
    """A function that gives those so far: (event, its text, names of who called, the innermost first)."""
    if not os.path.exists(f"{TRACING}/kprobe_events"):
        subprocess.run(("mount", "-t", "tracefs", "tracefs", TRACING), check=True)
    os.mkdir(f"{TRACING}/{OWN}")
    trace(f"{OWN}/options/stacktrace", str(int(stacks)))
    trace(f"{OWN}/events/{name}/enable", "1")

    def found():
        seen = []
        with open(f"{TRACING}/{OWN}/trace", encoding="ascii", errors="replace") as file:
            for line in file:
                event = re.search(r": (\w+): (.+)", line)
                if event:
                    seen.append((event.group(1), event.group(2), []))
                elif line.startswith(" =>") and seen:
                    seen[-1][2].append(line.split()[1].split("+")[0])
        return seen
    try:
        yield found
    finally:
        trace(f"{OWN}/events/{name}/enable", "0")
        os.rmdir(f"{TRACING}/{OWN}")


@contextlib.contextmanager
def calls(functions, stacks=False):
    """The same of calls of FUNCTIONS, as events of their names."""
    if not os.path.exists(f"{TRACING}/kprobe_events"):
        subprocess.run(("mount", "-t", "tracefs", "tracefs", TRACING), check=True)
    for function in functions:
        trace("kprobe_events", f"p:afpaprobe/{function} {function}")
    try:
        with events("afpaprobe", stacks) as found:
            yield found
    finally:
        for function in functions:
            trace("kprobe_events", f"-:afpaprobe/{function}")


@contextlib.contextmanager
def stacks_of(function, found):
    """FOUND gets who called FUNCTION."""
    with calls([function], stacks=True) as seen:
        yield
        found.update(tuple(stack) for _, _, stack in seen())
