#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""flotilla apply whose output nobody reads: others have its lock, and what it said comes when it is read."""
import contextlib
import fcntl
import os
import select
import subprocess
import sys
import tempfile

TOP = os.environ.get("FLT_TOP", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../.."))
sys.path.insert(0, os.path.join(TOP, "tools/testing/lib"))
import kit                                              # noqa: E402
from kit import claim, equal                            # noqa: E402

FLOTILLA = os.path.join(TOP, "build/bin/flotilla")
# A /run that nobody else sees; the lock is asked for until it is free, or for eight seconds.
INSIDE = """
mount -t tmpfs none /run && mkdir /run/flotilla && : >/run/flotilla/apply.lock || exit 4
"$1" apply "$2" 2>&"$3" &
while ! grep -q . /run/flotilla/apply.lock; do sleep 0.1; done
flock -w 8 /run/flotilla/apply.lock true && echo free
wait
"""


def full_pipe():
    """Both ends, and what is in it."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writer, False)
    filled = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            filled += os.write(writer, b"x" * 4096)
    os.set_blocking(writer, True)
    return reader, writer, filled


@claim
def who_does_not_read_has_no_lock():
    if os.path.exists("/sys/module/flotilla"):
        raise kit.Skip("flotilla.ko is loaded: it would be another sentence, and a real change")
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "file")
        with open(path, "w", encoding="ascii") as file:
            file.write("local name fe address 10.0.0.1\n")
        reader, writer, filled = full_pipe()
        with subprocess.Popen(["unshare", "-rm", "--kill-child", "sh", "-c", INSIDE, "sh", FLOTILLA, path, str(writer)],
                              pass_fds=(writer,), stdout=subprocess.PIPE) as process:
            try:
                os.close(writer)
                if not select.select([process.stdout], [], [], 20)[0]:
                    raise AssertionError("apply has the lock for as long as nobody reads what it says")
                got = process.stdout.readline()
                if not got and process.wait(5) == 4:
                    raise kit.Skip("no mount namespaces here")
                equal("the lock", got, b"free\n")
                with os.fdopen(reader, "rb") as said:
                    equal("said", said.read()[filled:], ("flotilla: cannot apply %s: flotilla.ko is not loaded "
                                                         "(modprobe flotilla)\n" % path).encode())
            finally:
                process.kill()


@claim
def who_goes_away_ends_nothing():
    """Of changes half would be made because head has seen its line: here it is a sentence that nobody takes."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "file")
        with open(path, "w", encoding="ascii") as file:
            file.write("local name fe address 10.0.0.1\n")
        reader, writer = os.pipe()
        os.close(reader)
        inside = "mount -t tmpfs none /run && \"$@\" apply $0"
        run = subprocess.run(["unshare", "-rm", "sh", "-c", inside, path, FLOTILLA],
                             stderr=writer, timeout=60, check=False)
        os.close(writer)
    equal("status", run.returncode, 1)


kit.main()
