#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Each ioctl and each netlink command of the uapi headers is made at random, and made to fail."""
import re
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[4]
sys.path.insert(0, str(TOP / "tools/testing/lib"))
from kit import claim, equal, main      # noqa: E402

# Of the descriptor that HOF_IOC_MOVE gives to root of the machine only.
OUT_OF_REACH = {"HOF_MOVE_TO", "HOF_MOVE_FROM", "HOF_MOVE_CONN", "HOF_MOVE_KEEP", "HOF_MOVE_STATUS",
                "HOF_MOVE_NODE", "HOF_MOVE_PASSED"}
# The claims of fault_calls and fault_devices about each room; iolite has a test of its own besides.
FAULTS = {"kmod": "netlink_reads_of_flotilla netlink_writes_of_flotilla services_of_flotilla "
                  "policies_of_flotilla redirection_of_flotilla",
          "kmod/afpa": "afpa_calls",
          "handoff": "a_handoff a_move a_takeover a_relocation an_early_handoff a_table_of_early_handoffs",
          "uselect": "uselect",
          "splice": "a_splice", "card": "netlink_of_card", "iolite": "iolite_calls_that_only_copy"}


def calls(texts):
    """Names of what programs may ask; not events, which the kernel says by itself, nor the first and last number."""
    for text in texts:
        yield from re.findall(r"^#define (\w+)\s+_IO[WR]*\(", text, re.M)
        for name in re.findall(r"^\s+((?:FLT|CARD)_CMD_\w+),?", text, re.M):
            if name.rpartition("_")[2] not in ("UNSPEC", "EVENT", "MAX"):
                yield name


def read(path):
    return (TOP / path).read_text("utf-8")


def made_to_fail(room):
    text = "".join(read(f"tools/testing/tests/guest/fault_{part}.py") for part in ("calls", "devices"))
    yield from (re.search(r"^def %s\(\):\n(?:(?: .*)?\n)*" % name, text, re.M)[0] for name in FAULTS[room].split())
    if room == "iolite":
        yield read("iolite/tests/guest/iolite_faults.c")


def left_out(names, text):
    """Those that neither stand there as they are nor without what their header puts before them all."""
    return [name for name in names
            if not re.search(r"\b(?:\w+_(?:IOC|CMD)_|HOF_MOVE_|USEL_)?%s\b"
                             % re.sub(r"^(?:\w+_(?:IOC|CMD)|HOF_MOVE|USEL)_", "", name), text)]


def asked(room):
    return list(calls(header.read_text("utf-8") for header in (TOP / room / "uapi/flotilla").glob("*.h")))


@claim
def each_call_is_made_at_random():
    text = "".join(read(f"tools/testing/tests/lib/{part}.c") for part in ("calls", "devices", "genl"))
    for room in FAULTS:
        equal(room, sorted(set(asked(room)) - OUT_OF_REACH - set(re.findall(r"\w+", text))), [])


@claim
def each_call_is_made_to_fail():
    for room in FAULTS:
        equal(room, left_out(asked(room), "".join(made_to_fail(room))), [])


@claim
def no_call_is_overlooked():
    paths = [path.relative_to(TOP) for path in TOP.glob("**/uapi/flotilla/*.h")]
    equal("rooms", {str(path).partition("/uapi/")[0] for path in paths
                    if path.parts[0] != "build" and list(calls([read(path)]))}, set(FAULTS))
    header = "#define A_B\t_IOWR(1, 2, int)\n\tFLT_CMD_UNSPEC,\n\tFLT_CMD_X,\n\tFLT_CMD_EVENT,\n"
    equal("calls", list(calls([header])), ["A_B", "FLT_CMD_X"])
    equal("left out", left_out(["USEL_KICK", "USEL_TRACK"], 'print("# KICK")'), ["USEL_TRACK"])


main()
