"""What each arm was served over time, a panel per arm, with refusals marked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from benchmarks.crawls.measure import BIN, Outcome

SERVED, REFUSED, LIMIT = "#0072B2", "#D55E00", "#666666"
LOWEST, HIGHEST = 1.45, 4.0
"""Height of a panel in multiples of the limit; what is served in a rush may be cut off."""


def plot(
    path: Path, title: str, command: str, outcomes: Sequence[Outcome], limits: Sequence[float]
) -> None:
    """Draw one site's outcomes; `limits` is what it serves in each second."""
    figure, panels = plt.subplots(
        len(outcomes), 1, figsize=(10, 1.3 * len(outcomes) + 1), sharex=True, squeeze=False
    )
    most = 1.15 * max(max(outcome.served_series) for outcome in outcomes)
    top = min(max(most, LOWEST * max(limits)), HIGHEST * max(limits))
    for outcome, panel in zip(outcomes, panels[:, 0], strict=True):
        _panel(panel, outcome, limits, top)
    panels[-1, 0].set_xlabel("seconds")
    figure.suptitle(f"{title}: pages served a second, dashed: the limit, marks: refusals")
    figure.text(0.01, 0.004, command, fontsize=6, color=LIMIT)
    figure.tight_layout(rect=(0, 0.01, 1, 1))
    figure.savefig(path, dpi=100, metadata={"Description": command})
    plt.close(figure)


def _panel(panel: Axes, outcome: Outcome, limits: Sequence[float], top: float) -> None:
    seconds = [(n + 0.5) * BIN for n in range(len(outcome.served_series))]
    panel.plot(seconds, outcome.served_series, color=SERVED, linewidth=1)
    panel.step(seconds, limits, where="mid", color=LIMIT, linestyle="--", linewidth=0.8)
    marks = [
        (at, count) for at, count in zip(seconds, outcome.refused_series, strict=True) if count
    ]
    panel.scatter(
        [at for at, _ in marks],
        [0.93 * top] * len(marks),
        s=[min(80.0, 4.0 + 2.0 * count) for _, count in marks],
        color=REFUSED,
        marker="v",
        linewidth=0,
    )
    panel.set_ylim(0, top)
    panel.set_xlim(0, len(seconds) * BIN)
    panel.set_ylabel(outcome.arm, rotation=0, ha="right", va="center")
    panel.text(
        1.005,
        0.5,
        f"{outcome.goodput:.1f} %\nrefused {outcome.refused:.2f} %",
        transform=panel.transAxes,
        fontsize=8,
        va="center",
    )
