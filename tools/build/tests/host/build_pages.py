#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Manual pages have what the code has, and nothing else: programs, libraries, devices, options, directives, calls."""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(os.environ["FLT_TOP"])
sys.path[:0] = [str(TOP / "tools/testing/lib")]
from kit import claim, equal, main, need     # noqa: E402

UNITS = {"k": 10, "M": 20, "G": 30}
SECONDS = {"us": 1, "ms": 1000, "s": 1000000, "m": 60000000, "h": 3600000000, "": 1000000}


def read(path):
    return (TOP / path).read_text("utf-8")


def variable(name):
    """Words of a variable of the Makefile."""
    ran = subprocess.run(("make", "-s", "-f", "-", "names"), cwd=TOP, text=True, capture_output=True, check=True,
                         input="include Makefile\nnames:\n\t@echo $(%s)\n" % name,
                         env={k: v for k, v in os.environ.items() if k != "MAKEFLAGS"})
    return ran.stdout.split()


PAGES = variable("MANPAGES")


def plain(path):
    """A page as a terminal shows it, without breaks within words."""
    ran = subprocess.run((need("mandoc"), "-T", "ascii", "-O", "width=1000", str(TOP / path)), capture_output=True,
                         text=True, check=True)
    return re.sub(".\b", "", ran.stdout)


def named(path):
    """The names of its NAME."""
    return re.search(r"^NAME\n\s+(.*?)\s+-+\s", plain(path), re.M)[1].split(", ")


def page(name):
    """The one whose file is called so."""
    return next(path for path in PAGES if Path(path).name == name)


def section(path, *titles):
    """The source of these sections of a page."""
    parts = re.split(r"^\.S[hH] +(.*)\n", read(path), flags=re.M)
    return "".join(parts[i + 1] for i in range(1, len(parts), 2) if parts[i].strip('"') in titles)


def items(path, macro, *titles):
    """What each item of these sections, of mdoc's macro MACRO, says: by name."""
    found, names = {}, []
    for line in section(path, *titles).splitlines():
        if line.startswith(".It "):
            match = re.match(r"\.It (?:Xo )?%s ([\w.-]+(?: , [\w.-]+)*)" % macro, line)
            names = match[1].split(" , ") if match else []
            found.update((name, found.get(name, "")) for name in names)
        else:
            for name in names:
                found[name] += line + "\n"
    return found


def same(what, code, pages):
    """Both have the same names."""
    assert code, "the code has none: the test looks in the wrong place"
    equal("%s without a place in the page" % what, sorted(set(code) - set(pages)), [])
    equal("%s of the page that there are not" % what, sorted(set(pages) - set(code)), [])


def bytes_of(text):
    """"64k": 65536."""
    match = re.fullmatch(r"(\d+)([kMG]?)(?:m?s)?", text)
    return int(match[1]) << UNITS.get(match[2], 0) if match else text


def time_of(text):
    match = re.fullmatch(r"(\d+)(us|ms|s|m|h|)", text)
    return int(match[1]) * SECONDS[match[2]] if match else text


def default_of(text):
    """What an item says its default is; None: nothing, or more than a word."""
    match = re.search(r"\b[Dd]efault:? (\S+?)(?: for each)?[.;,]$", text, re.M)
    return match[1] if match else None


def range_of(text):
    match = re.search(r"^(\d\w*) to (\d\w*)[,.]", text, re.M)
    return match.groups() if match else None


def number(expression):
    """That of C, of digits, shifts and products."""
    expression = re.sub(r"U?LL|\b(\d+)U\b", r"\1", expression.strip())
    return eval(expression, {"UINT_MAX": 2 ** 32 - 1, "__builtins__": {}})


# --- programs, libraries, devices ---

@claim
def each_page_is_installed():
    skip = ("build", ".git")
    there = {str(p.relative_to(TOP)) for p in TOP.glob("**/*.[1-8]") if p.relative_to(TOP).parts[0] not in skip}
    there = {path for path in there if re.search(r"^\.(Sh|SH) NAME", read(path), re.M)}
    same("pages", there, PAGES)


