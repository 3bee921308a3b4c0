#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What Prometheus gets of the modules' counters: valid, typed, in its units, every counter of every room."""

import configparser
import os
import re
import subprocess
import sys

TOP = os.environ.get("FLT_TOP", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../.."))
sys.path.insert(0, os.path.join(TOP, "tools/testing/lib"))
import exposition                                       # noqa: E402
import kit                                              # noqa: E402
from exposition import value                            # noqa: E402

TABLES = {"flotilla": "kmod/stats.c", "handoff": "handoff/counter.c", "splice": "splice/counter.c",
          "uselect": "uselect/counter.c", "card": "card/counter.c", "afpa": "kmod/afpa/counter.c",
          "iolite": "iolite/counter.c"}


def counters():
    """(room, name) as the modules' tables have them, in that order."""
    for room, path in TABLES.items():
        with open(os.path.join(TOP, path), encoding="ascii") as file:
            table = re.search(r"_names\[.*?\] = \{(.*?)\n\};", file.read(), re.S)[1]
        names = re.findall(r'"(\w+)",', table)
        assert len(names) > 10, path
        yield from ((room, name) for name in names)


def text_of(lines):
    return subprocess.run([os.path.join(TOP, "build/tests/flotilla_metrics_of")], input="\n".join(lines) + "\n",
                          capture_output=True, text=True, check=True).stdout


def every_counter_of_every_room_has_its_sentence():
    every = list(counters())
    text = text_of(f"+ {room} {name} {n}" for n, (room, name) in enumerate(every))
    samples = exposition.read(text)
    assert " untyped" not in text, re.findall("# TYPE (.*) untyped", text)
    told = sum(len(of) for of in samples.values())
    assert told == len(every) + 2, (told, len(every))   # the version, and the histogram's count


def counters_of_one_kind_are_one_family():
    got = exposition.read(text_of(["+ handoff HandoffRefusedUrgent 3", "+ handoff HandoffRefusedNoListener 4",
                                   "+ flotilla LinkRefusedPort 5", "+ flotilla LinkBadMagic 6",
                                   "+ splice SpliceBytesCall 7", "+ splice SpliceBytesLinear 8",
                                   "+ splice SpliceEndedEof 9", "+ afpa AfpaDeferred 30",
                                   "+ afpa AfpaDeferredMethod 10", "+ afpa AfpaDeferredLarge 11"]))
    refused = "flotilla_handoff_refused_total"
    assert value(got, refused, reason="urgent") == 3 and value(got, refused, reason="no_listener") == 4
    assert value(got, "flotilla_link_refused_total", reason="port") == 5
    assert value(got, "flotilla_link_bad_frames_total", reason="magic") == 6
    assert got["flotilla_splice_bytes_total"] == {(("by", "call"),): 7}
    assert value(got, "flotilla_splice_linear_bytes_total") == 8
    assert value(got, "flotilla_splice_ended_total", cause="eof") == 9
    assert got["flotilla_afpa_deferred_for_total"] == {(("reason", "method"),): 10, (("reason", "large"),): 11}
    assert value(got, "flotilla_afpa_deferred_total") == 30


def times_are_seconds_and_a_histogram():
    lines = [f"+ handoff HandoffUsec{2 ** n} {n}" for n in range(21)]
    lines += ["+ handoff HandoffUsecMore 5", "+ handoff HandoffUsecSum 2500000", "+ card CardTotalNsec 1500000000",
              "+ card CardRemoteDiskUsec 250000"]
    got = exposition.read(text_of(lines))
    name = "flotilla_handoff_duration_seconds"
    assert value(got, name + "_bucket", le="1e-06") == 0 and value(got, name + "_bucket", le="0.000128") == 28
    assert value(got, name + "_bucket", le="1.048576") == 210 and value(got, name + "_count") == 215
    assert value(got, name + "_sum") == 2.5
    assert value(got, "flotilla_card_read_seconds_total") == 1.5
    assert value(got, "flotilla_card_read_disk_seconds_total") == 0.25


def what_is_not_asked_for_is_not_told():
    lines = [f"- handoff HandoffUsec{2 ** n} {n}" for n in range(21)]
    got = exposition.read(text_of(lines + ["- handoff HandoffDone 1", "+ handoff HandoffFailed 1"]))
    assert set(got) == {"flotilla_build_info", "flotilla_handoff_failed_total"}, got
    got = exposition.read(text_of(lines + ["+ handoff HandoffUsecMore 1", "- handoff HandoffUsecSum 9"]))
    assert value(got, "flotilla_handoff_duration_seconds_count") == 211     # whole, or not at all


def counter_of_a_newer_module_is_told_without_a_type():
    text = text_of(["+ handoff HandoffPigeons 3", "+ newer Polls 4", "+ uselect Polls 5"])
    got = exposition.read(text)
    assert value(got, "flotilla_handoff_handoff_pigeons") == 3 and value(got, "flotilla_newer_polls") == 4
    assert value(got, "flotilla_uselect_polls_total") == 5 and text.count(" untyped") == 2


def promtool_has_nothing_to_say():
    every = [f"+ {room} {name} {n}" for n, (room, name) in enumerate(counters())]
    said = exposition.promtool(text_of(every + ["n node be1 3", "n node be2 4"]))
    assert not said, said


def name_of_a_node_spoils_no_page():
    run = subprocess.run([os.path.join(TOP, "build/tests/flotilla_metrics_of")], input=b'n node \xe4"\\\x80 7\n',
                         capture_output=True, check=True)
    got = exposition.read(run.stdout.decode())          # which refuses what is no UTF-8, as Prometheus does
    assert got["flotilla_node_load"] == {(("node", r'\xe4"\\x80'),): 7}, got["flotilla_node_load"]


def http_tells_what_is_wrong():
    def ask(request):
        run = subprocess.run(["flotilla", "stats", "--prometheus", "--http"], input=request.encode(),
                             capture_output=True, timeout=20, check=False,
                             env={**os.environ, "PATH": os.path.join(TOP, "build/bin") + ":" + os.environ["PATH"]})
        head, _, body = run.stdout.partition(b"\r\n\r\n")
        assert b"Content-Length: %d\r\n" % len(body) in head or request.startswith("HEAD"), run
        return head.split(b"\r\n")[0].decode()

    loaded = os.path.exists("/sys/module/flotilla")
    right = "HTTP/1.1 200 OK" if loaded else "HTTP/1.1 503 Service Unavailable"
    for method in ("GET", "HEAD"):
        assert ask(f"{method} /metrics HTTP/1.1\r\nHost: h\r\n\r\n") == right
    assert ask("GET /metrics?x=1 HTTP/1.0\r\n\r\n") == right
    assert ask("GET /metricsx HTTP/1.1\r\n\r\n") == ask("GET / HTTP/1.1\r\n\r\n") == "HTTP/1.1 404 Not Found"
    assert ask("POST /metrics HTTP/1.1\r\n\r\n") == "HTTP/1.1 405 Method Not Allowed"
    for nonsense in ("", "GET", "GET /metrics HTTP/1.1\r\n", "\n\n", "x" * 20000):
        assert ask(nonsense)[:10] == "HTTP/1.1 4", nonsense[:20]


def a_crowd_does_not_end_the_socket_for_good():
    """Its unit bounds how many there are at once and not how often: systemd never opens again what came too often."""
    unit = configparser.ConfigParser(strict=False, delimiters="=", interpolation=None)
    unit.optionxform = str
    unit.read(os.path.join(TOP, "tools/flotilla/flotilla-metrics.socket"))
    socket = unit["Socket"]
    assert socket["Accept"] == "yes" and 0 < int(socket["MaxConnections"]) <= 64, dict(socket)
    assert 0 < int(socket["MaxConnectionsPerSource"]) < int(socket["MaxConnections"]), dict(socket)
    assert "0" in (socket.get("TriggerLimitIntervalSec"), socket.get("TriggerLimitBurst")), dict(socket)


if __name__ == "__main__":
    sys.exit(kit.run([(test.__name__, test) for test in (
        every_counter_of_every_room_has_its_sentence, counters_of_one_kind_are_one_family,
        times_are_seconds_and_a_histogram, what_is_not_asked_for_is_not_told,
        counter_of_a_newer_module_is_told_without_a_type, promtool_has_nothing_to_say, name_of_a_node_spoils_no_page,
        http_tells_what_is_wrong, a_crowd_does_not_end_the_socket_for_good)]))
