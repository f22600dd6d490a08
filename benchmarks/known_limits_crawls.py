"""Real crawls of sites whose limit is known: how much of it a rule gives, and no refusals.

    python benchmarks/known_limits_crawls.py [--minutes 10] [--servers a,b] [--out folder]

The sites of `benchmarks/crawls`: nginx, a counter of two periods (HAProxy's), windows; and the
sample site, by Connotea's rules for a visitor. One crawl at a time, which has the site's limit as a
rule; what learning gives is in `benchmarks/crawls/results`.
Judged by the sites' logs. Exit status 1 if the rule met a refusal, or missed its share.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose modules are imported by their full names
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "sample_project"))
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import argparse
import asyncio
import json
import tempfile
from collections.abc import Sequence
from typing import Any

from benchmarks.arguments import among, amount, new_folder
from benchmarks.crawls.arms import Arm, adaptive
from benchmarks.crawls.side_by_side import crawl_all
from benchmarks.crawls.sites import IN_FLIGHT, KINDS
from benchmarks.crawls.table import table as outcomes_of
from benchmarks.tables import Table
from docsite.arms import Arm as SampleArm
from docsite.arms import crawl, site
from docsite.hits import REFUSAL_CODES, Hit, read_hits
from docsite.pages import Manifest, publish

GOODPUT, MANY, REFUSED = 98.0, 96.0, 0.05
"""Percent: of the limit at least; for more than 32 hits in a window; refused where places count."""

RULES: dict[str, tuple[dict[str, Any], float, float]] = {
    "limit_req-429": ({"rate": 50.0, "burst": 10}, GOODPUT, 0.0),
    "limit_conn-slow": ({"concurrency": IN_FLIGHT}, MANY, REFUSED),
    "counter": ({"max_hits": 300, "window": 10.0}, MANY, 0.0),
    "window": ({"max_hits": 300, "window": 10.0, "burst": 10}, MANY, 0.0),
}
"""What is known of each kind of site: a rule, the least of its limit, the most refused.

Without a burst a request that leaves late, as on a busy machine, is never caught up with. nginx has
one of 20 here; half of it leaves room for what the network makes of it. A counter of two periods
takes the hits of the last one for evenly spread, so its rule has no burst."""


STARTING = 20.0
"""Seconds that a crawl may take to begin: its time counts from its first hit."""

SAMPLE = "sample site"
VISITOR: list[dict[str, Any]] = [
    {"name": "pace", "max_hits": 10, "window": 15},
    {"name": "load", "shared": True, "concurrency": 15},
]
"""What the how-to's table says of whoever is no known crawler."""


def sample_site(seconds: float, folder: Path) -> tuple[float, int, int]:
    """Crawl the sample site; returns the percent of its limit, pages served and refused."""
    names = tuple(f"module{n}" for n in range(int((seconds + STARTING) * 10 / 15)))
    texts = {name: f"<title>Python: module {name}</title><p>page</p>" for name in names}
    publish(folder / "pages", texts, Manifest(key="by hand", modules=names, skipped_count=0))
    settings = (
        "USER_AGENT=Mozilla/5.0 (X11) Firefox",
        f"ADAPTIVE_RULES={json.dumps(VISITOR)}",
        "ADAPTIVE_START_DELAY=0.01",
    )

    async def run() -> None:
        async with site(folder / "pages", folder / "hits.jsonl", []) as url:
            arm = SampleArm(SAMPLE, "adaptive", settings, is_ours=False)
            await crawl(arm, url, folder, seconds + STARTING, print)

    asyncio.run(run())
    return judged(read_hits(folder / "hits.jsonl"), seconds)


def judged(hits: Sequence[Hit], seconds: float) -> tuple[float, int, int]:
    """The percent of the sample site's limit, pages served and refused, in its first seconds."""
    hits = [hit for hit in hits if hit.start < hits[0].start + seconds]
    served = len({hit.path for hit in hits if hit.status == 200})
    refused = sum(hit.status in REFUSAL_CODES for hit in hits)
    return min(100.0, 100.0 * served / (seconds * 10 / 15)), served, refused


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=amount(0.5), default=10.0)
    sites = (*RULES, SAMPLE)
    parser.add_argument(
        "--servers", type=among(sites), default=sites, help="kinds of sites, by commas"
    )
    parser.add_argument("--out", type=new_folder, help="folder for the tables")
    given = parser.parse_args()
    written = Table("known_limits_crawls")
    written.add(f"{given.minutes:g} minutes each, one crawl at a time")
    missed = []
    for kind in KINDS:
        if kind.name not in given.servers:
            continue
        rule, least, most = RULES[kind.name]
        arms = [Arm("known", {**adaptive("hold"), "ADAPTIVE_RULES": [rule]})]
        with tempfile.TemporaryDirectory(prefix="known-") as folder:
            result = crawl_all(kind, arms, 60.0 * given.minutes, Path(folder))
        known = result.outcomes[0]
        heading = f"{kind.name}, {result.capacity / result.seconds:.1f} pages/s, rule {rule}"
        written.add("", heading, *outcomes_of(result.outcomes).splitlines())
        if known.refused > most:
            missed.append(f"{kind.name}: {known.refused:.3f} % refused, {most:g} % are allowed")
        if known.goodput < least:
            missed.append(f"{kind.name}: {known.goodput:.1f} % of the limit, {least:g} % are asked")
    if SAMPLE in given.servers:
        with tempfile.TemporaryDirectory(prefix="known-") as folder:
            goodput, served, refused = sample_site(60.0 * given.minutes, Path(folder))
        written.add("", f"{SAMPLE}, 10 pages in 15 s, rules {VISITOR}")
        written.add(f"{goodput:.1f} % of the limit, {served} served, {refused} refused")
        if refused or goodput < GOODPUT:
            missed.append(f"{SAMPLE}: {goodput:.1f} % of the limit, {refused} refused")
    written.add("", *(missed or ["every bound is met"]))
    written.keep(given.out)
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
