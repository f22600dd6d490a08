"""Several slots of one host refused at once: the host is overloaded, whoever asks.

Laws
----
* A refusal is the affair of the slot that met it: a proxy or an account has a limit of its own.
* When most slots of a host, and at least `FEWEST`, are refused within `AT_ONCE` seconds, the
  others of that host are paused too.
* Only hosts whose requests go to several slots are known.
"""

from __future__ import annotations

from collections import OrderedDict

FEWEST = 2
"""Slots of one host: a single one is a limit of its own."""

AT_ONCE = 1.0
"""Seconds within which refusals are one piece of news: more than the round trips of most sites."""

MOST_SLOTS = 64
"""Slots remembered of one host; the one not used for longest is forgotten first."""


class HostLoad:
    """Which slots each host's requests go to, and when each was last refused.

    Args:
        most: hosts remembered; the one not used for longest is forgotten first.

    >>> load = HostLoad(10)
    >>> for slot in ("a", "b", "c"):
    ...     load.on_sent("host", slot)
    >>> load.on_refused("host", "a", 7.0)    # one of three: its own affair
    []
    >>> load.on_refused("host", "b", 7.5)    # two of three within a second
    ['c']
    """

    __slots__ = ("_hosts", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._hosts: OrderedDict[str, OrderedDict[str, float]] = OrderedDict()
        """Host to its slots, and the instant of the latest refusal of each, monotonic seconds."""

    def __bool__(self) -> bool:
        return bool(self._hosts)

    def on_sent(self, host: str, slot: str) -> None:
        """A request of this host is sent through this slot, which is not the host's own."""
        slots = self._hosts.setdefault(host, OrderedDict())
        self._hosts.move_to_end(host)
        slots.setdefault(slot, float("-inf"))
        slots.move_to_end(slot)
        if len(slots) > MOST_SLOTS:
            slots.popitem(last=False)
        if len(self._hosts) > self._most:
            self._hosts.popitem(last=False)

    def on_refused(self, host: str, slot: str, now: float) -> list[str]:
        """A slot of this host was refused; returns the slots that are to pause with it."""
        slots = self._hosts.get(host)
        if slots is None or slot not in slots:
            return []
        slots[slot] = now
        refused = [each for each, at in slots.items() if at > now - AT_ONCE]
        if len(refused) < FEWEST or 2 * len(refused) <= len(slots):
            return []
        return [each for each in slots if each not in refused]
