"""Brings known limits into a crawl, and keeps them up to date while it runs.

Laws
----
* The rules hold from the first request on: the table is read before the crawl begins.
* It is read again in a thread each ADAPTIVE_RULES_REFRESH seconds; other rules take the place of
  the old ones at one instant, and whatever waits is asked about again.
* A database that is away opens no gate: the last good rules hold, and one line says so. Nor does a
  row that is bad when the crawl begins: what it may mean waits, or the crawl does not begin.
* Rules expire by the wall clock, at most a `tick` late.
* Tokens of quotas are fetched in a thread; those left over at the end are given back.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from scrapy.utils.asyncio import call_later, create_looping_call, run_in_thread
from scrapy.utils.defer import deferred_from_coro

from scrapy_adaptive.core.limits.book import Book
from scrapy_adaptive.core.limits.tokens import Tokens
from scrapy_adaptive.core.limits.uses import Use
from scrapy_adaptive.report import units

from .errors import SettingsError

if TYPE_CHECKING:
    from scrapy.statscollectors import StatsCollector
    from scrapy.utils.asyncio import AsyncioLoopingCall
    from twisted.internet.task import LoopingCall

    from scrapy_adaptive.core.limits.known import KnownLimits
    from scrapy_adaptive.core.limits.rule import Rule
    from scrapy_adaptive.rules.table import Problem, Reading, RuleTable

    from .settings import AdaptiveSettings
    from .traffic import Traffic

logger = logging.getLogger("scrapy_adaptive")

MOST_NAMED = 20
"""Bad rows that have a line of their own each time the table is read."""

READING, COUNTING = "reading", "counting"
"""What a database may fail at: one line says that it is away, one that it does both again."""

RETRY = 5.0
"""Seconds after which tokens are asked for again, at most."""


class RulesKeeper:
    """The rules of one crawl.

    Args:
        settings: rules of the settings, and where the table is.
        stats: Scrapy's stats of this crawl.
        wall_clock: seconds since the epoch.

    Raises:
        SettingsError: the table is nowhere, or cannot be read, and is not optional.
    """

    def __init__(
        self,
        settings: AdaptiveSettings,
        stats: StatsCollector,
        *,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._own = settings.rules
        self._stats = stats
        self._wall_clock = wall_clock
        self._refresh = settings.rules_refresh
        self._traffic: Traffic | None = None
        self._loop: LoopingCall | AsyncioLoopingCall | None = None
        self._stored: tuple[Rule, ...] = ()
        self._expires_at = math.inf
        self._lost_at: float | None = None
        self._lost: set[str] = set()
        """What cannot be done with the database: reading rules, counting quotas."""
        self._untold: dict[str, Use] = {}
        """What came of requests, and could not be written into the table."""
        self._is_reading = self._has_ended = False
        self._told: set[Problem] = set()
        self._told_ties: set[tuple[str, str]] = set()
        self.table = open_table(settings)
        if self.table is not None:
            self._read_first(self.table, is_optional=settings.rules_optional)
        self.book = self._make(self._wall_clock())

    @property
    def is_needed(self) -> bool:
        """Whether there are rules, or may be some."""
        return self.table is not None or bool(self._own)

    def _read_first(self, table: RuleTable, *, is_optional: bool) -> None:
        try:
            reading = table.read()
        except OSError as error:
            if not is_optional:
                allowed = (
                    f"it cannot be read ({error}); make it with `scrapy adaptive rules create`, or "
                    "set ADAPTIVE_RULES_OPTIONAL to crawl without it until it is there"
                )
                raise SettingsError("ADAPTIVE_RULES_URL", table.address, allowed) from None
            self._on_lost(READING, error)
        else:
            idle = [] if reading is None else [each for each in reading.problems if not each.holds]
            if idle and not is_optional:
                more = f"; and {len(idle) - 1} more" if len(idle) > 1 else ""
                allowed = (
                    f"mend the row ({idle[0].why}{more}), or set ADAPTIVE_RULES_OPTIONAL to crawl "
                    "without it"
                )
                raise SettingsError("ADAPTIVE_RULES_URL", table.address, allowed)
            self._take_up(reading)

    # While the crawl runs

    def know(self, known: KnownLimits) -> None:
        """These are the crawl's known limits."""
        if self.table is not None:
            known.tokens = Tokens(self._on_wanted)

    def begin(self, traffic: Traffic) -> None:
        """The crawl has begun."""
        self._traffic = traffic
        if self.table is not None:
            self._loop = create_looping_call(self._read_again)
            self._loop.start(self._refresh, now=False)

    def end(self) -> None:
        """The crawl has ended."""
        self._has_ended = True
        if self._loop is not None and self._loop.running:
            self._loop.stop()
        known = None if self._traffic is None else self._traffic.governor.known
        if known is not None:
            self._write_stats(known)
            self._give_back(known)
        if self.table is not None and not self._is_reading:
            self.table.engine.dispose()

    def tick(self) -> None:
        """Twice a second: a rule may have expired."""
        now = self._wall_clock()
        if now >= self._expires_at:
            self._swap(self._make(now))

    # Quotas

    def _on_wanted(self) -> None:
        """Tokens are wanted; within the same turn of the loop more may be."""
        call_later(0, self._fetch)

    def _fetch(self) -> None:
        if self._traffic is not None and not self._has_ended:
            deferred_from_coro(self._fetch_in_thread(self._traffic))

    async def _fetch_in_thread(self, traffic: Traffic) -> None:
        table, tokens = self.table, self._tokens
        assert table is not None
        assert tokens is not None
        asks, began_at, book = tokens.asks(), traffic.clock(), self.book
        if not asks:
            return
        known = traffic.governor.known
        back = [
            (each, rule) for each in tokens.expired() if known and (rule := known.rule_of(each.key))
        ]
        rules = {each.key: rule for each, rule in back}
        try:
            if back:
                await run_in_thread(table.quotas.give_back, [each for each, _ in back], rules)
            grants = await run_in_thread(table.quotas.take, asks)
        except OSError as error:
            self._on_lost(COUNTING, error)
            tokens.on_failed(asks, traffic.clock() + min(RETRY, self._refresh))
        else:
            self._on_found(COUNTING)
            held = [each._replace(until=began_at + each.until) for each in grants]
            if self.book is book:
                tokens.on_grants(held, traffic.clock())
            else:
                tokens.on_late(held)
        if self._has_ended and traffic.governor.known is not None:
            self._give_back(traffic.governor.known)
        else:
            traffic.on_tokens(ask.key for ask in asks)

    @property
    def _tokens(self) -> Tokens | None:
        known = None if self._traffic is None else self._traffic.governor.known
        return None if known is None else known.tokens

    def _give_back(self, known: KnownLimits) -> None:
        left = [] if known.tokens is None else list(known.tokens.left())
        uses = self._take_uses(known)
        if self.table is None or self._lost_at is not None:
            return
        rules = {each.key: rule for each in left if (rule := known.rule_of(each.key)) is not None}
        try:
            if left:
                self.table.quotas.give_back(left, rules)
        except OSError as error:
            self._on_lost(COUNTING, error)
        with suppress(OSError):
            self.table.add_uses(uses)

    def _take_uses(self, known: KnownLimits) -> dict[str, Use]:
        """What came of requests, and is to be written into the table."""
        self._keep(known.take_uses())
        uses, self._untold = self._untold, {}
        return uses

    def _keep(self, uses: Mapping[str, Use]) -> None:
        for rule, use in uses.items():
            self._untold.setdefault(rule, Use()).add(use)

    def _write_stats(self, known: KnownLimits) -> None:
        uses = list(known.uses.all())
        self._stats.set_value("adaptive/rules/sent", sum(each.sent for each in uses))
        self._stats.set_value("adaptive/rules/refused", sum(each.refused for each in uses))
        self._stats.set_value("adaptive/rules/held", sum(each.held for each in uses))
        self._stats.set_value("adaptive/rules/would_hold", sum(each.would_hold for each in uses))
        self._stats.set_value("adaptive/rules/meters", len(known.meters))

    def _read_again(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            deferred_from_coro(self._read_in_thread())

    async def _read_in_thread(self) -> None:
        table = self.table
        assert table is not None
        known = None if self._traffic is None else self._traffic.governor.known
        uses = {} if known is None else self._take_uses(known)
        try:
            reading, book = await run_in_thread(self._read, table, uses)
        except OSError as error:
            self._on_lost(READING, error)
        else:
            self._on_found(READING)
            if reading is not None and book is not None and not self._has_ended:
                self._tell(reading.problems)
                self._swap(book)
        finally:
            self._keep(uses)
            self._is_reading = False
            if self._has_ended:
                table.engine.dispose()

    def _read(self, table: RuleTable, uses: dict[str, Use]) -> tuple[Reading | None, Book | None]:
        """In a thread: all that takes long, so that the event loop does not wait for it.

        Uses that are written down are taken out.
        """
        reading = table.read()
        if uses:
            with suppress(OSError):  # who may only read has no table of it
                table.add_uses(uses)
                uses.clear()
        if reading is None:
            return None, None
        self._stored = reading.rules
        return reading, self._make(self._wall_clock())

    # Books

    def _take_up(self, reading: Reading | None) -> None:
        if reading is not None:
            self._stored = reading.rules
            self._tell(reading.problems)

    def _make(self, wall: float) -> Book:
        rules = [rule for rule in (*self._own, *self._stored) if wall < rule.expires_at]
        self._expires_at = min((rule.expires_at for rule in rules), default=math.inf)
        return Book(rules)

    def _swap(self, book: Book) -> None:
        self._tell_ties(book)
        if book == self.book or self._traffic is None:
            return
        self.book = book
        self._traffic.governor.on_book(book)
        self._traffic.on_book()
        self._stats.inc_value("adaptive/rules/changes")
        logger.info("adaptive rules: changed; %d hold from here", len(book))

    # Lines

    def log_start(self) -> None:
        """How many rules there are, and where they are from."""
        if not self.is_needed:
            return
        self._tell_ties(self.book)
        where = "ADAPTIVE_RULES" if self.table is None else self.table.address
        logger.info("adaptive rules: %d hold (%s)", len(self.book), where)

    def _tell(self, problems: Iterable[Problem]) -> None:
        fresh = [each for each in problems if each not in self._told]
        self._told = set(problems)
        for each in fresh[:MOST_NAMED]:
            logger.error("adaptive rules: %s", each.why)
        if len(fresh) > MOST_NAMED:
            logger.error("adaptive rules: %d more rows are bad", len(fresh) - MOST_NAMED)

    def _tell_ties(self, book: Book) -> None:
        for tie in book.ties[:MOST_NAMED]:
            key = (tie.counts.id, tie.idle.id)
            if key not in self._told_ties:
                self._told_ties.add(key)
                logger.warning(
                    "adaptive rules: %s and %s match the same; the first one counts",
                    tie.counts.label,
                    tie.idle.label,
                )

    def _on_lost(self, what: str, error: OSError) -> None:
        self._lost.add(what)
        if self._lost_at is None:
            self._lost_at = self._wall_clock()
            logger.warning("adaptive rules: %s; the last good rules hold", error)

    def _on_found(self, what: str) -> None:
        self._lost.discard(what)
        if self._lost_at is not None and not self._lost:
            away, self._lost_at = self._wall_clock() - self._lost_at, None
            logger.info("adaptive rules: the database is back after %s", units.duration(away))


def open_table(settings: AdaptiveSettings) -> RuleTable | None:
    """The table of the settings; None where there is none.

    Raises:
        SettingsError: its address is not allowed, or SQLAlchemy is not installed.
    """
    url = settings.rules_url
    if url is None:
        return None
    try:
        from scrapy_adaptive.rules.table import RuleTable
    except ImportError:
        allowed = "it needs SQLAlchemy: pip install scrapy-adaptive[sql], or [postgres]"
        raise SettingsError("ADAPTIVE_RULES_URL", url, allowed) from None
    try:
        return RuleTable(
            url, sources=settings.identities.sources, secrets=settings.identities.secrets
        )
    except ValueError as error:
        raise SettingsError("ADAPTIVE_RULES_URL", url, f"allowed is {error}") from None
