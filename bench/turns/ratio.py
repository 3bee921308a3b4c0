# SPDX-License-Identifier: GPL-2.0
"""Ratios of pairs, and whether they can be told from 1."""
import math
import statistics


def interval(values):
    """Bounds of the median that hold in 95 of 100 cases, whatever the distribution; the extremes when too few."""
    values, n = sorted(values), len(values)
    k, below = 0, 0.
    while k < n // 2:
        below += math.comb(n, k) / 2 ** n
        if 2 * below > .05:
            break
        k += 1
    k = max(k - 1, 0)
    return values[k], values[n - 1 - k]


def ratio(pairs):
    """Of (ours, theirs) in each turn: median, bounds, and whether 1 is outside of them."""
    ratios = [a / b for a, b in pairs]
    low, high = interval(ratios)
    return {"ratio": round(statistics.median(ratios), 3), "low": round(low, 3), "high": round(high, 3),
            "told": len(ratios) >= 6 and (low > 1 or high < 1), "turns": len(ratios)}


def said(r):
    """As it is printed: a ratio whose bounds hold 1 is not said to be more or less."""
    return f"{r['ratio']:.2f} ({r['low']:.2f} to {r['high']:.2f})" + ("" if r["told"] else " =")


def order(rounds):
    """ABBA: whatever grows or fades with time falls on both alike."""
    return [("AB", "BA")[i % 2] for i in range(rounds)]
