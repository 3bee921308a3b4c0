# SPDX-License-Identifier: GPL-2.0
"""How figures are drawn: from the data of bench/results into build/figures, the same bytes from the same data.

What is drawn is not kept: `make figures` draws all.
"""
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
RESULTS = TOP / "bench/results"
FIGURES = TOP / "build/figures"


def pyplot():
    """Matplotlib is needed by who draws, not by who measures."""
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "flotilla"
    from matplotlib import pyplot as found
    return found


def save(figure, name):
    """As build/figures/NAME.svg."""
    FIGURES.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(FIGURES / f"{name}.svg", metadata={"Date": None})
    pyplot().close(figure)
