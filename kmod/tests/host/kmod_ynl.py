#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 120
"""The kernel's own generator reads kmod/uapi/flotilla.yaml, and what it makes of it agrees with flotilla.h."""
import os
import re
import subprocess
import sys
import tempfile
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from fltnl import E, TOP, enums                         # noqa: E402
from tap import claim, main                             # noqa: E402

MODES = {"flotilla.h": ("uapi", "--header"), "flotilla-user.h": ("user", "--header"),
         "flotilla-user.c": ("user", "--source"), "flotilla-kernel.h": ("kernel", "--header"),
         "flotilla-kernel.c": ("kernel", "--source")}


class Tree:
    """What the generator wants around a spec: the schemas beside it, and a kernel's root above."""

    def __init__(self, source):
        self.source, self.place = source, tempfile.TemporaryDirectory(prefix="kmod-ynl-")
        netlink = self.path("Documentation/netlink")
        os.makedirs(netlink + "/specs")
        open(self.path("MAINTAINERS"), "w", encoding="ascii").close()
        for name in os.listdir(source + "/Documentation/netlink"):
            if name.endswith(".yaml"):
                os.symlink("%s/Documentation/netlink/%s" % (source, name), "%s/%s" % (netlink, name))
        # A copy: the generator follows links.
        with open(os.path.join(TOP, "kmod/uapi/flotilla.yaml"), encoding="utf-8") as spec, \
                open(netlink + "/specs/flotilla.yaml", "w", encoding="utf-8") as copy:
            copy.write(spec.read())

    def path(self, name):
        return os.path.join(self.place.name, name)

    def text(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def generate(self, name):
        mode, part = MODES[name]
        done = subprocess.run((sys.executable, self.source + "/tools/net/ynl/ynl-gen-c.py", "--mode", mode, part,
                               "--spec", self.path("Documentation/netlink/specs/flotilla.yaml"),
                               "-o", self.path(name)), capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, "%s %s: %s%s" % (mode, part, done.stdout, done.stderr)
        return self.text(name)


def kernel_source():
    """What tools/build/kernel takes of it: the generator and its schemas are there."""
    taken = subprocess.run((TOP + "/tools/build/kernel", "selftests"), capture_output=True, text=True, check=False)
    assert taken.returncode == 0, taken.stderr
    return taken.stdout.strip()


@claim
def generator_reads_it_in_every_mode():
    for name in MODES:
        assert "YNL-GEN %s" % MODES[name][0] in TREE.generate(name), name


@claim
def header_that_it_makes_says_what_ours_says():
    TREE.generate("flotilla.h")
    made = enums(TREE.path("flotilla.h"))
    # Of constants it knows no other prefix than the family's name.
    made = {re.sub("^FLOTILLA_", "FLT_", name): value for name, value in made.items()}
    for name in ("FLT_A_MAX", "FLT_CMD_MAX"):
        made.pop(name)
    made.update({"FLT_A_UNSPEC": 0, "FLT_CMD_UNSPEC": 0})
    assert made == E, sorted(set(made.items()) ^ set(E.items()))


@claim
def code_for_programs_compiles():
    for name in ("flotilla-user.h", "flotilla-user.c"):
        TREE.generate(name)
    done = subprocess.run(("gcc", "-fsyntax-only", "-Wall", "-Werror", "-I" + TREE.place.name,
                           "-I" + TREE.source + "/tools/net/ynl/lib", "-I" + TOP + "/kmod/uapi",
                           TREE.path("flotilla-user.c")), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def policies(text):
    """Attribute and rule of every table in a source; the same spelling for the same rule."""
    rows = re.findall(r"\[(FLT_A_\w+)\]\s*=\s*(.*),\n", text)
    return [(name, re.sub(r"[{}\s]|,$", "", rule)) for name, rule in rows]


@claim
def limits_that_it_makes_for_the_kernel_can_be_compiled():
    made = policies(TREE.generate("flotilla-kernel.c"))
    assert made
    for name, rule in made:
        lengths = re.findall(r"\.(?:len|max|min)=([^,]+)", rule)
        assert all(length.isdigit() for length in lengths), (name, rule)


if __name__ == "__main__":
    TREE = Tree(kernel_source())
    main()
