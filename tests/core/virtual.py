"""A governor on a clock that moves only when a test says so.

Laws
----
* Nothing here reads a real clock or rolls dice: `chance` is a number the test gives.
* Sends happen now, answers arrive now; `wait` is the only thing that moves the clock.
"""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import HealthCheck, Phase, settings

from scrapy_adaptive.core.breaker.global_breaker import GlobalBreaker
from scrapy_adaptive.core.diagnosis.broken_pages import MINUTE
from scrapy_adaptive.core.governor import Governor
from scrapy_adaptive.core.headers.parse import Quota
from scrapy_adaptive.core.permit import Permit
from scrapy_adaptive.core.slot import Slot
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.core.types import Answer, Blocked, Decision, Outcome, Page, Reason

STEADY = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow],
)
"""The same examples in each run, however slow the machine; a failure is shrunk, not explained:
that takes longer than a test may."""

DEFAULTS = Limits()


class Virtual:
    """A governor, its clock and the words of a crawl.

    Args:
        limits: bounds of every slot with none of its own.
        slot_limits: bounds of the others, by key.
        global_slots: distinct slots that open the global breaker.
        window: seconds within which they must trip.
        cooldown: seconds for which the whole crawl waits.
        global_rate: sends a second over all slots; 0 sets no bound.
        max_slots: most slots remembered.
        chance: the number in [0, 1) behind every jitter.
        ceiling: name of the law that learns a slot's limit. AIMD by default: its cuts are at once
            and easily worked by hand, so stories of pauses and pages use it.
    """

    def __init__(
        self,
        limits: Limits = DEFAULTS,
        *,
        slot_limits: Mapping[str, Limits] | None = None,
        global_slots: int = 5,
        window: float = 10.0,
        cooldown: float = 5.0,
        global_rate: float = 0.0,
        max_slots: int = 10_000,
        chance: float = 0.0,
        ceiling: str = "aimd",
    ) -> None:
        self.now = 0.0
        self.governor = Governor(
            limits,
            global_breaker=GlobalBreaker(slots=global_slots, window=window, cooldown=cooldown),
            chance=lambda: chance,
            slot_limits=slot_limits,
            global_rate=global_rate,
            max_slots=max_slots,
            ceiling=ceiling,
        )

    def slot(self, key: str = "a") -> Slot:
        """The slot of that key."""
        return self.governor.slot(key, self.now)

    def blocked(self, key: str = "a") -> Blocked | None:
        """Why nothing may be sent now; None when a request may go."""
        return self.governor.blocked(key, self.now)

    def why_held(self, key: str = "a") -> Reason | None:
        """The reason alone."""
        blocked = self.blocked(key)
        return None if blocked is None else blocked.reason

    def held_until(self, reason: Reason, key: str = "a") -> float:
        """The instant alone, for that reason and no other."""
        blocked = self.blocked(key)
        assert blocked is not None
        assert blocked.reason is reason
        return blocked.until

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def wait_until(self, instant: float) -> None:
        """Let time pass up to an instant that is not gone by."""
        assert instant >= self.now
        self.now = instant

    def wait_out(self, key: str = "a") -> None:
        """Let time pass until a request may go."""
        while (blocked := self.blocked(key)) is not None:
            assert self.now < blocked.until < float("inf"), blocked
            self.now = blocked.until

    def send(self, key: str = "a") -> Permit:
        """Send one request, which must be allowed to go now."""
        permit = self.governor.take(key, self.now)
        assert isinstance(permit, Permit), permit
        return permit

    def send_many(self, count: int, key: str = "a") -> list[Permit]:
        """Send that many at once."""
        return [self.send(key) for _ in range(count)]

    def accept(
        self,
        permit: Permit,
        *,
        page: Page | None = None,
        latency: float | None = None,
        quotas: tuple[Quota, ...] = (),
    ) -> Decision:
        """The site served the request."""
        served = Answer(Outcome.ACCEPTED, latency=latency, page=page, quotas=quotas)
        return self._answer(permit, served)

    def refuse(
        self, permit: Permit, *, page: Page | None = None, announced: float | None = None
    ) -> Decision:
        """The site asked for less."""
        return self._answer(permit, Answer(Outcome.REFUSED, announced=announced, page=page))

    def fail(self, permit: Permit, *, page: Page | None = None, silent: bool = False) -> Decision:
        """The site broke; `silent`: it did not even answer."""
        return self._answer(permit, Answer(Outcome.FAILED, page=page, silent=silent))

    def fetch(self, count: int = 1, *, key: str = "a", page: Page | None = None) -> None:
        """Wait, send and be served at once, that many times, one after the other."""
        for _ in range(count):
            self.wait_out(key)
            self.accept(self.send(key), page=page)

    def refuse_always(self, page: Page, *, after: int) -> Decision:
        """Once so many others were served that page is refused, at its recheck, once more, and a
        minute later."""
        self.fetch(after, page="served")
        self.wait_out()
        decision = self.refuse(self.send(), page=page)
        for seconds in (0.0, 0.0, MINUTE):
            self.wait(seconds)
            self.fetch(page="served")
            self.wait_out()
            decision = self.refuse(self.send(), page=page)
        return decision

    def _answer(self, permit: Permit, answer: Answer) -> Decision:
        return self.governor.on_answer(permit, answer, self.now)
