"""What is printed while measuring: a line for every comparison."""

from __future__ import annotations

from .figures import Ratio, Spread

MEANING = "milliseconds a micro-batch: median (min–max)"
HEADING = f"{MEANING:<65} {'Spark':>24} {'Millrace':>24} {'M rows/s':>15}   ratio  target"


def spread(side: Spread) -> str:
    return f"{side.median:>9.0f} ({side.least:.0f}–{side.greatest:.0f})"


def line(ratio: Ratio) -> str:
    """Both sides, their speeds, and whether the ratio was reached."""
    verdict = "" if ratio.target is None else f"{ratio.target:>6.1f}  {ratio.verdict}"
    speeds = " ".join(f"{ratio.rows / side.median / 1000:>7.2f}" for side in (ratio.own, ratio.ours))
    return (
        f"{ratio.name:<47} {ratio.store:<17} {spread(ratio.own):>24} {spread(ratio.ours):>24} "
        f"{speeds}  {ratio.times:>6.2f}  {verdict}"
    )
