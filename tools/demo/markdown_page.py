# SPDX-License-Identifier: GPL-2.0
"""The part of Markdown that our READMEs use, as HTML."""
import html
import re


def inline(text):
    """Code first: nothing inside it is anything else."""
    parts = re.split(r"(`[^`]+`)", text)
    for i, part in enumerate(parts):
        if part.startswith("`") and len(part) > 2:
            parts[i] = f"<code>{html.escape(part[1:-1])}</code>"
            continue
        part = html.escape(part, quote=False)
        part = re.sub(r"\[([^\]]+)\]\(([^)]+)\)", r'<a href="\2">\1</a>', part)
        part = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", part)
        parts[i] = re.sub(r"\*([^*\s][^*]*)\*", r"<em>\1</em>", part)
    return "".join(parts)


def table(lines):
    rows = [[c.strip() for c in line.strip().strip("|").split("|")] for line in lines]
    out = ["<table>"]
    for number, row in enumerate(rows):
        if number == 1:
            continue    # the dashes
        tag = "td" if number else "th"
        out.append("<tr>" + "".join(f"<{tag}>{inline(c)}</{tag}>" for c in row) + "</tr>")
    return out + ["</table>"]


def items(lines):
    """A list; a line that begins with blanks goes on with the item before it."""
    found = []
    for line in lines:
        match = re.match(r"(?:[-*]|\d+\.) +(.*)", line)
        if match:
            found.append(match.group(1))
        else:
            found[-1] += " " + line.strip()
    tag = "ol" if lines[0][0].isdigit() else "ul"
    return [f"<{tag}>"] + [f"<li>{inline(i)}</li>" for i in found] + [f"</{tag}>"]


def blocks(text):
    """Yields (kind, lines): code as it stands, other blocks between empty lines."""
    lines, code = [], None
    for line in text.splitlines():
        if code is not None:
            if line.strip().startswith("```"):
                yield "code", code
                code = None
            else:
                code.append(line)
        elif line.startswith("```") or line.startswith("#") or not line.strip():
            if lines:
                yield "text", lines
            lines = []
            if line.startswith("```"):
                code = []
            elif line.startswith("#"):
                yield "heading", [line]
        else:
            lines.append(line)
    if lines:
        yield "text", lines


def render(text):
    out = []
    for kind, lines in blocks(text):
        if kind == "code":
            out.append("<pre>" + html.escape("\n".join(lines)) + "</pre>")
        elif kind == "heading":
            level = len(lines[0]) - len(lines[0].lstrip("#"))
            out.append(f"<h{level}>{inline(lines[0][level:].strip())}</h{level}>")
        elif lines[0].startswith("|"):
            out += table(lines)
        elif re.match(r"[-*] |\d+\. ", lines[0]):
            out += items(lines)
        elif lines[0].startswith("    "):
            out.append("<pre>" + html.escape("\n".join(lines)) + "</pre>")
        else:
            out.append(f"<p>{inline(' '.join(lines))}</p>")
    return "\n".join(out)
