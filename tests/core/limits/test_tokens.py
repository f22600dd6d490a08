"""Tokens of quotas that are taken ahead."""

from scrapy_adaptive.core.limits.book import Book
from scrapy_adaptive.core.limits.known import KnownLimits
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


def test_tokens_of_former_rules_are_given_back() -> None:
    """Of ten thousand a day a hundred are in hand: too many for a rule of ten a minute."""
    day = Rule(id="1", max_hits=10_000, window=86_400.0)
    known = KnownLimits(Book([day]))
    known.tokens = tokens = Tokens(lambda: None)
    tokens.ready_at("1", day, 0.0)
    tokens.on_grants([Grant("1", 100, 3600.0)], 0.0)
    minute = Rule(id="1", max_hits=10, window=60.0)
    known.on_book(Book([minute]))
    assert tokens.ready_at("1", minute, 0.0) > 0.0
    assert [grant.tokens for grant in tokens.expired()] == [100]
    assert [ask.rule for ask in tokens.asks()] == [minute]


def test_a_quota_that_was_spent_is_asked_for_again_under_other_rules() -> None:
    """It may allow more by now."""
    day, more = (Rule(id="1", max_hits=most, window=86_400.0) for most in (1000, 5000))
    known = KnownLimits(Book([day]))
    known.tokens = tokens = Tokens(lambda: None)
    tokens.ready_at("1", day, 0.0)
    tokens.asks()
    tokens.on_grants([Grant("1", 0, 80_000.0)], 0.0)
    known.on_book(Book([more]))
    tokens.ready_at("1", more, 0.0)
    assert [ask.rule for ask in tokens.asks()] == [more]


def test_a_hit_that_is_answered_late_counts_from_its_answer() -> None:
    """Who counts tokens has counted it when they were taken: two a minute, answered after five
    seconds, and tokens for more."""
    two = Rule(id="1", max_hits=2, window=60.0)
    known = KnownLimits(Book([two]))
    known.tokens = tokens = Tokens(lambda: None)
    leaf = known.enter(known.leaf_key("a.org", "a.org", "/", {}))
    [(key, _)] = leaf.meters
    assert known.blocked(leaf, 0.0) is not None
    tokens.on_grants([Grant(key, 4, 1000.0)], 0.0)
    counted = [each for _ in range(2) for each in known.take(leaf, 0.0)]
    for each in counted:
        each.meter.end(two, 5.0, is_hit=True)
    blocked = known.blocked(leaf, 61.0)
    assert blocked is not None
    assert 65.0 < blocked.until < 65.1


def test_a_dry_run_of_a_quota_counts_what_it_would_have_held() -> None:
    two = Rule(id="1", max_hits=2, window=60.0, dry_run=True)
    known = KnownLimits(Book([two]))
    known.tokens = Tokens(lambda: None)
    leaf = known.enter(known.leaf_key("a.org", "a.org", "/", {}))
    for _ in range(5):
        known.take(leaf, 0.0)
    assert known.uses.of(two).would_hold == 3
