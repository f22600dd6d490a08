"""How a project has switched the parts on, and what it uses beside them.

Laws
----
* Half a set-up is refused when the crawl starts: it would be ruder than none.
* What a project set for AutoThrottle counts, where it set nothing of ours.
* What only names Scrapy's default is no choice of another queue.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from scrapy.settings import default_settings
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name

from .errors import SettingsError
from .scrapy_limits import is_set
from .setting_types import queue_class
from .settings import AdaptiveSettings, is_enabled, read_fallback

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.settings import BaseSettings

logger = logging.getLogger("scrapy_adaptive")

EXTENSION = "scrapy_adaptive.AdaptiveThrottle"
HOST_QUEUE = "scrapy_adaptive.HostQueue"
GATE, REFUSALS = "scrapy_adaptive.AdaptiveGate", "scrapy_adaptive.AdaptiveRefusals"
MIDDLEWARES = {GATE: 950, REFUSALS: 585}
"""Our downloader middlewares and their places."""

RETRY = "scrapy.downloadermiddlewares.retry.RetryMiddleware"
DECODING = "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware"
"""Scrapy's, between which the refusals have to stand."""

SCRAPYS_QUEUES = frozenset(
    {
        "scrapy.pqueues.DownloaderAwarePriorityQueue",
        str(default_settings.SCHEDULER_PRIORITY_QUEUE),
    }
)
"""Scrapy's default, and what its page on broad crawls told people to set."""

TAKEN_OVER = {
    "AUTOTHROTTLE_START_DELAY": "ADAPTIVE_START_DELAY",
    "AUTOTHROTTLE_MAX_DELAY": "ADAPTIVE_MAX_DELAY",
    "AUTOTHROTTLE_TARGET_CONCURRENCY": "ADAPTIVE_TARGET_CONCURRENCY",
    "AUTOTHROTTLE_DEBUG": "ADAPTIVE_DEBUG",
}
"""AutoThrottle's settings, and ours that mean the same."""

ALWAYS = "AUTOTHROTTLE_TARGET_CONCURRENCY"
"""Who switches AutoThrottle on chooses this one with it, at its default if at nothing else."""


# Beside others that keep or know requests


def tell_of_shared_queues(settings: BaseSettings) -> None:
    """Workers that share scrapy-redis's queue do not share what they learn of a site."""
    scheduler = settings.get("SCHEDULER")
    module = scheduler if isinstance(scheduler, str) else getattr(scheduler, "__module__", "")
    if module.partition(".")[0] == "scrapy_redis":
        logger.warning(
            "scrapy-redis shares the requests, not the pace: each worker learns every site's limit "
            "alone, and the site sees all of them; ADAPTIVE_FRONTIER = 'redis://' shares both"
        )


def tell_of_own_filter(settings: BaseSettings) -> None:
    """With a frontier, a DUPEFILTER_CLASS is not asked for its rows."""
    chosen = load_object(settings["DUPEFILTER_CLASS"])
    if chosen is not load_object(default_settings.DUPEFILTER_CLASS):
        logger.warning(
            "DUPEFILTER_CLASS = %s is not asked for what the frontier keeps: two requests are one "
            "page there if REQUEST_FINGERPRINTER_CLASS gives them the same fingerprint, and "
            "neither has dont_filter",
            global_object_name(chosen),
        )


# Beside no frontier


def tell_of_revisits(settings: AdaptiveSettings) -> None:
    """Pages are visited again by a frontier, and by nothing else."""
    if settings.revisit is not None and settings.frontier is None:
        logger.warning(
            "ADAPTIVE_REVISIT does nothing without ADAPTIVE_FRONTIER: each page is visited once"
        )


# Queues


def is_host_queue(value: Any) -> bool:
    """Whether this is our queue, or a class made from it."""
    return issubclass(queue_class(value), load_object(HOST_QUEUE))


def own_queue(settings: BaseSettings) -> Any:
    """The SCHEDULER_PRIORITY_QUEUE that somebody chose in place of Scrapy's; None if nobody."""
    name = "SCHEDULER_PRIORITY_QUEUE"
    if not is_set(settings, name):
        return None
    chosen = settings.get(name)
    return None if load_object(chosen) in map(load_object, SCRAPYS_QUEUES) else chosen


def uses_host_queue(settings: BaseSettings) -> bool:
    """Whether the crawl's requests will wait in our queue, once the add-on has set it."""
    own = own_queue(settings)
    return own is None or is_host_queue(own)


def tell_of_scrapys_queue(settings: BaseSettings) -> None:
    """By hand the queue can be forgotten; an add-on sets it, and whoever chose another knows."""
    name = "SCHEDULER_PRIORITY_QUEUE"
    if own_queue(settings) is None and not is_host_queue(settings.get(name)):
        logger.warning(
            "SCHEDULER_PRIORITY_QUEUE is Scrapy's own: requests of a slow or paused site hold "
            "places in CONCURRENT_REQUESTS, so that other sites wait for it too; "
            "'scrapy_adaptive.HostQueue' lets each site wait by itself"
        )


