# SPDX-License-Identifier: GPL-2.0
"""What the kernel has said, for claims about its log."""
import os

LOG = "/dev/kmsg"


def records(path=LOG):
    """Each record that the log still has, oldest first, as bytes."""
    with open(path, "rb", 0) as log:
        os.set_blocking(log.fileno(), False)
        while True:
            try:
                yield os.read(log.fileno(), 8192)
            except BrokenPipeError:     # written over before we came to it; what follows is still there
                continue
            except BlockingIOError:
                return
