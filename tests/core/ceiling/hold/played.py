"""The ceiling that holds a limit, heard and asked without a slot, on a clock of its own."""

from __future__ import annotations

from scrapy_adaptive.core.ceiling.hold.bracket import Bracket
from scrapy_adaptive.core.ceiling.hold.ceiling import Hold
from scrapy_adaptive.core.permit import Permit
from scrapy_adaptive.core.types import Recovery


class Played:
    """A ceiling, its clock, and a site that answers at once.

    Args:
        start_rate: the first rate, 1/s.
        bracket: where the limit is thought to be; by default it begins with nothing.
    """

    def __init__(self, start_rate: float = 1.0, bracket: Bracket | None = None) -> None:
        self.now = 0.0
        self.hold = Hold(start_rate)
        self.hold.on_sent(self.now, 1.0 / start_rate)
        if bracket is not None:
            self.hold.state.bracket = bracket

    @property
    def rate(self) -> float:
        """The rate in use, 1/s."""
        return self.hold.rate

    @property
    def refused_rate(self) -> float:
        """The lowest rate that was refused, 1/s, as the next crawl would recall it."""
        learned = self.hold.learned
        assert learned is not None
        return learned.refused_rate

    @property
    def price(self) -> float:
        """Pages that the next refusal costs, as the next crawl would recall it."""
        learned = self.hold.learned
        assert learned is not None
        return learned.price

    def send(self, level: int = 1) -> Permit:
        """One request leaves, a gap after the last one."""
        gap = 1.0 / self.rate
        self.now += gap
        self.hold.on_sent(self.now, gap)
        return Permit("a", self.now, level=level)

    def serve(self, count: int, *, level: int = 1, binding: bool = True) -> None:
        """So many are served, one after the other."""
        for _ in range(count):
            permit = self.send(level)
            self.hold.on_accepted(self.now, permit, None, binding=binding)

    def refuse(self, *, others: int = 0, level: int = 1) -> None:
        """One is refused, and so many others that left before it."""
        permit = self.send(level)
        self.hold.on_congestion(self.now, permit, rate=self.rate)
        for _ in range(1 + others):
            self.hold.on_refused()

    def recover(self, *waits: float, announced: bool = False) -> None:
        """Test requests are refused after each of these waits but the last; then one is served."""
        for wait in waits[:-1]:
            self.now += wait
            self.hold.on_sent(self.now, 1.0 / self.rate)
            self.hold.on_refused()
        self.now += waits[-1]
        self.hold.on_sent(self.now, 1.0 / self.rate)
        self.hold.on_accepted(self.now, Permit("a", self.now, probe=True), None, binding=False)
        self.hold.on_recovered(self.now, Recovery(len(waits) - 1, waits[-1], announced))


def held(rate: float = 10.0, hi: float = 10.2) -> Played:
    """A rate that has passed a stage, under the lowest refused one; both in 1/s."""
    return Played(rate, Bracket(rate, lo=rate, hi=hi, best=rate, is_start=False))
