#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 240
# long: debug two minutes there
"""stats, the exporter and top against all rooms of this kernel, as a user without rights."""

import json
import os
import re
import subprocess
import sys

TOP = os.environ["FLT_TOP"]
for directory in ("tools/testing/lib", "kmod/tests/lib", "tools/flotilla/tests/lib"):
    sys.path.insert(0, os.path.join(TOP, directory))
import exposition                                       # noqa: E402
from kit import claim, main, wait                       # noqa: E402
from screen import Screen                               # noqa: E402

MODULES = ["iolite", "flotilla", "handoff", "sksplice", "uselect", "afpa", "card"]
ROOMS = {"iolite", "flotilla", "handoff", "splice", "uselect", "afpa", "card"}
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, timeout=100).stdout


def flotilla(*arguments, user=(*NOBODY,)):
    return run(*user, "flotilla", *arguments).decode()


def load(*modules):
    for module in modules:
        run("modprobe", module)


def unload():
    for module in reversed(MODULES):
        # Who is just asking for its counters holds it for a moment.
        wait(lambda m=module: subprocess.run(["modprobe", "-r", m], check=False).returncode == 0, name=f"no {module}")


def counters():
    return {(row["room"], row["name"]): row["value"] for row in json.loads(flotilla("-j", "stats"))}


def debugfs():
    if not os.path.exists("/sys/kernel/debug/iolite"):
        run("mount", "-t", "debugfs", "debugfs", "/sys/kernel/debug")
    with open("/sys/kernel/debug/iolite/counters", encoding="ascii") as file:
        return {("iolite", name): int(value) for name, value in (line.split() for line in file)}


@claim
def iolite_is_told_without_the_other_modules():
    unload()
    load("iolite")
    run("iol-cat", "/etc/passwd")
    got = counters()
    assert got == debugfs(), (got, debugfs())
    assert got["iolite", "BuffersMade"] > 0, got
    samples = exposition.read(flotilla("stats", "--prometheus"))
    assert exposition.value(samples, "flotilla_iolite_buffers_made_total") == got["iolite", "BuffersMade"]
    assert "flotilla_node_up" not in samples
    page = subprocess.run([*NOBODY, "flotilla", "stats", "--prometheus", "--http"],
                          input=b"GET /metrics HTTP/1.1\r\n\r\n", capture_output=True, timeout=60, check=True).stdout
    assert page.startswith(b"HTTP/1.1 200 OK\r\n") and b"\nflotilla_iolite_file_hits_total " in page, page[:200]
    top = json.loads(flotilla("-j", "top", "--once", "interval", "0.1"))
    assert not top["kernel"] and {row["room"] for row in top["counters"]} == {"iolite"}, top


@claim
def every_counter_of_every_room_has_a_type_and_a_number():
    load(*MODULES)
    got = counters()
    assert {room for room, _ in got} == ROOMS, got
    text = flotilla("stats", "--prometheus")
    samples = exposition.read(text)
    assert " untyped" not in text, re.findall("# TYPE (.*) untyped", text)
    told = sum(len(of) for of in samples.values())
    assert told == len(got) + 2, (told, len(got))       # the version, and the histogram's count
    assert set(debugfs()) < set(got)


@claim
def top_shows_nodes_and_goes_on_when_the_modules_go():
    unload()
    load("flotilla")
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "replace", "10.0.0.1/24", "dev", "lo")
    flotilla("local", "set", "name", "here", "address", "10.0.0.1", user=())
    flotilla("node", "add", "be1", "address", "10.0.0.2", user=())
    top = json.loads(flotilla("-j", "top", "--once", "interval", "2"))
    assert top["kernel"] and [node["node"] for node in top["nodes"]] == ["be1"], top["nodes"]
    samples = exposition.read(flotilla("stats", "--prometheus"))
    assert exposition.value(samples, "flotilla_node_up", node="be1") == 0
    totals = {row["name"]: row["total"] for row in top["counters"] if row["room"] == "flotilla"}
    assert totals["LinkConnects"] > 0, totals
    with Screen([*NOBODY, "flotilla", "top", "interval", "0.5"], rows=40) as screen:
        screen.shows("be1")
        assert not screen.obeys(), screen.obeys()
        unload()
        screen.shows("flotilla.ko is not loaded")
        load("flotilla")
        wait(lambda: screen.lines() and "not loaded" not in screen.lines()[0], name="the module again")
        screen.key("q")
        assert screen.ends() == 0 and screen.is_as_before()


if __name__ == "__main__":
    main()
