# SPDX-License-Identifier: GPL-2.0
"""The suites: which tests they have (asked on the host), and how one is run and read (in the guest)."""
import contextlib
import glob
import os
import re
import signal
import subprocess
import threading
import time

# How long a test of blktests may keep the disk busy; its own default is for real machines.
QUICK = 10
# From the signal that ends a test to the one that it cannot refuse.
MERCY = 20


def words(text, devices=()):
    """A verdict must not name the disk nor tell how long it took, nor need more than a line."""
    text = re.sub(r"^\s*runtime\s.*\n", "", text, flags=re.M)
    for device in devices:
        text = text.replace(device, "DISK").replace(device.rpartition("/")[2], "DISK")
    return " ".join(text.split())[:120]


def of_slice(names, part, parts):
    """Those whose turn it is, by number: a test that is added moves no other."""
    return [name for name in names if int(name.rpartition("/")[2]) % parts == part % parts]


def of_range(names, first, last):
    """Those between two, both included, of one group: generic/001..generic/099."""
    return [name for name in names if first <= name <= last]


class Blktests:
    """The group `block` of blktests; each test by itself, so that one that hangs ends alone."""
    kinds = ("plain", "card", "nbd", "null")
    variable, disks = "BLKTESTS", 1

    def tests(self, directory):
        found = glob.glob(os.path.join(directory, "tests/block/[0-9][0-9][0-9]"))
        return sorted(os.path.relpath(path, os.path.join(directory, "tests")) for path in found)

    def prepare(self, devices):
        """It wants nothing but the disk. Names in /dev/mapper are for libdm to make, without udevd."""
        os.environ["DM_DISABLE_UDEV"] = "1"

    def run(self, directory, devices, names, limit, report):
        env = {**os.environ, "TEST_DEVS": " ".join(devices)}
        for name in names:
            report.begin(name)
            process = subprocess.Popen(["./check", "-q%d" % QUICK, "-o", "/tmp/blktests", name], cwd=directory, env=env,
                                       text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       start_new_session=True)
            over = threading.Event()
            timer = threading.Timer(limit, self.end, (process.pid, over))
            timer.start()
            said = process.communicate()[0]
            timer.cancel()
            print(said, flush=True)
            report.end(name, "over time" if over.is_set() else self.verdict(name, said, devices))

    @staticmethod
    def end(session, over):
        over.set()
        for sig in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(session, sig)
            time.sleep(MERCY)

    @staticmethod
    def verdict(name, said, devices):
        """What all runs of it came to: it runs once for each condition that it has."""
        found = []
        for verdict, why in re.findall(r"^%s .*\[(passed|failed|not run)\]\n((?: {4}.*\n)*)" % name, said, re.M):
            found.append("not run: " + words(why, devices) if verdict == "not run" else verdict)
        for worst in ("failed", "passed"):
            if worst in found:
                return worst
        return found[0] if found else "no verdict"


class Xfstests:
    """-g quick of xfstests on one file system, TEST_DEV and SCRATCH_DEV alike; one run of its `check`."""
    kinds = ("plain", "card")
    variable, disks = "XFSTESTS", 2
    START = re.compile(r"^((?:generic|shared|xfs|ext4)/\d{3})\s")

    def __init__(self, fs):
        self.fs = fs

    def tests(self, directory):
        found = []
        for group in ("generic", "shared", self.fs):
            with contextlib.suppress(FileNotFoundError):
                with open(os.path.join(directory, "tests", group, "group.list"), encoding="ascii") as f:
                    for line in f:
                        number, *groups = line.split() or [""]
                        if "quick" in groups and number.isdigit():
                            found.append("%s/%s" % (group, number))
        return sorted(found)

    def prepare(self, devices):
        """Users that tests become, and a file system on the first disk, as the suite's README asks.

        And udevd: tests wait for it, and look for xfs in /sys by what a link in /dev/mapper leads to.
        """
        subprocess.run(["/lib/systemd/systemd-udevd", "--daemon"], check=True)
        for user in ("fsgqa", "fsgqa2", "123456-fsgqa"):
            if subprocess.run(["id", user], check=False, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode:
                subprocess.run(["useradd", "--badname", "-m", user], check=True)
        force = {"xfs": "-f", "ext4": "-F"}[self.fs]
        subprocess.run(["mkfs." + self.fs, "-q", force, devices[0]], check=True)
        for where in ("/mnt/test", "/mnt/scratch"):
            os.makedirs(where, exist_ok=True)

    def run(self, directory, devices, names, limit, report):
        env = {**os.environ, "FSTYP": self.fs, "TEST_DEV": devices[0], "SCRATCH_DEV": devices[1],
               "TEST_DIR": "/mnt/test", "SCRATCH_MNT": "/mnt/scratch", "RESULT_BASE": "/tmp/xfstests",
               "HOST_OPTIONS": "/nonexistent"}
        process = subprocess.Popen(["./check", *names], cwd=directory, env=env, text=True, bufsize=1,
                                   errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        now, said, over, timer = None, "", threading.Event(), None

        def close():
            timer.cancel()
            report.end(now, "over time" if over.is_set() else self.verdict(said, devices))

        for line, whole in lines(process.stdout):
            begun = self.START.match(line)
            if begun and begun[1] != now:
                if now:
                    close()
                now, said = begun[1], ""
                report.begin(now)
                over = threading.Event()
                timer = threading.Timer(limit, end_test, (now, over))
                timer.start()
            if whole:
                print(line, flush=True)
                if line.startswith(("Ran: ", "SECTION ")):
                    break
                said += line + "\n"
        if now:
            close()
        process.stdout.read()
        process.wait()

    @staticmethod
    def verdict(said, devices):
        """Passed is what took its seconds and had nothing more to say."""
        rest = said.partition("\n")[0].partition(" ")[2].strip()
        if "[not run]" in said:
            return "not run: " + words(said.partition("[not run]")[2], devices)
        if re.fullmatch(r"(?:\d+s \.\.\. +)?\d+s", rest) and not said.partition("\n")[2].strip():
            return "passed"
        return "failed"


def lines(stream):
    """Each line twice: as far as it goes when its first word is there (`check` names a test first), then whole."""
    text = ""
    while piece := stream.read(1):
        if piece == "\n":
            yield text, True
            text = ""
            continue
        text += piece
        if piece in " \t" and len(text) < 16:
            yield text, False


def end_test(name, over):
    """What runs below the test first: its shell tidies up when they are gone."""
    over.set()
    for sig in (signal.SIGTERM, signal.SIGKILL):
        family = below(name)
        for pid in reversed(family):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sig)
        time.sleep(MERCY)


def below(name):
    """The test's shell and all its descendants, eldest first."""
    parents, found = {}, []
    for path in glob.glob("/proc/[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            pid = int(path[6:])
            with open(path + "/stat", encoding="utf-8", errors="replace") as f:
                parents.setdefault(int(f.read().rpartition(")")[2].split()[1]), []).append(pid)
            with open(path + "/cmdline", encoding="utf-8", errors="replace") as f:
                argv = f.read().split("\0")
                if any(word.endswith("/tests/" + name) for word in argv[:3]):
                    found.append(pid)
    for pid in found:
        found.extend(child for child in parents.get(pid, []) if child not in found)
    return found


SUITES = {"blktests-block": Blktests(), "xfstests-ext4": Xfstests("ext4"), "xfstests-xfs": Xfstests("xfs")}
