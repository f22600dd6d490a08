"""When to ask for work, and which of it comes first.

Laws
----
* Visits that are due come by priority, less a discount for each visit of the same host that comes
  before it or is held already: the work is spread over many hosts.
* One visit of sixteen is the one that has been due for longest, so that nobody starves.
* Work is asked for when few orders or few hosts are left, and not more often than each interval.

**Source**: the work poll strategy of iudex.
**Departs**: what is held already counts; the age share replaces ageing.
"""

from __future__ import annotations

from dataclasses import dataclass

AGE_SHARE = 16
"""Of so many visits, one is the one that has been due for longest."""

TIE = 1e-6
"""Discount that only breaks ties: of equal priorities, one visit of each host comes first."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """What comes first.

    Args:
        discount: how much less each further visit of a host counts.
        per_host: most visits of a host that are held at a time.
        age_share: one visit of so many is the longest due; 0 for none.
    """

    discount: float = TIE
    per_host: int = 100
    age_share: int = AGE_SHARE


class PollStrategy:
    """When to ask for how much: subclass it for ADAPTIVE_FRONTIER_STRATEGY.

    Args:
        orders: visits that a full buffer holds.
        hosts: most hosts that are held.
        interval: least seconds between two polls.
        min_orders: share of the orders below which more are asked for.
        min_hosts: share of the hosts below which more are asked for.
    """

    def __init__(
        self,
        *,
        orders: int = 500,
        hosts: int = 200,
        interval: float = 1.0,
        min_orders: float = 0.5,
        min_hosts: float = 0.5,
    ) -> None:
        self.orders = orders
        self.hosts = hosts
        self.interval = interval
        self.min_orders = min_orders
        self.min_hosts = min_hosts

    def wants(self, orders: int, hosts: int, since: float, *, dried_up: bool) -> int:
        """How many visits to ask for now; 0 for none.

        Args:
            orders: visits that are held and not sent yet.
            hosts: hosts that these are of.
            since: seconds since the last poll.
            dried_up: the last poll gave less than was asked for, and nothing has come since.

        >>> PollStrategy(orders=100).wants(60, 200, since=5.0, dried_up=False)
        0
        >>> PollStrategy(orders=100).wants(40, 200, since=5.0, dried_up=False)
        60
        >>> PollStrategy(orders=100).wants(0, 0, since=0.5, dried_up=False)
        0
        """
        if since < self.interval or (dried_up and since < 5 * self.interval):
            return 0
        few_orders = orders < self.min_orders * self.orders
        few_hosts = hosts < self.min_hosts * self.hosts
        return max(0, self.orders - orders) if few_orders or few_hosts else 0
