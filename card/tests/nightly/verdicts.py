# SPDX-License-Identifier: GPL-2.0
"""What is expected of each test, and what of what was seen is not.

A line of a list: TEST, the verdict on the plain disk, KIND=VERDICT for each kind of disk with another one, and `# why`,
with tabs between. A verdict may have alternatives ("passed|over time"). A kind that is not named has the plain disk's.
"""

# What does not begin so is no end of a test.
ENDS = ("passed", "failed", "not run")


class Line:
    """One test's."""

    def __init__(self, plain, others=None, why=""):
        self.plain, self.others, self.why = plain, others or {}, why

    def expected(self, kind):
        return self.others.get(kind, self.plain)

    def text(self, name):
        columns = [name, self.plain]
        columns += ["%s=%s" % item for item in sorted(self.others.items())]
        if self.others or self.why:
            columns.append("# " + self.why)
        return "\t".join(columns)


def parse(text):
    """{test: Line}; a comment of its own begins with #."""
    found = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        name, plain, *rest = line.split("\t")
        why = rest.pop()[1:].strip() if rest and rest[-1].startswith("#") else ""
        found[name] = Line(plain, dict(column.split("=", 1) for column in rest), why)
    return found


def judge(expected, seen, todo):
    """Complaints, a sentence each. @seen: {kind: {test: verdict}}; @todo: what had to be run.

    A test that is not in the list yet has to end, and on each disk as it does on the plain one.
    """
    wrong = []
    for name in todo:
        line = expected.get(name)
        if line is None:
            plain = seen.get("plain", {}).get(name, "")
            line = Line(plain if plain.startswith(ENDS) else "that it ends on the plain disk")
        for kind, verdicts in seen.items():
            verdict = verdicts.get(name, "not reached")
            if verdict not in line.expected(kind).split("|"):
                wrong.append("%s: %s: %s, expected: %s" % (name, kind, verdict, line.expected(kind)))
        if line.others and not line.why:
            wrong.append("%s: in the list as different, without a reason" % name)
    if not any(verdict == "passed" for verdicts in seen.values() for verdict in verdicts.values()):
        wrong.append("no test passed on any disk")
    return wrong


def record(expected, seen, todo):
    """The list with what was seen instead of what was not so; reasons stay with differences that stay.

    A kind on which a test did not end changes nothing; a test is new in the list when it ended on all that were run.
    """
    new = dict(expected)
    for name in todo:
        old = expected.get(name)
        now = {kind: verdicts[name] for kind, verdicts in seen.items() if verdicts.get(name, "").startswith(ENDS)}
        if old is None:
            now = now if len(now) == len(seen) else {}
        else:
            for kind, verdict in now.items():
                if verdict in old.expected(kind).split("|"):
                    now[kind] = old.expected(kind)
            now = {"plain": old.plain, **old.others, **now}
        if "plain" in now:
            plain = now.pop("plain")
            others = {kind: verdict for kind, verdict in now.items() if verdict != plain}
            same = old is not None and others == old.others
            new[name] = Line(plain, others, old.why if same else "")
    return new


def differing(seen, todo):
    """(test, kind, verdict, the plain disk's) for each that differs, listed or not."""
    for name in todo:
        plain = seen.get("plain", {}).get(name)
        for kind, verdicts in seen.items():
            if plain is not None and verdicts.get(name) != plain:
                yield name, kind, verdicts.get(name, "not reached"), plain
