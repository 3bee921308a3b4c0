#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
"""bench/afpa: published hit ratios and costs come out again, simulations agree, plans are right at their ends."""
import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path

TOP = Path(os.environ["FLT_TOP"])
sys.path[:0] = [str(TOP / "tools/testing/lib"), str(TOP / "bench/afpa")]
import capacity                 # noqa: E402
from caches import Clock, Lru   # noqa: E402
from hitratio import memory_for, window_of      # noqa: E402
from kit import claim, main     # noqa: E402
from workload import KB, MB, Workload       # noqa: E402

LOADS = (500, 1000, 2000, 3000, 4000, 5000)
# By memory in MB: at each load, with all files cached and without those of 500 KB and more.
HITS = {
    64: ((.916, .976), (.846, .937), (.745, .861), (.677, .802), (.625, .752), (.583, .710)),
    128: ((.980, .994), (.958, .990), (.916, .976), (.879, .957), (.846, .937), (.816, .916)),
    256: ((.995, .994), (.990, .994), (.980, .994), (.969, .992), (.958, .990), (.947, .987)),
    512: ((1.00, .994), (.998, .994), (.995, .994), (.993, .994), (.990, .994), (.988, .994)),
}
# At 500 and at 5,000 requests/s.
BYTE_HITS = {64: (.559, .266), 128: (.718, .434), 256: (.859, .619), 512: (1.0, .763)}
BINS = """
.0066 .0094 .0026 .0002
.0262 .0374 .0105 .0007
.0524 .0749 .0210 .0015
.0699 .0998 .0279 .0020
.0699 .0998 .0279 .0020
.0559 .0799 .0224 .0016
.0373 .0532 .0149 .0011
.0213 .0304 .0085 .0006
.0106 .0152 .0043 .0003
"""


def run(tool, *words, status=0):
    out = subprocess.run([TOP / "bench/afpa" / tool, *map(str, words)], text=True, capture_output=True, check=False,
                         timeout=600)
    assert out.returncode == status, (tool, words, out.returncode, out.stderr)
    return out


def said(tool, *words):
    return json.loads(run(tool, *words, "-j").stdout)


def simulated(policy, memory, load, cut="none"):
    """One cache of @memory MB, by formula and simulated; whether they agree is the caller's to judge."""
    out = subprocess.run([TOP / "bench/afpa/hitmodel", "--simulate", "--policy", policy, "--memory", f"{memory}m",
                          "--load", str(load), "--cut", cut, "-j"], text=True, capture_output=True, check=False)
    point, = json.loads(out.stdout)["points"]
    return point


def near(got, want, by, what):
    assert abs(got - want) <= by, f"{what}: {got:.5f}, not {want} within {by}"


@claim
def each_file_has_its_published_share():
    bins = said("hitmodel", "--bins")["bins"]
    want = [list(map(float, line.split())) for line in BINS.split("\n") if line]
    assert len(bins) == 9 and all(len(row) == 4 for row in bins), bins
    for k in range(9):
        for i in range(4):
            near(bins[k][i], want[k][i], .00005001, f"file {k} of class {i}")
    near(sum(map(sum, bins)), 1, 1e-12, "all")


@claim
def the_files_are_as_many_bytes_as_published():
    for load, megabytes in ((500, 488), (2000, 976), (5000, 1543)):
        near(Workload(load).data_set() / MB, megabytes, .6, f"MB at {load} requests/s")
    assert Workload(500).directories == 100
    near(Workload(500).data_set() / 100 / KB, 4999.5, 1e-6, "KB in a directory")
    near(Workload(500).mean_request() / 1000, 14.7, .05, "kB in a request")


