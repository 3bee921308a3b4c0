# SPDX-License-Identifier: GPL-2.0
"""How long to wait for what must come: tools/testing/lib/kit.py knows, and is found from here on."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../../tools/testing/lib"))
from kit import CHECKING, PATIENCE, SLOW, rounds        # noqa: E402,F401
