#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""bench/compare: what got worse between two sets of results is said, noise is not."""
import copy
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(os.environ["FLT_TOP"])
sys.path.insert(0, str(TOP / "tools/testing/lib"))
from kit import claim, main     # noqa: E402

SERVERS = {"qemu": "10.0.2", "connections": 8, "servers": {"flash": {
    "64": {"instructions": 20000, "switches": .5, "spread percent": 1., "runs": [{"instructions": 1}]},
    "8192": {"instructions": 60000, "switches": .5, "spread percent": 9., "runs": [{"instructions": 1}]}}}}


def compare(old, new, *options):
    """Its status, its result, and what it complains of. OLD and NEW are {file: contents}, or contents."""
    with tempfile.TemporaryDirectory() as directory:
        paths = []
        for name, files in (("old", old), ("new", new)):
            path = Path(directory) / name
            path.mkdir()
            for file, contents in files.items():
                (path / file).write_text(contents if isinstance(contents, str) else json.dumps(contents))
            paths.append(str(path))
        run = subprocess.run([str(TOP / "bench/compare"), "-j", *options, *paths], capture_output=True, text=True)
    return run.returncode, json.loads(run.stdout) if run.stdout else None, run.stderr


def changed(change, *options):
    """SERVERS beside SERVERS after CHANGE, which is given a copy."""
    new = copy.deepcopy(SERVERS)
    change(new)
    return compare({"a.json": SERVERS}, {"a.json": new}, *options)


def verdicts(result):
    return {row["measure"]: row["verdict"] for row in result["rows"] if row["verdict"] != "same"}


@claim
def what_is_alike_is_the_same():
    status, result, _ = changed(lambda new: None)
    assert status == 0 and len(result["rows"]) == 4 and not verdicts(result), result


@claim
def more_instructions_are_worse_and_fewer_better():
    status, result, _ = changed(lambda new: new["servers"]["flash"]["64"].update(instructions=21000))
    assert status == 1 and verdicts(result) == {"servers/flash/64/instructions": "worse"}, result
    status, result, _ = changed(lambda new: new["servers"]["flash"]["64"].update(instructions=19000))
    assert status == 0 and verdicts(result) == {"servers/flash/64/instructions": "better"}, result


@claim
def a_lower_rate_is_worse():
    row = {"policy": "wrr", "nodes": 2, "throughput": 100}
    status, result, _ = compare({"a.json": {"data": [row]}}, {"a.json": {"data": [{**row, "throughput": 90}]}})
    assert status == 1 and verdicts(result) == {"data/policy wrr, nodes 2/throughput": "worse"}, result


@claim
def what_is_within_the_spread_of_either_is_no_change():
    status, result, _ = changed(lambda new: new["servers"]["flash"]["8192"].update(instructions=65000))
    assert status == 0 and not verdicts(result), result
    status, result, _ = changed(
        lambda new: new["servers"]["flash"]["64"].update({"instructions": 21000, "spread percent": 6}))
    assert status == 0 and not verdicts(result), result


@claim
def the_bound_is_the_callers():
    status, _, _ = changed(lambda new: new["servers"]["flash"]["64"].update(instructions=20400))
    assert status == 0
    status, _, _ = changed(lambda new: new["servers"]["flash"]["64"].update(instructions=20400), "--bound", "1.5")
    assert status == 1
    status, _, errors = changed(lambda new: None, "--bound", "-1")
    assert status == 2 and "not from 0 to 1000" in errors, errors


@claim
def rows_are_told_apart_by_their_settings_not_by_their_place():
    rows = [{"layer": "epoll", "idle": idle, "server": 1000 * idle} for idle in (1, 5, 10)]
    status, result, _ = compare({"a.json": {"rows": rows}}, {"a.json": {"rows": rows[::-1]}})
    assert status == 0 and len(result["rows"]) == 3 and not result["only_old"], result


@claim
def what_is_off_is_as_in_files_that_did_not_know_it():
    row = {"ours": "flash", "new": False, "rate": 1000}
    status, result, _ = compare({"a.json": {"rows": [row]}}, {"a.json": {"rows": [{**row, "tls": False, "rate": 900}]}})
    assert status == 1 and verdicts(result) == {"rows/ours flash/rate": "worse"}, result
    _, result, _ = compare({"a.json": {"rows": [row]}}, {"a.json": {"rows": [row, {**row, "tls": True}]}})
    assert result["only_new"] == ["a.json: rows/ours flash, tls True/rate"], result


