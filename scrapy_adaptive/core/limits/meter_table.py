"""The meters of a crawl, by what they count, in bounded memory.

Laws
----
* A meter that is full again is forgotten; nothing is lost by it.
* Where there is no room for another, its key shares a meter with others of its rule: they are at
  worst too slow, never too fast. A key that shares goes on sharing until that meter is full again.
* To find, make and forget costs the same for a thousand keys and for a million.

**Source**: the zero states of nginx's `limit_req`. **Departs**: it refuses where it has no room.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from .meter import Meter
from .rule import Rule

LOOKS = 4
"""Most meters forgotten each time one is made: up to the first that still remembers something."""

SHARED = 16
"""Of so many meters one more may be made to be shared, for each rule that has no room."""


class MeterTable:
    """Meters by key, the least recently made or looked at first.

    Args:
        most: meters remembered, beside those that are shared.
        rule_of: the rule under which the meter of a key counts; None where it is gone.
    """

    def __init__(self, most: int, rule_of: Callable[[str], Rule | None]) -> None:
        self._most = most
        self._rule_of = rule_of
        self._buckets = max(1, most // SHARED)
        self._meters: OrderedDict[str, Meter] = OrderedDict()
        self._shared: dict[tuple[str, int], Meter] = {}

    def __len__(self) -> int:
        return len(self._meters)

    def __iter__(self) -> Iterator[tuple[str, Meter]]:
        return iter(self._meters.items())

    def get(self, key: str, rule: Rule) -> Meter | None:
        """The meter of this key; None where there is none, so that it is full."""
        found = self._meters.get(key)
        if found is None and self._shared:
            return self._shared.get(self._shared_key(key, rule))
        return found

    def is_shared(self, key: str, rule: Rule) -> bool:
        """Whether the meter of this key is that of others too."""
        return bool(self._shared) and key not in self._meters and self.get(key, rule) is not None

    def at(self, key: str, rule: Rule, now: float) -> Meter:
        """The meter of this key, made if there is none."""
        found = self._meters.get(key)
        if found is not None:
            return found
        if self._shared:
            shared_key = self._shared_key(key, rule)
            shared = self._shared.get(shared_key)
            if shared is not None:
                if not shared.is_full(rule, now):
                    return shared
                del self._shared[shared_key]
        self._forget(now)
        meter = Meter()
        if len(self._meters) < self._most:
            self._meters[key] = meter
        else:
            self._shared[self._shared_key(key, rule)] = meter
        return meter

    def _shared_key(self, key: str, rule: Rule) -> tuple[str, int]:
        return rule.id, hash(key) % self._buckets

    def _forget(self, now: float) -> None:
        meters = self._meters
        for _ in range(min(LOOKS, len(meters))):
            key, meter = meters.popitem(last=False)
            if not meter.is_full(self._rule_of(key), now):
                meters[key] = meter
                return


SEPARATOR = "\x1e"
"""Between the id of a rule and what it counts."""


def rule_id(meter_key: str) -> str:
    """The rule under which a meter counts."""
    return meter_key.partition(SEPARATOR)[0]
