# SPDX-License-Identifier: GPL-2.0
"""Claims and their TAP: tools/testing/lib/kit.py."""
import subprocess

import patience                                         # noqa: F401  # finds it
from kit import Skip, claim, free_memory, main, wait    # noqa: F401


def main_with(*modules, needs=()):
    """main(), with these modules. They are unloaded at its end, whichever claims it held; what it
    needs besides may stay. Does not return."""
    for module in needs + modules:
        subprocess.run(("modprobe", module), check=True)
    try:
        main()
    finally:
        for module in reversed(modules):
            subprocess.run(("modprobe", "-r", module), check=True)
