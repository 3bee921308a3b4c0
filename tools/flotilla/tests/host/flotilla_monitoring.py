#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Dashboard and alerts ask for metrics that lardd and the exporter tell, in PromQL; alerts come when they shall."""

import functools
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request

TOP = os.environ.get("FLT_TOP", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../.."))
for directory in ("tools/testing/lib", "lard/tests/lib", "tools/flotilla/tests/host"):
    sys.path.insert(0, os.path.join(TOP, directory))
import yaml                                             # noqa: E402
import exposition                                       # noqa: E402
import kit                                              # noqa: E402
from flotilla_metrics import counters, text_of          # noqa: E402
from kit import claim                                   # noqa: E402
from lardd import cluster, free_port                    # noqa: E402

FILES = os.path.join(TOP, "tools/flotilla/monitoring")
ROWS = ["Cluster", "Nodes", "Handoff", "Policies", "Caches", "Card", "Errors"]
PROMETHEUS = {"up": {"instance", "job"}}                # what Prometheus tells itself
WORDS = set("and or unless by on without ignoring bool offset group_left group_right inf nan".split())
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
SELECTOR = re.compile(r'(\w*)\{([^{}]*)\}')
GROUPING = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)")


def path_of(name):
    return os.path.join(FILES, name)


@functools.cache
def dashboard():
    with open(path_of("dashboard.json"), encoding="utf-8") as file:
        return json.load(file)


@functools.cache
def yaml_of(name):
    with open(path_of(name), encoding="utf-8") as file:
        return yaml.safe_load(file)


def panels():
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def rules():
    return [rule for group in yaml_of("alerts.yml")["groups"] for rule in group["rules"]]


def expressions():
    """(where it is, PromQL) of all that is asked."""
    for panel in panels():
        yield from ((panel["title"], target["expr"]) for target in panel["targets"])
    yield from ((rule["alert"], rule["expr"]) for rule in rules())


@functools.cache
def told():
    """{metric: {label: values}} of lardd, as it runs, and of the exporter with every counter."""
    port = free_port()
    with cluster(2, f"metrics 127.0.0.1:{port}"), \
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=kit.PATIENCE) as page:
        text = page.read().decode()
    text += text_of([f"+ {room} {name} 1" for room, name in counters()] + ["n node be1 3"])
    metrics = {name: {"instance": None, "job": None} for name in re.findall(r"^# TYPE (\S+)", text, re.M)}
    for line in text.splitlines():
        match = exposition.SAMPLE.fullmatch(line)
        if match:
            of = metrics.setdefault(match[1], {"instance": None, "job": None})
            for label, value in exposition.labels_of(match[2]):
                of.setdefault(label, set()).add(value)
    return metrics


def names_in(expression):
    """Metrics that it asks for: what is neither function, label, duration, string nor word of PromQL."""
    bare = GROUPING.sub(" ", re.sub(r"\[[^]]*\]", " ", SELECTOR.sub(r"\1 ", expression)))
    return {name for name in re.findall(r"(?<![\w.$])[a-zA-Z_:][\w:]*(?!\s*\(|[\w:])", bare) if name not in WORDS}


def promtool(*arguments):
    run = subprocess.run([kit.need("promtool"), *arguments], capture_output=True, text=True, check=False, cwd=FILES)
    assert run.returncode == 0, run.stdout + run.stderr


@claim
def every_metric_that_is_asked_for_is_told():
    asked = {(name, where) for where, expression in expressions() for name in names_in(expression)}
    asked |= {(name, f"variable {variable['name']}") for variable in dashboard()["templating"]["list"]
              for name in re.findall(r"(?:flotilla|lard)_\w+", variable["query"])}
    asked |= {(re.match(r"\w+", series["series"])[0], f"test of {test['alert_rule_test'][0]['alertname']}")
              for test in yaml_of("alerts_test.yml")["tests"] for series in test["input_series"]}
    assert len({name for name, _ in asked}) > 150, "the expressions were not understood"
    missing = sorted((name, where) for name, where in asked if name not in told() and name not in PROMETHEUS)
    assert not missing, missing


