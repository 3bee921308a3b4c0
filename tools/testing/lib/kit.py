# SPDX-License-Identifier: GPL-2.0
"""What tests in Python share: claims and their TAP, waiting for a state, how slow this kernel is.

    from kit import claim, main, wait

    @claim
    def the_server_answers():
        wait(lambda: answer() == b"hello")

    main()

Arguments choose claims, by name or pattern; `--claims` prints their names; FLOTILLA_CLAIMS=2/8 holds
each eighth of them from the second on.
"""
import fnmatch
import os
import shutil
import sys
import threading
import time
import traceback

# Guests without virtualization are slow, and those whose kernel checks itself slower.
CHECKING = os.environ.get("FLT_KIND", "stock") not in ("stock", "newest") or "debug" in os.uname().release
SLOW = 3 if CHECKING else 1
PATIENCE = 30 * SLOW

CLAIMS = []


class Skip(Exception):
    """What a claim raises that cannot be shown here; its text says why."""


def rounds(count, checking):
    """How often to do something: COUNT times, CHECKING times on a kernel that checks itself."""
    return checking if CHECKING else count


def claim(function):
    """Decorator: a claim of this file, under the function's name."""
    CLAIMS.append((function.__name__, function))
    return function


def wait(what, seconds=PATIENCE, every=0.02, name=None):
    """Wait until what() is true; the value it had."""
    end = time.monotonic() + seconds
    while True:
        value = what()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("%s did not come true in %s s" % (name or getattr(what, "__name__", "it"), seconds))
        time.sleep(every)


def wait_for(name, what, seconds=PATIENCE):
    """The same, for a condition whose own name says nothing."""
    return wait(what, seconds, 0.01, name)


def fill_queue(sender, path):
    """Datagrams to the socket at PATH until its queue takes no more; SENDER does not block."""
    try:
        while True:
            sender.sendto(b"other", path)
    except BlockingIOError:
        pass


def read_queue(receiver):
    """The datagrams that are there; RECEIVER does not block."""
    got = []
    try:
        while True:
            got.append(receiver.recv(1000))
    except BlockingIOError:
        return got


def free_memory(name="MemFree"):
    """Bytes of memory that are free, or available: "MemAvailable". The kernel counts neither so what
    each processor keeps to give out again: tens of megabytes after much was freed at once."""
    with open("/proc/meminfo", encoding="ascii") as f:
        free = next(int(line.split()[1]) << 10 for line in f if line.startswith(name + ":"))
    with open("/proc/zoneinfo", encoding="ascii") as f:
        kept = sum(int(line.split()[1]) for line in f if line.split()[0] == "count:")
    return free + kept * os.sysconf("SC_PAGE_SIZE")


def equal(what, is_, should):
    """Fails with both values."""
    if is_ != should:
        raise AssertionError("%s: is %r, should be %r" % (what, is_, should))


def bail(why):
    """Nothing can be claimed here, and that is a failure."""
    print("Bail out! %s" % why, flush=True)
    sys.exit(1)


def need(program):
    """Where it is. `make deps` installs it: a claim that cannot be made for want of it has failed."""
    where = shutil.which(program, path=os.environ.get("PATH", os.defpath) + ":/usr/sbin")
    assert where, "%s is not installed: make deps" % program
    return where


def skip_all(why):
    """Nothing can be shown here, and that is nobody's fault."""
    print("1..0 # SKIP %s" % why, flush=True)
    sys.exit(4)


def chosen(claims, patterns):
    """Those that the patterns name; one that names none is a mistake, not a claim less."""
    for pattern in patterns:
        if not fnmatch.filter([name for name, _ in claims], pattern):
            bail("no claim %s" % pattern)
    picked = [c for c in claims if not patterns or any(fnmatch.fnmatch(c[0], p) for p in patterns)]
    return [c for index, c in enumerate(picked) if in_slice(index)]


def in_slice(index):
    """Whether a claim belongs to FLOTILLA_CLAIMS=NUMBER/COUNT: what takes long is spread over several runs."""
    number, _, count = os.environ.get("FLOTILLA_CLAIMS", "").partition("/")
    if not count:
        return True
    return index % int(count) == int(number) - 1


class Tap:
    """Points one after another, the plan first if COUNT is known, else by end()."""

    def __init__(self, count=None, header=""):
        self.number = self.failed = self.asked = 0
        self.lost = []
        self.home = os.getpid()
        # A thread that dies of an exception has done less than its claim says, whoever joins it.
        threading.excepthook = self.died
        print("TAP version 13")
        if header:
            print("# " + header)
        self.planned = count is not None
        if self.planned:
            print("1..%d" % count, flush=True)

    def died(self, args):
        """threading.excepthook"""
        self.lost.append("thread %s:" % (args.thread.name if args.thread else "?"))
        self.lost += "".join(traceback.format_exception(args.exc_type, args.exc_value,
                                                        args.exc_traceback)).splitlines()

    def claim(self, name, function, *args):
        """One point, if this slice has it: FUNCTION raises when the claim does not hold."""
        self.asked += 1
        if in_slice(self.asked - 1):
            self.point(name, function, *args)

    def point(self, name, function, *args):
        """The same, in every slice."""
        self.number += 1
        begin, said, remark = time.monotonic(), [], ""
        try:
            function(*args)
        except Skip as why:
            remark = "SKIP %s" % why
        except Exception:  # pylint: disable=broad-except
            said = traceback.format_exc().splitlines()
        if os.getpid() != self.home:
            # A child that fell out of its claim: the points are its parent's to print.
            print("\n".join("# child: " + line for line in said), flush=True)
            os._exit(1)
        said += self.lost
        self.lost.clear()
        for line in said:
            print("# " + line)
        self.failed += bool(said)
        print("%s %d - %s # %s" % ("not ok" if said else "ok", self.number, name, remark if remark and not said
                                   else "%.1f s" % (time.monotonic() - begin)), flush=True)

    def end(self):
        """Exit status."""
        if not self.planned:
            print("1..%d" % self.number, flush=True)
        return 1 if self.failed else 0


def run(claims, header="", last=()):
    """Hold all (name, function) or those that the arguments name, and always LAST; the exit status."""
    if sys.argv[1:] == ["--claims"]:
        print("\n".join(name for name, _ in claims))
        return 0
    picked = chosen(claims, sys.argv[1:])
    if not picked:
        skip_all("none of its claims is in this slice; its part is %s" % os.environ["FLOTILLA_CLAIMS"])
    picked += last
    tap = Tap(len(picked), header)
    for name, function in picked:
        tap.point(name, function)
    return tap.end()


def main():
    """All claims of this file; does not return."""
    sys.exit(run(CLAIMS))
