#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""flotilla explain against a dispatcher that answers well, badly, or not at all."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.environ.get("FLT_TOP", os.path.join(HERE, "../../../.."))
sys.path.insert(0, os.path.join(HERE, "../../../testing/lib"))
import kit                                      # noqa: E402

FLOTILLA = os.path.join(TOP, "build/bin/flotilla")
ANSWER = {"url": "/a?b=1", "node": "be1", "policy": "lard/r",
          "why": "be1 serves this target; its load 3 is not above t_high 65"}


class Dispatcher:
    """One connection: takes a line, sends what it was given, closes."""

    def __init__(self, path, reply, pieces=1):
        self.reply, self.pieces, self.request = reply, pieces, None
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(path)
        self.server.listen()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        with self.server, self.server.accept()[0] as peer:
            self.request = peer.makefile().readline()
            step = max(1, len(self.reply) // self.pieces)
            try:
                for at in range(0, len(self.reply), step):
                    peer.sendall(self.reply[at:at + step])
            except (BrokenPipeError, ConnectionResetError):
                pass


def ask(reply, *options, url="/a?b=1", pieces=1):
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "lardd.sock")
        dispatcher = Dispatcher(path, reply, pieces)
        run = subprocess.run([FLOTILLA, *options, "explain", url, "socket", path],
                             capture_output=True, text=True, timeout=20, check=False)
        dispatcher.thread.join()
        return run, dispatcher.request


def the_request_is_one_line_of_json():
    _, request = ask(json.dumps(ANSWER).encode() + b"\n", url='/q?"\\\n')
    assert request.endswith("\n"), request
    assert json.loads(request) == {"cmd": "explain", "url": '/q?"\\\n'}, request


def the_answer_is_told_line_by_line():
    run, _ = ask(json.dumps(ANSWER).encode() + b"\n", pieces=7)
    assert run.returncode == 0, run
    assert "node: be1\n" in run.stdout and "why: be1 serves" in run.stdout, run.stdout


def what_a_terminal_obeys_is_told_as_numbers():
    run, _ = ask(json.dumps({"why": "a\x1b[2J\nnode: be9", "k\x1b": ["\u202e", {"x": "\x1b"}]}).encode() + b"\n")
    assert run.stdout == 'why: a\\x1b[2J\\x0anode: be9\nk\\x1b: \\xe2\\x80\\xae, {"x":"\\u001B"}\n', run


def json_answer_is_passed_on_whole():
    run, _ = ask(json.dumps(ANSWER).encode() + b"\n", "-j")
    assert json.loads(run.stdout) == ANSWER, run


def the_dispatchers_refusal_is_a_failure():
    run, _ = ask(b'{"error":"the URL has no path"}\n')
    assert run.returncode == 1, run
    assert run.stderr == "flotilla: cannot explain /a?b=1: the URL has no path\n", run.stderr


def nonsense_is_refused():
    for reply in (b"hello\n", b"[1]\n", b"\n", b"{\n", b"{}{}\n", b'{"why":"\xff"}\n'):
        run, _ = ask(reply)
        assert run.returncode == 1, (reply, run)
        assert "is not a JSON object" in run.stderr, (reply, run.stderr)


def answer_without_end_is_bounded():
    run, _ = ask(b"x" * (3 << 20))
    assert run.returncode == 1 and "hung up: Message too long" in run.stderr, run.stderr


def hanging_up_is_told():
    run, _ = ask(b"")
    assert run.returncode == 1 and "the dispatcher hung up" in run.stderr, run.stderr


def main():
    tests = [the_request_is_one_line_of_json, the_answer_is_told_line_by_line,
             what_a_terminal_obeys_is_told_as_numbers, json_answer_is_passed_on_whole,
             the_dispatchers_refusal_is_a_failure, nonsense_is_refused, answer_without_end_is_bounded,
             hanging_up_is_told]
    return kit.run([(test.__name__, test) for test in tests])


if __name__ == "__main__":
    sys.exit(main())
