# SPDX-License-Identifier: GPL-2.0
"""Claims and their TAP: tools/testing/lib/kit.py."""
import patience                                         # noqa: F401  # finds it
from kit import Skip, claim, main, wait                 # noqa: F401
