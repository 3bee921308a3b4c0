# SPDX-License-Identifier: GPL-2.0
"""What the tools take for a number, a size or a list; the rest they refuse, saying what it should have been."""
import argparse
import math

UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def number(text, least, most, what, open_below=False):
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= most or open_below and value == least:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return value


def ratio(text):
    return number(text, 0, 1, "a ratio from 0 to 1")


def part(text):
    return number(text, 0, 1, "a part above 0 and up to 1", open_below=True)


def load(text):
    return number(text, .2, 1e9, "a load of 0.2 to 1e9 requests/s")


def rate(text):
    return number(text, 0, 1e15, "a rate above 0", open_below=True)


def cycles(text):
    return number(text, 1, 1e15, "a number of cycles from 1 on")


def cycles_or_none(text):
    return number(text, 0, 1e15, "a number of cycles")


def requests(text):
    return number(text, 1, 1e9, "a number of requests from 1 on")


def mean(text):
    return number(text, .1, 100, "a mean of 0.1 to 100")


def count(text):
    value = number(text, 1, 1e9, "a whole number from 1 on")
    if value != int(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(value)


def size(text):
    unit = UNITS.get(text[-1:].lower(), 0)
    return number(text[:-1] if unit else text, 1 / (unit or 1), 1e15, "a size such as 500k, 64m or 2g") * (unit or 1)


def cut(text):
    return math.inf if text == "none" else size(text)


def several(kind):
    """A list of @kind with commas between them; what is said twice counts once."""
    def parse(text):
        return list(dict.fromkeys(kind(word) for word in text.split(",")))
    return parse
