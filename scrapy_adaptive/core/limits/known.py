"""The known limits of a crawl: under which of them a request comes, and whether it may go.

Laws
----
* A request may go when each of its meters lets it. It is counted in all of them, or in none.
* A promise counts as a send. It holds back other promises, never a request at the gate.
* A new book holds from the next question on; what was sent is not forgotten.
* A rule's pace replaces DOWNLOAD_DELAY for what it matches; what else its slot sends keeps that
  delay, by a meter of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping

from scrapy_adaptive.core.permit import Counted, Permit
from scrapy_adaptive.core.slot_admission import LEAST_LEAD
from scrapy_adaptive.core.types import Blocked, Reason

from .book import Book
from .leaf import FIELD, Leaf, meter_key
from .meter import NEVER, Meter
from .meter_table import SEPARATOR, MeterTable, rule_id
from .rule import ANY, Rule
from .tokens import Tokens
from .uses import Use, Uses

MOST_LEAVES = 2_000
"""Leaves whose rules are remembered; then they are all looked up anew."""

LOOK = 0.5
"""Seconds between two looks at a meter that is shared and busy."""

MOST_EXPECTED = 64
"""Meters of one slot whose rates add up to a first guess."""

CONTRADICTED = 0.95
"""Share of the rate of its rules below which a site's refusals contradict them."""

DELAY = "DOWNLOAD_DELAY"
"""Id of the rule that this setting is, for what no rule paces in a slot where some do."""

_EMPTY = Meter()
"""Any meter of which nothing is known; nothing is ever counted in it."""


