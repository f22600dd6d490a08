"""Reads and checks all settings of a crawl; how its parts are switched on is `set_up.py`'s.

Laws
----
* One table names every setting, its default, what is allowed and what it means; the
  documentation is held against it by a test.
* A bad value is refused with one error that names setting, value and what is allowed, before
  any request is sent. A name that is nearly one of ours is refused too: a typo must not pass in
  silence.
* Scrapy's own settings keep their meaning: DOWNLOAD_DELAY is a floor, scattered if somebody set
  its jitter, CONCURRENT_REQUESTS_PER_DOMAIN a cap, DOWNLOAD_SLOTS the same per slot.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_adaptive.core.ceiling.registry import CEILINGS
from scrapy_adaptive.core.limits.rule import Rule, RuleError
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.rules.reading import read_rule

from .errors import SettingsError
from .identities import Identities
from .robots import CRAWL, READINGS
from .setting_types import (
    Classifier,
    SlotRule,
    address,
    agents,
    boolean,
    concurrency,
    database,
    egress_name,
    frontier_address,
    function,
    identity,
    mapping,
    number,
    one_of,
    port,
    queue_class,
    revisits,
    rules,
    state_file,
    statuses,
    strategy_class,
    whole,
)

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import BaseSettings

    from scrapy_adaptive.frontier.poller import PollStrategy
    from scrapy_adaptive.frontier.revisits import Revisits


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table of settings."""

    name: str
    default: Any
    allowed: str
    """What is allowed, in words, as the error says it."""
    parse: Callable[[Any], Any]
    """Raises ValueError or TypeError for what is not allowed."""
    meaning: str


@dataclass(frozen=True, slots=True)
class AdaptiveSettings:
    """All that a crawl is told. Times in seconds, rates in 1/s."""

    enabled: bool
    start_delay: float
    max_delay: float
    target_concurrency: float
    burst: int
    ceiling: str
    refusal_codes: frozenset[int]
    backoff_ratio: float
    max_refusals: int
    classifier: Classifier | None
    slot: SlotRule | None
    global_trip_slots: int
    global_window: float
    global_cooldown: float
    global_rate: float
    max_crawl_delay: float
    robotstxt_refused: str
    max_slots: int
    max_pause: float
    host_depth_discount: float
    fallback_priority_queue: Any
    state_file: Path | None
    journal: Path | None
    report: Path | None
    watch: bool
    watch_address: str
    watch_port: int
    rules: tuple[Rule, ...]
    rules_url: str | None
    rules_refresh: float
    rules_optional: bool
    identity: Mapping[str, str] | Callable[[Any], Any]
    agents: Mapping[str, Sequence[str]]
    max_meters: int
    frontier: str | None
    frontier_lease: float
    frontier_orders: int
    frontier_hosts: int
    frontier_per_host: int
    frontier_poll_interval: float
    frontier_min_orders: float
    frontier_min_hosts: float
    frontier_stay: float
    frontier_strategy: type[PollStrategy] | None
    egress: str
    revisit: Revisits | str | None
    debug: bool
    log_interval: float
    identities: Identities = field(compare=False)
    """Whom requests are sent as, for rules."""
    limits: Limits
    slot_limits: Mapping[str, Limits]
    binding: tuple[str, ...]
    """Settings of Scrapy's that somebody set, and that hold every site's pace."""
    concurrent_requests: int
    """Most requests under way to all sites; 0 for no bound."""
    jobdir: str | None
    """The job's folder; None where the crawl is not saved."""
    has_http_cache: bool
    robots_user_agent: str | None
    """Name under which robots.txt is read; None where it is not obeyed."""

    @property
    def state_path(self) -> Path | None:
        """The file in which the crawl remembers what it learned; None where it does not."""
        if self.state_file is not None or self.jobdir is None:
            return self.state_file
        return Path(self.jobdir, STATE_FILE)


PREFIX = "ADAPTIVE_"

CLOSE = 0.75
"""How alike two names are, from 0 to 1, of which one must be a typo of the other."""

UNSAID = Limits().jitter

STATE_FILE = "adaptive.json"
"""Name of that file in the job's folder."""

_SECONDS = "a number of seconds, 0 or more"
_SOME_SECONDS = "a number of seconds, more than 0"
_COUNT = "a whole number, 1 or more"
_SWITCH = "True or False"
_RATIO = "a share, more than 0 and at most 1"
_SHARE = "a share of the delay, 0 or more"