@claim
def each_program_has_a_page_and_each_page_something_that_there_is():
    names = {(name, Path(path).suffix[1:]) for path in PAGES for name in named(path)}
    programs = variable("PROGRAMS") + [Path(p).name for p in variable("SCRIPTS")]
    libraries = variable("LIBRARIES")
    devices = set(re.findall(r'\.name\s*= "(\w+)",\n(?:.*\n){0,3}?\s*\.(?:mode|fops)\b', "".join(
        re.sub(r"(?s).*(?=static struct miscdevice)", "", path.read_text("utf-8"))
        for path in sorted(TOP.glob("*/device.c")) + [TOP / "kmod/afpa/device.c"])))
    equal("devices", devices, {"afpa", "handoff", "iolite", "sksplice", "uselect"})
    devices.add("card")     # a block device, of each disk
    equal("programs without a page", [p for p in programs if not names & {(p, "1"), (p, "8")}], [])
    preload = {"libuselect-preload"}        # nobody links it
    equal("libraries without a page", [n for n in libraries if (n, "1" if n in preload else "3") not in names], [])
    equal("devices without a page", [d for d in sorted(devices) if (d, "4") not in names], [])
    where = ("*/*.conf", "tools/*/*.conf", "kmod/afpa/door/*.conf")
    files = {path.name for pattern in where for path in TOP.glob(pattern)} | {"flotilla.conf"}
    known = {(p, s) for p in programs for s in "18"} | {(d, "4") for d in devices} | {(f, "5") for f in files}
    known |= {(n, "3") for n in libraries} | {(n, "1") for n in preload}
    known |= {("flotilla-card", "8"), ("uselect-preload", "1"), ("iolite-utils", "1")}
    for path in PAGES:
        names = {(name, Path(path).suffix[1:]) for name in named(path)}
        assert names & known, "%s is of nothing" % path


@claim
def each_page_has_examples_and_what_can_go_wrong():
    for path in PAGES:
        titles = [t.strip('"') for t in re.findall(r"^\.S[hH] +(.*)$", read(path), re.M)]
        for wanted in ({"NAME"}, {"EXAMPLES"}, {"SEE ALSO"}, {"ERRORS", "DIAGNOSTICS", "EXIT STATUS"}):
            assert wanted & set(titles), "%s has no %s" % (path, " or ".join(sorted(wanted)))


@claim
def no_page_has_a_mistake():
    ran = subprocess.run([need("mandoc"), "-T", "lint", "-W", "warning"] + PAGES, cwd=TOP, capture_output=True,
                         text=True, check=False)
    equal("of mandoc", ran.stdout + ran.stderr, "")


def options_of(program):
    """Those that its --help names."""
    ran = subprocess.run((TOP / "build/bin" / program, "--help"), capture_output=True, text=True, check=False,
                         timeout=60, stdin=subprocess.DEVNULL)
    options = set(re.findall(r"(?<![\w-])--([a-z][a-z-]+)", ran.stdout))
    assert options, "%s --help names no option: %r" % (program, ran.stdout)
    return options - {"name"} if program == "flash" else options    # flash: of "--name value", for settings


@claim
def the_options_of_help_are_those_of_the_page():
    programs = [program for program in variable("PROGRAMS") if not program.startswith("iol-")]
    for path in PAGES:
        those = set(named(path)) & set(programs)
        helped = {option for program in those for option in options_of(program)} - {"help", "version"}
        text = re.sub(r"^EXAMPLES\n(?:(?: .*)?\n)*", "", plain(path), flags=re.M)
        missing = {option for option in helped if not re.search(r"(?<![\w-])--%s\b" % option, text)}
        equal("options without a place in %s" % path, sorted(missing), [])
        heads = re.findall(r"^\.It Fl .*|^\.TP\n.*", section(path, "DESCRIPTION", "OPTIONS"), re.M) if those else ()
        told = {option for head in heads
                for option in re.findall(r"(?:Fl |, |(?<![a-z])-)-([a-z][a-z-]+)", head.replace("\\-", "-"))}
        equal("options of %s that there are not" % path, sorted(told - helped - {"help", "version"}), [])


# --- configuration files ---

@claim
def lardd_conf_has_the_directives_of_lardd():
    table = re.search(r"directives\[\] = \{\n(.*?)\n\};", read("lard/config.c"), re.S)[1]
    code = re.findall(r'(?:^\t[A-Z]+\(|\{ )"([\w-]+)"', table, re.M)
    same("directives", code, items(page("lardd.conf.5"), "Ic", "DIRECTIVES"))
    equal("directives that are there twice", len(set(code)), len(code))