@claim
def every_published_hit_ratio_comes_out_again():
    points = said("hitmodel")["points"]
    assert len(points) == 48, len(points)
    for point in points:
        want = HITS[point["memory"] // MB][LOADS.index(point["load"])][point["cut"] is not None]
        near(point["hit"], want, .00051, f"{point['memory'] // MB} MB, {point['load']} requests/s, cut {point['cut']}")


@claim
def every_published_byte_hit_ratio_comes_out_again():
    for point in said("hitmodel", "--load", "500,5000", "--cut", "none")["points"]:
        want = BYTE_HITS[point["memory"] // MB][point["load"] == 5000]
        near(point["byte_hit"], want, .00051, f"{point['memory'] // MB} MB, {point['load']} requests/s")


@claim
def leaving_large_files_out_helps_small_caches_and_bounds_large_ones():
    for memory, load, helps in ((64, 5000, True), (64, 500, True), (512, 500, False), (512, 1000, False)):
        hits = [window_of(Workload(load), memory * MB, cut).hit_ratio() for cut in (math.inf, 500 * KB)]
        assert (hits[1] > hits[0]) == helps, (memory, load, hits)
    whole, = said("hitmodel", "--memory", "512m", "--load", 500, "--cut", "none")["points"]
    near(min(whole["hit"], whole["byte_hit"]), 1, 1e-12, "hits where all files fit")
    assert whole["window"] is None, whole
    most = window_of(Workload(500), 1e12, 500 * KB)
    near(most.hit_ratio(), .994, .0005, "most hits")
    near(most.byte_hit_ratio(), .758, .0005, "most hit bytes")


@claim
def hits_grow_with_memory_and_fall_with_load():
    for policy in ("lru", "clock", "clock-marked"):
        rising = [window_of(Workload(2000), m * MB, math.inf, policy).hit_ratio() for m in range(16, 1040, 64)]
        falling = [window_of(Workload(t), 128 * MB, math.inf, policy).hit_ratio() for t in range(500, 9000, 500)]
        assert rising == sorted(set(rising)), (policy, rising)
        assert falling == sorted(set(falling), reverse=True), (policy, falling)
        window = window_of(Workload(2000), 64 * MB, math.inf, policy)
        near(window.used() / MB, 64, 1e-6, f"MB that {policy} uses")


@claim
def drawn_requests_are_spread_as_the_shares_say():
    workload, draws = Workload(500), 400000
    drawn = workload.draw(draws, random.Random(7))
    for number, wanted in ((36, [share for share, _ in workload.bins]), (100, [1 / 100] * 100)):
        seen = [0] * number
        for file in drawn:
            seen[file // 100 if number == 36 else file % 100] += 1
        chi = sum((s - draws * w) ** 2 / (draws * w) for s, w in zip(seen, wanted))
        free = number - 1
        assert chi < free + 4 * math.sqrt(2 * free), f"chi square {chi:.1f} with {free} degrees of freedom"


@claim
def lru_drops_what_was_not_used_for_longest():
    cache = Lru(3)
    asked = [cache.ask(file, 1) for file in "abcadba"]
    # d takes b's place, b takes c's.
    assert asked == [False, False, False, True, False, False, True] and set(cache.files) == set("dba"), asked


@claim
def clock_spares_what_was_used_since_the_hand_came_by():
    cache = Clock(3)
    asked = [cache.ask(file, 1) for file in "abcadea"]
    # The hand clears a and drops b for d, then c for e.
    assert asked == [False, False, False, True, False, False, True] and set(cache.files) == set("ade"), asked
    cache = Clock(3)
    for file in "abcbcad":
        cache.ask(file, 1)
    # All were used: the hand goes round and drops a, the first, though b was not used for longer.
    assert set(cache.files) == set("bcd"), cache.files
    marked = Clock(2, marked=True)
    for file in "abca":
        marked.ask(file, 1)
    # All were marked: the hand went round and dropped a, the first; a came back for b, which had lost its mark.
    assert set(marked.files) == set("ca"), marked.files


@claim
def simulated_lru_agrees_with_the_formula():
    for memory, load, cut in ((64, 500, "none"), (64, 2000, "none"), (64, 5000, "none"), (128, 2000, "none"),
                              (64, 5000, "500k"), (256, 4000, "500k")):
        p = simulated("lru", memory, load, cut)
        near(p["simulated"]["hit"], p["hit"], .003, f"{memory} MB, {load} requests/s, cut {cut}")
        assert p["agrees"], p


@claim
def simulated_clock_agrees_with_its_own_formula():
    for policy in ("clock", "clock-marked"):
        for memory, load in ((64, 500), (128, 2000), (512, 5000)):
            p = simulated(policy, memory, load)
            near(p["simulated"]["hit"], p["hit"], .003, f"{policy}, {memory} MB, {load} requests/s")


@claim
def clock_passes_for_lru_only_where_memory_is_plenty():
    for policy, memory, load, low, high in (("clock", 256, 2000, -.02, .02), ("clock", 64, 5000, .04, .06),
                                            ("clock-marked", 256, 2000, -.02, .02),
                                            ("clock-marked", 64, 5000, -.05, -.03)):
        p = simulated(policy, memory, load)
        more = p["simulated"]["hit"] - window_of(Workload(load), memory * MB).hit_ratio()
        assert low < more < high, f"{policy}, {memory} MB, {load} requests/s: {more:+.4f} to LRU"
        assert p["like_lru"] == (memory == 256), p


@claim
def a_simulation_that_differs_ends_with_status_1():
    run("hitmodel", "--simulate", "--memory", "64m", "--load", 5000, "--cut", "none", "--requests", 1000, status=1)


@claim
def memory_for_a_hit_ratio_gives_that_hit_ratio():
    for policy in ("lru", "clock"):
        for cut in (math.inf, 500 * KB):
            for hits in (0, .3, .9, .99):
                memory = memory_for(Workload(3000), hits, cut, policy)
                near(window_of(Workload(3000), memory, cut, policy).hit_ratio(), hits, 1e-6, f"{policy} {cut} {memory}")
    near(memory_for(Workload(3000), 1), Workload(3000).data_set(), 0, "all files")
    # Back from the published table.
    row, = said("planner", "memory", "--load", 500, "--hit-ratio", ".9159")["memories"]
    near(row["memory"] / MB, 64, .1, "MB")


@claim
def published_costs_come_out_again():
    assert capacity.hit_cycles(8 * KB) == 32823, capacity.hit_cycles(8 * KB)
    for size, rate in (("8k", 6093), ("64", 6655)):
        rows = said("planner", "rate", "--size", size, "--hit-ratio", "1")["rates"]
        near(rows[0]["accelerator"], rate, .6, f"hits/s of {size}")
    rows = said("planner", "rate", "--size", "8k", "--hit-ratio", "0,1", "--usable", ".8")["rates"]
    near(rows[1]["accelerator"], 4874, 1, "hits/s of 8 KB with 80 % of the processor")
    assert said("planner", "rate", "--hit-ratio", 0)["rates"][0]["accelerator"] == 2000
    assert capacity.hit_cycles(12 * KB) - capacity.hit_cycles(8 * KB) == 6000
    assert capacity.hit_cycles(10 * KB + 1) - capacity.hit_cycles(8 * KB) == 6000, "a segment that is begun"
    # What 4,000 requests/s leave for a hit when 5 of 100 miss, beside the mean over all files.
    near(capacity.mean_hit_cycles() / 47368, 1, .02, "mean cycles of a hit")


@claim
def the_published_site_is_planned_as_published():
    plan = said("planner", "nodes", "--load", 4000, "--hit-ratio", .95, "--server", 200)
    near(plan["misses"], 200, 1e-6, "misses/s")
    assert (plan["accelerators"], plan["servers"], plan["servers_without_accelerator"]) == (1, 1, 20), plan
    limits = {row["memory"] // MB: row for row in said("planner", "limit")["limits"]}
    near(limits[256]["load"] / 4000, 1, .05, "of 4,000 requests/s")
    near(limits[256]["hit_ratio"], .95, .01, "hit ratio at the limit")
    for row in limits.values():
        machine = capacity.Accelerator(capacity.HZ, capacity.mean_hit_cycles(), capacity.MISS, 0)
        near(machine.rate(row["hit_ratio"]) / row["load"], 1, .001, "what it can over what it must")
        near(machine.hit_ratio_for(row["load"]), row["hit_ratio"], .003, "the hit ratio that it needs")


@claim
def throughput_is_right_at_both_ends_and_grows_between():
    rows = said("planner", "rate", "--hit-ratio", ",".join(f"{i / 50}" for i in range(51)), "--hit", 40000,
                "--miss", 120000, "--cpu", 240e6)["rates"]
    assert rows[0]["accelerator"] == 2000 and rows[-1]["accelerator"] == 6000, (rows[0], rows[-1])
    assert [one["rate"] for one in rows[0]["by_servers"]] == [100, 1000, 2000], rows[0]
    assert [one["limit"] for one in rows[0]["by_servers"]] == ["servers", "servers", "accelerator"], rows[0]
    assert all(one["rate"] == 6000 and one["limit"] == "accelerator" for one in rows[-1]["by_servers"]), rows[-1]
    half = rows[25]
    near(half["accelerator"], 3000, 1e-6, "half hits: 240e6 / 80000")
    near(half["by_servers"][1]["rate"], 2000, 1e-6, "half hits, servers of 1,000")
    for i in range(3):
        column = [row["by_servers"][i]["rate"] for row in rows]
        assert column == sorted(set(column)), column


@claim
def connections_that_are_kept_cost_once():
    one = said("planner", "rate", "--hit-ratio", "0,1", "--size", "8k")
    many = said("planner", "rate", "--hit-ratio", "0,1", "--size", "8k", "--requests", 10)
    for what in ("hit_cycles", "miss_cycles"):
        near(one[what] - many[what], 21833 * .9, 1e-6, what)
    assert many["miss_cycles"] / many["hit_cycles"] > 2 * one["miss_cycles"] / one["hit_cycles"]


@claim
def as_many_nodes_as_needed_and_no_more():
    def plan(load, *words):
        return said("planner", "nodes", "--load", load, "--server", 100, "--hit", 40000, "--miss", 120000, "--cpu",
                    240e6, "--connection", 0, *words)

    for load, hits, accelerators, servers in ((6000, 1, 1, 0), (6001, 1, 2, 0), (2000, 0, 1, 20), (2001, 0, 2, 21),
                                              (9000, .5, 3, 45), (1000, .9, 1, 1)):
        got = plan(load, "--hit-ratio", hits)
        assert (got["accelerators"], got["servers"]) == (accelerators, servers), (load, hits, got)
        assert got["accelerators_busy"] <= 1 + 1e-9 and got["servers_busy"] <= 1 + 1e-9, got
    apart, joint = plan(40000, "--memory", "64m"), plan(40000, "--memory", "64m", "--together")
    assert joint["accelerators"] < apart["accelerators"] and joint["servers"] < apart["servers"], (apart, joint)
    machine = capacity.Accelerator(240e6, 40000, 120000, 0)
    for number, enough in ((joint["accelerators"], True), (joint["accelerators"] - 1, False)):
        hits = window_of(Workload(40000), number * 64 * MB).hit_ratio()
        assert (number * machine.rate(hits) >= 40000) == enough, (number, hits)
    grown = [plan(load, "--hit-ratio", .8)["accelerators"] for load in range(1000, 30000, 4000)]
    assert grown == sorted(grown) and grown[-1] > grown[0], grown


@claim
def both_explain_themselves_and_print_tables():
    for words in (["hitmodel"], ["planner"], *(["planner", c] for c in ("rate", "nodes", "memory", "limit"))):
        assert run(*words, "--help").stdout.startswith("usage: "), words
    assert "128 MB  0.980" in run("hitmodel", "--load", 500).stdout
    assert "0.0699    0.0998" in run("hitmodel", "--bins").stdout
    assert "2,000*" in run("planner", "rate", "--size", "8k").stdout
    assert "976.5 MB" in run("planner", "memory", "--load", 2000, "--hit-ratio", 1).stdout
    assert "reach the servers" in run("planner", "nodes", "--load", 10, "--hit-ratio", 1, "--server", 5).stdout


@claim
def what_makes_no_sense_is_refused():
    for words in (["--nonsense"], ["--memory", "0"], ["--memory", "64q"], ["--memory", ""], ["--memory", "-1m"],
                  ["--memory", "64m,,128m"], ["--load", "nan"], ["--load", "inf"], ["--load", "0.1"],
                  ["--cut", "small"], ["--policy", "fifo"], ["--alpha", "0"], ["--simulate", "--requests", "10"],
                  ["--simulate", "--requests", "1.5"], ["--simulate", "--load", "1e8"], ["--seed", "x"]):
        assert "error: " in run("hitmodel", *words, status=2).stderr, words
    for words in ([], ["guess"], ["rate", "--hit-ratio", "1.1"], ["rate", "--hit-ratio", "-.1"],
                  ["rate", "--hit-ratio", "nan"], ["rate", "--servers", "0"], ["rate", "--usable", "0"],
                  ["rate", "--usable", "1.5"], ["rate", "--cpu", "fast"], ["rate", "--requests", "0"],
                  ["rate", "--size", "20k"], ["rate", "--hit", "5000", "--miss", "4000", "--connection", "0"],
                  ["rate", "--hit", "5000", "--connection", "6000"], ["rate", "--cpu", "100"],
                  ["nodes", "--load", "100", "--hit-ratio", ".5"], ["nodes", "--load", "100", "--server", "10"],
                  ["nodes", "--load", "100", "--server", "10", "--hit-ratio", ".5", "--memory", "64m"],
                  ["nodes", "--load", "100", "--server", "10", "--hit-ratio", ".5", "--together"],
                  ["nodes", "--load", "100", "--server", "10", "--hit-ratio", ".5", "--cut", "500k"],
                  ["memory", "--load", "100"], ["memory", "--load", "100", "--hit-ratio", ".995", "--cut", "500k"],
                  ["limit", "--memory", "none"]):
        assert "error: " in run("planner", *words, status=2).stderr, words


main()
