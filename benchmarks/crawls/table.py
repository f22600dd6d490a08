"""The outcomes as a table, what the candidate loses to a peer, and the bounds it misses.

Laws
----
* A loss is a peer that is better in one thing by more than the margin, and not worse in the other.
* Every loss and every miss is a line of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.crawls.arms import CANDIDATE
from benchmarks.crawls.measure import Outcome

GOODPUT_MARGIN, REFUSED_MARGIN = 2.0, 0.2
"""Points by which a peer must be better."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What the candidate has to keep, in percent."""

    goodput: float
    refused: float


COMMON_BOUND = Bound(goodput=92.0, refused=0.8)
LONG_BOUNDS = {"limit_req-429": Bound(goodput=96.0, refused=0.4)}
LONG = 600.0
"""Seconds of a run from which on `LONG_BOUNDS` hold: a start weighs less in it."""

COLUMNS = (
    ("arm", 14),
    ("goodput %", 9),
    ("refused %", 9),
    ("hits", 7),
    ("served", 7),
    ("refused", 7),
    ("banned", 6),
    ("lost", 6),
    ("to 90 % s", 9),
    ("latency ms", 10),
)


def table(outcomes: Sequence[Outcome]) -> str:
    """One line per arm, as a simple table of reStructuredText."""
    rule = "  ".join("=" * width for _, width in COLUMNS)
    lines = [rule, _line([title for title, _ in COLUMNS]), rule]
    lines += [_line(_cells(outcome)) for outcome in outcomes]
    return "\n".join([*lines, rule])


def _line(cells: Sequence[str]) -> str:
    first, *others = zip(cells, COLUMNS, strict=True)
    padded = [f"{cell:>{width}}" for cell, (_, width) in others]
    return "  ".join([f"{first[0]:{first[1][1]}}", *padded])


def _cells(outcome: Outcome) -> list[str]:
    reached, latency = outcome.reached, outcome.latency
    return [
        outcome.arm,
        f"{outcome.goodput:.1f}",
        f"{outcome.refused:.2f}",
        *map(
            str,
            (outcome.hits, outcome.served, outcome.refusals, outcome.banned, outcome.lost),
        ),
        "never" if reached is None else f"{reached:.1f}",
        "-" if latency is None else f"{1000.0 * latency:.0f}",
    ]


def losses(site: str, outcomes: Sequence[Outcome]) -> list[str]:
    """Every peer that is better than the candidate against this site."""
    ours = next((outcome for outcome in outcomes if outcome.arm == CANDIDATE), None)
    if ours is None:
        return []
    return [
        f"{site}: {peer.arm} has {peer.goodput:.1f} % goodput and {peer.refused:.2f} % refused, "
        f"{CANDIDATE} {ours.goodput:.1f} % and {ours.refused:.2f} %"
        for peer in outcomes
        if peer.arm != CANDIDATE and _is_better(peer, ours)
    ]


def _is_better(peer: Outcome, ours: Outcome) -> bool:
    more = peer.goodput - ours.goodput
    fewer = ours.refused - peer.refused
    return (more > GOODPUT_MARGIN and fewer >= 0.0) or (fewer > REFUSED_MARGIN and more >= 0.0)


def misses(site: str, outcomes: Sequence[Outcome], seconds: float) -> list[str]:
    """Every bound that the candidate does not keep against this site."""
    bound = LONG_BOUNDS.get(site, COMMON_BOUND) if seconds >= LONG else COMMON_BOUND
    found = []
    for ours in (outcome for outcome in outcomes if outcome.arm == CANDIDATE):
        if ours.goodput < bound.goodput:
            found.append(f"{site}: goodput {ours.goodput:.1f} %, bound {bound.goodput} %")
        if ours.refused > bound.refused:
            found.append(f"{site}: refused {ours.refused:.2f} %, bound {bound.refused} %")
        if ours.lost:
            found.append(f"{site}: {ours.lost} pages lost, bound 0")
    return found
