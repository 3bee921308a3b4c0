# SPDX-License-Identifier: GPL-2.0
"""How long to wait for what must come: guests without virtualization are slow, those that check slower."""
import os

CHECKING = "debug" in os.uname().release
SLOW = 3 if CHECKING else 1
PATIENCE = 30 * SLOW


def rounds(count, checking):
    """How often to do something: COUNT times, CHECKING times on the debug kernel."""
    return checking if CHECKING else count
