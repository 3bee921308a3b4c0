# SPDX-License-Identifier: GPL-2.0
"""Whichever allocation or copy from user space fails: one call after the other, each with its n-th fault."""
import contextlib
import errno
import gc
import os

from kit import Skip, wait

MOST = 400
# What a fault may look like from outside.
HONEST = (errno.ENOMEM, errno.EFAULT, errno.ENOBUFS, errno.EAGAIN, errno.ENFILE, errno.EMSGSIZE)


class Faults:
    """The n-th fault of this thread, by /proc/thread-self/fail-nth."""

    def __init__(self):
        try:
            self.fd = os.open("/proc/thread-self/fail-nth", os.O_RDWR)
        except FileNotFoundError:
            raise Skip("the kernel has no fault injection") from None
        for kind in ("failslab", "fail_page_alloc", "fail_usercopy"):
            place = "/sys/kernel/debug/%s/" % kind
            assert os.path.isdir(place), "no %s in this kernel" % kind
            for name, value in (("ignore-gfp-wait", "N"), ("ignore-gfp-highmem", "N"), ("min-order", "0"),
                                ("verbose", "0")):
                if os.path.exists(place + name):
                    with open(place + name, "w", encoding="ascii") as file:
                        file.write(value)

    def nth(self, number, call):
        """(whether the fault came, what the call gave, its errno)"""
        text = b"%d" % number
        got, code = None, 0
        os.pwrite(self.fd, text, 0)
        try:
            got = call()
        except OSError as err:
            code = err.errno
        except MemoryError:
            code = errno.ENOMEM
        came = self.is_over()
        self.disarm()
        return came, got, code

    def is_over(self):
        """Has it come? Copies of this question count, too: a fault in its answer was still to come."""
        try:
            return int(os.pread(self.fd, 16, 0)) == 0
        except OSError as err:
            if err.errno != errno.EFAULT:
                raise
            return False

    def disarm(self):
        """No fault from here on; one may hit this very write, and is the last then."""
        try:
            os.pwrite(self.fd, b"0", 0)
        except OSError as err:
            if err.errno != errno.EFAULT:
                raise
            os.pwrite(self.fd, b"0", 0)


def sockets():
    """How many there are in this network namespace, of whatever family."""
    with open("/proc/thread-self/net/sockstat", encoding="ascii") as file:
        return int(file.readline().split()[2])


@contextlib.contextmanager
def no_socket_stays():
    """Who lost a reference to a socket's file has lost it for ever."""
    before = sockets()
    yield
    gc.collect()
    wait(lambda: sockets() <= before, name="the end of %d sockets" % (sockets() - before))


def each_fault(arrange, call, check=None, also=(), least=1):
    """ARRANGE makes what CALL is about; CHECK looks at both after each (thing, what it gave, its errno)."""
    faults, hit = Faults(), 0
    for number in range(1, MOST):
        thing = arrange()
        came, got, code = faults.nth(number, lambda t=thing: call(t))
        if code and not came:
            raise AssertionError("without a fault: %s" % errno.errorcode[code])
        if code and code not in HONEST + also:
            raise AssertionError("fault %d: %s" % (number, errno.errorcode[code]))
        hit += came
        if check:
            check(thing, got, code)
        if not came:
            print("# %d faults" % hit)
            assert hit >= least, "nothing was hit"
            return
    raise AssertionError("no end after %d faults" % MOST)


def modules_unload():
    """Whatever has failed, nothing holds them."""
    for module in ("afpa", "card_hscc", "card", "handoff", "sksplice", "uselect", "iolite", "flotilla"):
        if os.path.isdir("/sys/module/" + module):
            wait(lambda m=module: os.spawnlp(os.P_WAIT, "rmmod", "rmmod", m) == 0, name="rmmod " + module)
