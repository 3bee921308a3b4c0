#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""links.py DIRECTORY - the links of its documents (*.md) that lead nowhere or out of it, one a line.

A link to a place in a document is dead when that has neither a heading nor an `id` of that name.
"""
import os
import re
import sys

CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.S | re.M)
LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)|^\[[^]]+\]:\s+(\S+)|(?:href|src)=\"([^\"]+)\"", re.M)


def documents(top):
    for directory, inside, names in os.walk(top, followlinks=True):
        if directory == top:
            inside[:] = [name for name in inside if name not in ("build", "debian") and not name.startswith(".")]
        yield from (os.path.join(directory, name) for name in names if name.endswith(".md"))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def anchors(path):
    text = read(path)
    places = set(re.findall(r"\bid=\"([^\"]+)\"", text))
    for heading in re.findall(r"^#+ +(.*?) *#*$", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M), re.M):
        heading = re.sub(r"\[([^]]*)\]\([^)]*\)|<[^>]*>", r"\1", heading)
        places.add(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
    return places


def dead(top, document):
    for groups in LINK.findall(CODE.sub("", read(document))):
        link = "".join(groups)
        path, _, place = link.partition("#")
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue
        target = os.path.normpath(os.path.join(os.path.dirname(document), path)) if path else document
        if not target.startswith(top + os.sep) or not os.path.exists(target):
            yield link
        elif place and target.endswith(".md") and place not in anchors(target):
            yield link


def main():
    top = os.path.abspath(sys.argv[1])
    found = [(document, link) for document in sorted(documents(top)) for link in dead(top, document)]
    for document, link in found:
        print("%s: %s" % (os.path.relpath(document, top), link))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
