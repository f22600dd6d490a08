"""What holds a site's crawl back: the one registry of its words.

Laws
----
* Whatever comes to hold a site back, a rule or a lease for instance, adds its reason here, and
  nowhere else; log, table, page and `why` take their words from here.
* A sentence may name `{site}` and `{value}`, the number that the journal has with the reason, in
  the unit of the reason; `{name}` is the setting that the number is from.
* A reason that nobody knows here is shown by its key.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from . import units


class Whose(Enum):
    """Who decides on it."""

    SITE = "the site"
    USER = "your settings"
    CRAWLER = "the crawler's machine"
    SPIDER = "the spider"


class Unit(Enum):
    """What a reason's number counts."""

    NONE = ""
    SECONDS = "s"
    REQUESTS = "requests"
    RATE = "1/s"


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that holds a site back."""

    key: str
    title: str
    """In a table's cell."""
    whose: Whose
    sentence: str
    """What it is, of this site, now."""
    more: str
    """What to set, or do, for a faster crawl."""
    cost: str
    """What that would cost."""
    unit: Unit = Unit.NONE
    name: str = ""
    """The setting that its number is from."""

    def say(self, text: str, site: str, value: float = 0.0, *, own: bool = False) -> str:
        """One of its sentences, filled in.

        Args:
            own: the number is the site's own, from DOWNLOAD_SLOTS.
        """
        name = f"DOWNLOAD_SLOTS[{site!r}]" if own else self.name
        return text.format(site=site, value=self.amount(value), name=name)

    def amount(self, value: float) -> str:
        """Its number with its unit, as people say it."""
        if self.unit is Unit.SECONDS:
            return units.duration(value)
        return units.rate(value) if self.unit is Unit.RATE else f"{value:,g}"


_POLITE = "More would be refused: each refusal costs a pause, and some sites ban who goes on."

