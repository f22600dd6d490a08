"""What is said to the frontier, and when: one call at a time.

Laws
----
* The heartbeat comes first, then whom the gate waits for, then what is done, then new work.
* A call that failed is repeated; after one that may have given something, what is not known to be
  held is freed.
* What is done is given back by nobody before it is written down: it would be visited again.
* Whoever was cut off, for however long, says first that it lives: what it holds is nobody else's
  until it hears so. A session that is lost is given up whole, and another is begun.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_adaptive.frontier.protocol import Beat, SessionLostError, Turn, UnavailableError

from .feeds import UnstoredError

if TYPE_CHECKING:
    from scrapy_adaptive.frontier.poller import PollStrategy
    from scrapy_adaptive.frontier.protocol import Frontier, Given, Held, Lease, Leased, State

    from .courier import Courier
    from .outbox import Outbox
    from .rights import Rights
    from .seeds import Seeds

logger = logging.getLogger("scrapy_adaptive")

FLUSH = 0.25
"""Seconds between two turns, where there is little to visit."""

FLUSH_DONE = 64
"""Visits that are done, and are written down at once: with those that are done meanwhile they stay
within the hundred that a kill is said to repeat, on a busy machine too."""

ENOUGH = 5
"""Visits that are held and not sent, with which a turn has time."""

MOST_RELEASED = 50
"""Hosts that one call gives back."""

AGAIN = 1.0
"""Seconds after which a call that failed is repeated."""

PROOFS = ("open", "turn")
"""Calls that show that the frontier works again: one that is full answers others."""

ASK_AGAIN = 0.5
"""Seconds after which a host that another holds is asked for again."""


class Release(NamedTuple):
    """A host that is to be given back."""

    lease: Lease
    state: State | None
    asleep: float


class Owner:
    """What a session asks of its crawl; `FrontierCrawl` is one."""

    is_closing: bool
    paused: set[str]
    """Hosts that were paused, and the frontier does not know it yet."""

    def states(self, *, everything: bool) -> Mapping[Lease, State]:
        """States of the slots of hosts that are held, and have changed."""
        raise NotImplementedError

    def paused_states(self) -> Mapping[Lease, State]:
        """Of those in `paused` that are held."""
        raise NotImplementedError

    def held(self) -> dict[Lease, Collection[int]]:
        """Visits that are open, by lease; of every lease that is held."""
        raise NotImplementedError

    def unsent(self) -> dict[Lease, list[int]]:
        """Visits that are open and were not sent."""
        raise NotImplementedError

    def may_poll(self) -> bool:
        """Whether work may come yet."""
        raise NotImplementedError

    def dry_hosts(self) -> Mapping[Lease, int]:
        """Hosts of which nothing is left to send, and how much of each to ask for."""
        raise NotImplementedError

    def on_opened(self, begins: bool) -> None:
        """A session has begun."""
        raise NotImplementedError

    def on_held(self, held: Held) -> None:
        """A host, or more of its visits."""
        raise NotImplementedError

    def on_given(self, lease: Lease, visits: Sequence[Given]) -> None:
        """More visits of a host."""
        raise NotImplementedError

    def on_polled(self) -> None:
        """A poll was answered."""
        raise NotImplementedError

    def on_lost(self, leases: Collection[Lease] | None) -> None:
        """These leases are lost; all, where None."""
        raise NotImplementedError

    def on_wanted(self, leases: Sequence[Lease]) -> None:
        """Others wait for these."""
        raise NotImplementedError

    def take_back(self, unsent: Mapping[Lease, Sequence[int]]) -> None:
        """These visits were given back: they will not be sent."""
        raise NotImplementedError

    def on_failed(self, error: BaseException) -> None:
        """A call cannot succeed."""
        raise NotImplementedError


class Session:
    """Says to the frontier what has to be said.

    Args:
        frontier: is called in the courier's thread.
        courier: calls it.
        rights: the hosts that are held.
        outbox: what is done and found.
        strategy: when to ask for how much.
        owner: the crawl.
        worker: its name.
        egress: its egress.
        ttl: seconds for which a host stays with a worker that says nothing.
        before_turn: is called in the courier's thread before what is done is written down.
    """

    def __init__(
        self,
        frontier: Frontier,
        courier: Courier,
        rights: Rights,
        outbox: Outbox,
        strategy: PollStrategy,
        owner: Owner,
        *,
        worker: str,
        egress: str,
        ttl: float,
        clock: Callable[[], float],
        before_turn: Callable[[], None],
    ) -> None:
        self._frontier = frontier
        self._courier = courier
        self._rights = rights
        self._outbox = outbox
        self._strategy = strategy
        self._owner = owner
        self._named = (worker, egress, ttl)
        self._ttl = ttl
        self._clock = clock
        self._before_turn = before_turn
        self.is_open = False
        self.is_dry = False
        """Whether the last poll gave nothing, and nothing has come since."""
        self.wait = 0.0
        """Seconds until anything is due, as of the last poll."""
        self.busy = 0
        """Visits that any worker has under way, as of the last poll."""
        self.polls_at_once = False
        self.releases: deque[Release] = deque()
        self._generation: int | None = None
        self._swaps = False
        self._unsettled = self._has_unstored = False
        self._telling: set[str] = set()
        """Hosts whose pause the heartbeat under way tells."""
        self._is_hungry = False
        self._beat_at = self._polled_at = self._flushed_at = -math.inf
        self._asked_at: dict[str, float] = {}
        self._not_before = -math.inf
        self._told_of = ""
        """The call that failed last, while the frontier does not answer."""
        self.calls = 0
        """Calls of the frontier so far."""
        self.seeds: Seeds | None = None
        """Of a spider that gets its start requests from elsewhere."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being said, nor to be said."""
        return not (self._courier.is_busy or len(self._outbox) or self.releases)

    def tick(self) -> None:
        """Say what is most urgent, if anything is."""
        now = self._clock()
        if self._courier.is_busy or now < self._not_before:
            return
        if not self.is_open:
            self._open(now)
        elif now >= self._beat_at + self._ttl / 3 or self._owner.paused:
            self._beat(now)
        elif self._has_unstored:
            self._store()
        elif self.releases:
            self._release(now)
        elif self._unsettled:
            self._settle()
        elif (host := self._next_wanted(now)) is not None:
            self._ask_for(host, now)
        elif self._is_turn_due(now):
            self._turn(now)
        elif not self._owner.is_closing and not self._take_seeds(now):
            self._poll(now)

    def hold_back(self, seconds: float) -> None:
        """Say nothing for so long."""
        self._not_before = self._clock() + seconds

    # Calls

    def _send(
        self,
        call: Callable[[], Any],
        told: Callable[[Any], None],
        *,
        name: str,
        gives: bool = False,
    ) -> None:
        def answered(answer: Any, error: BaseException | None) -> None:
            if error is None:
                self._on_success(name)
                try:
                    told(answer)
                except Exception as own:
                    self._owner.on_failed(own)
            else:
                self._on_error(error, name, gives=gives)
            self.tick()

        self.calls += 1
        self._courier.send(call, answered)

    def _on_success(self, name: str) -> None:
        if self._told_of and name in (self._told_of, *PROOFS) and not self._has_unstored:
            self._told_of = ""
            logger.info("the frontier answers again: the crawl goes on")

    def _on_error(self, error: BaseException, name: str, *, gives: bool) -> None:
        if isinstance(error, SessionLostError):
            self._on_lost()
        elif isinstance(error, UnavailableError):
            self._has_unstored = self._has_unstored or isinstance(error, UnstoredError)
            self._not_before = self._clock() + AGAIN
            self._outbox.forget_known()
            if name == "beat":  # what it had to say was not heard
                self._beat_at = -math.inf
                self._owner.paused |= self._telling
            self._unsettled = self._unsettled or gives
            is_told, self._told_of = bool(self._told_of), name
            if not is_told:
                logger.warning(
                    "the frontier does not answer, nothing is lost and it is asked again every "
                    "second: %s",
                    error,
                )
        else:
            self._owner.on_failed(error)

    def _on_lost(self) -> None:
        logger.warning(
            "this worker could not say for %g s that it lives (ADAPTIVE_FRONTIER_LEASE): its hosts "
            "are others' by now, and it begins anew",
            self._ttl,
        )
        self.is_open = False
        self._unsettled = False
        self.releases.clear()
        self._rights.give_up()
        self._owner.on_lost(None)

    def _open(self, now: float) -> None:
        def opened(begins: bool) -> None:
            self.is_open = True
            self._rights.live_until(now + self._ttl)
            self._beat_at = now
            self._polled_at, self.is_dry = -math.inf, False
            self._owner.on_opened(begins)

        self._send(lambda: self._frontier.open(*self._named), opened, name="open")

    def _beat(self, now: float) -> None:
        """Say that this worker lives, and what the next one should know: a pause at once, and all
        of it a few times while a lease lasts."""
        is_whole = now >= self._beat_at + self._ttl / 3
        whole_at = now if is_whole else self._beat_at
        states = dict(self._owner.paused_states())
        if is_whole:
            states |= self._owner.states(everything=False)
        self._telling, self._owner.paused = self._owner.paused, set()
        may_take = self._owner.may_poll() and not self._owner.is_closing and not self._has_unstored
        hungry = self._is_hungry and may_take  # else others would leave what it does not take

        def beaten(beat: Beat) -> None:
            was_cut_off = not self._rights.are_alive  # what came to the gate meanwhile was let go
            self._rights.live_until(now + self._ttl)
            self._beat_at = whole_at
            if self._generation not in (None, beat.generation):
                self._swaps = True
            self._generation = beat.generation
            if beat.is_unsure:
                self._outbox.forget_known()
            held = len(self._rights.leases) + len(self.releases)
            differs = beat.is_unsure or was_cut_off or beat.held != held
            self._unsettled = self._unsettled or differs
            self._owner.on_wanted(beat.wanted)

        self._send(lambda: self._frontier.beat(states, hungry=hungry), beaten, name="beat")

    def _settle(self) -> None:
        held = {lease: list(ids) for lease, ids in self._owner.held().items()}
        for done in self._outbox.done:
            held.setdefault(done.lease, []).append(done.id)

        def settled(lost: list[Lease]) -> None:
            self._unsettled = False
            self.is_dry = False
            if lost:
                self._owner.on_lost(lost)

        self._send(lambda: self._frontier.settle(held), settled, name="settle")

    def _store(self) -> None:
        """Have items stored that could not be: what is done meanwhile may have lost some."""

        def stored(_: None) -> None:
            self._has_unstored = False
            self._on_success(self._told_of)
            self._outbox.forget_done()
            self._unsettled = True

        self._send(self._before_turn, stored, name="store")

    def _release(self, now: float) -> None:
        some = list(islice(self.releases, MOST_RELEASED))
        leaving = {release.lease for release in some}
        if any(done.lease in leaving for done in self._outbox.done):
            self._turn(now)
            return

        def released(_: None) -> None:
            for release in some:
                if self.releases and self.releases[0] is release:
                    self.releases.popleft()

        self._send(lambda: self._frontier.release_all(some), released, name="release")

    def _next_wanted(self, now: float) -> str | None:
        leaving = {release.lease.host for release in self.releases}
        for host in self._rights.wanted:
            if host not in leaving and now >= self._asked_at.get(host, -math.inf) + ASK_AGAIN:
                return host
        return None

    def _ask_for(self, host: str, now: float) -> None:
        self._asked_at[host] = now

        def answered(leased: Leased) -> None:
            for held in leased.held:
                self._asked_at.pop(host, None)
                self._owner.on_held(held)

        self._send(lambda: self._frontier.lease(1, 0, only=host), answered, name="ask", gives=True)

    def _is_turn_due(self, now: float) -> bool:
        if not (len(self._outbox) or (self.seeds is not None and self.seeds.written)):
            return False
        if self._owner.is_closing or self._outbox.done_count >= FLUSH_DONE:
            return True
        unsent = sum(map(len, self._owner.unsent().values()))
        each = self._frontier.turn_each if unsent >= ENOUGH else FLUSH
        return now >= self._flushed_at + each

    def _turn(self, now: float) -> None:
        done, new = self._outbox.take()
        is_whole = not self._outbox.has_more
        self._flushed_at = now if is_whole else -math.inf
        # Links that wait come first: more pages would only bring more of them.
        refill = {} if self._owner.is_closing or not is_whole else self._owner.dry_hosts()
        written = self.seeds.take_written() if self.seeds is not None and is_whole else []

        def call() -> Turn:
            if done:
                self._before_turn()
            if written and self.seeds is not None:
                self.seeds.frontier.seeds_written(written)
            return self._frontier.turn(done, new, refill)

        def turned(turn: Turn) -> None:
            self._outbox.confirm()
            self.is_dry = False
            lost = [lease for lease, visits in turn.refills.items() if visits is None]
            if lost:
                self._owner.on_lost(lost)
            for lease, visits in turn.refills.items():
                if visits:
                    self._owner.on_given(lease, visits)

        self._send(call, turned, name="turn", gives=bool(refill))

    def _take_seeds(self, now: float) -> bool:
        """Take more of them, where there is room; returns whether they are asked for."""
        seeds = self.seeds
        if seeds is None or len(self._outbox) or not self._owner.may_poll():
            return False
        orders = self._strategy.orders
        most = min(seeds.most, max(1, orders // 2))
        room = orders - sum(map(len, self._owner.unsent().values()))
        if room < most or not seeds.are_due(now):
            return False
        self._send(lambda: seeds.take(most), seeds.on_taken, name="seeds")
        return True

    def _poll(self, now: float) -> None:
        owner = self._owner
        if not owner.may_poll():
            return
        unsent = owner.unsent()
        orders = sum(map(len, unsent.values()))
        hosts = sum(map(bool, unsent.values()))
        since = math.inf if self.polls_at_once else now - self._polled_at
        back: Mapping[Lease, Sequence[int]] = {}
        if self._swaps:
            back, orders, hosts = unsent, 0, 0
            wanted = self._strategy.orders
        else:
            wanted = self._strategy.wants(orders, hosts, since, dried_up=self.is_dry)
        if wanted <= 0:
            return
        self._polled_at, self.polls_at_once = now, False
        most_hosts = max(0, self._strategy.hosts - len(self._rights.leases))
        swaps, self._swaps = self._swaps, False
        if swaps:
            owner.take_back(back)

        def polled(leased: Leased) -> None:
            given = sum(len(held.visits) for held in leased.held)
            self.is_dry = not given
            self._is_hungry = given == 0 and not orders and most_hosts > 0
            self.wait, self.busy = leased.wait, leased.busy
            for held in leased.held:
                owner.on_held(held)
            owner.on_polled()

        self._send(
            lambda: self._frontier.lease(most_hosts, wanted, back=back),
            polled,
            name="poll",
            gives=True,
        )
