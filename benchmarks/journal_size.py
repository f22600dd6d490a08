"""How large a journal and its page get: a day of ten thousand sites, in virtual time.

Every second pages of many sites are sent and answered, sites are refused, paused and recover; the
busiest have most of the pages. The recorder is that of real crawls, on a clock of its own, and
writes a file, and the page is that of `scrapy adaptive report`. Exit status 1 if either is larger
than its bound, or if the journal's sums are not what was served.

    python benchmarks/journal_size.py [--hours 24] [--sites 10000] [--pages 50] [--out FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.pop(0)  # this folder, whose modules are imported by their full names
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import argparse
import random
import tempfile
from typing import NamedTuple

from scrapy import Request
from scrapy.http import Response
from scrapy.settings import Settings

from benchmarks.arguments import amount, new_folder, whole
from benchmarks.tables import Table
from scrapy_adaptive.adapters.extension import make_governor
from scrapy_adaptive.adapters.flight import Flight
from scrapy_adaptive.adapters.observing import Observer
from scrapy_adaptive.adapters.recorder import Recorder
from scrapy_adaptive.adapters.settings import read_settings
from scrapy_adaptive.core.permit import Permit
from scrapy_adaptive.core.types import Decision, Event, Outcome
from scrapy_adaptive.report.crawl import Crawl
from scrapy_adaptive.report.page import page
from scrapy_adaptive.report.page.viewing import view_of
from scrapy_adaptive.report.reader import read_crawl
from scrapy_adaptive.report.writer import DAY_BYTES, Writer

PAGE_BYTES = 5_000_000
"""Most bytes of the page."""

REQUEST = Request("https://site.example/page?query=1")

ANSWERS = {
    Event.ACCEPTED: (Outcome.ACCEPTED, 0.90),
    Event.TRIPPED: (Outcome.REFUSED, 0.03),
    Event.PROBE_REFUSED: (Outcome.REFUSED, 0.02),
    Event.RECOVERED: (Outcome.ACCEPTED, 0.03),
    Event.BROKEN: (Outcome.REFUSED, 0.02),
}
"""What answers come to, and their shares: far more happens than in any real crawl."""


class Queued:
    """The surroundings of a crawl with requests for each site."""

    may_wait_unseen = False
    has_place = True
    is_scraper_full = False
    waiting_count = 1_000_000

    def waiting(self, key: str) -> int:
        """More for some than for others."""
        return len(key) * 7

    def is_parked_by_rule(self, key: str) -> bool:
        """There are no rules."""
        return False

    def awaits_lease(self, key: str) -> bool:
        """There is no frontier."""
        return False


class Written(NamedTuple):
    """A journal."""

    size: int
    """Bytes."""
    crawl: Crawl
    """What is read from it."""
    pages: int
    """Pages that were served."""


def write(folder: Path, *, hours: float, sites: int, pages: int) -> Written:
    """Write the journal of a crawl of so many sites and pages a second."""
    now, chance, served = 0.0, random.Random(1), 0
    governor = make_governor(read_settings(Settings({"ADAPTIVE_MAX_SLOTS": sites})))
    around = Queued()
    observer = Observer(governor, around, clock=lambda: now, cpu=lambda: 0.0)
    path = folder / "run.jsonl"
    recorder = Recorder(
        governor,
        observer,
        around,
        spider="pages",
        writer=Writer(path),
        clock=lambda: now,
        wall=lambda: 1_900_000_000.0 + now,
    )
    keys = [f"site{number}.department.example.com" for number in range(sites)]
    shares = [share for _, share in ANSWERS.values()]
    for second in range(int(hours * 3600)):
        now = float(second)
        for event in chance.choices(list(ANSWERS), shares, k=pages):
            key = keys[min(int(chance.paretovariate(0.3)) - 1, sites - 1)]
            slot = governor.slot(key, now)
            outcome = ANSWERS[event][0]
            decision = Decision(event, 0.5, 0.25, 7.3, "refused at 4/s")
            flight = Flight(Permit(key, now), scheduled=True, latency=chance.random())
            flight.outcome, flight.decision = outcome, decision
            response = Response(REQUEST.url, status=200 if outcome is Outcome.ACCEPTED else 429)
            recorder.on_sent(key)
            recorder.on_answer(slot, flight, REQUEST, response, now)
            served += outcome is Outcome.ACCEPTED
        recorder.tick()
    recorder.close("finished")
    return Written(path.stat().st_size, read_crawl([path]), served)


def main() -> int:
    """Write it, and say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--hours", type=amount(0.01), default=24.0)
    parser.add_argument("--sites", type=whole(), default=10_000)
    parser.add_argument("--pages", type=whole(), default=50, help="pages a second")
    parser.add_argument("--out", type=new_folder, help="folder for what is printed")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        size, crawl, pages = write(
            Path(folder), hours=given.hours, sites=given.sites, pages=given.pages
        )
    page_size = len(page(view_of(crawl)).encode())
    misses = size > DAY_BYTES or page_size > PAGE_BYTES or crawl.totals.served != pages
    table = Table("journal_size")
    table.add(
        f"{given.hours:g} h, {given.sites:,} sites, {pages:,} pages served",
        f"journal: {size / 1e6:.1f} MB; page: {page_size / 1e6:.1f} MB",
        f"{len(crawl.sites):,} sites by name, {len(crawl.events):,} events read, "
        f"{crawl.totals.hidden:,} beyond the bound; the journal's sum is "
        f"{crawl.totals.served:,} pages",
        f"{'ABOVE' if misses else 'within'} the bounds: {DAY_BYTES / 1e6:g} MB, "
        f"{PAGE_BYTES / 1e6:g} MB",
    )
    table.keep(given.out)
    return int(misses)


if __name__ == "__main__":
    sys.exit(main())
