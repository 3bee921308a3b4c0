#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What in a console log is a report of the kernel, and what is not."""
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[4]
sys.path[:0] = [str(TOP / "tools/vm"), str(TOP / "tools/testing/lib")]
import machine              # noqa: E402
from kit import claim, main  # noqa: E402

RACE = """[    5.0] ==================================================================
[    5.0] BUG: KCSAN: data-race in %s / tcp_poll
[    5.0]
[    5.0] write to 0xffff888004d0a0c8 of 4 bytes by task 210 on cpu 1:
[    5.0]  %s+0x55/0x1f0%s
[    5.0]  process_one_work+0x1/0x2
[    5.0] ==================================================================
"""

REPORTS = (
    "BUG: KASAN: slab-use-after-free in iol_read+0x1/0x2 [iolite]",
    "BUG iol_buffer (Tainted: G           OE     ): Redzone overwritten",
    "BUG kmalloc-64 (Not tainted): Object already free",
    "WARNING: possible circular locking dependency detected",
    "WARNING: CPU: 0 PID: 1 at net/core/sock.c:1",
    "WARNING: include/linux/sockptr.h:49 at flt_ktls_set+0x10e/0x150 [flotilla], CPU#1: python3/373",
    "watchdog: BUG: soft lockup - CPU#1 stuck for 26s!",
    "INFO: task rmmod:312 blocked for more than 60 seconds.",
    "IPv4: Attempt to release TCP socket in state 1 0000000012345678",
    "page_pool_release_retry() stalled pool shutdown: id 1, 1 inflight 60 sec",
    "unregister_netdevice: waiting for lo to become free. Usage count = 2",
    "UBSAN: array-index-out-of-bounds in x.c:1:2",
    "kmemleak: unreferenced object 0xffff88 (size 64):",
    "kmemleak: leaks could not be looked for",
)

SILENCE = (
    "flotilla: node be1 is up",
    "TCP: request_sock_TCP: Possible SYN flooding on port 80. Sending cookies.",
    'memcpy: detected field-spanning write (size 52) of single field "dst" at include/linux/sockptr.h:49 (size 0)',
    "WARNING: include/linux/sockptr.h:49 at tls_setsockopt+0x9bb/0xba0 [tls], CPU#1: python3/373",
)


@claim
def each_kind_of_report_is_one():
    for line in REPORTS:
        assert machine.reports("[    1.0] %s\n" % line), line


@claim
def other_lines_are_none():
    for line in SILENCE:
        assert not machine.reports("[    1.0] %s\n" % line), line


@claim
def data_races_of_ours_count_and_others_do_not():
    ours = RACE % ("usel_note", "usel_note", " [uselect]")
    foreign = RACE % ("tcp_ack", "tcp_ack", "")
    assert not machine.reports(foreign)
    assert any("usel_note" in line for line in machine.reports(foreign + ours + foreign))
    assert not any("tcp_ack" in line for line in machine.reports(foreign + ours))
    prints = RACE % ("console_lock_spinning_disable_and_check", "flt_link_blame", " [flotilla]")
    prints = prints.replace("tcp_poll", "vprintk_emit")
    assert "[flotilla]" in prints and not machine.reports(prints), "two who print at once"
    assert machine.reports(prints + ours)
    assert machine.reports(foreign + "[    6.0] BUG: KASAN: x\n"), "what comes after a foreign race still counts"


if __name__ == "__main__":
    main()