@claim
def ratios_in_turns_are_better_for_the_rate_and_worse_for_the_time():
    def turns(ratio):
        said = {"ratio": ratio, "low": ratio - .01, "high": ratio + .01, "told": True}
        return {"a.json": {"cases": [{"ours": "flash", "theirs": "nginx", "bytes": 64, "rate": said, "server": said}]}}
    status, result, _ = compare(turns(1.2), turns(1.4))
    assert status == 1 and set(verdicts(result).values()) == {"better", "worse"}, result
    assert verdicts(result)["cases/ours flash, theirs nginx, bytes 64/rate"] == "better", result


@claim
def a_ratio_whose_bounds_are_wide_has_not_changed():
    def turns(ratio):
        said = {"ratio": ratio, "low": ratio / 2, "high": ratio * 2, "told": False}
        return {"a.json": {"cases": [{"ours": "flash", "rate": said}]}}
    status, result, _ = compare(turns(1.4), turns(1.2))
    assert status == 0 and len(result["rows"]) == 1 and not verdicts(result), result


@claim
def ratios_whose_bounds_overlap_have_not_changed_however_far_they_are():
    def turns(ratio, low, high):
        said = {"ratio": ratio, "low": low, "high": high, "told": False}
        return {"a.json": {"cases": [{"ours": "flash", "paced": {"p50": said, "rate": 900 * ratio}}]}}
    status, result, _ = compare(turns(.02, .01, .4), turns(.57, .02, 1.2))
    assert status == 0 and len(result["rows"]) == 1 and not verdicts(result), result
    status, result, _ = compare(turns(.02, .01, .03), turns(.57, .5, .6))
    assert status == 1 and list(verdicts(result).values()) == ["worse"], result


@claim
def rounds_are_compared_by_their_medians():
    def rounds(*values):
        return {"a.json": {"nanoseconds a request": [{"pipe": value} for value in values]}}
    status, result, _ = compare(rounds(100, 101, 102), rounds(100, 101, 900))
    assert status == 0 and not verdicts(result), result
    status, result, _ = compare(rounds(100, 101, 102), rounds(120, 121, 122))
    assert status == 1 and verdicts(result) == {"nanoseconds a request/pipe": "worse"}, result


@claim
def what_only_one_of_them_has_is_named():
    status, result, _ = compare({"a.json": SERVERS, "b.json": SERVERS}, {"a.json": SERVERS, "c.json": SERVERS})
    assert status == 0 and result["only_old"] == ["b.json"] and result["only_new"] == ["c.json"], result

    status, result, _ = changed(lambda new: new["servers"]["flash"].pop("64"))
    assert result["only_old"] == ["a.json: servers/flash/64/instructions", "a.json: servers/flash/64/switches"], result


@claim
def another_machine_is_said():
    _, result, _ = changed(lambda new: new.update(qemu="11.0"))
    assert result["machine"] == ["a.json: qemu was 10.0.2, is 11.0"], result


@claim
def failures_that_were_none_are_worse():
    status, result, _ = compare({"a.json": {"rows": [{"way": "x", "failed": 0}]}},
                                {"a.json": {"rows": [{"way": "x", "failed": 3}]}})
    assert status == 1 and verdicts(result) == {"rows/way x/failed": "worse"}, result


@claim
def what_is_no_result_is_refused_with_a_sentence():
    for bad, said in (({}, "no results"), ({"a.json": "{"}, "a.json: "), ({"a.json": "[]"}, "no measure in common"),
                      ({"a.json": '{"nanoseconds a request": [1, 2]}'}, "no file of results"),
                      ({"a.json": '{"x": {"spread percent": []}}'}, "no measure in common")):
        status, _, errors = compare(bad, {"a.json": SERVERS})
        assert status == 1 and said in errors and "Traceback" not in errors, (bad, errors)


@claim
def all_published_results_are_read():
    files = sorted((TOP / "bench/results").glob("*.json"))
    results = {file.name: file.read_text() for file in files}
    status, result, errors = compare(results, results)
    assert status == 0 and not errors, errors
    without = {file.name for file in files} - {row["file"] for row in result["rows"]}
    assert not without, f"no measure of {without}"


main()
