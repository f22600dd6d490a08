"""What every engine of the frontier promises.

Laws
----
* At least once: a visit that was given and is not done is given again, sooner or later.
* A visit is done together with what it found, or not at all.
* A host is leased to one session of an egress at a time; the generation of a lease never returns.
  What a stale generation says of a visit is ignored, what it found is accepted.
* A session lives until it is ended, however late it says that it lives. Another ends it that has
  not heard of it for a `ttl`, and has itself heard the backend for as long, without a gap: who was
  cut off, or sees the backend's clock set, knows nothing of others.
* Of a host's visits the highest priority comes first, then the one that came first.
* Instants that workers share are the backend's own: what goes in and out are seconds from now.
* A call that failed may have happened. To repeat it is harmless, but for links that no
  fingerprint tells apart.
* Calls block, and come from one thread at a time, never from an event loop.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeAlias

State: TypeAlias = dict[str, Any]
"""What is known of a host's slots: versioned JSON, in which durations are seconds and no instant
is."""


class UnavailableError(Exception):
    """The backend cannot be reached, is locked, or its disk is full: the call is to be repeated."""


class SessionLostError(Exception):
    """Another has ended the session: its hosts may be another's by now."""


class FrontierError(ValueError):
    """The address, or what is found there, cannot be used; says why in one line."""


class Again(Enum):
    """Whether a link that is known already is to be visited again in a new run of the crawl."""

    NEVER = 0
    UNLESS_IT_GAVE = 1
    """Unless its page has given items."""
    ALWAYS = 2


class Lease(NamedTuple):
    """The right to visit a host, and to pace it."""

    host: str
    generation: int


@dataclass(frozen=True, slots=True)
class Visit:
    """An address that was found."""

    host: str
    url: str
    payload: str = ""
    """What else is to be known of it; nothing here reads it."""
    fingerprint: bytes | None = None
    """Two of one spider are one visit; None for none that is the same."""
    priority: float = 0.0
    delay: float = 0.0
    """Seconds from now until it is due."""
    again: Again = Again.NEVER


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a visit."""

    status: int | None = None
    error: str | None = None
    """Why it failed; None where it did not."""
    etag: str | None = None
    last_modified: str | None = None
    digest: bytes | None = None
    """Of the items that the page gave."""
    item_count: int = 0
    period: float | None = None
    """Seconds between two visits, where there is to be another."""
    is_new: bool = True
    """Whether status, digest and the rest replace what was known of the page."""


@dataclass(frozen=True, slots=True)
class Given:
    """A visit that was given out, with what its last one left."""

    id: int
    url: str
    payload: str
    priority: float
    last: Result


@dataclass(frozen=True, slots=True)
class Done:
    """A visit that has ended."""

    lease: Lease
    id: int
    result: Result = field(default_factory=Result)
    again_in: float | None = None
    """Seconds from now until it is to be visited again; None for never."""


@dataclass(frozen=True, slots=True)
class Held:
    """A host that was leased, or is held already and has more to visit."""

    lease: Lease
    visits: list[Given]
    state: State | None = None
    age: float = 0.0
    """Seconds since the state was saved."""
    is_new: bool = True


@dataclass(frozen=True, slots=True)
class Leased:
    """The answer to a poll."""

    held: list[Held]
    wait: float
    """Seconds until anything is due for this egress: 0 where something is, at a host that is held
    by this worker or another; infinity where nothing ever is."""
    busy: int = 0
    """Visits of this spider that are given out, to whomever."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The answer to a turn."""

    refills: dict[Lease, list[Given] | None]
    """None: the lease is lost."""
    added: int
    known: int


@dataclass(frozen=True, slots=True)
class Beat:
    """The answer to a heartbeat."""

    members: int
    """Sessions of this spider and egress that live."""
    held: int
    """Hosts that this session holds, as the backend has it."""
    generation: int
    """Of the spider's orders: another than before asks to give back what was not sent."""
    wanted: list[Lease]
    """Leases of this session that others wait for."""
    is_unsure: bool = False
    """Whether the backend may have forgotten what it has said before: it has to be settled."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Visits of one spider."""

    ready: int = 0
    asleep: int = 0
    leased: int = 0
    finished: int = 0
    failed: int = 0
    hosts: int = 0


class Frontier(Protocol):
    """Visits of one spider by host, and the right to pace a host."""

    turn_each: float
    """Seconds between two turns that are worth their way, while there is enough to visit."""
    most_bytes: float
    """Bytes of a visit's address and payload that it keeps, at most."""

    @property
    def damaged(self) -> int:
        """Entries that nobody could read, and that were set aside so far."""

    def open(self, worker: str, egress: str, ttl: float) -> bool:
        """Begin a session; also after any local give-up.

        Returns:
            Whether a new run of the crawl begins: nothing was left to visit, and nobody visits.
        """

    def beat(self, states: Mapping[Lease, State], *, hungry: bool = False) -> Beat:
        """Live on for a `ttl`, save what changed, and free the hosts of who has died.

        Args:
            hungry: this worker could visit more hosts than it gets.
        """

    def lease(
        self,
        hosts: int,
        visits: int,
        *,
        only: str | None = None,
        back: Mapping[Lease, Sequence[int]] | None = None,
    ) -> Leased:
        """The best visits that are due, of at most so many hosts not held before.

        Args:
            only: take this host, whether it has visits or not, and no other.
            back: visits that were given out and not sent: they take part anew.
        """

    def turn(self, done: Sequence[Done], new: Sequence[Visit], refill: Mapping[Lease, int]) -> Turn:
        """What is done, what was found, and what comes next, at once or not at all."""

    def settle(self, held: Mapping[Lease, Collection[int]]) -> list[Lease]:
        """After a call that failed: whatever else this session was given is free.

        Returns those of these leases that this session does not have.
        """

    def release(self, lease: Lease, state: State | None, asleep: float = 0.0) -> None:
        """Give a host back, and its visits that are not done; nobody takes it for so long."""

    def release_all(self, releases: Sequence[tuple[Lease, State | None, float]]) -> None:
        """The same of several, in as few calls as the engine can; each by itself happens or not."""

    def save_spider(self, state: str) -> None:
        """Keep the spider's own state."""

    def load_spider(self) -> str | None:
        """What was kept of it."""

    def counts(self) -> Counts:
        """How many visits there are."""

    def close(self) -> None:
        """End the session: everything it holds is free."""