def fallback_queue(settings: BaseSettings) -> type:
    """The queue class that HostQueue stands for while it is switched off.

    Raises:
        SettingsError: its value is not allowed, or is HostQueue itself.
    """
    found = read_fallback(settings)
    if is_host_queue(found):
        raise SettingsError(
            "ADAPTIVE_FALLBACK_PRIORITY_QUEUE",
            settings.get("ADAPTIVE_FALLBACK_PRIORITY_QUEUE"),
            "allowed is another queue than HostQueue, which stands for it while "
            "ADAPTIVE_ENABLED is False",
        )
    return found


def check_switched_off(settings: BaseSettings) -> None:
    """Check what is left to Scrapy while ADAPTIVE_ENABLED is False.

    Raises:
        SettingsError: HostQueue is to stand for itself.
    """
    if is_host_queue(settings.get("SCHEDULER_PRIORITY_QUEUE")):
        fallback_queue(settings)


# Parts


def check_middlewares(settings: BaseSettings) -> None:
    """Check that both middlewares are on: who has the extension alone has no pace at all.

    Raises:
        SettingsError: one is missing, or switched off.
    """
    name = "DOWNLOADER_MIDDLEWARES"
    given = settings.getdict(name)
    on = [load_object(key) for key, place in given.items() if place is not None]
    for middleware, place in MIDDLEWARES.items():
        if not any(_is_made_from(each, load_object(middleware)) for each in on):
            raise SettingsError(
                name,
                given,
                f"{middleware!r}: {place} must be in it, as {EXTENSION} is in EXTENSIONS",
            )


def tell_of_later_middlewares(settings: BaseSettings) -> None:
    """What waits between the gate and the downloader is not held by a refusal that comes then."""
    places = _places(settings)
    own = _place_of(GATE, places)
    for each, place in places.items():
        if own is not None and place > own and hasattr(each, "process_request"):
            logger.warning(
                "%s stands at %s in DOWNLOADER_MIDDLEWARES, behind AdaptiveGate at %s: what waits "
                "there leaves after a refusal; before the gate it would not",
                global_object_name(each),
                place,
                own,
            )


def tell_of_misplaced_refusals(settings: BaseSettings) -> None:
    """A refusal has to be decoded for a classifier, and must not meet RetryMiddleware first."""
    places = _places(settings)
    own, retry, decoding = (_place_of(each, places) for each in (REFUSALS, RETRY, DECODING))
    assert own is not None
    if retry is not None and own <= retry:
        logger.warning(
            "AdaptiveRefusals stands at %s in DOWNLOADER_MIDDLEWARES, and RetryMiddleware at %s "
            "sees each refusal first: it spends a retry; behind that it would not",
            own,
            retry,
        )
    if decoding is not None and own >= decoding:
        logger.warning(
            "AdaptiveRefusals stands at %s in DOWNLOADER_MIDDLEWARES, and "
            "HttpCompressionMiddleware at %s decodes after it: a classifier sees compressed "
            "bodies; before that it would not",
            own,
            decoding,
        )


def _places(settings: BaseSettings) -> dict[Any, int]:
    """All downloader middlewares that are on, and where they stand."""
    given = settings.getwithbase("DOWNLOADER_MIDDLEWARES")
    return {load_object(key): place for key, place in given.items() if place is not None}


def _place_of(middleware: str, places: Mapping[Any, int]) -> int | None:
    """Where this middleware stands, or one made from it; None where it is off."""
    wanted = load_object(middleware)
    return next((place for each, place in places.items() if _is_made_from(each, wanted)), None)


def refuse_half_a_set_up(settings: BaseSettings, part: str) -> None:
    """This part is switched on, and the extension is not.

    Raises:
        SettingsError: unless ADAPTIVE_ENABLED is False.
    """
    if is_enabled(settings):
        raise SettingsError(
            "EXTENSIONS",
            dict(settings.getdict("EXTENSIONS")),
            f"{EXTENSION!r}: 0 must be in it, as {part} is switched on",
        )


def _is_made_from(found: Any, wanted: type) -> bool:
    return isinstance(found, type) and issubclass(found, wanted)


# AutoThrottle


def take_over_autothrottle(settings: BaseSettings) -> bool:
    """Have our latency law do what AutoThrottle was to do; returns whether it was on."""
    if not settings.getbool("AUTOTHROTTLE_ENABLED"):
        return False
    taken = {
        theirs: ours
        for theirs, ours in TAKEN_OVER.items()
        if not is_set(settings, ours) and (theirs == ALWAYS or is_set(settings, theirs))
    }
    for theirs, ours in taken.items():
        settings.set(ours, settings.get(theirs), "addon")
    priority = settings.getpriority("AUTOTHROTTLE_ENABLED") or 0
    settings.set("AUTOTHROTTLE_ENABLED", False, priority)
    logger.info(
        "AUTOTHROTTLE_ENABLED: scrapy_adaptive does AutoThrottle's work from here (%s); with "
        "ADAPTIVE_ENABLED = False you have AutoThrottle back",
        _told(taken, settings) or "your ADAPTIVE_ settings count, not the AUTOTHROTTLE_ ones",
    )
    return True


def _told(taken: Mapping[str, str], settings: BaseSettings) -> str:
    told = (f"{theirs} = {settings.get(theirs)} as {ours}" for theirs, ours in taken.items())
    return ", ".join(told)
