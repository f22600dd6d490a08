"""Tokens of quotas that are taken ahead."""

from scrapy_adaptive.core.limits.rule import Rule
from scrapy_adaptive.core.limits.tokens import LOOKS, Grant, Tokens

MINUTE = Rule(id="1", max_hits=1000, window=60.0)


def granted(tokens: Tokens, key: str, count: int, until: float, now: float) -> None:
    """So many are asked for, and come."""
    tokens.ready_at(key, MINUTE, now)
    assert [ask.key for ask in tokens.asks()] == [key]
    tokens.on_grants([Grant(key, count, until)], now)


def test_what_is_in_hand_is_spent_while_whoever_counts_is_away() -> None:
    tokens = Tokens(lambda: None)
    granted(tokens, "a", 10, 2.4, 0.0)
    for _ in range(6):  # half is spent: more are asked for
        tokens.take("a", MINUTE, 0.1)
    tokens.on_failed(tokens.asks(), 5.2)
    for _ in range(4):
        assert tokens.ready_at("a", MINUTE, 0.2) < 0.2
        tokens.take("a", MINUTE, 0.2)
    assert tokens.ready_at("a", MINUTE, 0.2) == 5.2
    assert not tokens.asks()


def test_what_is_empty_is_forgotten_and_what_is_over_is_given_back() -> None:
    """A thousand accounts, each asked for once."""
    tokens = Tokens(lambda: None)
    for number in range(1000):
        granted(tokens, f"{number}", 3, number + 2.5, float(number))
    assert sum(grant.tokens for grant in tokens.expired()) >= 3 * (1000 - 3 * LOOKS)
    assert sum(1 for _ in tokens.left()) <= 3 * LOOKS