def lardd_says(line):
    """What it has against this line."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(line + "\n")
        file.flush()
        return subprocess.run((TOP / "build/bin/lardd", "--check", "-c", file.name), capture_output=True, text=True,
                              check=False, timeout=60).stderr


@claim
def and_their_ranges():
    for name, text in items(page("lardd.conf.5"), "Ic", "DIRECTIVES").items():
        match = re.search(r"must be a number from (\d+) to (\d+)", lardd_says(name + " x")) if name != "hsts" else None
        equal("range of %s" % name, range_of(text), match.groups() if match else None)


@claim
def and_their_defaults():
    source = read("lard/config.c")
    filled = re.search(r"defaults = \{\n(.*?)\n\};", source, re.S)[1] + read("lard/policy.h")
    said = 0
    for kind, name, member in re.findall(r'(NUMBER|TIME|SWITCH)\("([\w-]+)", ([\w.]+)', source):
        match = re.search(r"\.%s = ([^,}]+)" % member.split(".")[-1], filled)
        value = match[1] if match else "0"
        shown = default_of(items(page("lardd.conf.5"), "Ic", "DIRECTIVES")[name])
        if kind == "SWITCH":
            should = "on" if value == "true" else "off"
        elif value.startswith("LARD_TARGETS"):
            should = number(re.search(r"define LARD_TARGETS_DEFAULT\s+(\S+)", filled)[1])
        else:
            should = number(value)
        is_ = shown if kind == "SWITCH" else time_of(shown or "") if kind == "TIME" else bytes_of(shown or "")
        equal("default of %s" % name, is_, should)
        said += 1
    assert said > 35, said


def flash_help():
    """Settings of flash --help, and their defaults: two lots, the second of virtual hosts."""
    ran = subprocess.run((TOP / "build/bin/flash", "--help"), capture_output=True, text=True, check=True)
    lots = ran.stdout.split("Settings, in the file", 1)[1].split("Of a virtual host", 1)
    return [dict((m[1], m[2]) for m in re.finditer(r"^  (\w+) +.*?(?: \[([^]]*)\])?$", lot, re.M)) for lot in lots]


@claim
def flash_conf_has_the_settings_of_flash():
    whole, host = flash_help()
    same("settings", {**whole, **host}, items(page("flash.conf.5"), "Ic", "SETTINGS"))


@claim
def and_their_ranges_and_defaults():
    pages = items(page("flash.conf.5"), "Ic", "SETTINGS")
    whole, host = flash_help()
    for name, default in whole.items():
        said = subprocess.run((TOP / "build/bin/flash", "--" + name, "x", "--check"), capture_output=True, text=True,
                              check=False, timeout=60).stderr
        match = re.search(r"cannot be x \(from (\d+) to (\d+)\)", said)
        shown = range_of(pages[name])
        equal("range of %s" % name, tuple(map(bytes_of, shown)) if shown else None,
              tuple(map(int, match.groups())) if match else None)
        if default and not (match and default == "0" < match[1]):
            equal("default of %s" % name, bytes_of(default_of(pages[name]) or ""), bytes_of(default))
    for name, default in host.items():
        if default and name != "status" and "process" not in default:
            equal("default of %s" % name, default_of(pages[name]), default)


@claim
def flotilla_conf_has_the_lines_and_attributes_of_apply():
    path = page("flotilla.conf.5")
    source = re.sub(r'"\n\s*"', "", read("tools/flotilla/config.c"))
    kinds = re.search(r'"a line begins with (.*?), not with', source)[1]
    same("lines", re.split(r", | or ", kinds), items(path, "Ic", "LINES"))
    pages = items(path, "Cm", "LINES")
    rows = re.findall(r'\{ "(\w+)", "(\w+)", \w+, (.*?), (.*?), (\w+|&\w+) \}', read("tools/flotilla/setting.c"))
    same("attributes", [name for _, name, *_ in rows], pages)
    for _, name, low, high, _ in rows:
        if name != "policy":
            equal("range of %s" % name, range_of(pages[name]), (str(number(low)), str(number(high))))


@claim
def afpad_conf_has_the_directives_of_afpad():
    source, pages = read("kmod/afpa/door/config.c"), items(page("afpad.conf.5"), "Ic", "DIRECTIVES")
    taken = r"(?:[^;]*?take_\w+\(r, name, \w+,(?: (\d+), (\d+),)? &c->(\w+)\))?"
    rows = re.findall(r'!strcmp\(name, "([\w-]+)"\)' + taken, source)
    same("directives", [row[0] for row in rows], pages)
    filled = dict(re.findall(r'^\t\t\.(\w+) = "?([^"\n]+?)"?,$', source, re.M))
    counted = 0
    for name, low, high, member in rows:
        equal("range of %s" % name, range_of(pages[name]), (low, high) if low else None)
        if member:
            shown, value = default_of(pages[name]), number(filled[member])
            is_ = time_of(shown) // 1000 if member.endswith("_ms") else bytes_of(shown)
            equal("default of %s" % name, is_, value)
            counted += 1
    equal("settings with a number", counted, 8)
    equal("default of user", default_of(pages["user"]), filled["user"])
    equal("of the port", default_of(pages["listen"]), "127.0.0.1:" + re.search(r'PORT_DEFAULT\t"(\d+)"', source)[1])


@claim
def examples_of_files_are_understood():
    for name, command in (("lardd.conf.5", ("lardd", "--check", "-c")), ("flash.conf.5", ("flash", "--check", "-c")),
                          ("flotilla.conf.5", ("flotilla", "apply", "--dry-run")),
                          ("afpad.conf.5", ("afpad", "--check", "--config"))):
        shown = re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed", section(page(name), "EXAMPLES"), re.M | re.S)
        examples = [text for text in shown if not re.match(r"# |%s " % command[0], text)]
        assert examples, name
        for text in examples:
            with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
                file.write(text)
                file.flush()
                ran = subprocess.run((TOP / "build/bin" / command[0],) + command[1:] + (file.name,), text=True,
                                     capture_output=True, check=False, timeout=60)
                # Certificates, roots and modules are missing: these are told without the line.
                assert "%s: %s:" % (command[0], file.name) not in ran.stderr, "%s: %s" % (name, ran.stderr)


# --- the kernel's ---

@claim
def handoff_has_its_sysctls():
    source = read("handoff/tunable.c")
    limits = dict(re.findall(r"^#define (HOF_\w+)\t+(.+)$", source, re.M))
    limits.update(HOF_PENDING_MAX="16384", FLT_CHECKPOINT_MAX="4 * 1024 * 1024")
    filled = dict(re.findall(r"^\t\.(\w+) = (.+),$", source, re.M))
    filled.update(send_max="4 * 1024 * 1024", unread_max="4 * 1024 * 1024", keys_in_clear="0")
    rows = re.findall(r'HOF_TUNABLE\("(\w+)", (\w+), ([^,]+), ([^,]+)\),', source)
    pages = items(page("handoff.4"), "Va", "SYSCTLS")
    same("sysctls", [row[0] for row in rows], pages)
    for name, field, low, high in rows:
        bounds = tuple(str(number(limits.get(bound, bound))) for bound in (low, high))
        equal("range of %s" % name, range_of(pages[name]), bounds)
        equal("default of %s" % name, default_of(pages[name]), str(number(filled[field])))
    shown = items(page("flotilla.conf.5"), "Cm", "LINES")
    for name in sorted(set(shown) & set(pages)):
        equal("%s of both pages" % name, (range_of(shown[name]), default_of(shown[name])),
              (range_of(pages[name]), default_of(pages[name])))


@claim
def each_parameter_of_a_module_is_in_its_page():
    for room, name in (("splice", "sksplice.4"), ("uselect", "uselect.4"), ("iolite", "iolite.4")):
        source = "".join(path.read_text("utf-8") for path in (TOP / room).glob("*.c"))
        code = re.findall(r"module_param(?:_named)?\((\w+)", source)
        text = section(page(name), "PARAMETERS")
        pages = re.findall(r"\.It Va (\w+)", text) or [
            word for line in re.findall(r"^\.TP\n(\.IR .*)$", text, re.M)
            for word in re.findall(r"\b([a-z]+_[a-z_]+|gds)\b", line)]
        same("parameters of %s" % name, code, pages)


@claim
def each_call_of_a_device_is_in_its_page():
    for name, headers in (("handoff.4", "handoff/uapi/flotilla/*.h"), ("uselect.4", "uselect/uapi/flotilla/*.h"),
                          ("sksplice.4", "splice/uapi/flotilla/*.h"), ("iolite.4", "iolite/uapi/flotilla/*.h"),
                          ("afpa.4", "kmod/afpa/uapi/flotilla/*.h")):
        code = {call for path in TOP.glob(headers)
                for call in re.findall(r"^#define (\w+)\s+_IOW?R?C?\(", path.read_text("utf-8"), re.M)}
        text = section(page(name), "IOCTLS").replace("\\fR, \\fP", " , ")
        heads = re.findall(r'^\.(?:It Dv |BI ")(.*)$', text, re.M)
        prefix = re.compile(r"\b(?:(?:HOF|SSP|IOL|AFPA)_IOC_\w+|HOF_MOVE_\w+|USEL_[A-Z]+\b(?!_))")
        same("calls of %s" % name, code, {call for head in heads for call in prefix.findall(head)})


@claim
def each_command_of_cards_family_is_in_its_page():
    code = set(re.findall(r"^\t(CARD_CMD_(?!UNSPEC)\w+),", read("card/uapi/flotilla/card.h"), re.M))
    same("commands", code, re.findall(r"\bCARD_CMD_\w+", section(page("card.4"), "NETLINK")))


@claim
def each_refusal_is_in_handoffs_page():
    code = set(re.findall(r'return "(\w+)";', read("handoff/lib/handoff.c"))) - {"none", "unknown"}
    same("refusals", code, re.findall(r"^\.It (\w+)$", section(page("handoff.4"), "REFUSALS"), re.M))


@claim
def each_function_of_a_library_is_in_its_page():
    for header, name in (("kmod/lib/flotilla.h", "libflotilla.3"), ("handoff/lib/handoff.h", "libhandoff.3"),
                         ("splice/lib/sksplice.h", "libsksplice.3"), ("uselect/lib/uselect.h", "uselect.3"),
                         ("iolite/lib/iolite.h", "libiolite.3"), ("kmod/afpa/lib/afpa.h", "libafpa.3")):
        source = re.sub(r"(?s)/\*.*?\*/", "", read(header))
        source = re.sub(r"(?ms)^static inline .*?^\}$|^(?:#|typedef)(?:[^\n]*\\\n)*[^\n]*$", "", source)
        code = set(re.findall(r"^\w[\w ]*[ *](\w+)\([^;{}]*\);", source, re.M))
        text = section(page(name), "SYNOPSIS")
        pages = set(re.findall(r"^\.F[no] (\w+)", text, re.M)) or \
            {m for line in re.findall(r'^\.BI? .*$', text, re.M) for m in re.findall(r"\b(\w+)\(", line)[:1]}
        same("functions of %s" % name, code, pages)


# --- the site ---

@claim
def the_site_is_made_and_no_link_is_dead():
    need("cmark-gfm")
    with tempfile.TemporaryDirectory() as made:
        ran = subprocess.run([TOP / "tools/build/html", made + "/site"] + PAGES, capture_output=True, text=True,
                             check=False)
        equal("said", (ran.returncode, ran.stderr), (0, ""))
        site = Path(made, "site")
        text = (site / "index.html").read_text("utf-8")
        for path in PAGES:
            assert 'href="man/%s.html"' % Path(path).name in text, "%s is not in the index" % path
        assert 'href="../man/lardd.conf.5.html"' in (site / "man/lardd.8.html").read_text("utf-8"), "no link of a page"
        assert 'href="../man/lardd.conf.5.html"' in (site / "lard/README.html").read_text("utf-8"), "no link to a page"


@claim
def a_dead_link_is_a_failure():
    with tempfile.TemporaryDirectory() as made:
        tree = Path(made, "tree")
        (tree / "tools/build").mkdir(parents=True)
        (tree / "tools/build/html").write_text(read("tools/build/html"), "utf-8")
        (tree / "it.8").write_text(".Dd November 30, 2026\n.Dt IT 8\n.Os\n.Sh NAME\n.Nm it\n.Nd is it\n.Sh SEE ALSO\n"
                                   ".Xr open 2 ,\n.Xr it 8\n", "utf-8")
        for text, dead in (("[a](b.md)", "b.html"), ("[a](#nowhere)", "#nowhere"), ("[a](README.md#there)", "")):
            (tree / "README.md").write_text("# It\n\n## There\n\nSee `it(8)`, %s\n" % text, "utf-8")
            ran = subprocess.run((sys.executable, tree / "tools/build/html", made + "/site", "it.8"),
                                 capture_output=True, text=True, check=False)
            said = "html: README.html: %s leads nowhere\n" % dead if dead else ""
            equal(text, (ran.returncode, ran.stderr), (bool(dead), said))


main()
