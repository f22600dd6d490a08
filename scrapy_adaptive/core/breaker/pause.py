"""The pause of one slot: its breaker's phase, and until when.

Laws
----
* A pause begins with congestion and ends with an accepted probe; more congestion only lengthens it.
* It is parked while an instant that the site itself gave is further off than the user allows.
"""

from __future__ import annotations

from scrapy_adaptive.core.state.fields import LONG_AGO, Due, Instant

from .breaker import TABLE, Phase, Signal

NEVER = float("inf")


class Pause:
    """Whether a slot is paused, and until when it pauses. Instants in monotonic seconds."""

    __slots__ = (
        "_announced_until",
        "_before",
        "_began_at",
        "_parked_until",
        "last_refused_at",
        "phase",
        "until",
    )

    phase: Phase
    until: Due
    last_refused_at: Instant
    _parked_until: Due
    _announced_until: Due

    def __init__(self) -> None:
        self.phase = Phase.CLOSED
        self.until = 0.0
        """The end of the pause."""
        self.last_refused_at = LONG_AGO
        """The instant of the latest congestion."""
        self._parked_until = LONG_AGO
        self._announced_until = LONG_AGO
        """The instant up to which the site itself asked for pause."""
        self._began_at = 0.0
        self._before = 0.0

    def begin(
        self, now: float, wait: float, *, announced: float | None = None, most: float = NEVER
    ) -> None:
        """Pause for at least `wait` seconds; parked, if the site asked for more than `most`.

        Args:
            announced: seconds of it that the site itself asked for.
        """
        if self.phase is Phase.CLOSED:
            self._began_at = now
            self.until = now
        self.last_refused_at = now
        self.until = max(self.until, now + wait)
        if announced is not None:
            self._announced_until = max(self._announced_until, now + announced)
        if announced is not None and announced > most:
            self._parked_until = self.until
        self.signal(Signal.REFUSAL)

    def begin_here(self, now: float, most: float) -> None:
        """The pause was begun elsewhere: its time counts from here, and so does its length, beyond
        `most` seconds of which it is parked."""
        self._began_at = now
        if self._parked_until <= now + most:
            self._parked_until = LONG_AGO

    def park(self) -> None:
        """The site had asked for more than the user allows; what is left of it may be less."""
        self._parked_until = self.until

    def shorten(self, until: float) -> None:
        """Pause no longer than until then, or as the site itself asked."""
        self.until = max(self._announced_until, min(self.until, until))
        self._parked_until = min(self._parked_until, self.until)

    def signal(self, signal: Signal) -> None:
        """Something happened to the breaker."""
        self.phase = TABLE[self.phase, signal]

    def end(self, now: float, by: Signal) -> None:
        """The probe was accepted, or there is nobody to wait for."""
        self.signal(by)
        self._before += now - self._began_at

    def is_parked(self, now: float) -> bool:
        """Whether it lasts, by the site's own word, longer than the user wants to sit through."""
        return now < self._parked_until

    @property
    def is_asked(self) -> bool:
        """Whether the site itself said how long, when it refused last."""
        return self._announced_until > self.last_refused_at

    def count_on(self, seconds: float) -> None:
        """So many seconds were paused before."""
        self._before += seconds

    def seconds(self, now: float) -> float:
        """Seconds in which the breaker was not closed."""
        return self._before + (now - self._began_at if self.phase is not Phase.CLOSED else 0.0)


NO_PAUSE = Pause()
"""What a slot has that was never paused; it is shared, and nothing changes it."""