SETTINGS: tuple[Setting, ...] = (
    Setting("ADAPTIVE_ENABLED", True, _SWITCH, boolean, "Off: the add-on changes nothing."),
    Setting(
        "ADAPTIVE_START_DELAY", 1.0, _SECONDS, number(0), "First delay of a slot nobody knows."
    ),
    Setting(
        "ADAPTIVE_MAX_DELAY",
        60.0,
        _SOME_SECONDS,
        number(0, above=True),
        "Most that the latency law may ask for.",
    ),
    Setting(
        "ADAPTIVE_TARGET_CONCURRENCY",
        "auto",
        'a number, more than 0, or "auto"',
        concurrency,
        "AutoThrottle's N: requests of a slot that are in flight on average.",
    ),
    Setting(
        "ADAPTIVE_BURST",
        1,
        _COUNT,
        whole(1),
        "Most tokens a slot may save up; 1 again after a refusal.",
    ),
    Setting(
        "ADAPTIVE_REFUSAL_CODES",
        [429, 503],
        "a list of HTTP statuses from 400 to 999",
        statuses,
        "Statuses that are refusals.",
    ),
    Setting(
        "ADAPTIVE_CEILING",
        "hold",
        " or ".join(f'"{name}"' for name in CEILINGS),
        one_of(CEILINGS),
        "The law that learns a site's limit.",
    ),
    Setting(
        "ADAPTIVE_BACKOFF_RATIO",
        0.5,
        "a number between 0 and 1, both excluded",
        number(0, above=True, below=1),
        'Fraction of the rate kept on a refusal, where the ceiling is "aimd".',
    ),
    Setting(
        "ADAPTIVE_MAX_REFUSALS",
        100,
        _COUNT,
        whole(1),
        "Refusals of one request before it is handed to RetryMiddleware.",
    ),
    Setting(
        "ADAPTIVE_CLASSIFIER",
        None,
        "a callable or its import path",
        function,
        "callable(response) that returns an Outcome, or None for what the status says.",
    ),
    Setting(
        "ADAPTIVE_SLOT",
        None,
        "a callable or its import path",
        function,
        "callable(request) that returns the name of a slot, or None for Scrapy's own.",
    ),
    Setting(
        "ADAPTIVE_GLOBAL_TRIP_SLOTS",
        5,
        _COUNT,
        whole(1),
        "Distinct slots that, paused within the window, stop the whole crawl.",
    ),
    Setting(
        "ADAPTIVE_GLOBAL_WINDOW",
        10.0,
        _SOME_SECONDS,
        number(0, above=True),
        "Time within which they must be paused.",
    ),
    Setting(
        "ADAPTIVE_GLOBAL_COOLDOWN",
        5.0,
        _SECONDS,
        number(0),
        "Pause of the whole crawl once nothing is in flight.",
    ),
    Setting(
        "ADAPTIVE_GLOBAL_RATE",
        0.0,
        "a number of requests a second, 0 (no bound) or more",
        number(0),
        "Most sends a second over all slots.",
    ),
    Setting(
        "ADAPTIVE_MAX_CRAWL_DELAY",
        300.0,
        _SECONDS,
        number(0),
        "Most that a Crawl-delay in robots.txt may ask for.",
    ),
    Setting(
        "ADAPTIVE_ROBOTSTXT_REFUSED",
        CRAWL,
        " or ".join(f'"{name}"' for name in READINGS),
        one_of(READINGS),
        "What a robots.txt means that its site refuses to the end.",
    ),
    Setting(
        "ADAPTIVE_MAX_SLOTS",
        10_000,
        _COUNT,
        whole(1),
        "Slots remembered; the least recently used idle ones are forgotten.",
    ),
    Setting(
        "ADAPTIVE_MAX_PAUSE",
        3600.0,
        _SECONDS,
        number(0),
        "A host that asks for a longer pause, or whose quota is spent for longer, is parked.",
    ),
    Setting(
        "ADAPTIVE_HOST_DEPTH_DISCOUNT",
        0.0,
        "a number, 0 or more",
        number(0),
        "The kth request taken from one host counts k times so much less than its priority says.",
    ),
    Setting(
        "ADAPTIVE_FALLBACK_PRIORITY_QUEUE",
        "scrapy.pqueues.DownloaderAwarePriorityQueue",
        "a priority queue class or its import path",
        queue_class,
        "What HostQueue stands for while ADAPTIVE_ENABLED is False.",
    ),
    Setting(
        "ADAPTIVE_STATE_FILE",
        None,
        "the path of a file in a folder that exists",
        state_file,
        "Where crawls remember what they learned, if not in their JOBDIR.",
    ),
    Setting(
        "ADAPTIVE_JOURNAL",
        None,
        "the path of a file in a folder that exists",
        state_file,
        "File to which the journal of the crawl is appended.",
    ),
    Setting(
        "ADAPTIVE_REPORT",
        None,
        "the path of a file in a folder that exists",
        state_file,
        "HTML file to which the report of the crawl is written at its end.",
    ),
    Setting("ADAPTIVE_WATCH", False, _SWITCH, boolean, "Serves a live view of the crawl."),
    Setting(
        "ADAPTIVE_WATCH_ADDRESS",
        "127.0.0.1",
        "an address or a name of this machine",
        address,
        "Address that the live view is bound to.",
    ),
    Setting(
        "ADAPTIVE_WATCH_PORT",
        6600,
        "a port, from 0 (any that is free) to 65535",
        port,
        "Port of the live view; where it is taken, a free one is used.",
    ),
    Setting(
        "ADAPTIVE_RULES",
        [],
        "a list of dicts, one for each rule, or a dict of them by host",
        rules,
        "Known limits.",
    ),
    Setting(
        "ADAPTIVE_RULES_URL",
        None,
        "the address of a database: sqlite:///… or postgresql+psycopg://…",
        database,
        "Database whose table adaptive_rules has known limits.",
    ),
    Setting(
        "ADAPTIVE_RULES_REFRESH",
        10.0,
        _SOME_SECONDS,
        number(0, above=True),
        "Time after which the table is read again.",
    ),
    Setting(
        "ADAPTIVE_RULES_OPTIONAL",
        False,
        _SWITCH,
        boolean,
        "Whether the crawl may begin while the table cannot be read.",
    ),
    Setting(
        "ADAPTIVE_IDENTITY",
        {},
        'a dict of names to "meta:…", "header:…", "query:…", "cookiejar" or "proxy"; or a callable '
        "or its import path",
        identity,
        "Where rules find whom a request is sent as.",
    ),
    Setting(
        "ADAPTIVE_AGENTS",
        {},
        "a dict of names to lists of patterns",
        agents,
        "Classes of User-Agents, for rules.",
    ),
    Setting(
        "ADAPTIVE_MAX_METERS",
        100_000,
        _COUNT,
        whole(1),
        "Counts of rules that are remembered one by one.",
    ),
    Setting(
        "ADAPTIVE_FRONTIER",
        None,
        "sqlite:///PATH, postgresql://USER@HOST/DATABASE or redis://HOST/0",
        frontier_address,
        "Database that keeps the crawl's requests, so that no crash can hurt it.",
    ),
    Setting(
        "ADAPTIVE_FRONTIER_LEASE",
        30.0,
        "a number of seconds, 1 or more",
        number(1),
        "Time after which the hosts of a worker that has died are another's.",
    ),
    Setting(
        "ADAPTIVE_FRONTIER_ORDERS",
        500,
        _COUNT,
        whole(1),
        "Requests that a worker takes out of the frontier at a time.",
    ),
    Setting(
        "ADAPTIVE_FRONTIER_HOSTS",
        200,
        _COUNT,
        whole(1),
        "Most hosts that a worker holds at a time.",
    ),
    Setting(
        "ADAPTIVE_FRONTIER_PER_HOST",
        100,
        _COUNT,
        whole(1),
        "Most requests of one host that are taken out of the frontier.",
    ),
    Setting(
        "ADAPTIVE_FRONTIER_POLL_INTERVAL",
        1.0,
        _SOME_SECONDS,
        number(0, above=True),
        "Least time between two polls of the frontier.",
    ),
    Setting(
        "ADAPTIVE_FRONTIER_MIN_ORDERS",
        0.5,
        _RATIO,
        number(0, above=True, below=1.000001),
        "Share of ADAPTIVE_FRONTIER_ORDERS below which more are polled.",
    ),
    Setting(
        "ADAPTIVE_FRONTIER_MIN_HOSTS",
        0.5,
        _RATIO,
        number(0, above=True, below=1.000001),
        "Share of ADAPTIVE_FRONTIER_HOSTS below which more orders are polled.",
    ),
    Setting(
        "ADAPTIVE_FRONTIER_STAY",
        60.0,
        _SECONDS,
        number(0),
        "A crawl waits for what is due within this time; else it ends.",
    ),
    Setting(
        "ADAPTIVE_FRONTIER_STRATEGY",
        None,
        "a subclass of scrapy_adaptive.frontier.poller.PollStrategy or its import path",
        strategy_class,
        "Class that says when to poll the frontier for how much.",
    ),
    Setting(
        "ADAPTIVE_EGRESS",
        "shared",
        "a name of letters, digits and . : _ -",
        egress_name,
        "Name of the address that sites see; workers of one name share a host's pace.",
    ),
    Setting(
        "ADAPTIVE_REVISIT",
        None,
        'None, "new", or {"first": "1d", "min": "1h", "max": "30d"} with times of your own',
        revisits,
        "When pages of the frontier are visited again.",
    ),
    Setting("ADAPTIVE_DEBUG", False, _SWITCH, boolean, "One log line per response."),
    Setting(
        "ADAPTIVE_LOG_INTERVAL",
        60.0,
        _SECONDS + "; 0 for none",
        number(0),
        "Time between two summary lines.",
    ),
)


