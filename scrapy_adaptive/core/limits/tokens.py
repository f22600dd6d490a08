"""Tokens of quotas whose count is kept elsewhere: taken ahead, spent here.

Laws
----
* No hit of such a quota leaves without a token, and no token is spent after its time.
* Tokens are asked for in chunks, before the last is spent; until they come nothing leaves.
* Whoever is killed wastes the tokens it holds, at most a chunk of each quota; it never overspends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from .meter import NEVER
from .rule import Rule

SHARE = 0.01
"""A chunk is such a share of the limit,"""

MOST = 100
"""and so many tokens at most."""

LOOKS = 4
"""Wallets looked at each time one is made, to forget those that are empty."""


def chunk(rule: Rule) -> int:
    """Tokens that are taken ahead at once."""
    return int(max(1, min(MOST, SHARE * rule.max_hits)))


class Ask(NamedTuple):
    """Tokens that are wanted."""

    key: str
    """Of the meter."""
    rule: Rule
    tokens: int


class Grant(NamedTuple):
    """What came of it."""

    key: str
    tokens: int
    """How many; 0 for none."""
    until: float
    """The instant until which they are good, or at which there may be some."""
    cell: int = 0
    """Where they are counted."""


@dataclass(slots=True)
class _Wallet:
    lots: list[Grant] = field(default_factory=list)
    asked: bool = False
    spent_until: float = -NEVER


class Tokens:
    """The tokens of one crawl.

    Args:
        on_wanted: called when tokens are wanted, and none were before.
    """

    def __init__(self, on_wanted: Callable[[], None]) -> None:
        self._on_wanted = on_wanted
        self._wallets: dict[str, _Wallet] = {}
        self._wanted: dict[str, Rule] = {}
        self._expired: list[Grant] = []

    def ready_at(self, key: str, rule: Rule, now: float, promised: int = 0) -> float:
        """The instant from which one more may leave; infinity while tokens are awaited."""
        wallet = self._wallet(key, now)
        if sum(lot.tokens for lot in wallet.lots) > promised:
            return -NEVER
        self._want(key, rule, wallet, now)
        return wallet.spent_until if now < wallet.spent_until else NEVER

    def take(self, key: str, rule: Rule, now: float) -> None:
        """Spend one; `ready_at` must have said that there is one."""
        wallet = self._wallet(key, now)
        first, *rest = wallet.lots
        left = first._replace(tokens=first.tokens - 1)
        wallet.lots = [left, *rest] if left.tokens else rest
        if 2 * sum(lot.tokens for lot in wallet.lots) <= chunk(rule):
            self._want(key, rule, wallet, now)

    def asks(self) -> list[Ask]:
        """What is wanted; from here on it is asked for."""
        found = [Ask(key, rule, chunk(rule)) for key, rule in self._wanted.items()]
        self._wanted.clear()
        return found

    def on_grants(self, grants: Iterable[Grant], now: float) -> None:
        """This came of what was asked for."""
        for grant in grants:
            wallet = self._wallet(grant.key, now)
            wallet.asked = False
            if not grant.tokens:
                wallet.spent_until = grant.until
            else:
                (wallet.lots if now < grant.until else self._expired).append(grant)

    def on_late(self, grants: Iterable[Grant]) -> None:
        """This came of what was asked for under former rules: it is given back."""
        self._expired += [grant for grant in grants if grant.tokens]

    def on_failed(self, asks: Iterable[Ask], until: float) -> None:
        """Whoever counts is away: it is asked again then."""
        for ask in asks:
            wallet = self._wallets.get(ask.key)
            if wallet is not None:  # what it holds is spent first
                wallet.asked, wallet.spent_until = False, until

    def on_book(self) -> None:
        """Other rules hold from here: what was taken under the former ones is given back, and asked
        for anew."""
        self._expired += [lot for wallet in self._wallets.values() for lot in wallet.lots]
        self._wallets.clear()

    def expired(self) -> list[Grant]:
        """Tokens whose time is over, unspent: they are to be given back."""
        found, self._expired = self._expired, []
        return found

    def left(self) -> Iterator[Grant]:
        """Tokens that nobody will spend."""
        yield from self.expired()
        for wallet in self._wallets.values():
            yield from wallet.lots
        self._wallets.clear()

    def _want(self, key: str, rule: Rule, wallet: _Wallet, now: float) -> None:
        if wallet.asked or now < wallet.spent_until:
            return
        wallet.asked = True
        is_first = not self._wanted
        self._wanted[key] = rule
        if is_first:
            self._on_wanted()

    def _wallet(self, key: str, now: float) -> _Wallet:
        wallet = self._wallets.get(key)
        if wallet is None:
            self._forget(now)
            wallet = self._wallets[key] = _Wallet()
        else:
            self._expire(wallet, now)
        return wallet

    def _forget(self, now: float) -> None:
        """Look at the oldest wallets: those that hold and await something become the newest."""
        for key in list(islice(self._wallets, LOOKS)):
            wallet = self._wallets.pop(key)
            self._expire(wallet, now)
            if wallet.lots or wallet.asked or wallet.spent_until > now:
                self._wallets[key] = wallet

    def _expire(self, wallet: _Wallet, now: float) -> None:
        if wallet.lots and wallet.lots[0].until <= now:
            self._expired += [lot for lot in wallet.lots if now >= lot.until]
            wallet.lots = [lot for lot in wallet.lots if now < lot.until]
