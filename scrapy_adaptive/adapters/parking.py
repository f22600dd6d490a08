"""The end of a crawl of which nothing but parked slots is left, and which can be resumed.

Laws
----
* A site that asks for a longer wait than ADAPTIVE_MAX_PAUSE is parked: its requests are kept, and
  a crawl that has nothing else to do ends.
* What else items and callbacks are busy with is given `STUCK_FOR` seconds to go on: where they
  await a parked slot's media, Scrapy itself never gets idle.
* A crawl with requests that its job cannot hold goes on: they would be lost.
* A `start()` that waits because of what is parked is given as long; the next run reads it anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .scrapy_internals import Engine
    from .traffic import Traffic

PARKED = "adaptive_parked"
"""Why a crawl was closed of which only parked slots were left."""

STUCK_FOR = 10.0
"""Seconds, two of the engine's heartbeats, in which nothing else has happened."""


class Parking:
    """Ends such a crawl.

    Args:
        traffic: the crawl's traffic.
        engine: Scrapy's private parts.
        may_end: whether a job keeps requests, and the crawl need not wait for parked slots.
    """

    def __init__(self, traffic: Traffic, engine: Engine, *, may_end: bool) -> None:
        self._traffic = traffic
        self._engine = engine
        self._may_end = may_end
        self._stuck_since: float | None = None

    def look(self) -> None:
        """Close the crawl, if it is time."""
        now = self._traffic.clock()
        may_end = self._may_end and not self._engine.has_met_unserializable
        if not (may_end and self._is_only_parked(now)):
            self._stuck_since = None
            return
        if self._stuck_since is None:
            self._stuck_since = now
        is_busy = self._engine.is_scraping or self._engine.is_starting
        if not is_busy or now >= self._stuck_since + STUCK_FOR:
            self._engine.close(PARKED)

    def _is_only_parked(self, now: float) -> bool:
        traffic, engine = self._traffic, self._engine
        keys = traffic.keys_at_gate
        may_come = engine.is_starting and not engine.is_held
        if not (keys or traffic.room.has_requests) or may_come or traffic.in_flight:
            return False
        if engine.active_count != traffic.standing_count:
            return False
        if not traffic.room.keeps and engine.may_pop:
            return False
        return traffic.room.is_parked and all(traffic.governor.is_parked(key, now) for key in keys)
