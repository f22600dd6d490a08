"""Three crawlers side by side on three copies of one site with Connotea's load control.

    python sample_project/demo.py [--pages N] [--seconds S] [--quick]

Stock Scrapy, Scrapy with AutoThrottle and Scrapy with scrapy-adaptive crawl the same pages
under the same rules at the same time. The table at the end is made from what the three sites
logged, not from what the crawlers say. The exit status is 0 if all three ran and
scrapy-adaptive kept every page, 130 on Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from docsite.arguments import OneLineParser, count, factor
from docsite.arms import ARMS, HOME, Arm, ArmError, Crawl, crawl, report_of, site
from docsite.hits import read_hits
from docsite.load_rules import LoadRules
from docsite.pages import Manifest, RenderError, render_ahead
from docsite.verdict import Verdict, judge, table

SPEED = 100.0
"""Connotea's 30 s between two hits of a crawler become 0.3 s."""
LATENCY = 0.02
"""Seconds each page costs the site."""
SITE_OPTIONS = ("--speed", str(SPEED), "--latency", str(LATENCY))
RUN = HOME / "run"


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = OneLineParser(prog="demo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pages", type=count, help="pages of the site (default: 100)")
    parser.add_argument("--seconds", type=factor, help="most time per crawl (default: 150)")
    parser.add_argument("--quick", action="store_true", help="30 pages, at most 60 s")
    arguments = parser.parse_args(argv)
    arguments.pages = arguments.pages or (30 if arguments.quick else 100)
    arguments.seconds = arguments.seconds or (60.0 if arguments.quick else 150.0)
    return arguments


async def visit(arm: Arm, pages: Path, limit: float) -> Crawl:
    """One arm against its own site. Raises ArmError."""

    def say(line: str) -> None:
        print(f"{arm.slug} | {line}", flush=True)

    async with site(pages, hit_log(arm), SITE_OPTIONS) as url:
        ended = await crawl(arm, url, hit_log(arm).parent, limit, say)
    how = (
        f"killed after {limit:g} s"
        if ended.exit_status is None
        else f"ended with exit status {ended.exit_status}"
    )
    say(f"{arm.name} {how}; log: {hit_log(arm).with_name(arm.slug)}.log")
    return ended


def hit_log(arm: Arm) -> Path:
    """Where an arm's site logs its hits; the arm's own files are beside it."""
    return RUN / "demo" / f"{arm.slug}.hits.jsonl"


async def side_by_side(pages: Path, limit: float) -> dict[Arm, Crawl]:
    """All arms at once. SIGTERM ends them as Ctrl-C does."""
    this = asyncio.current_task()
    assert this is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    crawls = await asyncio.gather(*(visit(arm, pages, limit) for arm in ARMS))
    return dict(zip(ARMS, crawls, strict=True))


def complaints(verdicts: dict[Arm, Verdict], crawls: dict[Arm, Crawl]) -> list[str]:
    """What broke, in words; empty if the demo showed what it is to show."""
    broken = []
    for arm, verdict in verdicts.items():
        if crawls[arm].exit_status not in (0, None):
            broken.append(f"{arm.name}: exit status {crawls[arm].exit_status}")
        if verdict.hit_count == 0:
            broken.append(f"{arm.name}: asked its site for no page")
        if arm.is_ours and crawls[arm].exit_status is None:
            broken.append(f"{arm.name}: did not finish in time")
        if arm.is_ours and verdict.lost_count:
            broken.append(f"{arm.name}: lost {verdict.lost_count} pages")
    return broken


def report(manifest: Manifest, crawls: dict[Arm, Crawl]) -> int:
    """Prints the table of the sites' logs; returns the exit status."""
    silence = LoadRules().sped_up(SPEED).crawler_interval
    paths = manifest.files(RUN).keys()
    verdicts = {arm: judge(read_hits(hit_log(arm)), paths, silence=silence) for arm in crawls}
    print(f"\n{len(paths)} pages; rude: within {silence:g} s after a refusal; from the sites' logs")
    print(table([(arm.name, verdict) for arm, verdict in verdicts.items()]))
    for path in (report_of(arm, hit_log(arm).parent) for arm in crawls):
        if path.exists():
            print(f"\nwhat the crawl did, in a page for your browser: {path}")
    broken = complaints(verdicts, crawls)
    for line in broken:
        print(f"demo: {line}", file=sys.stderr)
    return 1 if broken else 0


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parse(argv)
    pages = RUN / f"pages-{arguments.pages}"
    try:
        manifest = render_ahead(pages, ["--limit", str(arguments.pages)])
        shutil.rmtree(RUN / "demo", ignore_errors=True)
        (RUN / "demo").mkdir(parents=True)
        print(f"{len(manifest.modules)} modules documented; three crawls begin", flush=True)
        crawls = asyncio.run(side_by_side(pages, arguments.seconds))
        return report(manifest, crawls)
    except (RenderError, ArmError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("demo: stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
