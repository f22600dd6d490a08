"""What came of the requests under each rule.

Laws
----
* Rules are distinguished by their id within a crawl, and by their lasting id beyond it.
* What was reported once is not reported again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from .rule import Rule


@dataclass(slots=True)
class Use:
    """What came of the requests under one rule."""

    sent: int = 0
    refused: int = 0
    held: int = 0
    """Times that requests waited for it."""
    would_hold: int = 0
    """Times that requests would have waited for it, if it held anybody."""

    def add(self, other: Use) -> None:
        """What came of others, too."""
        self.sent += other.sent
        self.refused += other.refused
        self.held += other.held


class Uses:
    """What came of the requests of one crawl, by rule."""

    def __init__(self) -> None:
        self._uses: dict[str, Use] = {}
        self._reported: dict[str, Use] = {}

    def of(self, rule: Rule) -> Use:
        """What came of the requests under this rule."""
        use = self._uses.get(rule.id)
        if use is None:
            use = self._uses[rule.id] = Use()
        return use

    def all(self) -> Iterable[Use]:
        """Of all rules, of those too that are gone."""
        return self._uses.values()

    def lasting(self, rules: Mapping[str, Rule]) -> dict[str, Use]:
        """Of these rules, by lasting id."""
        return {rules[each].lasting_id: use for each, use in self._uses.items() if each in rules}

    def fresh(self, rules: Mapping[str, Rule]) -> dict[str, Use]:
        """Of these rules since this was asked last, by lasting id."""
        found = {}
        for each, use in self._uses.items():
            before = self._reported.get(each, Use())
            fresh = Use(
                use.sent - before.sent,
                use.refused - before.refused,
                use.held - before.held,
            )
            rule = rules.get(each)
            if rule is not None and fresh != Use():
                found[rule.lasting_id] = fresh
                self._reported[each] = replace(use)
        return found
