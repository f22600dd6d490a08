"""Whatever the rules, the network and the reloads: no window of a rule is exceeded at the server.

Laws
----
* The server is the judge: it notes when each request arrives, and looks at every window.
* Numbers of a rule hold from the reload that brought them; windows that begin before are not
  judged.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_adaptive.core.facts import Permit
from scrapy_adaptive.core.limits.book import Book
from scrapy_adaptive.core.limits.known import KnownLimits
from scrapy_adaptive.core.limits.rule import Identity, Rule
from tests.core.virtual import STEADY

KEYS = ("alice", "bob", "carol")
SECONDS = st.sampled_from([0.0, 0.001, 0.05, 0.3, 1.0, 4.0, 11.0, 100.0])
DELAYS = st.sampled_from([0.0, 0.01, 0.2, 3.0])
WINDOWS = st.sampled_from([0.5, 2.0, 10.0, 59.0, 60.0, 600.0])
LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "interval": st.sampled_from([0.1, 1.0, 30.0]),
        "rate": st.sampled_from([0.1, 1.0, 30.0]),
        "burst": st.sampled_from([1.0, 2.5, 20.0]),
        "concurrency": st.integers(1, 4),
        "hits": st.tuples(st.integers(1, 80), WINDOWS),
        "paused": st.booleans(),
        "shared": st.booleans(),
        "identity": st.sampled_from([None, Identity("account", "*"), Identity("account", "alice")]),
    },
)


def rule_of(number: int, words: dict[str, Any]) -> Rule:
    """A rule of these words, with what its numbers need."""
    words = dict(words)
    most, window = words.pop("hits", (0, 0.0))
    if not most and "rate" not in words:
        words.pop("burst", None)
    return Rule(id=str(number), name=str(number), max_hits=most, window=window, **words)


@dataclass
class Server:
    """What arrives, by what a rule counts it under."""

    arrivals: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    sends: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


class Crawl:
    """Requests of three accounts, sent whenever they may be, over a network that delays them."""

    def __init__(self, rules: list[Rule], most: int) -> None:
        self.now = 1000.0
        self.since: dict[str, float] = {}
        self.known = KnownLimits(Book(rules), most=most)
        self.server = Server()
        self.queue: list[tuple[float, int, str, Permit, float]] = []
        self.numbers = itertools.count()
        self.reload(rules)

    def reload(self, rules: list[Rule]) -> None:
        """Other rules; those whose numbers have changed are judged anew."""
        before = self.known.book.rules
        for rule in rules:
            if rule.id not in self.since or before.get(rule.id) != rule:
                self.since[rule.id] = self.now
                for log in (self.server.arrivals, self.server.sends):
                    for key in [key for key in log if key.partition("\x1e")[0] == rule.id]:
                        del log[key]
        self.known.on_book(Book(rules))

    def send(self, account: str, there: float, back: float) -> bool:
        """Send one, if it may go."""
        leaf = self.known.leaf(self.known.leaf_key("s", "site", "/", {"account": account}))
        hold = self.known.hold(leaf, self.now)
        if hold is not None:
            assert hold.until > self.now
            return False
        permit = Permit("s", self.now, meters=self.known.take(leaf, self.now))
        for key, _ in leaf.meters:
            self.server.sends[key].append(self.now)
        heapq.heappush(self.queue, (self.now + there, next(self.numbers), "arrives", permit, back))
        return True

    def wait(self, seconds: float) -> None:
        """Time passes; messages arrive."""
        until = self.now + seconds
        while self.queue and self.queue[0][0] <= until:
            self.now, _, what, permit, back = heapq.heappop(self.queue)
            if what == "arrives":
                for counted in permit.meters:
                    self.server.arrivals[counted.key].append(self.now)
                entry = (self.now + back, next(self.numbers), "answered", permit, 0.0)
                heapq.heappush(self.queue, entry)
            else:
                self.known.on_ended(permit, self.now, is_hit=True)
        self.now = until

    def judge(self) -> None:
        """No rule is exceeded."""
        for key, times in self.server.arrivals.items():
            rule = self.known.book.rules.get(key.partition("\x1e")[0])
            if rule is not None:
                judge_window(rule, times, self.since[rule.id])
        for key, times in self.server.sends.items():
            rule = self.known.book.rules.get(key.partition("\x1e")[0])
            if rule is not None and rule.rate < math.inf:
                judge_rate(rule, [at for at in times if at >= self.since[rule.id]])


def judge_window(rule: Rule, times: list[float], since: float) -> None:
    """No window, wherever it begins, has more than the rule says."""
    times = sorted(at for at in times if at >= since)
    if rule.max_hits:
        for first, last in zip(times, times[rule.max_hits :], strict=False):
            assert last - first >= rule.window, rule
    if rule.interval:
        for first, last in itertools.pairwise(times):
            assert last - first >= rule.interval - 1e-9, rule


def judge_rate(rule: Rule, times: list[float]) -> None:
    """What was sent is within the bucket of the rate, wherever it begins."""
    burst = rule.burst or 1.0
    for begin, first in enumerate(times):
        for count, last in enumerate(times[begin:], 1):
            assert count <= burst + (last - first) * rule.rate + 1e-6, rule


STEPS = st.one_of(
    st.tuples(st.just("send"), st.sampled_from(KEYS), st.integers(1, 60), DELAYS, DELAYS),
    st.tuples(st.just("wait"), SECONDS),
    st.tuples(st.just("reload"), st.integers(0, 2), LIMITS),
    st.tuples(st.just("delete"), st.integers(0, 2)),
)


@settings(STEADY, max_examples=400)
@given(
    most=st.sampled_from([1000, 1]),
    rules=st.lists(LIMITS, min_size=1, max_size=3),
    steps=st.lists(STEPS, max_size=40),
)
def test_no_window_is_exceeded(
    most: int, rules: list[dict[str, Any]], steps: list[tuple[Any, ...]]
) -> None:
    """Counted at the server, over every window that begins after the numbers came."""
    made = {str(number): rule_of(number, words) for number, words in enumerate(rules)}
    crawl = Crawl(list(made.values()), most)
    for what, *details in steps:
        if what == "send":
            account, count, there, back = details
            for _ in range(count):
                if not crawl.send(account, there, back):
                    break
        elif what == "wait":
            crawl.wait(details[0])
        elif what == "reload":
            made[str(details[0])] = rule_of(*details)
            crawl.judge()
            crawl.reload(list(made.values()))
        else:
            crawl.judge()
            made.pop(str(details[0]), None)
            crawl.since.pop(str(details[0]), None)
            crawl.reload(list(made.values()))
    crawl.judge()