class KnownLimits:
    """The rules of one crawl and their meters.

    Args:
        book: the rules that hold.
        burst: hits at once where a rule says nothing of it.
        most: meters remembered.
        delay_of: the user's own delay of a slot, in seconds.
    """

    def __init__(
        self,
        book: Book,
        *,
        burst: float = 1.0,
        most: int = 100_000,
        delay_of: Callable[[str], float] = lambda slot: 0.0,
    ) -> None:
        self.book = book
        self.expected: dict[str, float] = {}
        """Slot to the rate that its rules let pass, 1/s: a first guess, and no delay of the user's
        any more; infinity where they say nothing of the rate."""
        self.places: dict[str, int] = {}
        """Slot to the most requests in flight that rules let one of its leaves have."""
        self.naming = 0
        """Counts the changes after which a request's leaf may have another key."""
        self.uses = Uses()
        self.tokens: Tokens | None = None
        """Of quotas that are counted in a table; None where each process counts for itself."""
        self.meters = MeterTable(most, self.rule_of)
        self._burst = burst
        self._delay_of = delay_of
        self._rates: dict[str, dict[str, float]] = {}
        """Slot to meters to the rate of each."""
        self._leaves: dict[str, Leaf] = {}
        self._held: dict[str, Blocked] = {}
        """Slot to what last held requests of it."""
        self._promised: dict[str, list[float]] = {}
        """Meter to the number of promises, and the instant of the latest."""

    # Names

    def leaf_key(self, slot: str, host: str, kind: str, identities: Mapping[str, str]) -> str:
        """The key of the leaf under which such a request waits; the slot's where no rule matches.

        Args:
            host: of the request's URL, in lower case.
            kind: the class of its page.
            identities: whom it is sent as, by source.
        """
        rules = self.book.match(host, kind, identities)
        keys = [meter_key(rule, host, identities) for rule in rules if rule.limits]
        is_unpaced = slot in self.expected and not any(rule.is_pace for rule in rules)
        if is_unpaced and self._delay_of(slot):
            keys.append(f"{DELAY}{SEPARATOR}{slot}")
        return FIELD.join([slot, *keys]) if keys else slot

    def leaf(self, key: str) -> Leaf:
        """The leaf of that key; meters of rules that are gone count no more. To ask is to have no
        request of it yet."""
        found = self._leaves.get(key)
        if found is None:
            slot, *keys = key.split(FIELD)
            meters = [(each, rule) for each in keys if (rule := self.rule_of(each)) is not None]
            found = Leaf(slot, tuple(meters))
        return found

    def enter(self, key: str) -> Leaf:
        """The leaf of that key, of which there are requests: what its rules say is expected."""
        found = self._leaves.get(key)
        if found is None:
            if len(self._leaves) >= MOST_LEAVES:
                self._leaves.clear()
            found = self._leaves[key] = self.leaf(key)
            slot, meters = found
            if meters and len(self._rates.get(slot, ())) < MOST_EXPECTED:
                self._expect(found)
            elif slot in self.expected and not meters:
                self._rates[slot][slot] = self.expected[slot] = math.inf
        return found

    def rule_of(self, meter_key: str) -> Rule | None:
        """The rule under which a meter counts; None where it is gone."""
        name, _, counted = meter_key.partition(SEPARATOR)
        rule = self.book.rules.get(name)
        if rule is None and name == DELAY:
            delay = self._delay_of(counted)
            return Rule(id=DELAY, rate=1.0 / delay) if delay else None
        return rule

    def _expect(self, leaf: Leaf) -> None:
        """The rates of a slot's rules add up, where they are counted apart; what may be in flight
        does not. Where no rule counts some of its pages, nobody knows how fast these may go."""
        slot = leaf.slot
        rates = self._rates.setdefault(slot, {})
        whole = leaf._replace(meters=tuple(each for each in leaf.meters if each[1].uri == ANY))
        if whole.places:
            self.places[slot] = max(whole.places, self.places.get(slot, 0))
        if leaf.is_paced:
            key, rule = min(leaf.meters, key=_pace_of)
            rates[key] = rule.pace
            if slot in self._leaves:
                rates[slot] = math.inf
            self.naming += slot not in self.expected and self._delay_of(slot) > 0.0
            self.expected[slot] = sum(rates.values())

    # Questions

    def blocked(self, leaf: Leaf, now: float) -> Blocked | None:
        """Why no request of this leaf may be sent at `now`, and until when."""
        found: Blocked | None = None
        for key, rule in leaf.meters:
            if not rule.dry_run:
                at = self._meter(key, rule).ready_at(rule, self._burst, now)
                at = self._looked_at(key, rule, at, now)
                if self.tokens is not None and rule.is_quota:
                    at = max(at, self.tokens.ready_at(key, rule, now))
                if at > now and (found is None or at > found.until):
                    found = Blocked(at, Reason.RULE, key)
        return found

    def blocked_queued(self, leaf: Leaf, now: float, lead: float = 0.0) -> Blocked | None:
        """Why no request of this leaf may leave its queue at `now`, and until when."""
        found: Blocked | None = None
        for key, rule in leaf.meters:
            if not rule.dry_run:
                at = self.queue_at(key, rule, now, lead)
                if at > now and (found is None or at > found.until):
                    found = Blocked(at, Reason.RULE, key)
        return found

    def queue_at(self, key: str, rule: Rule, now: float, lead: float = 0.0) -> float:
        """The instant from which one more request may set out for this meter."""
        promised = self._promised.get(key)
        at = self._queue_at(key, rule, now, lead, promised)
        at = self._looked_at(key, rule, at, now)
        if self.tokens is not None and rule.is_quota:
            count = 0 if promised is None else int(promised[0])
            at = max(at, self.tokens.ready_at(key, rule, now, count))
        return at

    def _looked_at(self, key: str, rule: Rule, at: float, now: float) -> float:
        """The same instant; that of the next look, where a shared meter waits for an event: what
        frees it has another key, and wakes those that wait under that."""
        is_awaited = at == NEVER and not rule.paused
        return now + LOOK if is_awaited and self.meters.is_shared(key, rule) else at

    def _queue_at(
        self, key: str, rule: Rule, now: float, lead: float, promised: list[float] | None
    ) -> float:
        meter, lead = self._meter(key, rule), lead if lead > LEAST_LEAD else 0.0
        if promised is None:
            return meter.ready_at(rule, self._burst, now) - lead
        count, promised_at = int(promised[0]), promised[1]
        at = meter.ready_at(rule, self._burst, now, count)
        if at == NEVER or not rule.spacing:
            return at
        if meter.room(rule, self._burst, now) >= count + 1:
            return at
        spread = meter.spread_at(rule, self._burst) + count * rule.spacing - lead
        return max(promised_at + rule.spacing, spread, meter.window_at(rule, now, count))

    def meter_at(self, key: str, now: float, lead: float = 0.0) -> float:
        """The instant from which one more may set out for the meter of that key."""
        rule = self.rule_of(key)
        return now if rule is None or rule.dry_run else self.queue_at(key, rule, now, lead)

    def parked_until(self, leaf: Leaf, now: float, max_pause: float) -> float:
        """The instant until which this leaf is parked; 0 if it is not.

        A rule that is paused parks nothing: it is no end of a crawl.
        """
        blocked = self.blocked(leaf, now)
        is_parked = blocked is not None and now + max_pause < blocked.until < NEVER
        return blocked.until if blocked is not None and is_parked else 0.0

    def is_stopped(self, leaf: Leaf, now: float, max_pause: float) -> bool:
        """Whether nobody can say when it goes on, or not within so many seconds."""
        if any(rule.paused and not rule.dry_run for _, rule in leaf.meters):
            return True
        return self.parked_until(leaf, now, max_pause) > 0.0

    # Sends

    def reserve(self, leaf: Leaf, now: float) -> None:
        """Promise a place in each meter; `blocked_queued` must have said that it may go."""
        for key, _ in leaf.meters:
            promised = self._promised.setdefault(key, [0, now])
            promised[0] += 1
            promised[1] = now

    def release(self, keys: Iterable[str]) -> None:
        """End one promise in each of these meters."""
        for key in keys:
            promised = self._promised.get(key)
            if promised is not None:
                promised[0] -= 1
                if promised[0] <= 0:
                    del self._promised[key]

    def take(self, leaf: Leaf, now: float) -> tuple[Counted, ...]:
        """Count one request; `blocked` must have said that it may go."""
        counted = []
        for key, rule in leaf.meters:
            meter = self.meters.at(key, rule, now)
            use = self.uses.of(rule)
            use.sent += 1
            if rule.dry_run and meter.ready_at(rule, self._burst, now) > now:
                use.would_hold += 1
            meter.take(rule, now)
            if self.tokens is not None and rule.is_quota and not rule.dry_run:
                self.tokens.take(key, rule, now)
            counted.append(Counted(key, meter))
        return tuple(counted)

    # Facts

    def on_ended(self, permit: Permit, now: float, *, is_hit: bool, refused: bool = False) -> None:
        """A request ended: answered, or never sent."""
        for key, meter in permit.meters:
            rule = self.rule_of(key)
            meter.end(rule, now, is_hit=is_hit)
            if refused and rule is not None:
                self.uses.of(rule).refused += 1

    def on_book(self, book: Book) -> None:
        """Other rules hold from here."""
        self.book = book
        self.naming += 1
        if self.tokens is not None:
            self.tokens.on_book()
        self._leaves.clear()
        self._rates.clear()
        self._held.clear()
        self.expected.clear()
        self.places.clear()

    def forget(self, slot: str) -> None:
        """The slot is forgotten: what its rules say is looked up with its next request."""
        if slot in self._rates:
            del self._rates[slot]
            self._held.pop(slot, None)
            self.expected.pop(slot, None)
            self.places.pop(slot, None)
            self._leaves = {key: leaf for key, leaf in self._leaves.items() if leaf.slot != slot}

    def on_held(self, slot: str, blocked: Blocked) -> None:
        """Requests of this slot wait for a meter."""
        self._held[slot] = blocked
        rule = self.rule_of(blocked.meter)
        if rule is not None:
            self.uses.of(rule).held += 1

    def held(self, slot: str, now: float) -> Blocked | None:
        """What holds requests of this slot, as far as was found; None where nothing does now."""
        blocked = self._held.get(slot)
        if blocked is None or blocked.until <= now or self.rule_of(blocked.meter) is None:
            return None
        until = self.meter_at(blocked.meter, now)
        return blocked._replace(until=until) if until > now else None

    def contradiction(self, permit: Permit, refused_rate: float) -> Rule | None:
        """The rule that says more than the site allows, if one does.

        Args:
            permit: of a request that was refused.
            refused_rate: the lowest rate that the site refused to its slot, 1/s.
        """
        expected = self.expected.get(permit.key, 0.0)
        if not refused_rate < CONTRADICTED * expected < math.inf:
            return None
        rules = [rule for key, _ in permit.meters if (rule := self.rule_of(key)) is not None]
        paced = [rule for rule in rules if rule.pace < math.inf and rule.id != DELAY]
        return min(paced, key=lambda rule: rule.pace, default=None)

    # For the next crawl

    def lasting_hits(self, now: float) -> Iterator[tuple[str, str, list[tuple[float, int]]]]:
        """Hits that are counted here, and not forgotten yet: by lasting id of the rule, and what it
        counts."""
        for key, meter in self.meters:
            rule = self.book.rules.get(rule_id(key))
            if rule is not None and not meter.is_full(rule, now):
                yield rule.lasting_id, key.partition(SEPARATOR)[2], meter.lasting(rule, now)

    def recall_hits(self, lasting_id: str, key: str, times: list[tuple[float, int]]) -> None:
        """Hits of an earlier crawl go on counting."""
        for rule in self.book:
            if rule.lasting_id == lasting_id:
                for at, count in times:
                    meter_key = f"{rule.id}{SEPARATOR}{key}"
                    self.meters.at(meter_key, rule, at).recall(rule, at, count)

    def all_uses(self) -> dict[str, Use]:
        """What came of the requests under each rule, by lasting id."""
        return self.uses.lasting(self.book.rules)

    def take_uses(self) -> dict[str, Use]:
        """The same since this was asked last."""
        return self.uses.fresh(self.book.rules)

    def _meter(self, key: str, rule: Rule) -> Meter:
        return self.meters.get(key, rule) or _EMPTY


def _pace_of(counted: tuple[str, Rule]) -> float:
    """The rate of a rule that paces, 1/s; infinity for another."""
    _, rule = counted
    return rule.pace if rule.is_pace else math.inf
