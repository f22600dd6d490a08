"""Why a site is crawled at its speed, in sentences.

Laws
----
* What holds the site back comes first, then how it stands, what was tried, what to set for more,
  and what that would cost.
* The words for reasons and events are those of their registries.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from . import events, units
from .reasons import NOT_YET, Reason, reason

if TYPE_CHECKING:
    from .crawl import Crawl, Site

MOST_TRIED = 5
"""Events that are told, the latest ones."""

MOST_NAMED = 5
"""Other sites, or reasons, that are named."""

TRIED = (events.PAUSE, events.LONGER, events.PARKED, events.RECOVERY, events.LIMIT, events.SPLIT)


class UnknownSiteError(ValueError):
    """The crawl knows no site of that name."""


def why(crawl: Crawl, name: str) -> str:
    """What holds this site back, and what could be done.

    Raises:
        UnknownSiteError: the crawl knows no such site.
    """
    site = find(crawl, name)
    by = site.held_by(crawl.seconds)
    found = reason(by) if by else NOT_YET
    value = site.values.get(found.key, site.value)
    own = site.own and found.key == site.by
    parts = [
        f"{units.text(site.name)} {'was' if crawl.has_ended else 'is'} held back by: "
        f"{found.title}.",
        found.say(found.sentence, units.text(site.name), value, own=own),
        *_figures(crawl, site),
        *_over_time(crawl, site),
        *_tried(crawl, site),
        *_advice(found),
    ]
    return "\n".join(map(units.printable, parts))


def find(crawl: Crawl, name: str) -> Site:
    """The site of that name, or with that host.

    Raises:
        UnknownSiteError: the crawl knows no such site.
    """
    wanted = name.strip().lower().rstrip("/")
    wanted = wanted.partition("://")[2] or wanted
    for key in (name, wanted, wanted.partition("/")[0], _host(wanted)):
        if key in crawl.sites:
            return crawl.sites[key]
    names = list(crawl.sites)
    if not names:
        raise UnknownSiteError("this crawl has sent nothing yet")
    near = difflib.get_close_matches(wanted, names[:10_000], n=MOST_NAMED, cutoff=0.5)
    named = near or names[:MOST_NAMED]
    more = f" and {len(names) - len(named):,} more" if len(names) > len(named) else ""
    known = ", ".join(map(units.text, named))
    raise UnknownSiteError(f"this crawl has no site {units.text(name)!r}; it has {known}{more}")


def _host(wanted: str) -> str:
    """The host of an address without a scheme; empty where there is none."""
    try:
        return urlsplit(f"//{wanted}").hostname or ""
    except ValueError:
        return ""


def _figures(crawl: Crawl, site: Site) -> list[str]:
    now = f", {_rate(site.rate_now(crawl.seconds))} now" if not crawl.has_ended else ""
    parts = [
        f"{'At its end' if crawl.has_ended else 'After'} {units.duration(crawl.seconds)}: "
        f"{_count(site.served, 'page')}, {_rate(site.mean_rate)} on average{now}; "
        f"{_count(site.refused, 'refusal')}, {_count(site.failed, 'failure')}, "
        f"{_count(site.requeued, 'request')} sent again. {site.in_flight:,} in flight, "
        f"{site.waiting:,} waiting."
    ]
    if site.latency:
        parts.append(
            f"An answer takes {units.duration(site.latency)}, at worst {_seconds(site.worst)}."
        )
    return parts


def _over_time(crawl: Crawl, site: Site) -> list[str]:
    """What held it back, by the share of its time."""
    spent = site.spent(crawl.seconds)
    total = sum(spent.values())
    shares = [(key, seconds / total) for key, seconds in spent.items()]
    named = [f"{reason(key).title} {share:.0%}" for key, share in shares if share >= 0.01]
    if len(named) < 2:
        return []
    return [f"Of the time in which it had something to do: {', '.join(named[:MOST_NAMED])}."]


def _tried(crawl: Crawl, site: Site) -> list[str]:
    told = [event for event in site.events if event.event in TRIED]
    lines = []
    if site.limit:
        refused = f"; {_rate(site.refused_at)} was refused" if site.refused_at else ""
        sure = "" if site.is_sure else ", which is not known well yet"
        lines.append(f"The limit found: {_rate(site.limit)} is served{refused}{sure}.")
    if site.pauses:
        lines.append(
            f"{_count(len(site.pauses), 'pause')} so far, {units.duration(site.paused)} in all."
        )
    if told:
        lines.append("What was tried, the latest last:")
        lines += [
            f"  {_ago(crawl.seconds - event.at)}: {units.text(events.sentence(event), 200)}"
            for event in told[-MOST_TRIED:]
        ]
    elif not site.refused:
        lines.append("Nothing was refused, so nothing had to be tried.")
    return lines


def _advice(found: Reason) -> list[str]:
    parts = [("For more: ", found.more), ("What it would cost: ", found.cost)]
    return [f"{head}{text}" for head, text in parts if text]


def _ago(seconds: float) -> str:
    return f"{units.duration(max(0.0, seconds))} before" if seconds >= 1.0 else "just before"


def _rate(per_second: float) -> str:
    return units.rate(per_second) if per_second else "nothing"


def _seconds(seconds: float) -> str:
    return units.duration(seconds)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