_ALL = (
    Reason(
        "limit",
        "learned limit",
        Whose.SITE,
        "{site} refuses more than about {value}, as its refusals have taught; the crawl keeps just "
        "under that.",
        "Ask the site for more, or crawl from another address with a limit of its own "
        "(ADAPTIVE_SLOT).",
        _POLITE,
        Unit.RATE,
    ),
    Reason(
        "search",
        "still getting faster",
        Whose.SITE,
        "{site} has refused nothing at this rate yet; the crawl goes faster step by step, now at "
        "up to {value}.",
        "Wait, or begin faster: a smaller ADAPTIVE_START_DELAY. With a JOBDIR or an "
        "ADAPTIVE_STATE_FILE the next crawl begins with what this one finds.",
        "A start that is too fast meets the limit with more refusals.",
        Unit.RATE,
    ),
    Reason(
        "places",
        "learned concurrency",
        Whose.SITE,
        "{site} refuses, or gets slower, with more than {value} requests at once; the crawl keeps "
        "to that.",
        "Ask the site for more; ADAPTIVE_TARGET_CONCURRENCY = N asks for N requests at once where "
        "it only gets slower.",
        "A site that only gets slower serves no more pages for it, and other visitors wait.",
        Unit.REQUESTS,
    ),
    Reason(
        "backoff",
        "pause after a refusal",
        Whose.SITE,
        "{site} refused or failed, and did not say for how long; the crawl waits, then one test "
        "request decides.",
        "Nothing: the pause is as short as has worked before.",
        "Requests in a pause are refused, and make many sites refuse for longer.",
    ),
    Reason(
        "retry-after",
        "Retry-After",
        Whose.SITE,
        "{site} refused and asked to wait; the crawl waits for {value} more.",
        "Nothing: the site said how long.",
        "Requests before that are refused, and may lead to a ban.",
        Unit.SECONDS,
    ),
    Reason(
        "parked",
        "parked",
        Whose.SITE,
        "{site} asked to wait for longer than ADAPTIVE_MAX_PAUSE, {value} more; its requests are "
        "kept.",
        "With a JOBDIR the crawl can end, and go on when the wait is over.",
        "Requests before that are refused, and may lead to a ban.",
        Unit.SECONDS,
    ),
    Reason(
        "quota",
        "RateLimit quota",
        Whose.SITE,
        "{site} says in its RateLimit headers what is left until its reset; the crawl spreads that "
        "evenly, one request each {value}.",
        "Ask the site for a larger quota, or use a key or an address with a quota of its own "
        "(ADAPTIVE_SLOT).",
        "A spent quota stops the crawl until its reset.",
        Unit.SECONDS,
    ),
    Reason(
        "quota-spent",
        "RateLimit quota spent",
        Whose.SITE,
        "{site} says in its RateLimit headers that nothing is left for {value}; the crawl waits "
        "for the reset.",
        "Ask the site for a larger quota, or use a key or an address with a quota of its own "
        "(ADAPTIVE_SLOT).",
        "Requests before the reset are refused.",
        Unit.SECONDS,
    ),
    Reason(
        "crawl-delay",
        "robots.txt Crawl-delay",
        Whose.SITE,
        "The robots.txt of {site} asks for {value} between two requests.",
        "ADAPTIVE_MAX_CRAWL_DELAY = seconds obeys no more than that.",
        "It goes against the site's explicit wish; some block crawlers for it.",
        Unit.SECONDS,
        "ADAPTIVE_MAX_CRAWL_DELAY",
    ),
    Reason(
        "latency",
        "latency",
        Whose.USER,
        "Requests to {site} are apart by its latency over N, {value} on average at once, as in "
        "AutoThrottle.",
        'A larger ADAPTIVE_TARGET_CONCURRENCY, or "auto", which finds N from latency.',
        "More requests at once; a small site gets slower for all its visitors.",
        Unit.REQUESTS,
        "ADAPTIVE_TARGET_CONCURRENCY",
    ),
    Reason(
        "delay",
        "DOWNLOAD_DELAY",
        Whose.USER,
        "{name} keeps requests to {site} {value} apart; the site itself has not been found to be "
        "slower.",
        "Remove the delay from your settings: the pace is then found from the site's answers.",
        "Up to what the site allows, nothing: refusals are met with a pause, and no page is lost.",
        Unit.SECONDS,
        "DOWNLOAD_DELAY",
    ),
    Reason(
        "concurrency",
        "per-domain concurrency",
        Whose.USER,
        "All {value} requests that {name} allows at once for {site} are under way.",
        "A larger CONCURRENT_REQUESTS_PER_DOMAIN, or a concurrency for the site in DOWNLOAD_SLOTS.",
        "More requests at once; where the site has a limit on that, it is found from refusals.",
        Unit.REQUESTS,
        "CONCURRENT_REQUESTS_PER_DOMAIN",
    ),
    Reason(
        "total",
        "total concurrency",
        Whose.USER,
        "All {value} requests that {name} allows at once are under way, to all sites together; "
        "{site} could take more.",
        "A larger CONCURRENT_REQUESTS.",
        "More memory and more connections; no site gets more than it allows.",
        Unit.REQUESTS,
        "CONCURRENT_REQUESTS",
    ),
    Reason(
        "global-rate",
        "ADAPTIVE_GLOBAL_RATE",
        Whose.USER,
        "{name} allows {value} to all sites together; {site} waits for its turn.",
        "A larger ADAPTIVE_GLOBAL_RATE, or 0 for no bound.",
        "More traffic from your own address; no site gets more than it allows.",
        Unit.RATE,
        "ADAPTIVE_GLOBAL_RATE",
    ),
    Reason(
        "breaker",
        "crawl-wide breaker",
        Whose.SITE,
        "A refusal has paused the whole crawl, {site} too, as ADAPTIVE_GLOBAL_TRIP_SLOTS = 1 says.",
        "A larger ADAPTIVE_GLOBAL_TRIP_SLOTS, or a shorter ADAPTIVE_GLOBAL_COOLDOWN.",
        "If the sites share a limit after all, each has to find it by refusals.",
    ),
    Reason(
        "shared",
        "limit of the whole crawl",
        Whose.SITE,
        "The sites of this crawl refuse as if they shared one limit; {site} waits for its turn "
        "under it.",
        "Crawl from another address, or fewer hosts of one provider; a larger "
        "ADAPTIVE_GLOBAL_TRIP_SLOTS looks for no such limit.",
        _POLITE,
    ),
    Reason(
        "uplink",
        "no connection",
        Whose.CRAWLER,
        "No host answers: the connection of the crawler's own machine seems to be down; {site} "
        "waits.",
        "Look at the network of this machine.",
        "Nothing.",
    ),
    Reason(
        "rule",
        "known limit",
        Whose.USER,
        "A known limit, {name}, lets the next request to {site} leave in {value}, or says pause.",
        "Change it in the table or in ADAPTIVE_RULES; scrapy adaptive rules show says whether the "
        "site ever refused under it.",
        _POLITE,
        Unit.SECONDS,
        "rule",
    ),
    Reason(
        "lease",
        "host lease awaited",
        Whose.CRAWLER,
        "A request waits until this worker is given {site}; while another worker has that host, "
        "until that one gives it back.",
        "Nothing: who has a host gives it to who waits. What the frontier keeps goes to the "
        "worker that has its host, and does not wait.",
        "Two workers at one host would be twice as fast as it allows.",
    ),
    Reason(
        "robots",
        "robots.txt awaited",
        Whose.SITE,
        "The robots.txt of {site} is under way; its pages wait for it.",
        "Nothing: it takes one request.",
        "Nothing.",
    ),
    Reason(
        "verdict",
        "answer under examination",
        Whose.CRAWLER,
        "An answer of {site} looks like a refusal; nothing is sent before your classifier has seen "
        "it.",
        "Nothing, if it is over soon; else see which downloader middleware takes so long.",
        "Nothing.",
    ),
    Reason(
        "empty",
        "nothing queued",
        Whose.SPIDER,
        "No request for {site} waits: the spider has asked for no more pages of it.",
        "Have the spider yield its requests earlier, several at once; Scrapy takes them in one by "
        "one as earlier ones are done.",
        "Memory for the queue; with a JOBDIR it is kept on disk.",
    ),
    Reason(
        "scraper",
        "scraper full",
        Whose.SPIDER,
        "Callbacks and pipelines are behind with what was downloaded; Scrapy asks for no more "
        "pages, of {site} neither.",
        "Quicker callbacks and pipelines; a larger SCRAPER_SLOT_MAX_ACTIVE_SIZE.",
        "More memory for responses that wait.",
    ),
    Reason(
        "crawler",
        "the crawler itself",
        Whose.CRAWLER,
        "{site} could be asked for more: the crawler's own process is not quick enough.",
        "Quicker callbacks, parsing in another process, or a second crawler; see what its CPU does "
        "with a profiler.",
        "Machines.",
    ),
)

NOT_YET = Reason(
    "",
    "nothing yet",
    Whose.CRAWLER,
    "The crawl has just begun with {site}: what holds it back is known within ten seconds.",
    "",
    "",
)
"""Of a site that has no full record yet."""

RULE = "rule "
"""Begins the key where a known limit holds a site back: its rule follows."""

REASONS: dict[str, Reason] = {each.key: each for each in _ALL}
"""All reasons by their key."""


def reason(key: str) -> Reason:
    """The reason of that key; of one that nobody knows, hardly more than the key."""
    if key.startswith(RULE):
        return replace(REASONS["rule"], key=key, title=key, name=key)
    shown = repr(key).replace("{", "{{").replace("}", "}}")
    unknown = f"It is held back by {shown}, which this version does not know."
    return REASONS.get(key) or Reason(key, key, Whose.SITE, unknown, "", "")
