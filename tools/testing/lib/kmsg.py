# SPDX-License-Identifier: GPL-2.0
"""What the kernel has said, for claims about its log."""
import os


def records():
    """Each record that the log still has, oldest first, as bytes."""
    with open("/dev/kmsg", "rb", 0) as log:
        os.set_blocking(log.fileno(), False)
        while True:
            try:
                yield os.read(log.fileno(), 8192)
            except BrokenPipeError:     # written over before we came to it; what follows is still there
                continue
            except BlockingIOError:
                return
