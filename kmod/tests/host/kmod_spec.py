#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""kmod/uapi/flotilla.yaml and flotilla.h say the same."""
import os
import re
import sys
import yaml
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from fltnl import E, HEADER, TOP                        # noqa: E402
from tap import claim, main                             # noqa: E402

with open(os.path.join(TOP, "kmod/uapi/flotilla.yaml"), encoding="utf-8") as f:
    SPEC = yaml.safe_load(f)
with open(HEADER, encoding="utf-8") as f:
    TEXT = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
with open(os.path.join(TOP, "kmod/netlink.c"), encoding="utf-8") as f:
    CODE = f.read()


def c_name(*parts):
    return "".join(parts).replace("-", "_").upper()


def enumerators(enum):
    body = re.search(r"enum\s+%s\s*{(.*?)}" % enum, TEXT, re.S).group(1)
    names = [i.split("=")[0].strip() for i in body.split(",") if i.strip()]
    return [n for n in names if not n.startswith("__") and not n.endswith("UNSPEC")]


def numbered(items, prefix, first):
    """C name and value of each item of a list where value is given now and then."""
    value, found = first - 1, {}
    for item in items:
        item = {"name": item} if isinstance(item, str) else item
        value = item.get("value", value + 1)
        found[c_name(prefix, item["name"])] = value
    return found


@claim
def enums_have_the_same_names_and_values():
    for d in SPEC["definitions"]:
        if d["type"] != "enum":
            continue
        spec = numbered(d["entries"], d["name-prefix"], d.get("value-start", 0))
        spec.pop("FLT_EVENT_UNSPEC", None)
        enum = c_name(d["enum-name"]).lower()
        assert spec == {n: E[n] for n in enumerators(enum)}, enum


@claim
def flags_have_the_same_names_and_values():
    found = [d for d in SPEC["definitions"] if d["type"] == "flags"]
    assert found
    for d in found:
        spec = {n: 1 << bit for n, bit in numbered(d["entries"], d["name-prefix"], 0).items()}
        assert spec == {n: E[n] for n in enumerators(c_name(d["enum-name"]).lower())}


@claim
def constants_have_the_same_values():
    for d in SPEC["definitions"]:
        if d["type"] == "const":
            assert E[c_name("flt-", d["name"])] == d["value"], d["name"]
    assert SPEC["name"] in TEXT


@claim
def attributes_have_the_same_names_and_values():
    spec = numbered(SPEC["attribute-sets"][0]["attributes"], "flt-a-", 1)
    assert spec == {n: E[n] for n in enumerators("flt_attr")}


@claim
def commands_have_the_same_names_and_values():
    spec = numbered(SPEC["operations"]["list"], "flt-cmd-", 1)
    assert spec == {n: E[n] for n in enumerators("flt_cmd")}


@claim
def tuple_has_the_same_members():
    spec = next(d for d in SPEC["definitions"] if d["name"] == "tuple")
    body = re.search(r"struct flt_tuple\s*{(.*?)}", TEXT, re.S).group(1)
    names = [re.sub(r"\[.*", "", line.split()[-1]) for line in body.split(";") if line.strip()]
    assert [c_name(m["name"]).lower() for m in spec["members"]] == names


@claim
def operations_that_the_kernel_guards_are_marked():
    for op in SPEC["operations"]["list"]:
        rows = re.findall(r"FLT_(?:DO|DUMP)\(%s, .*?\)" % c_name("flt-cmd-", op["name"]), CODE)
        guarded = "uns-admin-perm" in op.get("flags", [])
        assert all(("GENL_UNS_ADMIN_PERM" in row) == guarded for row in rows), op["name"]
        assert len(rows) == ("do" in op) + ("dump" in op), op["name"]


@claim
def operations_refer_to_attributes_that_exist():
    known = {a["name"] for a in SPEC["attribute-sets"][0]["attributes"]}
    for op in SPEC["operations"]["list"]:
        for side in (op.get("do", {}), op.get("dump", {}), {"event": op.get("event", {})}):
            for part in side.values():
                assert set(part.get("attributes", [])) <= known, op["name"]


if __name__ == "__main__":
    main()
