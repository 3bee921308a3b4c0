#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The client of card_poweroff: what it was told is written, before and after the exporter lost its power."""
import errno
import json
import os
import subprocess
import sys
import time

sys.path[:0] = [os.path.join(os.environ["FLT_TOP"], path) for path in ("tools/testing/lib", "card/tests/lib")]
from direct import Direct                               # noqa: E402
from kit import Tap, equal, wait                        # noqa: E402

SAID = os.path.join(os.environ["FLT_RESULTS"], "said.")


def card(*words):
    done = subprocess.run(["flotilla", "-j", "card", *words], check=True, capture_output=True, text=True)
    return json.loads(done.stdout) if done.stdout.strip() else None


def row():
    rows = card("show", "disks")
    return rows[0] if isinstance(rows, list) else rows


def announce(word):
    with open(SAID + word, "w", encoding="ascii"):
        pass


def await_(word):
    # The tree that guests and host share keeps names of files that were not there.
    wait(lambda: word in [n[5:] for n in os.listdir(os.path.dirname(SAID))], 400, .2)


def run(disk):
    disk.put(1)
    equal("fsync before", disk.sync(), 0)
    disk.put(2)
    disk.put(3, 65536)
    announce("acknowledged")
    await_("gone")
    wait(lambda: row()["state"] != "live", 200)
    begin = time.monotonic()
    wait(lambda: row()["state"] == "live", 400)
    print("# it was away for %.0f s" % (time.monotonic() - begin))


def lost(disk):
    equal("what was flushed", disk.get(), 1)
    equal("what was only acknowledged", disk.get(65536), 0)


def told(disk):
    equal("fsync", disk.sync(), errno.EIO)
    equal("another", disk.sync(), errno.EIO)
    assert "has lost writes" in row()["reason"], row()


def again(disk):
    disk.close()
    new = Direct("/dev/" + row()["disk"])
    new.put(4, 65536)
    equal("fsync of who opens it anew", new.sync(), 0)
    new.close()


def main():
    for words in (["modprobe", "card"], ["flotilla", "local", "set", "name", "client", "address", "10.77.0.2"],
                  ["flotilla", "node", "add", "exporter", "address", "10.77.0.1"]):
        subprocess.run(words, check=True)
    await_("exported.first")
    wait(lambda: subprocess.run(["flotilla", "card", "attach", "exporter", "data", "write"], check=False,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0, 200, 1)
    disk = Direct("/dev/" + row()["disk"])
    tap = Tap(4)
    tap.point("the_device_comes_back_with_its_exporter", run, disk)
    tap.point("what_was_not_flushed_is_lost", lost, disk)
    tap.point("fsync_does_not_say_that_it_is_safe", told, disk)
    tap.point("who_opens_it_anew_goes_on", again, disk)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
