#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 180
"""flotilla top, of a lardd and of things that are none: what it shows, and how it leaves the terminal."""

import contextlib
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

TOP = os.environ.get("FLT_TOP", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../.."))
for directory in ("tools/testing/lib", "lard/tests/lib", "tools/flotilla/tests/lib"):
    sys.path.insert(0, os.path.join(TOP, directory))
import kit                                              # noqa: E402
from kit import claim, wait                             # noqa: E402
from lardd import cluster                               # noqa: E402
from screen import ENTER, LEAVE, Screen                 # noqa: E402

FLOTILLA = os.path.join(TOP, "build/bin/flotilla")
STATUS = {"mode": "proxy", "policy": "lard/r", "nodes": 1, "outstanding": 3, "limit": 89, "queued": 0, "tunnels": 0}


@contextlib.contextmanager
def dispatcher(answers=None, serve=None):
    """A socket that gives these answers by command, or does with each connection as it is told; its path."""
    with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX) as s:
        path = os.path.join(directory, "lardd.sock")
        s.bind(path)
        s.listen(16)

        def one(peer):
            with contextlib.suppress(OSError), peer:
                if serve:
                    serve(peer)
                else:
                    command = json.loads(peer.makefile().readline())["cmd"]
                    peer.sendall(json.dumps(answers.get(command, {})).encode() + b"\n")

        def run():
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=one, args=(s.accept()[0],), daemon=True).start()
        threading.Thread(target=run, daemon=True).start()
        yield path
        s.shutdown(socket.SHUT_RDWR)


def nodes(*names, **more):
    return {"status": STATUS, "stats": {"counters": {"LardAccepted": 5}},
            "nodes": {"nodes": [{"name": name, "state": "up", "admin": "active", "load": 3, "t_high": 65, "weight": 100,
                                 "chosen": 7, **more} for name in names]}}


def top(*arguments, options=(), status=0):
    run = subprocess.run([FLOTILLA, *options, "top", *arguments], capture_output=True, timeout=60, check=False,
                         env={**os.environ, "TERM": "xterm"})
    assert run.returncode == status, run
    return (run.stderr if status else run.stdout).decode()


def on_screen(path, *arguments, **more):
    return Screen([FLOTILLA, "top", "interval", "0.2", "socket", path, *arguments], **more)


@claim
def an_answer_of_any_size_is_shown_at_once():
    """Of nodes and counters, which come in another order each time: meanwhile neither a key nor a signal ends it."""
    class Answers(dict):
        turn = 1

        def get(self, command, default=None):
            if command == "stats":
                self.turn = -self.turn
                return {"counters": {"Lard%d" % i: 1 for i in range(30000)[::self.turn]}}
            return super().get(command, default)

    many = {"nodes": [{"name": "n%d" % i} for i in range(12000)]}
    with dispatcher(Answers(status=STATUS, nodes=many)) as path:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        rows = top("interval", "0.1", "count", "1", "socket", path, options=("-t",)).splitlines()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert sum(row.startswith("node\t") for row in rows) == 12000, rows[:20]
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert seconds < 1.5, seconds


@claim
def what_happens_between_two_looks_is_told_as_rates():
    with cluster(2) as lardd:
        lardd.get("/before")
        with subprocess.Popen([FLOTILLA, "-j", "top", "count", "2", "interval", "2", "socket", lardd.socket_path],
                              stdout=subprocess.PIPE) as run:
            first = json.loads(run.stdout.readline())
            for n in range(20):
                lardd.get(f"/x{n}")
            lardd.ask(b"nonsense\r\n\r\n")
            second = json.loads(run.stdout.readline())
            assert not run.stdout.read() and run.wait() == 0
        assert 1.9 < second["seconds"] < 20
        assert abs(second["rates"]["requests"] * second["seconds"] - 20) < 0.01, second["rates"]
        assert abs(sum(node["requests_rate"] for node in second["nodes"]) * second["seconds"] - 20) < 0.01
        assert {node["node"]: node["state"] for node in second["nodes"]} == {"be0": "up", "be1": "up"}
        refused = {row["name"]: row for row in second["refused"]}
        assert refused["LardBadRequest"]["total"] == 1 and refused["LardBadRequest"]["rate"] > 0
        assert [row["total"] for row in first["counters"] if row["name"] == "LardRequests"] == [1]
        assert second["dispatcher"]["pid"] == lardd.process.pid


