# SPDX-License-Identifier: GPL-2.0
"""What marks.c has counted, beside what moves.c has said; and the tables of README.md."""
import collections
import itertools
import statistics

# Who is on which CPU in the guest of several, in order.
ROLES = ("bridge", "client", "fe", "be1", "be2")
# What is beside the move itself in a round; it is taken off.
EMPTY = "nothing"
LATER = ", later"

# Of each case: what it is, who gives and who takes.
CASES = {
    "nothing": ("nothing: what the guest does in that time anyway", "", ""),
    "open": ("a connection opened, accepted, closed by both", "", "be1"),
    "visit": ("the same with a request and an answer of 64 bytes", "", "be1"),
    "stays": ("a request and its answer on an open connection", "", "be1"),
    "handoff": ("handoff of a new connection, its request unread", "fe", "be1"),
    "move": ("move, queues empty", "be1", "be2"),
    "flight": ("move, 64 KB in flight", "be1", "be2"),
    "unsent": ("move, 58 KB that the client has no room for", "be1", "be2"),
    "unread": ("move, 64 KB unread", "be1", "be2"),
    "on": ("move of one that a front-end has given", "be1", "be2"),
    "policy": ("a request that a policy moves, and its answer", "be1", "be2"),
    "process": ("to another process, queues empty", "be1", ""),
    "process-unread": ("to another process, 64 KB unread", "be1", ""),
    "many": ("64 moves at once, each", "be1", "be2"),
    "one-by-one": ("64 moves one by one, each", "be1", "be2"),
}
# Those that are measured with encrypted links, too.
ENCRYPTED = ("nothing", "handoff", "move", "flight", "unread", "on")


def sections(text):
    """Of what marks.c wrote, each with its end: intervals, [[user, kernel] of each CPU] each, and {(CPU, at): n}."""
    intervals, blocks = [], {}
    for line in text.splitlines():
        kind, *words = line.split()
        if kind == "interval":
            numbers = [int(n) for n in words]
            intervals.append([list(pair) for pair in zip(numbers[::2], numbers[1::2])])
        elif kind == "block":
            blocks[int(words[0]), int(words[1], 16)] = int(words[2])
        else:
            yield intervals, blocks
            intervals, blocks = [], {}


def paired(rows, text):
    """(name, rows, intervals, blocks) of each case; @rows are in the order of the marks."""
    groups = [(name, list(those)) for name, those in itertools.groupby(rows, lambda row: row["case"])]
    counted = list(sections(text))
    if [len(those) for _, those in groups] != [len(intervals) for intervals, _ in counted]:
        raise ValueError(f"{len(rows)} rounds, and {sum(len(i) for i, _ in counted)} pairs of marks")
    for (name, those), (intervals, blocks) in zip(groups, counted):
        yield name, those, intervals, blocks