def is_enabled(settings: BaseSettings) -> bool:
    """Whether ADAPTIVE_ENABLED is on; where it is off no other setting is looked at.

    Raises:
        SettingsError: its value is not allowed.
    """
    return bool(_read(settings, SETTINGS[0]))


def is_set(settings: BaseSettings, name: str) -> bool:
    """Whether somebody set this, beside Scrapy's defaults."""
    return (settings.getpriority(name) or 0) > 0


def read_fallback(settings: BaseSettings) -> type:
    """ADAPTIVE_FALLBACK_PRIORITY_QUEUE, read while nothing else is.

    Raises:
        SettingsError: its value is not allowed.
    """
    named = {setting.name: setting for setting in SETTINGS}
    found: type = _read(settings, named["ADAPTIVE_FALLBACK_PRIORITY_QUEUE"])
    return found


def unknown_names(settings: BaseSettings) -> list[str]:
    """Names that begin as ours do, and are none of ours: another package's, it seems.

    Raises:
        SettingsError: one is so close to one of ours that this must be meant.
    """
    known = {setting.name.removeprefix(PREFIX) for setting in SETTINGS}
    unknown = []
    for name in settings:
        if not isinstance(name, str) or not name.startswith(PREFIX):
            continue
        own = name.removeprefix(PREFIX)
        if own in known:
            continue
        near = difflib.get_close_matches(own, known, n=1, cutoff=CLOSE)
        if near:
            allowed = f"no such setting; is {PREFIX}{near[0]} meant?"
            raise SettingsError(name, settings.get(name), allowed)
        unknown.append(name)
    return unknown


