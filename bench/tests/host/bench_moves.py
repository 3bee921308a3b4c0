#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 60
"""bench/moves: what was counted goes to the case it was counted of, and what the guest does anyway is taken off."""
import os
import subprocess
import sys
from pathlib import Path

TOP = Path(os.environ["FLT_TOP"])
sys.path[:0] = [str(TOP / "tools/testing/lib"), str(TOP / "bench/pathlen"), str(TOP / "bench/moves")]
from blocks import Symbols  # noqa: E402
from kit import claim, main  # noqa: E402
from results import CASES, ROLES, sections, spread, summary, table  # noqa: E402

SYMBOLS = Symbols("""ffffffff81000000 T one_of_the_kernel
ffffffffc0000000 t one_of_ours\t[handoff]
ffffffffc0001000 t another\t[handoff]
""")
ONE = """interval 10 100
interval 10 120
interval 20 130
block 0 0 40
block 0 ffffffff81000008 350
end
interval 0 5000
end
interval 110 1100
interval 120 1200
interval 110 1400
block 0 0 340
block 0 ffffffff81000000 700
block 0 ffffffffc0000000 1200
block 0 ffffffffc0000010 600
block 0 ffffffffc0001000 1200
end
interval 0 5300
end
"""


def rows(name, number, moves=1, begins="client", **more):
    each = [{"case": name, "moves": moves, "begins": begins, "accepted": 1000 * n, "done": 2000 * n, **more}
            for n in range(1, number + 1)]
    return each + [{"case": name + ", later", "moves": number * moves}]


@claim
def what_the_guest_does_anyway_is_taken_off():
    cases = summary(rows("nothing", 3) + rows("move", 3, queued=65536), ONE, SYMBOLS)
    assert cases["nothing"]["instructions"] == 130, cases["nothing"]
    move = cases["move"]
    assert [move[k] for k in ("least", "instructions", "most", "rounds", "later")] == [1080, 1190, 1380, 3, 100], move
    assert move["queued"] == {"least": 65536, "median": 65536, "most": 65536} and "unread" not in move
    assert move["accepted_ns"]["median"] == 2000 and move["done_ns"]["most"] == 6000
    assert "later" in cases["nothing"] and "by node" not in move and "rate" not in move


@claim
def many_moves_are_told_as_one():
    text = ONE.replace("interval 0 5300", "interval 0 7400")
    move = summary(rows("nothing", 3) + rows("many", 3, moves=4), text, SYMBOLS)["many"]
    assert move["instructions"] == round((1320 - 130) / 4) and move["later"] == 200, move
    # The last of four was there after 2, 4 and 6 microseconds.
    assert (move["fastest"], move["rate"], move["slowest"]) == (2000000, 1000000, 666667), move


@claim
def each_cpu_is_somebody_s():
    text = "\n".join(line + " 0 10 5 20 0 30 1 40" if line.startswith("interval") else line
                     for line in ONE.replace("block 0 ffffffffc0001000", "block 4 ffffffffc0001000").splitlines())
    move = summary(rows("nothing", 3) + rows("move", 3, begins="be1"), text, SYMBOLS)["move"]
    # The client's 10 of an empty round are be1's here, whose 30 are the client's.
    assert [move["by node"][role]["median"] for role in ROLES] == [1190, -20, 0, 20, 0], move
    assert list(move["by node"]) == list(ROLES)
    assert move["by node"]["bridge"]["median"] == 1190 and move["by node"]["be2"]["most"] == 0, move
    assert move["profile"]["be2"]["by module"] == {"handoff": 400}, move["profile"]
    assert move["profile"]["bridge"]["by function"][0] == ["one_of_ours", "handoff", 600], move["profile"]
    assert move["profile"]["bridge"]["by module"]["(user space)"] == 113, move["profile"]


@claim
def a_pair_of_marks_too_few_is_noticed():
    for wrong in (rows("nothing", 3) + rows("move", 2), rows("nothing", 3), rows("nothing", 2) + rows("move", 3)):
        try:
            summary(wrong, ONE, SYMBOLS)
        except ValueError:
            continue
        raise AssertionError(wrong)
    assert [(len(i), len(b)) for i, b in sections(ONE)] == [(3, 2), (1, 0), (3, 5), (1, 0)]


@claim
def the_spread_is_the_middle_half_s():
    assert spread([100] * 29 + [10000]) == 0 and spread([0, 0, 0, 0]) == 0
    assert spread([90, 100, 100, 110]) == 10, spread([90, 100, 100, 110])


@claim
def the_table_has_every_case_once():
    one = {name: {"instructions": 1000, "least": 1, "most": 2000, "moves": 1} for name in CASES}
    for name in ("many", "one-by-one"):
        one[name] |= {"moves": 64, "rate": 5, "slowest": 4, "fastest": 6}
    several = {"move": {"by node": {role: {"median": n} for n, role in enumerate(ROLES, 1)}}}
    encrypted = {"nothing": one["nothing"], "move": {**one["move"], "instructions": 1500, "done_ns": {"median": 1234}}}
    lines = list(table({"one": one, "several": several, "encrypted": encrypted}))
    head, _, *rest = lines
    assert len(rest) == len(CASES) + 3
    assert "link encrypted | 1,500 (1 to 2,000) | 1.50 | -, 1.2 |" in lines[-3], lines
    assert all(line.count("|") == head.count("|") for line in lines[:-2]), lines
    # be1 gives, be2 takes; the bridge and the front-end are the rest.
    assert "| 1.00 | -, - | 4 | 5 | 2 | 4 |" in lines[2 + list(CASES).index("move")], lines


@claim
def the_marks_are_where_they_were_put():
    code = subprocess.run(["objdump", "-d", TOP / "build/tests/moves-bench"], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    marks = [line.split("nopl")[1].strip() for line in code.splitlines() if "464c54(" in line]
    assert set(marks) == {f"0x{n}464c54(%rax,%rax,1)" for n in (1, 2, 3, 10, 11, 12, 13, 14)}, marks


if __name__ == "__main__":
    main()
