# SPDX-License-Identifier: GPL-2.0
"""What the kernel has said, for claims about its log."""
import os


def number(record):
    """By which the kernel counts it."""
    return int(record.split(b",", 2)[1])


def records(after=-1):
    """Each record that the log still has behind that number, oldest first, as bytes."""
    with open("/dev/kmsg", "rb", 0) as log:
        os.set_blocking(log.fileno(), False)
        while True:
            try:
                record = os.read(log.fileno(), 8192)
            except BrokenPipeError:     # written over before we came to it; what follows is still there
                continue
            except BlockingIOError:
                return
            if number(record) > after:
                yield record


def last():
    """The newest record's number."""
    return max(map(number, records()), default=-1)