@claim
def a_pipe_gets_plain_lines_and_scripts_get_rows():
    with dispatcher(nodes("be1")) as path:
        text = top("--once", "interval", "0.1", "socket", path)
        assert re.search(r"^be1 +up +active +3/65 +100 ", text, re.M), text
        assert re.search(r"^lardd +LardAccepted +0 +5$", text, re.M) and "\x1b" not in text, text
        text = top("-n", "3", "-d", "0.1", "socket", path)
        assert text.count("dispatcher: proxy, policy lard/r") == 3 and "\x1b" not in text, text
        rows = [line.split("\t") for line in top("--once", "-d", "0.1", "socket", path, options=["-t"]).splitlines()]
        assert ["node", "be1", "up", "active", "3", "65", "100", "0.000", "0.000000"] in rows, rows
        assert ["counter", "lardd", "LardAccepted", "0.000", "5"] in rows, rows
        assert not [row for row in rows if row[0] not in ("rate", "node", "refused", "counter", "gauge")]
        assert not re.search("LardAccepted", top("--once", "-d", "0.1", "room", "card", "socket", path))


@claim
def a_terminal_that_knows_no_escapes_gets_none():
    with dispatcher(nodes("be1")) as path, on_screen(path, "count", "2", env={"TERM": "dumb"}) as screen:
        assert screen.ends() == 0
        assert b"\x1b" not in screen.output and screen.output.count(b"dispatcher:") == 2, screen.output


@claim
def it_draws_until_q_and_leaves_the_terminal_as_it_was():
    answers = nodes("be1")
    with dispatcher(answers) as path, on_screen(path) as screen:
        lines = screen.shows("be1")
        assert screen.output.startswith(ENTER) and lines[0].startswith("flotilla top"), lines
        answers["status"] = {**STATUS, "policy": "chbl"}
        screen.shows("policy chbl")
        assert not screen.is_as_before()
        screen.key("xq")
        assert screen.ends() == 0 and screen.is_as_before(), screen.output[-200:]


@claim
def each_signal_ends_it_and_the_terminal_is_as_it_was():
    with dispatcher(nodes("be1")) as path:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            with on_screen(path) as screen:
                screen.shows("be1")
                screen.process.send_signal(number)
                assert screen.ends() == -number and screen.is_as_before(), (number, screen.output[-200:])


@claim
def stopped_it_gives_the_terminal_back_and_goes_on_with_its_screen():
    with dispatcher(nodes("be1")) as path, on_screen(path) as screen:
        screen.shows("be1")
        # Nobody but init would wait for a stopped process of an orphaned group: there SIGTSTP does nothing by itself.
        screen.process.send_signal(signal.SIGTSTP)
        wait(lambda: screen.read() or screen.is_as_before(), name="the terminal as it was")
        with open(f"/proc/{screen.process.pid}/stat", encoding="ascii") as file:
            assert file.read().rsplit(")", 1)[1].split()[0] == "T"
        before = len(screen.output)
        screen.process.send_signal(signal.SIGCONT)
        wait(lambda: screen.read() or b"be1" in screen.output[before:], name="its screen")
        assert screen.output[before:].startswith(ENTER)
        screen.key("q")
        assert screen.ends() == 0 and screen.is_as_before()


@claim
def a_screen_of_any_size_gets_what_fits():
    with dispatcher(nodes(*[f"be{n}" for n in range(40)])) as path, on_screen(path, "-d", "60") as screen:
        screen.shows("... and")
        assert len(screen.lines()) <= 24, screen.lines()
        for rows, columns in ((10, 40), (60, 200), (1, 1), (2, 3), (24, 80)):
            before = len(screen.output)
            screen.size(rows, columns)
            # By the change alone: the next look is a minute away.
            wait(lambda: screen.read() or b"\x1b[J" in screen.output[before:], name="a new screen")
            lines = screen.lines()
            assert len(lines) <= rows and max(map(len, lines)) <= columns, (rows, columns, lines)
            assert len(lines) == min(rows, len(lines)) and lines[0] == "flotilla top"[:columns] + lines[0][12:]
        screen.key("q")
        assert screen.ends() == 0 and screen.is_as_before()


@claim
def names_are_shown_and_not_obeyed():
    evil = "\x1b[2Jevil\n\x9b31m\u202e\t\x07"
    answers = nodes(evil, state=evil, admin=evil)
    answers["status"] = {**STATUS, "mode": evil, "policy": evil}
    answers["stats"] = {"counters": {evil: 5, "Refused" + evil: 6, "n" * 200: 7}}
    with dispatcher(answers) as path:
        with on_screen(path, columns=200) as screen:
            screen.shows(r"\x1b[2Jevil\x0a")
            screen.key("q")
            assert screen.ends() == 0 and not screen.obeys(), screen.obeys()
        for options in ([], ["-t"], ["-j"]):
            text = top("--once", "-d", "0.1", "socket", path, options=options)
            bad = set(text) - set(map(chr, range(0x20, 0x7f))) - set("\n\t")
            assert not bad and "evil" in text, (options, bad)
        rows = top("--once", "-d", "0.1", "socket", path, options=["-t"]).splitlines()
        assert all(row.split("\t")[0] in ("rate", "node", "refused", "counter") for row in rows), rows


