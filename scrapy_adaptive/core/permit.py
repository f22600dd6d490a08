"""The right to send one request.

Laws
----
* A permit ends once: measured, ignored or dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .limits.meter import Meter


class Counted(NamedTuple):
    """A request, where a known limit counts it."""

    key: str
    meter: Meter


@dataclass(slots=True, eq=False)
class Permit:
    """The right to send one request. It ends once: measured, ignored or dropped."""

    key: str
    sent_at: float
    """Monotonic seconds at which it was granted."""
    probe: bool = False
    """It is a test request: what comes of it ends the pause, or lengthens it."""
    recheck: bool = False
    """It asks for the suspected page again, after the wait that another page has just passed."""
    doubted: bool = False
    """Its answer looks like a refusal and a verdict is awaited."""
    ended: bool = False
    level: int = 1
    """Requests of the slot in flight when it left, itself included."""
    paced: bool = True
    """It left when the delay let it, not later: nothing else held it up."""
    gap: float = 0.0
    """Seconds since the request before it left."""
    number: int = 0
    """This is the nth request of the slot, from 1."""
    host: Permit | None = None
    """That of the host's slot, taken with the permit of a class's."""
    crawl: Permit | None = None
    """That of the whole crawl's slot, where all slots share a limit."""
    meters: tuple[Counted, ...] = ()
    """Where known limits count it."""

    @property
    def with_host(self) -> tuple[Permit, ...]:
        """This permit, and that of the host's slot which was taken with it."""
        return (self,) if self.host is None else (self, self.host)