@claim
def every_label_that_is_asked_for_is_there():
    for where, expression in expressions():
        for name, matchers in SELECTOR.findall(expression):
            labels = told().get(name, dict.fromkeys(PROMETHEUS.get(name, ())))
            for label, how, value in MATCHER.findall(matchers):
                assert label in labels, f"{where}: {name} has no label {label}"
                known = labels[label]
                assert known is None or "~" in how or value in known, f"{where}: {name} has no {label} {value}: {known}"
        of_all = {label for name in names_in(expression) for label in told().get(name, ())} | {"le"}
        for grouping in GROUPING.findall(expression):
            unknown = set(re.findall(r"\w+", grouping)) - of_all
            assert not unknown, f"{where}: no metric of {expression} has {unknown}"
    for panel in panels():
        for target in panel["targets"]:
            labels = {label for name in names_in(target["expr"]) for label in told()[name]}
            unknown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) - labels
            assert not unknown, f"{panel['title']}: {target['expr']} has no {unknown}"


@claim
def a_legend_names_what_is_kept_apart():
    for panel in panels():
        if panel["type"] == "timeseries":
            legends = [target["legendFormat"] for target in panel["targets"]]
            assert len(set(legends)) == len(legends), f"{panel['title']}: {legends}"
            for target in panel["targets"]:
                kept = set(re.findall(r"\w+", " ".join(re.findall(r"\bby \(([^)]*)\)", target["expr"])))) - {"le"}
                shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
                assert kept <= shown, f"{panel['title']}: {target['legendFormat']} does not tell {kept - shown} apart"


@claim
def the_dashboard_has_its_rows_and_nothing_overlaps():
    taken, ids = {}, [panel["id"] for panel in dashboard()["panels"]]
    assert [panel["title"] for panel in dashboard()["panels"] if panel["type"] == "row"] == ROWS
    assert len(set(ids)) == len(ids), ids
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert (x, y) not in taken, f"{panel['title']} lies on {taken[x, y]}"
                taken[x, y] = panel["title"]


@claim
def units_are_those_of_the_metrics():
    for panel in panels():
        unit = panel["fieldConfig"]["defaults"]["unit"]
        assert panel["description"] and panel["datasource"]["uid"] == "${datasource}", panel["title"]
        for target in panel["targets"]:
            names, expression = names_in(target["expr"]), target["expr"]
            rated = "rate(" in expression
            if " / " in expression:
                expected = {"percentunit"} if not any("_seconds" in name for name in names) else {"s"}
            elif any("_seconds" in name for name in names):
                expected = {"s"}
            elif any(re.search("_bytes(_total)?$", name) for name in names):
                expected = {"Bps"} if rated else {"bytes"}
            elif rated:
                expected = {"ops", "reqps", "cps", "pps", "iops", "short"}
            else:
                expected = {"short", "bool_yes_no"}
            assert unit in expected, f"{panel['title']}: {expression} in {unit}"
            assert all(name.endswith("_total") or "_bucket" in name for name in names) or not rated, expression


@claim
def expressions_of_the_dashboard_are_promql():
    asked = [re.sub(r"\$__rate_interval", "5m", expression).replace("$instance", ".*")
             for panel in panels() for expression in (target["expr"] for target in panel["targets"])]
    rule_list = [{"record": f"r{n}", "expr": expression} for n, expression in enumerate(asked)]
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rule_list}]}, file)
        file.flush()
        promtool("check", "rules", file.name)


@claim
def alerts_are_valid_and_come_when_they_shall():
    promtool("check", "rules", "alerts.yml")
    promtool("test", "rules", "alerts_test.yml")


@claim
def every_alert_is_seen_to_come_and_not_to_come():
    seen = {}
    for test in yaml_of("alerts_test.yml")["tests"]:
        for look in test["alert_rule_test"]:
            seen.setdefault(look["alertname"], set()).add(len(look["exp_alerts"]))
    assert seen == {rule["alert"]: {0, 1} for rule in rules()}, seen
    for rule in rules():
        assert rule["labels"]["severity"] in ("warning", "critical") and set(rule["annotations"]) == \
               {"summary", "description"}, rule["alert"]


@claim
def the_configuration_of_the_page_is_one():
    with open(path_of("README.md"), encoding="utf-8") as file:
        text = re.search(r"```yaml\n(.*?)```", file.read(), re.S)[1]
    jobs = {job["job_name"] for job in yaml.safe_load(text)["scrape_configs"]}
    asked = {value for rule in rules() for label, _, values in MATCHER.findall(rule["expr"]) if label == "job"
             for value in values.split("|")}
    assert jobs == asked == {"flotilla", "lardd"}, (jobs, asked)
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        file.write(text)
        file.flush()
        promtool("check", "config", "--syntax-only", file.name)


if __name__ == "__main__":
    kit.main()
