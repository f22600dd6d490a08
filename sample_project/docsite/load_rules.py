"""The numbers of the load control, checked once.

Laws
----
* Times are seconds. A time of 0 switches its rule off.
* A number that makes no sense is refused when the rules are made, by name.
* Speeding up divides every time and touches nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from docsite.agents import KNOWN_CRAWLERS


class LoadRulesError(ValueError):
    """A rule that cannot be kept; the message names it, its value and what is allowed."""


TIMES = ("crawler_interval", "any_crawler_interval", "stack_window", "sleep")

T = TypeVar("T")


def _rule(default: T, words: str) -> T:
    """A rule's default and what it means, which is also its option's help."""
    rule: T = field(default=default, metadata={"help": words})
    return rule


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRules:
    """Connotea's rules; each number can be another.

    **Source** Connotea's published source, Bibliotech::Throttle, for the intervals, the stack
    and the sleepers.
    **Departs** Its default load is 25; 15 is the number its rules are quoted with.
    """

    crawler_interval: float = _rule(
        30.0, "least seconds between two hits of one known crawler from one address"
    )
    any_crawler_interval: float = _rule(
        2.0, "least seconds between two hits of known crawlers, whichever"
    )
    stack_hits: int = _rule(10, "most hits of any other agent from one address in stack_window")
    stack_window: float = _rule(15.0, "seconds the hits of an agent are remembered for")
    max_running: int = _rule(15, "most requests served at one moment")
    max_sleepers: int = _rule(10, "most requests that wait for the load to fall")
    sleep: float = _rule(15.0, "seconds such a request waits: one per running request")
    max_clients: int = _rule(10_000, "most clients remembered; who was unseen longest goes first")
    refused_hits_count: bool = _rule(True, "a refused hit of a crawler starts its interval anew")
    service_paused: bool = _rule(False, "the site begins paused: everything is refused")
    known_crawlers: tuple[str, ...] = _rule(
        KNOWN_CRAWLERS, "names that make an agent a known crawler"
    )

    def __post_init__(self) -> None:
        for name in TIMES:
            self._require(name, "seconds ≥ 0", _is_time(getattr(self, name)))
        for name in ("stack_hits", "max_running", "max_clients"):
            self._require(name, "a whole number ≥ 1", _is_count(getattr(self, name), least=1))
        self._require("max_sleepers", "a whole number ≥ 0", _is_count(self.max_sleepers, least=0))
        for name in ("refused_hits_count", "service_paused"):
            self._require(name, "True or False", isinstance(getattr(self, name), bool))
        self._require("known_crawlers", "a tuple of names", _are_names(self.known_crawlers))

    def _require(self, name: str, allowed: str, is_met: bool) -> None:
        if not is_met:
            raise LoadRulesError(f"{name} must be {allowed}, not {getattr(self, name)!r}")

    @property
    def memory(self) -> float:
        """Seconds after which nothing remembers a hit."""
        return max(self.crawler_interval, self.any_crawler_interval, self.stack_window)

    def sped_up(self, speed: float) -> LoadRules:
        """The same rules on a clock that runs `speed` times as fast.

        >>> LoadRules().sped_up(100).crawler_interval
        0.3
        """
        if not (_is_time(speed) and speed > 0):
            raise LoadRulesError(f"speed must be a number > 0, not {speed!r}")
        return replace(self, **{name: getattr(self, name) / speed for name in TIMES})


def _is_time(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 <= value < math.inf


def _is_count(value: Any, *, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _are_names(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(name, str) and name for name in value)
