#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""link.py NAMESPACE...: in a guest, what tlshd is to the links of flotilla.ko: they are encrypted from then on.

Both ends have keys that everybody knows, so that no certificate is needed; what the kernel does with them
costs what it costs with any. Only for the closed network of a benchmark's guests.
"""
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "kmod/tests/lib"), str(TOP / "tools/testing/lib")]
from fakeagent import FakeAgent     # noqa: E402

for agent in [FakeAgent(name) for name in sys.argv[1:]]:
    agent.join()
