"""Whatever the rules, the network, the reloads and the clocks: no window of a rule is exceeded.

Laws
----
* The server is the judge: it notes when each request arrives, and looks at every window.
* Its clock is its own: it goes on while the crawler's machine sleeps, and a little slower else.
* Numbers of a rule hold for what is sent from the reload on that brought them.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from scrapy_adaptive.core.limits.book import Book
from scrapy_adaptive.core.limits.known import KnownLimits
from scrapy_adaptive.core.limits.rule import Identity, Rule
from scrapy_adaptive.core.permit import Permit

KEYS = ("alice", "bob", "carol")
SECONDS = (0.0, 0.001, 0.05, 0.3, 1.0, 4.0, 11.0, 100.0)
DELAYS = (0.0, 0.01, 0.2, 3.0)
SLOWER = (0.0, 1e-5, 9e-5)
"""Shares by which the site's clock may be slower than the crawler's."""
WINDOWS = (0.5, 2.0, 10.0, 59.0, 60.0, 600.0)
CRAWLS, STEPS = 250, 60
HITS = (1, 2, 5, 30, 33, 80)


def words_of(chance: random.Random) -> dict[str, Any]:
    """Some words of a rule."""
    choices: dict[str, tuple[float, Callable[[], Any]]] = {
        "interval": (0.4, lambda: chance.choice([0.1, 1.0, 30.0])),
        "rate": (0.4, lambda: chance.choice([0.1, 1.0, 30.0])),
        "burst": (0.4, lambda: chance.choice([1.0, 2.5, 20.0])),
        "concurrency": (0.3, lambda: chance.randint(1, 4)),
        "hits": (0.7, lambda: (chance.choice(HITS), chance.choice(WINDOWS))),
        "paused": (0.1, lambda: chance.random() < 0.5),
        "shared": (0.4, lambda: True),
        "identity": (0.6, lambda: Identity("account", chance.choice(["*", "alice"]))),
    }
    return {word: make() for word, (share, make) in choices.items() if chance.random() < share}


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

    def __init__(self, rules: list[Rule], most: int, slower: float = 0.0) -> None:
        self.now = 1000.0
        self.asleep = 0.0
        """Seconds by which the site's clock went on while the crawler's stood."""
        self._slower = slower
        self.since: dict[str, int] = {}
        """Rule to the number of the event that brought its numbers."""
        self.known = KnownLimits(Book(rules), most=most)
        self.server = Server()
        self.queue: list[tuple[float, int, int, Permit, float]] = []
        self.numbers = itertools.count(1)
        self.reload(rules)

    def reload(self, rules: list[Rule]) -> None:
        """Other rules; those whose numbers have changed are judged anew."""
        before = self.known.book.rules
        for rule in rules:
            if rule.id not in self.since or before.get(rule.id) != rule:
                self.since[rule.id] = next(self.numbers)
                for log in (self.server.arrivals, self.server.sends):
                    for key in [key for key in log if key.partition("\x1e")[0] == rule.id]:
                        del log[key]
        self.known.on_book(Book(rules))

    def send(self, account: str, there: float, back: float) -> bool:
        """Send one, if it may go."""
        leaf = self.known.leaf(self.known.leaf_key("s", "site", "/", {"account": account}))
        blocked = self.known.blocked(leaf, self.now)
        if blocked is not None:
            assert blocked.until > self.now
            return False
        permit = Permit("s", self.now, meters=self.known.take(leaf, self.now))
        for key, _ in leaf.meters:
            self.server.sends[key].append(self.now)
        number = next(self.numbers)
        heapq.heappush(self.queue, (self.now + there, number, number, permit, back))
        return True

    def wait(self, seconds: float) -> None:
        """Time passes; messages arrive."""
        until = self.now + seconds
        while self.queue and self.queue[0][0] <= until:
            self.now, _, sent, permit, back = heapq.heappop(self.queue)
            if sent:
                for counted in permit.meters:
                    if sent > self.since.get(counted.key.partition("\x1e")[0], 0):
                        self.server.arrivals[counted.key].append(self.site_now)
                entry = (self.now + back, next(self.numbers), 0, permit, 0.0)
                heapq.heappush(self.queue, entry)
            else:
                self.known.on_ended(permit, self.now, is_hit=True)
        self.now = until

    @property
    def site_now(self) -> float:
        """The site's clock."""
        return self.now * (1.0 - self._slower) + self.asleep

    def sleep(self, seconds: float) -> None:
        """The crawler's machine sleeps; what is on its way arrives all the same."""
        self.wait(max(DELAYS))
        self.asleep += seconds

    def judge(self) -> None:
        """No rule is exceeded."""
        for key, times in self.server.arrivals.items():
            rule = self.known.book.rules.get(key.partition("\x1e")[0])
            if rule is not None:
                judge_window(rule, times)
        for key, times in self.server.sends.items():
            rule = self.known.book.rules.get(key.partition("\x1e")[0])
            if rule is not None and rule.rate < math.inf:
                judge_rate(rule, times)


def judge_window(rule: Rule, times: list[float]) -> None:
    """No window, wherever it begins, has more than the rule says."""
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


@pytest.mark.parametrize("most", [1000, 1], ids=["room for all", "no room"])
def test_no_window_is_exceeded(most: int) -> None:
    """Counted at the server, over every window of what was sent under the same numbers."""
    for seed in range(CRAWLS):
        judge_one_crawl(random.Random(seed), most)


def judge_one_crawl(chance: random.Random, most: int) -> None:
    """A crawl of chance: sends, waits, reloads."""
    made = {str(each): rule_of(each, words_of(chance)) for each in range(chance.randint(1, 3))}
    crawl = Crawl(list(made.values()), most, slower=chance.choice(SLOWER))
    for _ in range(STEPS):
        what = chance.random()
        if what < 0.5:
            account, there, back = chance.choice(KEYS), chance.choice(DELAYS), chance.choice(DELAYS)
            for _ in range(chance.randint(1, 60)):
                if not crawl.send(account, there, back):
                    break
        elif what < 0.85:
            crawl.wait(chance.choice(SECONDS))
        elif what < 0.9:
            crawl.sleep(chance.choice(SECONDS))
        else:
            number = chance.randint(0, 2)
            if what < 0.97:
                made[str(number)] = rule_of(number, words_of(chance))
            elif str(number) in made:
                del made[str(number)]
                crawl.since.pop(str(number), None)
            crawl.judge()
            crawl.reload(list(made.values()))
    crawl.wait(10.0)
    crawl.judge()
