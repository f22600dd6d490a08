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
    """Whether a slot is paused, and until when. Instants in monotonic seconds."""

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
        """The end of the present wait: from then on a test request may leave."""
        self.last_refused_at = LONG_AGO
        """The instant at which the pause was begun or lengthened last, mostly by a refusal."""
        self._parked_until = LONG_AGO
        self._announced_until = LONG_AGO
        """The instant until which the site itself asked the crawler to wait."""
        self._began_at = 0.0
        self._before = 0.0

    def begin(
        self, now: float, wait: float, *, announced: float | None = None, most: float = NEVER
    ) -> None:
        """Begin a pause, or lengthen it; it is parked if the site asked for more than `most`.

        Args:
            wait: seconds to wait from now, at least.
            announced: seconds to wait that the site itself asked for; None where it said nothing.
            most: seconds that the site may ask for before the slot is parked.
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
        """The pause was begun elsewhere: its time counts from here. It stays parked if the site
        asked for more than `most` seconds from now."""
        self._began_at = now
        if self._parked_until <= now + most:
            self._parked_until = LONG_AGO

    def park(self) -> None:
        """The site had asked for more than the user allows; what is left of it may be less."""
        self._parked_until = self.until

    def shorten(self, until: float) -> None:
        """Wait no longer than until then, or for as long as the site itself asked."""
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

    def announced_for(self, now: float) -> float:
        """Seconds from now on that the site itself asked for; 0 for none."""
        return max(0.0, self._announced_until - now)

    @property
    def is_asked(self) -> bool:
        """Whether the site itself said how long, when it refused last."""
        return self._announced_until > self.last_refused_at

    def count_on(self, seconds: float) -> None:
        """The slot was paused for so many seconds before."""
        self._before += seconds

    def seconds(self, now: float) -> float:
        """Seconds in which the breaker was not closed."""
        return self._before + (now - self._began_at if self.phase is not Phase.CLOSED else 0.0)


NO_PAUSE = Pause()
"""What a slot has that was never paused; it is shared, and nothing changes it."""