def read_settings(settings: BaseSettings, spider: Spider | None = None) -> AdaptiveSettings:
    """Everything the crawl is told, checked.

    Raises:
        SettingsError: a value is not allowed, or a name is nearly one of ours.
    """
    unknown_names(settings)
    values = {
        setting.name.removeprefix("ADAPTIVE_").lower(): _read(settings, setting)
        for setting in SETTINGS
    }
    limits = _limits(settings, spider, values)
    own_agent = getattr(spider, "user_agent", None) or settings.get("USER_AGENT") or ""
    identities = Identities(values["identity"], values["agents"], own_agent=str(own_agent))
    values["rules"] = _rules(values["rules"], identities)
    obeys_robots = settings.getbool("ROBOTSTXT_OBEY")
    user_agent = settings.get("ROBOTSTXT_USER_AGENT") or settings.get("USER_AGENT") or "*"
    return AdaptiveSettings(
        **values,
        identities=identities,
        limits=limits,
        slot_limits=_slot_limits(settings, limits),
        binding=_binding(settings, limits),
        concurrent_requests=settings.getint("CONCURRENT_REQUESTS"),
        jobdir=settings.get("JOBDIR") or None,
        has_http_cache=settings.getbool("HTTPCACHE_ENABLED"),
        robots_user_agent=str(user_agent) if obeys_robots else None,
    )


def _read(settings: BaseSettings, setting: Setting) -> Any:
    value = settings.get(setting.name, setting.default)
    return _checked(setting.name, value, setting.parse, setting.allowed)


def _checked(name: str, value: Any, parse: Callable[[Any], Any], allowed: str) -> Any:
    try:
        return parse(value)
    except Exception:
        raise SettingsError(name, value, f"allowed is {allowed}") from None


