"""Real crawls of sites whose limit is known: what a rule gives beside learning, and no refusals.

    python benchmarks/known_limits_crawls.py [--minutes 10] [--servers a,b] [--out folder]

The sites of `benchmarks/crawls`: nginx, a counter of two periods (HAProxy's), windows. Two crawls
at a time, each of a site of its own: one has the site's limit as a rule, the other learns it.
Judged by the sites' logs. Exit status 1 if the rule met a refusal, or missed its share.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.pop(0)  # this folder, whose modules are imported by their full names
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.crawls.arms import Arm, adaptive
from benchmarks.crawls.side_by_side import crawl_all
from benchmarks.crawls.sites import IN_FLIGHT, KINDS
from benchmarks.crawls.table import table

GOODPUT, MANY, REFUSED = 98.0, 96.0, 0.05
"""Percent: of the limit at least; for more than 32 hits in a window; refused where places count."""

RULES: dict[str, tuple[dict[str, Any], float, float]] = {
    "limit_req-429": ({"rate": 50.0, "burst": 10}, GOODPUT, 0.0),
    "limit_req-503": ({"rate": 50.0, "burst": 10}, GOODPUT, 0.0),
    "limit_conn-slow": ({"concurrency": IN_FLIGHT}, MANY, REFUSED),
    "counter": ({"max_hits": 300, "window": 10.0, "burst": 10}, MANY, 0.0),
    "window": ({"max_hits": 300, "window": 10.0, "burst": 10}, MANY, 0.0),
}
"""What is known of each kind of site: a rule, the least of its limit, the most refused.

Without a burst a request that leaves late, as on a busy machine, is never caught up with. nginx has
one of 20 here; half of it leaves room for what the network makes of it."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--servers", default=",".join(RULES), help="kinds of sites, by commas")
    parser.add_argument("--out", type=Path, help="folder for known_limits_crawls.txt")
    given = parser.parse_args()
    texts = [f"{given.minutes:g} minutes each, two crawls at a time"]
    missed = []
    for kind in KINDS:
        if kind.name not in given.servers.split(","):
            continue
        rule, least, most = RULES[kind.name]
        pacing = adaptive("hold")
        arms = [Arm("known", {**pacing, "ADAPTIVE_RULES": [rule]}), Arm("learned", pacing)]
        with tempfile.TemporaryDirectory(prefix="known-") as folder:
            result = crawl_all(kind, arms, 60.0 * given.minutes, Path(folder))
        known = result.outcomes[0]
        heading = f"{kind.name}, {result.capacity / result.seconds:.1f} pages/s, rule {rule}"
        texts += ["", heading, table(result.outcomes)]
        print("\n".join(texts[-2:]), flush=True)
        if known.refused > most:
            missed.append(f"{kind.name}: {known.refused:.3f} % refused, {most:g} % are allowed")
        if known.goodput < least:
            missed.append(f"{kind.name}: {known.goodput:.1f} % of the limit, {least:g} % are asked")
    texts += ["", *(missed or ["every bound is met"])]
    print("\n".join(missed or ["every bound is met"]))
    if given.out:
        (given.out / "known_limits_crawls.txt").write_text("\n".join(texts) + "\n")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