@claim
def answers_that_make_no_sense_do_no_harm():
    for answers in ({"status": {"mode": 7, "nodes": "x"}, "stats": {"counters": {"A": "x", "B": None, "C": -3}},
                     "nodes": {"nodes": [7, {}, {"name": 3}, {"name": "n", "state": 4, "load": "x"}]}},
                    {"status": {}, "stats": {"counters": [1, 2]}, "nodes": {"nodes": {"a": 1}}},
                    {"status": {"error": "no"}, "stats": {"error": "no"}}):
        with dispatcher(answers) as path:
            for options in ([], ["-t"], ["-j"]):
                top("--once", "-d", "0.1", "socket", path, options=options)


@claim
def a_terminal_that_takes_nothing_keeps_no_signal_waiting():
    with dispatcher(nodes(*[f"be{n}" for n in range(60)])) as path:
        with on_screen(path, rows=60, columns=200) as screen:
            screen.shows("be1")
            screen.key("\x13")                          # ^S
            time.sleep(1)                               # several screens
            screen.process.send_signal(signal.SIGTERM)
            assert screen.ends(10) == -signal.SIGTERM and screen.is_as_before()
        with on_screen(path, "-d", "0.1", rows=200, columns=500) as screen:
            screen.shows("be1")
            wait(lambda: not screen.takes(), name="a terminal that is full")
            screen.process.send_signal(signal.SIGTERM)
            assert screen.process.wait(10) == -signal.SIGTERM


@claim
def in_the_background_it_draws_nothing_and_can_be_ended():
    with dispatcher(nodes("be1")) as path:
        with Screen(["bash", "-c", f"set -m; {FLOTILLA} top socket {path} & echo pid $!; "
                     "while wait $!; r=$?; [ $r = 150 ]; do sleep 0.1; done; echo end $r"]) as screen:
            wait(lambda: screen.read() or b"pid" in screen.output, name="its pid")
            pid = int(re.search(rb"pid (\d+)", screen.output)[1])

            def state():
                with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                    return file.read().rsplit(")", 1)[1].split()[0]
            wait(lambda: state() == "T", name="its stop")
            os.kill(pid, signal.SIGTERM)
            os.kill(pid, signal.SIGCONT)
            wait(lambda: screen.read() or b"end %d" % (128 + signal.SIGTERM) in screen.output, 10, name="its end")
            assert ENTER not in screen.output, screen.output


@claim
def a_dispatcher_that_hangs_or_drips_holds_nothing_up():
    def hang(peer):
        peer.recv(1)
        time.sleep(60)

    def drip(peer):
        for _ in range(200):
            peer.sendall(b" ")
            time.sleep(0.3)
    for serve in (hang, drip):
        with dispatcher(serve=serve) as path:
            start = time.monotonic()
            run = subprocess.run([FLOTILLA, "top", "--once", "-d", "0.1", "socket", path], capture_output=True,
                                 timeout=60, check=False)
            assert time.monotonic() - start < 10 and run.returncode == (not kernel()), (serve.__name__, run)


@claim
def a_dispatcher_may_go_and_come_back():
    answers = nodes("be1")
    silent = {}
    with dispatcher(answers) as path, on_screen(path) as screen:
        screen.shows("be1")
        silent.update(answers)
        os.rename(path, path + ".away")
        screen.shows("no dispatcher answers here")
        os.rename(path + ".away", path)
        screen.shows("be1")
        screen.key("q")
        assert screen.ends() == 0


def kernel():
    return os.path.exists("/sys/module/flotilla") or os.path.exists("/sys/module/iolite")


@claim
def where_there_is_nothing_to_look_at_it_says_so():
    if kernel():
        raise kit.Skip("flotilla.ko or iolite.ko is loaded here")
    said = top("socket", "/nonexistent/sock", status=1)
    assert said == "flotilla: cannot watch: flotilla.ko is not loaded (modprobe flotilla), " \
                   "and no dispatcher listens on /nonexistent/sock\n", said
    with on_screen("/nonexistent/sock") as screen:
        assert screen.ends() == 1 and ENTER not in screen.output and LEAVE not in screen.output


if __name__ == "__main__":
    kit.main()
