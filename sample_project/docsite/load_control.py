"""The load control of Connotea, a bookmarking site, as pure decisions.

Laws
----
* Time is an argument, in seconds of one clock that never goes back. Nothing here waits.
* Every hit is decided once: admitted, deferred or refused, and the answer says why.
* Every hit counts, refused or not: an agent that goes on is refused for as long as it goes on.
* At most `max_running` requests run, at most `max_sleepers` wait; each ends exactly once.
* A known crawler is held to intervals, any other agent to a stack of hits; the load rule
  holds for all.
* The memory is bounded: a client is forgotten when no rule can ask for it any more.

**Source** Connotea's published source, Bibliotech::Throttle, read for its rules.
**Departs** There a refused hit counts for the stack but restarts no interval
(`refused_hits_count` chooses); browsers are exempt from the load rule, so that its limit is no
promise; and a refusal names a Retry-After, which here the site tells only if asked to.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass

from docsite.agents import Agent, AgentClass, classify
from docsite.load_rules import LoadRules


@dataclass(frozen=True, slots=True)
class Admit:
    """The request runs now; `on_answered` ends it."""


@dataclass(frozen=True, slots=True)
class Defer:
    """The request sleeps this many seconds, then asks again; `on_woken` or `on_left` ends it."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Refuse:
    """The request is answered 503. `wait` is the silence the rule asks for, in seconds."""

    reason: str
    wait: float


Decision = Admit | Defer | Refuse


class LoadControl:
    """One site's load control.

    >>> control = LoadControl(LoadRules())
    >>> control.on_hit(0.0, "10.0.0.1", "Scrapy/2.19")
    Admit()
    >>> control.on_answered()
    >>> control.on_hit(29.0, "10.0.0.1", "Scrapy/2.19").reason
    'the last hit of Scrapy from this address is less than 30 s ago'
    >>> control.on_hit(58.0, "10.0.0.1", "Scrapy/2.19").wait
    30.0
    >>> control.on_hit(88.0, "10.0.0.1", "Scrapy/2.19")
    Admit()
    """

    def __init__(self, rules: LoadRules) -> None:
        self.rules = rules
        self.service_paused = rules.service_paused
        self._stacks: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()
        self._crawler_hits: deque[float] = deque(maxlen=1)
        self._running_count = 0
        self._sleeper_count = 0

    @property
    def running_count(self) -> int:
        """Requests admitted and not yet answered."""
        return self._running_count

    @property
    def sleeper_count(self) -> int:
        """Requests deferred and not yet woken."""
        return self._sleeper_count

    @property
    def client_count(self) -> int:
        """Clients remembered."""
        return len(self._stacks)

    def on_hit(self, now: float, address: str, header: str) -> Decision:
        """A request has arrived from `address` with this User-Agent header."""
        agent = classify(header, self.rules.known_crawlers)
        refusal = self._count(now, address, agent)
        if self.service_paused:
            return Refuse("the service is paused", self.rules.sleep)
        if refusal is not None:
            return refusal
        if self._running_count < self.rules.max_running:
            return self._admit()
        if self._sleeper_count < self.rules.max_sleepers:
            self._sleeper_count += 1
            return Defer(self.rules.sleep)
        return self._overloaded()

    def on_woken(self) -> Admit | Refuse:
        """A deferred request has slept and asks its second and last time."""
        self.on_left()
        if self._running_count < self.rules.max_running:
            return self._admit()
        return self._overloaded()

    def on_left(self) -> None:
        """The client of a deferred request is gone before it was woken."""
        if self._sleeper_count == 0:
            raise ValueError("nothing sleeps")
        self._sleeper_count -= 1

    def on_answered(self) -> None:
        """An admitted request has its answer."""
        if self._running_count == 0:
            raise ValueError("nothing runs")
        self._running_count -= 1

    def _admit(self) -> Admit:
        self._running_count += 1
        return Admit()

    def _overloaded(self) -> Refuse:
        return Refuse(f"{self._running_count} requests are running", self.rules.sleep)

    def _count(self, now: float, address: str, agent: Agent) -> Refuse | None:
        """Remembers a hit, and says whether it came too soon."""
        rules = self.rules
        self._forget(now)
        if agent.kind is not AgentClass.KNOWN_CRAWLER:
            stack = self._stack(address, agent.name, rules.stack_hits)
            is_rapid = _is_full_since(stack, now - rules.stack_window)
            stack.append(now)
            reason = f"more than {rules.stack_hits} hits in {rules.stack_window:g} s"
            return Refuse(reason, rules.stack_window) if is_rapid else None
        own = self._stack(address, agent.name, 1)
        refusal = None
        if _is_full_since(own, now - rules.crawler_interval):
            interval, whose = rules.crawler_interval, f"{agent.name} from this address"
            refusal = Refuse(f"the last hit of {whose} is less than {interval:g} s ago", interval)
        elif _is_full_since(self._crawler_hits, now - rules.any_crawler_interval):
            interval = rules.any_crawler_interval
            refusal = Refuse(f"the last hit of a crawler is less than {interval:g} s ago", interval)
        if refusal is None or rules.refused_hits_count:
            own.append(now)
            self._crawler_hits.append(now)
        return refusal

    def _stack(self, address: str, name: str, length: int) -> deque[float]:
        """The last `length` hits of a client, which is now the one seen last."""
        client = (address, name)
        stack = self._stacks.setdefault(client, deque(maxlen=length))
        self._stacks.move_to_end(client)
        if len(self._stacks) > self.rules.max_clients:
            self._stacks.popitem(last=False)
        return stack

    def _forget(self, now: float) -> None:
        """Drops the clients of which no rule can ask any more."""
        while self._stacks:
            client, stack = next(iter(self._stacks.items()))
            if stack and stack[-1] > now - self.rules.memory:
                return
            del self._stacks[client]


def _is_full_since(stack: deque[float], cutoff: float) -> bool:
    """Whether a stack holds as many hits as it can, all after `cutoff`."""
    return len(stack) == stack.maxlen and stack[0] > cutoff
