"""The pause of one slot: its breaker's phase, and until when.

Laws
----
* A pause begins with pain and ends with an accepted probe; more pain only lengthens it.
* It is parked while an instant that the site itself gave is further off than the user allows.
"""

from __future__ import annotations

from scrapy_adaptive.core.state.fields import LONG_AGO, Due, Instant

from .breaker import TABLE, Phase, Signal

NEVER = float("inf")


class Pause:
    """Whether a slot is paused, and until when it is silent. Instants in monotonic seconds."""

    __slots__ = (
        "_before",
        "_began_at",
        "_parked_until",
        "_told_until",
        "last_refused_at",
        "phase",
        "until",
    )

    phase: Phase
    until: Due
    last_refused_at: Instant
    _parked_until: Due
    _told_until: Due

    def __init__(self) -> None:
        self.phase = Phase.CLOSED
        self.until = 0.0
        """The end of the silence."""
        self.last_refused_at = LONG_AGO
        """The instant of the latest pain."""
        self._parked_until = LONG_AGO
        self._told_until = LONG_AGO
        """The instant up to which the site itself asked for silence."""
        self._began_at = 0.0
        self._before = 0.0

    def begin(
        self, now: float, wait: float, *, told: float | None = None, most: float = NEVER
    ) -> None:
        """Be silent for at least `wait` seconds, of which the site itself asked for `told`; parked,
        if these are more than `most`."""
        if self.phase is Phase.CLOSED:
            self._began_at = now
            self.until = now
        self.last_refused_at = now
        self.until = max(self.until, now + wait)
        if told is not None:
            self._told_until = max(self._told_until, now + told)
        if told is not None and told > most:
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
        """Be silent no longer than until then, or as the site itself asked."""
        self.until = max(self._told_until, min(self.until, until))
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
        return self._told_until > self.last_refused_at

    def count_on(self, seconds: float) -> None:
        """So many seconds were paused before."""
        self._before += seconds

    def seconds(self, now: float) -> float:
        """Seconds in which the breaker was not closed."""
        return self._before + (now - self._began_at if self.phase is not Phase.CLOSED else 0.0)


NO_PAUSE = Pause()
"""What a slot has that was never paused; it is shared, and nothing is told to it."""
