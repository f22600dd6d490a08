"""Reads and checks all settings of a crawl; how its parts are switched on is `set_up.py`'s.

Laws
----
* A bad value is refused with one error that names setting, value and what is allowed, before
  any request is sent. A name that is nearly one of ours is refused too: a typo must not pass in
  silence.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy_adaptive.core.limits.rule import Rule, RuleError
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.rules.reading import read_rule

from .errors import SettingsError
from .identities import Identities
from .scrapy_limits import binding_of, limits_of, slot_limits_of
from .setting_table import SETTINGS, Setting
from .setting_types import Classifier, SlotRule, checked

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import BaseSettings

    from scrapy_adaptive.frontier.poller import PollStrategy
    from scrapy_adaptive.frontier.revisits import Revisits


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

STATE_FILE = "adaptive.json"
"""Name of that file in the job's folder."""


def is_enabled(settings: BaseSettings) -> bool:
    """Whether ADAPTIVE_ENABLED is on; where it is off no other setting is looked at.

    Raises:
        SettingsError: its value is not allowed.
    """
    return bool(_read(settings, SETTINGS[0]))


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
    limits = limits_of(settings, spider, values)
    own_agent = getattr(spider, "user_agent", None) or settings.get("USER_AGENT") or ""
    identities = Identities(values["identity"], values["agents"], own_agent=str(own_agent))
    values["rules"] = _rules(values["rules"], identities)
    obeys_robots = settings.getbool("ROBOTSTXT_OBEY")
    user_agent = settings.get("ROBOTSTXT_USER_AGENT") or settings.get("USER_AGENT") or "*"
    return AdaptiveSettings(
        **values,
        identities=identities,
        limits=limits,
        slot_limits=slot_limits_of(settings, limits),
        binding=binding_of(settings, limits),
        concurrent_requests=settings.getint("CONCURRENT_REQUESTS"),
        jobdir=settings.get("JOBDIR") or None,
        has_http_cache=settings.getbool("HTTPCACHE_ENABLED"),
        robots_user_agent=str(user_agent) if obeys_robots else None,
    )


def _read(settings: BaseSettings, setting: Setting) -> Any:
    value = settings.get(setting.name, setting.default)
    return checked(setting.name, value, setting.parse, setting.allowed)


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