def spread(values):
    """Percent of the median between which the middle half is."""
    ordered = sorted(values)
    n, middle = len(ordered), statistics.median(ordered)
    return round(100 * (ordered[3 * n // 4] - ordered[n // 4]) / middle, 1) if middle else 0.


def three(values):
    return {"least": min(values), "median": round(statistics.median(values)), "most": max(values)}


def moved(empty, begins):
    """What an empty round costs, whose beginner is the client, where another one begins."""
    base = list(empty)
    if len(base) > 1:
        client, other = ROLES.index("client"), ROLES.index(begins)
        base[client], base[other] = base[other], base[client]
    return base


def summary(rows, text, symbols, lines=15):
    """By case: what it costs, each number of one move or connection; of several CPUs, by who is on them."""
    cases = {}
    empty = later = None
    for name, those, intervals, blocks in paired(rows, text):
        moves, cpus = those[0]["moves"], len(intervals[0])
        whole = [sum(user + kernel for user, kernel in interval) for interval in intervals]
        if name.endswith(LATER):
            later = whole[0] if name == EMPTY + LATER else later
            if later is not None:
                cases[name[:-len(LATER)]]["later"] = round((whole[0] - later) / moves)
            continue
        each = [[sum(interval[c]) for interval in intervals] for c in range(cpus)]
        if name == EMPTY:
            empty = [statistics.median(counts) for counts in each]
        base = [0] * cpus if empty is None or name == EMPTY else moved(empty, those[0]["begins"])
        counts = [round((n - sum(base)) / moves) for n in whole]
        case = cases[name] = {"instructions": round(statistics.median(counts)), "least": min(counts),
                              "most": max(counts), "spread percent": spread(counts), "rounds": len(counts),
                              "moves": moves,
                              "user": round(statistics.median(sum(u for u, _ in i) for i in intervals) / moves)}
        if cpus > 1:
            case["by node"] = {role: three([round((n - base[c]) / moves) for n in each[c]])
                               for c, role in enumerate(ROLES[:cpus])}
        for what in ("accepted", "done"):
            times = [row[what] for row in those]
            if any(times):
                case[what + "_ns"] = three(times)
        for what in ("queued", "unsent", "unread"):
            if any(row.get(what) for row in those):
                case[what] = three([row[what] for row in those])
        if moves > 1 and cpus == 1:
            rates = [round(moves * 1e9 / max(row["accepted"], row["done"])) for row in those]
            case["rate"], case["slowest"], case["fastest"] = round(statistics.median(rates)), min(rates), max(rates)
        case["profile"] = profile(blocks, symbols, len(those) * moves, cpus, lines)
    return cases


def profile(blocks, symbols, moves, cpus, lines):
    """Of each CPU: instructions of a move by module, and by function."""
    modules = [collections.Counter() for _ in range(cpus)]
    functions = [collections.Counter() for _ in range(cpus)]
    for (cpu, address), number in blocks.items():
        name, module, _ = symbols.find(address)
        modules[cpu][module] += number
        functions[cpu][name, module] += number
    return {role: {"by module": {m: round(n / moves) for m, n in modules[c].most_common() if n >= moves},
                   "by function": [[name, module, round(n / moves)] for (name, module), n in
                                   functions[c].most_common(lines) if n >= moves]}
            for c, role in enumerate(ROLES[:cpus] if cpus > 1 else ("all",)) if modules[c]}


def thousands(number):
    return f"{number:,}"


def microseconds(case, what):
    return f"{case[what]['median'] / 1000:.1f}" if what in case else "-"


def table(result):
    """Lines of Markdown."""
    one, several = result["one"], result["several"]
    yield ("| | instructions: median (least to most) | of an opening | µs until accepted, done |"
           " apart: giver | taker | client | others |")
    yield "|---|" + "---|" * 7
    for name, (what, giver, taker) in CASES.items():
        if name not in one:
            continue
        case, nodes = one[name], several.get(name, {}).get("by node", {})
        middle = {role: n["median"] for role, n in nodes.items()}
        count, least, most = (thousands(case[k]) for k in ("instructions", "least", "most"))
        ratio = f"{case['instructions'] / one['open']['instructions']:.2f}" if "open" in one else "-"
        latency = [microseconds(case, k) for k in ("accepted_ns", "done_ns")] if case["moves"] == 1 else "-"
        shown = {role: thousands(middle.pop(role)) if role in middle else "-" for role in (giver, taker, "client")}
        yield (f"| {what} | {count} ({least} to {most}) | {ratio} | {', '.join(latency)} |"
               f" {shown[giver]} | {shown[taker]} | {shown['client']} |"
               f" {thousands(sum(middle.values())) if middle else '-'} |")
    for name, case in result["encrypted"].items():
        if name != EMPTY:
            count, least, most = (thousands(case[k]) for k in ("instructions", "least", "most"))
            ratio = f"{case['instructions'] / one['open']['instructions']:.2f}" if "open" in one else "-"
            latency = [microseconds(case, k) for k in ("accepted_ns", "done_ns")]
            yield (f"| {CASES[name][0]}, link encrypted | {count} ({least} to {most}) | {ratio} |"
                   f" {', '.join(latency)} | - | - | - | - |")
    for name in ("many", "one-by-one"):
        if name in one:
            case = one[name]
            yield (f"\n{CASES[name][0]}: {thousands(case['rate'])} moves a second"
                   f" ({thousands(case['slowest'])} to {thousands(case['fastest'])})")
