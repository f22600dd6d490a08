"""A leaf: what requests have in common that wait for the same.

Laws
----
* The key of a leaf says all of it, a slot and the meters that count, so that nothing has to be
  remembered of it; without rules it is the slot's own.
* The key of a meter says the rule, and what it counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .meter_table import SEPARATOR
from .rule import Rule

FIELD = "\x1f"
"""Between the slot and the meters in the key of a leaf: in no name of a host."""


class Leaf(NamedTuple):
    """What requests have in common that wait for the same."""

    slot: str
    meters: tuple[tuple[str, Rule], ...] = ()
    """Keys of meters, and the rules under which they count."""

    @property
    def is_paced(self) -> bool:
        """Whether a rule says how fast it may go, in place of DOWNLOAD_DELAY."""
        return any(rule.is_pace for _, rule in self.meters)

    @property
    def places(self) -> int:
        """Most of its requests in flight, by its rules; 0 where none says so."""
        rules = [rule for _, rule in self.meters if rule.concurrency and not rule.dry_run]
        return min((rule.concurrency for rule in rules), default=0)


def meter_key(rule: Rule, host: str, identities: Mapping[str, str]) -> str:
    """What this rule counts such a request under."""
    if rule.shared:
        return f"{rule.id}{SEPARATOR}"
    if rule.identity is None or not rule.identity.is_glob:
        return f"{rule.id}{SEPARATOR}{host}"
    source = rule.identity.source
    return f"{rule.id}{SEPARATOR}{host} {source}={identities[source]}"
