# SPDX-License-Identifier: GPL-2.0
"""Text for Prometheus, read as strictly as its strictest readers do."""

import math
import re
import subprocess

import kit

try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as by_openmetrics
    from prometheus_client.parser import text_string_to_metric_families as by_client
except ImportError:
    by_openmetrics = by_client = None

NAME = r"[a-z_][a-z0-9_]*"
VALUE = r'"(?:[^"\\\n]|\\[\\"n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({NAME}={VALUE}(?:,{NAME}={VALUE})*)\}})? (-?[0-9.e+-]+|\+Inf|NaN)")
KINDS = {"counter", "gauge", "histogram", "untyped"}
BAD_UNIT = re.compile(r"_(usec|nsec|msec|ms|us|ns|kb|count|sum|bucket)(_|$)")


def labels_of(text):
    """A sorted tuple of pairs."""
    pairs = re.findall(rf"({NAME})=({VALUE})", text or "")
    assert len({name for name, _ in pairs}) == len(pairs), text
    return tuple(sorted((name, re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), value[1:-1]))
                        for name, value in pairs))


def check_histogram(name, samples):
    """Each of its series has rising bounds and counts, and a last bucket that says the count."""
    series = {}
    for labels, count in samples.get(name + "_bucket", {}).items():
        rest = tuple(pair for pair in labels if pair[0] != "le")
        series.setdefault(rest, []).append((float(dict(labels)["le"]), count))
    assert series, f"{name} has no buckets"
    for rest, buckets in series.items():
        assert buckets == sorted(buckets), f"{name} {rest}: {buckets}"
        assert [n for _, n in buckets] == sorted(n for _, n in buckets), f"{name} {rest}: {buckets}"
        assert buckets[-1][0] == math.inf and buckets[-1][1] == samples[name + "_count"][rest], name
        assert samples[name + "_sum"][rest] >= 0


def read(text):
    """{name: {labels as a sorted tuple of pairs: value}} of all samples, after all checks."""
    samples, kinds, helped, family = {}, {}, set(), None
    assert text.endswith("\n"), "the last line has no end"
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family, about = line[7:].split(" ", 1)
            assert len(about) > 5 and family not in helped, line
            helped.add(family)
        elif line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            assert name == family and name not in kinds and kind in KINDS, line
            assert name.endswith("_total") == (kind == "counter") and not BAD_UNIT.search(name), line
            kinds[name] = kind
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            name, labels = match[1], labels_of(match[2])
            own = re.sub("_(bucket|sum|count)$", "", name) if kinds.get(family) == "histogram" else name
            assert own == family and family in kinds, f"not among its family {family}: {line}"
            assert labels not in samples.setdefault(name, {}), f"twice: {line}"
            samples[name][labels] = float(match[3])
    assert helped == set(kinds), helped ^ set(kinds)
    for name, kind in kinds.items():
        if kind == "histogram":
            check_histogram(name, samples)
    if by_client:
        check_by_client(text, samples)
    return samples


def check_by_client(text, samples):
    """Prometheus's own Python readers agree; of OpenMetrics, where a counter's family has no _total."""
    seen = {}
    for family in by_client(text):
        for sample in family.samples:
            seen.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    assert seen == samples, seen
    text = re.sub(r"^# (HELP|TYPE) (\w+)_total ", r"# \1 \2 ", text, flags=re.M)
    list(by_openmetrics(re.sub(r"^(# TYPE \w+) untyped$", r"\1 unknown", text, flags=re.M) + "# EOF\n"))


def promtool(text):
    """What Prometheus's own program says of it, which is to be nothing."""
    run = subprocess.run([kit.need("promtool"), "check", "metrics"], input=text, capture_output=True, text=True,
                         check=False)
    return run.stdout + run.stderr + (f"exit status {run.returncode}" if run.returncode else "")


def value(samples, name, **labels):
    """That of one sample."""
    return samples[name][tuple(sorted(labels.items()))]