def _limits(settings: BaseSettings, spider: Spider | None, values: Mapping[str, Any]) -> Limits:
    delay = _checked("DOWNLOAD_DELAY", settings.get("DOWNLOAD_DELAY"), number(0), _SECONDS)
    cap = _checked(
        "CONCURRENT_REQUESTS_PER_DOMAIN",
        settings.get("CONCURRENT_REQUESTS_PER_DOMAIN"),
        whole(1),
        _COUNT,
    )
    per_ip = settings.get("CONCURRENT_REQUESTS_PER_IP") or 0
    cap = _checked("CONCURRENT_REQUESTS_PER_IP", per_ip, whole(0), _COUNT) or cap
    # Deprecated attributes that older Scrapy reads from the spider, not from the settings.
    own_delay = getattr(spider, "download_delay", delay)
    own_cap = getattr(spider, "max_concurrent_requests", cap)
    return Limits(
        start_delay=values["start_delay"],
        max_delay=values["max_delay"],
        target_concurrency=values["target_concurrency"],
        burst=values["burst"],
        backoff_ratio=values["backoff_ratio"],
        floor=max(delay, _checked("download_delay of the spider", own_delay, number(0), _SECONDS)),
        max_pause=values["max_pause"],
        jitter=_jitter(settings),
        only_200_lowers=settings.get("ADAPTIVE_TARGET_CONCURRENCY") is not None
        and values["target_concurrency"] < math.inf,
        concurrency=min(
            cap, _checked("max_concurrent_requests of the spider", own_cap, whole(1), _COUNT)
        ),
    )


def _rules(given: Sequence[Any], identities: Identities) -> tuple[Rule, ...]:
    found = []
    for place, words in enumerate(given):
        try:
            rule = read_rule(
                words, id=f"s{place}", sources=identities.sources, secrets=identities.secrets
            )
        except RuleError as error:
            where = f"ADAPTIVE_RULES[{place}][{error.field!r}]"
            raise SettingsError(where, error.value, f"allowed is {error.allowed}") from None
        found.append(rule)
    return tuple(found)


def _binding(settings: BaseSettings, limits: Limits) -> tuple[str, ...]:
    holds = {
        "DOWNLOAD_DELAY": limits.floor > 0,
        "CONCURRENT_REQUESTS_PER_DOMAIN": limits.concurrency < Limits().concurrency,
    }
    return tuple(name for name, does in holds.items() if does and is_set(settings, name))


def _jitter(settings: BaseSettings) -> float:
    """Share by which DOWNLOAD_DELAY is to be scattered; below 0 where nobody said so.

    Of the two names the one of higher priority counts, the newer one of equal ones, as in Scrapy.
    """
    new, old = "DOWNLOAD_DELAY_JITTER", "RANDOMIZE_DOWNLOAD_DELAY"
    if is_set(settings, old) and (settings.getpriority(old) or 0) > (
        settings.getpriority(new) or 0
    ):
        return _randomized(_checked(old, settings.get(old), boolean, _SWITCH))
    if not is_set(settings, new):
        return UNSAID
    return float(_checked(new, settings.get(new), number(0), _SHARE))


def _slot_jitter(own: Mapping[str, Any], where: str, default: float) -> float:
    if "jitter" in own:
        return float(_checked(f"{where}['jitter']", own["jitter"], number(0), _SHARE))
    if "randomize_delay" in own:
        return _randomized(bool(own["randomize_delay"]))
    return default


def _randomized(is_on: bool) -> float:
    """What Scrapy makes of a jitter that is only switched on or off."""
    return 0.5 if is_on else 0.0


def _slot_limits(settings: BaseSettings, limits: Limits) -> dict[str, Limits]:
    slots: dict[str, Limits] = {}
    given = settings.get("DOWNLOAD_SLOTS")
    for key, value in _checked("DOWNLOAD_SLOTS", given, mapping, "a dict of slots").items():
        where = f"DOWNLOAD_SLOTS[{key!r}]"
        own = _checked(where, value, mapping, "a dict with a delay, a concurrency or both")
        floor = own.get("delay", limits.floor)
        concurrency = own.get("concurrency", limits.concurrency)
        slots[key] = replace(
            limits,
            floor=_checked(f"{where}['delay']", floor, number(0), _SECONDS),
            jitter=_slot_jitter(own, where, limits.jitter),
            concurrency=_checked(f"{where}['concurrency']", concurrency, whole(1), _COUNT),
        )
    return slots
