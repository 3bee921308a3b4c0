# SPDX-License-Identifier: GPL-2.0
"""A program on a terminal of its own, and what its screen shows.

    with Screen(["flotilla", "top"], rows=24, columns=80) as screen:
        screen.shows("dispatcher:")
        screen.key("q")
        assert screen.ends() == 0
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import kit

ENTER, LEAVE = b"\x1b[?1049h\x1b[?25l", b"\x1b[?25h\x1b[?1049l"
OURS = re.compile(rb"\x1b\[\?1049[hl]|\x1b\[\?25[hl]|\x1b\[[HKJ]")


def as_in_a_terminal():
    """A shell has its background jobs ignore two of the signals, and they have their children."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


class Screen:
    def __init__(self, command, rows=24, columns=80, env=None):
        self.output = b""
        self.master, slave = pty.openpty()
        self.size(rows, columns)
        self.before = termios.tcgetattr(slave)
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                        preexec_fn=as_in_a_terminal,
                                        env={**os.environ, "TERM": "xterm", **(env or {})})
        self.slave = slave

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def size(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def key(self, text):
        os.write(self.master, text.encode())

    def read(self, seconds=0.05):
        while select.select([self.master], [], [], seconds)[0]:
            self.output += os.read(self.master, 65536)
            seconds = 0

    def takes(self):
        """Is there room for what it writes? Without reading any of it."""
        return select.select([], [self.slave], [], 0)[1]

    def lines(self):
        """Of the last screen that is complete."""
        self.read()
        screens = re.findall(rb"\x1b\[H((?:(?!\x1b\[H).)*)\x1b\[J", self.output, re.S)
        last = screens[-1].replace(b"\x1b[K", b"").decode() if screens else ""
        return [line.rstrip("\r") for line in last.split("\n")] if screens else []

    def shows(self, text):
        """Wait until a screen has it; the lines."""
        def seen():
            lines = self.lines()
            return lines if any(text in line for line in lines) else None
        try:
            return kit.wait(seen, name=f"a screen with {text!r}")
        except AssertionError:
            print("# " + repr(self.output[-2000:]))
            raise

    def obeys(self):
        """Escapes and controls that are none of the program's own."""
        self.read()
        return set(re.findall(rb"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\xff][^\r\n]{0,8}", OURS.sub(b"", self.output)))

    def ends(self, seconds=kit.PATIENCE):
        """Its exit status, or the signal that ended it, negative; what it wrote is read meanwhile."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < end, "it did not end"
            self.read()
        self.read()
        return self.process.returncode

    def is_as_before(self):
        """The first screen is there again, with its cursor, and the terminal in its modes."""
        return self.output.endswith(LEAVE) and termios.tcgetattr(self.slave) == self.before
