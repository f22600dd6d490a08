"""What a crawl did to a site, told from the site's own log of hits.

Laws
----
* Only the log is asked; the one thing added is which pages the site has.
* A page is kept if it was answered 200 once; every other page of the site is lost, whether
  it was refused to the end or never asked for.
* /robots.txt is no page and stands outside the load control: its hits are not counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from docsite.app import ROBOTS_PATH
from docsite.hits import REFUSAL_CODES, Hit, rude_hits


@dataclass(frozen=True, slots=True)
class Verdict:
    """One crawl in numbers. `seconds` is from the first hit to the end of the last."""

    kept_count: int
    lost_count: int
    refusal_count: int
    hit_count: int
    rude_count: int
    seconds: float

    @property
    def hits_per_page(self) -> float:
        """Hits spent on each page kept; infinite where none was."""
        return self.hit_count / self.kept_count if self.kept_count else float("inf")


def judge(hits: Iterable[Hit], paths: Collection[str], *, silence: float) -> Verdict:
    """The verdict on one crawl of a site whose pages are `paths`.

    A rude hit is one that began within `silence` seconds after a refusal.
    """
    asked = [hit for hit in hits if hit.path != ROBOTS_PATH]
    kept = {hit.path for hit in asked if hit.status == 200} & set(paths)
    return Verdict(
        kept_count=len(kept),
        lost_count=len(set(paths) - kept),
        refusal_count=sum(hit.status in REFUSAL_CODES for hit in asked),
        hit_count=len(asked),
        rude_count=sum(1 for _ in rude_hits(asked, silence=silence)),
        seconds=max(hit.end for hit in asked) - min(hit.start for hit in asked) if asked else 0.0,
    )


def table(verdicts: Sequence[tuple[str, Verdict]]) -> str:
    """The verdicts side by side, one crawl a line."""
    head = ("", "pages", "lost", "refused", "hits/page", "rude hits", "time")
    rows = [head] + [
        (
            name,
            str(verdict.kept_count),
            str(verdict.lost_count),
            str(verdict.refusal_count),
            f"{verdict.hits_per_page:.2f}" if verdict.kept_count else "–",
            str(verdict.rude_count),
            f"{verdict.seconds:.1f} s",
        )
        for name, verdict in verdicts
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            [row[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        ).rstrip()
        for row in rows
    )
