"""Which rules a request comes under, what it is counted under, and what holds it."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from scrapy_adaptive.core.binding import binding
from scrapy_adaptive.core.limits.book import Book
from scrapy_adaptive.core.limits.known import KnownLimits
from scrapy_adaptive.core.limits.rule import Identity, Rule
from scrapy_adaptive.core.permit import Permit
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.core.types import Blocked, Reason
from tests.core.virtual import Virtual

ALICE = Identity("account", "alice")
ANYONE = Identity("account", "*")


def rule(number: int, **words: object) -> Rule:
    """A rule that says one request a second, but for these words."""
    return Rule(id=str(number), **{"rate": 1.0, **words})  # type: ignore[arg-type]


RULES = (
    rule(1),
    rule(2, host="*.example.com"),
    rule(3, host="api.example.com"),
    rule(4, host="api.example.com", uri="/search/*"),
    rule(5, host="api.example.com", uri="/search/#"),
    rule(6, host="api.example.com", uri="/search/#", identity=ANYONE),
    rule(7, host="api.example.com", uri="/search/#", identity=ALICE),
    rule(8, name="other", host="*"),
)


@pytest.mark.parametrize(
    ("host", "kind", "identities", "matching"),
    [
        ("elsewhere.org", "/", {}, "1 8"),
        ("www.example.com", "/", {}, "2 8"),
        ("api.example.com", "/", {}, "3 8"),
        ("api.example.com", "/search/new", {}, "4 8"),
        ("api.example.com", "/search/#", {}, "5 8"),
        ("api.example.com", "/search/#", {"account": "bob"}, "6 8"),
        ("api.example.com", "/search/#", {"account": "alice"}, "7 8"),
        ("www.example.com", "/search/#", {"account": "alice"}, "2 8"),
    ],
)
def test_the_most_specific_of_each_name_counts(
    host: str, kind: str, identities: dict[str, str], matching: str
) -> None:
    found = Book(RULES).match(host, kind, identities)
    assert " ".join(each.id for each in found) == matching


def test_of_one_name_those_of_the_table_come_first() -> None:
    """However specific the other is."""
    book = Book([rule(1, host="a.org"), rule(2, is_stored=True)])
    assert [each.id for each in book.match("a.org", "/", {})] == ["2"]


def test_of_two_that_say_the_same_the_lower_id_counts() -> None:
    book = Book([rule(1), rule(2, rate=9.0)])
    assert [(tie.counts.id, tie.idle.id) for tie in book.ties] == [("1", "2")]
    assert [each.id for each in book.match("a.org", "/", {})] == ["1"]


def test_a_dry_run_takes_the_place_of_no_rule_that_holds() -> None:
    """However specific it is, and where it says the same of whom it matches; nor does one that
    holds take its place."""
    dry = (rule(2, host="a.org", dry_run=True), rule(3, dry_run=True), rule(4, host="b.org"))
    book = Book([rule(1), *dry])
    assert not book.ties
    for host, matching in (("a.org", "2 1"), ("b.org", "4 3"), ("c.org", "1 3")):
        assert " ".join(each.id for each in book.match(host, "/", {})) == matching


def virtual(*rules: Rule, ceiling: str = "aimd", **limits: float) -> Virtual:
    """A governor with these rules."""
    crawl = Virtual(Limits(start_delay=0.01, **limits), ceiling=ceiling)  # type: ignore[arg-type]
    governor = crawl.governor
    governor.known = KnownLimits(Book(rules), delay_of=lambda slot: governor.limits_of(slot).floor)
    return crawl


def leaf(crawl: Virtual, kind: str = "/", **identities: str) -> str:
    """The leaf of such a request."""
    assert crawl.governor.known is not None
    return crawl.governor.known.leaf_key("a", "a", kind, identities)


def test_a_spent_meter_is_what_binds_and_its_rule_is_named() -> None:
    """By the journal's reason."""
    crawl = virtual(rule(17, name="week", rate=math.inf, interval=30.0))
    key = leaf(crawl)
    permit = crawl.governor.take(key, crawl.now)
    assert isinstance(permit, Permit)
    crawl.accept(permit)
    crawl.wait(1.0)
    blocked = crawl.governor.reserve(key, crawl.now)
    assert blocked is not None
    assert (blocked.reason, blocked.until) == (Reason.RULE, 30.0)
    bound = binding(crawl.governor, "a", crawl.now)
    assert bound is not None
    assert bound == ("rule 17 (week)", 29.0)


@pytest.mark.parametrize("order", [1, -1])
def test_a_dry_run_beside_a_quota_takes_nothing_of_what_is_saved_of_it(order: int) -> None:
    """In whatever order they stand in the settings."""
    rules = [
        rule(1, rate=math.inf, host="a", max_hits=100, window=86_400.0),
        rule(2, rate=math.inf, host="a", max_hits=50, window=3600.0, dry_run=True),
    ][::order]
    known = KnownLimits(Book(rules))
    leaf_of = known.leaf_key("a", "a", "/", {})
    for at in [*range(95), 7200]:
        for key, meter in known.take(known.leaf(leaf_of), float(at)):
            meter.end(known.rule_of(key), float(at), is_hit=True)
    saved = {lasting_id: times for lasting_id, _, times in known.lasting_hits(7200.0)}
    assert {rule.lasting_id for rule in rules} == saved.keys()
    after = KnownLimits(Book(rules))
    for lasting_id, times in saved.items():
        after.recall_hits(lasting_id, "a", times)
    left = 0
    while after.blocked(after.leaf(leaf_of), 7200.0) is None:
        after.take(after.leaf(leaf_of), 7200.0)
        left += 1
    assert left == 4
    assert {use.sent for use in known.all_uses().values()} == {96}
    assert len(known.all_uses()) == 2


def test_identities_are_counted_apart_and_shared_rules_together() -> None:
    crawl = virtual(rule(1, identity=ANYONE), rule(2, name="all", shared=True, concurrency=2))
    alice, bob = leaf(crawl, account="alice"), leaf(crawl, account="bob")
    assert len({alice, bob, leaf(crawl)}) == 3
    assert isinstance(crawl.governor.take(alice, 0.0), Permit)
    assert isinstance(crawl.governor.take(alice, 0.5), Blocked)


def test_who_asks_of_a_slot_takes_nothing_from_what_its_rules_let_expect() -> None:
    """The slot's own key is that of pages that no rule counts; nobody has asked for one."""
    crawl = virtual(rule(1, rate=20.0), ceiling="hold")
    governor, key = crawl.governor, leaf(crawl)
    for at in (0.0, 5.0):
        assert governor.slot_key("a") == "a"
        assert governor.parked_until("a", at) == 0.0
        assert not governor.is_stopped_by_rule("a", at)
        assert isinstance(governor.take(key, at), Permit)
        assert governor.slot("a", at).expected_rate == 20.0


def test_a_rules_pace_replaces_the_delay_of_what_it_matches_and_of_nothing_else() -> None:
    """What no rule paces keeps DOWNLOAD_DELAY, by a meter of its own."""
    crawl = virtual(rule(1, uri="/api", rate=10.0), floor=5.0)
    api = leaf(crawl, "/api")
    for at in (0.0, 0.2, 0.4):
        crawl.now = at
        permit = crawl.governor.take(api, at)
        assert isinstance(permit, Permit), permit
        crawl.accept(permit)
    other = leaf(crawl, "/other")
    crawl.now = 1.0
    permit = crawl.governor.take(other, 1.0)
    assert isinstance(permit, Permit)
    crawl.accept(permit)
    crawl.now = 3.0
    blocked = crawl.governor.take(other, 3.0)
    assert isinstance(blocked, Blocked)
    assert blocked.until == pytest.approx(6.0)


def test_a_new_book_holds_at_once_and_forgets_no_hit() -> None:
    slow, fast = rule(1, rate=math.inf, interval=100.0), rule(1, rate=math.inf, interval=10.0)
    crawl = virtual(slow)
    permit = crawl.governor.take(leaf(crawl), 0.0)
    assert isinstance(permit, Permit)
    crawl.accept(permit)
    crawl.governor.on_book(Book([fast]))
    crawl.now = 5.0
    blocked = crawl.governor.blocked(leaf(crawl), 5.0)
    assert blocked is not None
    assert blocked.until == 10.0


def test_a_long_wait_parks_its_leaf_and_a_paused_rule_does_not() -> None:
    crawl = virtual(
        rule(1, uri="/api", rate=math.inf, max_hits=1, window=86_400.0),
        rule(2, uri="/admin", rate=math.inf, paused=True),
    )
    api = leaf(crawl, "/api")
    permit = crawl.governor.take(api, 0.0)
    assert isinstance(permit, Permit)
    crawl.accept(permit)
    assert crawl.governor.is_parked(api, 1.0)
    assert not crawl.governor.is_parked(leaf(crawl, "/admin"), 1.0)
    assert not crawl.governor.is_parked(leaf(crawl, "/"), 1.0)


def test_a_dry_run_holds_nobody_and_counts() -> None:
    crawl = virtual(rule(1, rate=0.01, dry_run=True))
    for at in (0.0, 1.0, 2.0):
        crawl.now = at
        permit = crawl.governor.take(leaf(crawl), at)
        assert isinstance(permit, Permit), permit
        crawl.accept(permit)
    known = crawl.governor.known
    assert known is not None
    use = known.uses.of(known.book.rules["1"])
    assert (use.sent, use.would_hold) == (3, 2)


def departures(given: Rule, late: dict[int, float]) -> list[float]:
    """When ten requests leave that are asked for as early as may be, some of them so much late."""
    known, now, found = KnownLimits(Book([given])), 1000.0, []
    of_all = known.leaf(known.leaf_key("a.org", "a.org", "/", {}))
    for number in range(10):
        blocked = known.blocked(of_all, now)
        now = (now if blocked is None else blocked.until) + late.get(number, 0.0)
        known.take(of_all, now)
        found.append(now - 1000.0)
    return found


def test_a_windows_page_that_leaves_late_is_made_up_for_by_the_next() -> None:
    """Ten a second: .1 s apart, but for half of that after one that was late; a rate's never."""
    window = Rule(id="1", max_hits=100, window=10.0)
    in_time = departures(window, {})
    assert in_time == pytest.approx([0.0, 0.05, *(0.05 + 0.1 * n for n in range(1, 9))])
    a_little_late = departures(window, {4: 0.03, 6: 0.02})
    assert a_little_late[4] == pytest.approx(in_time[4] + 0.03)
    assert a_little_late[5::2] == pytest.approx(in_time[5::2])
    much_late = departures(window, {4: 0.5})
    assert min(b - a for a, b in pairwise(much_late)) >= 0.05 - 1e-6
    rate = Rule(id="1", rate=10.0)
    assert departures(rate, {4: 0.03})[9] == pytest.approx(0.93)
    both = Rule(id="1", rate=10.0, max_hits=100, window=10.0)
    assert departures(both, {4: 0.03})[9] == pytest.approx(0.93)


def test_what_no_rule_paces_keeps_its_delay_whatever_other_hosts_do() -> None:
    """Each other host makes a meter, and those that are full are forgotten then."""
    crawl = virtual(rule(1, uri="/search", rate=10.0), floor=30.0)
    governor, known = crawl.governor, crawl.governor.known
    assert known is not None
    crawl.accept(taken(crawl, leaf(crawl, "/search")))
    crawl.wait(1.0)
    other = leaf(crawl, "/page")
    crawl.accept(taken(crawl, other))
    for host in ("b", "c", "d"):
        crawl.accept(taken(crawl, known.leaf_key(host, host, "/search", {})))
    blocked = governor.blocked(other, crawl.now)
    assert blocked is not None
    assert blocked.until == pytest.approx(31.0)


def taken(crawl: Virtual, key: str) -> Permit:
    """The permit of a request that may go."""
    permit = crawl.governor.take(key, crawl.now)
    assert isinstance(permit, Permit), permit
    return permit


@pytest.mark.parametrize("words", [{"rate": 0.1}, {"rate": math.inf, "concurrency": 1}])
def test_a_rule_for_some_pages_says_nothing_of_the_others(words: dict[str, float]) -> None:
    """Ten seconds between searches; the other pages are as fast as before, or as at a start."""
    crawl = virtual(rule(1, uri="/search", **words))
    for _ in range(20):
        crawl.accept(taken(crawl, leaf(crawl, "/page")))
        crawl.wait(0.01)
    rate = crawl.slot().rate
    crawl.accept(taken(crawl, leaf(crawl, "/search")))
    assert crawl.slot().rate >= rate


def test_a_host_that_is_searched_first_begins_with_its_other_pages_as_any_host() -> None:
    crawl = virtual(rule(1, uri="/search", rate=0.1))
    crawl.accept(taken(crawl, leaf(crawl, "/search")))
    assert crawl.slot().rate < 1.0
    page = leaf(crawl, "/page")
    assert crawl.governor.blocked(page, crawl.now) is not None
    crawl.wait(0.01)
    crawl.accept(taken(crawl, page))
    assert crawl.slot().rate == 100.0


def test_of_two_rules_the_one_for_all_pages_says_how_fast_a_host_may_begin() -> None:
    crawl = virtual(rule(1, rate=10.0), rule(2, name="searches", uri="/search", rate=0.1))
    crawl.accept(taken(crawl, leaf(crawl, "/search")))
    crawl.wait(1.0)
    crawl.accept(taken(crawl, leaf(crawl, "/page")))
    assert crawl.slot().expected_rate == pytest.approx(10.1)


def test_after_a_long_pause_a_rule_holds_its_slot_no_longer_than_none_would() -> None:
    """What was served in that hour says little of the rate; the next page waits twelve seconds."""
    crawl = virtual(rule(1), ceiling="hold")
    for page in range(5):
        crawl.accept(taken(crawl, leaf(crawl)), page=page)
        crawl.wait(1.0)
    crawl.refuse(taken(crawl, leaf(crawl)), announced=3600.0, page=9)
    crawl.wait(3600.0)
    crawl.accept(taken(crawl, leaf(crawl)), page=10)
    blocked = crawl.blocked()
    assert blocked is not None
    assert (blocked.reason, blocked.until - crawl.now) == (Reason.RECHECK, 12.0)


def test_what_rules_say_of_a_host_is_forgotten_with_its_slot() -> None:
    crawl = Virtual(max_slots=10)
    crawl.governor.known = known = KnownLimits(Book([rule(1, concurrency=4)]))
    for number in range(100):
        host = f"{number}.org"
        crawl.accept(taken(crawl, known.leaf_key(host, host, "/", {})))
        crawl.wait(1.0)
    assert max(len(known.expected), len(known.places)) <= 11
    assert taken(crawl, known.leaf_key("0.org", "0.org", "/", {}))
    assert known.expected["0.org"] == 1.0


def test_hits_of_an_earlier_crawl_that_nobody_can_have_sent_are_as_many_as_fit() -> None:
    """A file that somebody else has written says a thousand million, five times."""
    quota = rule(1, rate=math.inf, max_hits=1000, window=86_400.0)
    known = KnownLimits(Book([quota]))
    known.recall_hits(quota.lasting_id, "a", [(10.0, 1_000_000_000)] * 5)
    [(_, _, times)] = known.lasting_hits(20.0)
    assert sum(count for _, count in times) == 2**32 - 1


@pytest.mark.parametrize(
    ("words", "until"),
    [
        ({"interval": 7200.0}, 7200.0),
        ({"rate": 1 / 600}, 600.0),
        ({"max_hits": 1, "window": 15.0}, 15.0),
        ({"rate": 1 / 600, "max_hits": 100, "window": 86_400.0}, 600.0),
        ({"burst": 1, "max_hits": 24, "window": 86_400.0}, 3600.0),
    ],
)
def test_what_a_rule_holds_back_it_holds_back_in_the_next_crawl(
    words: dict[str, float], until: float
) -> None:
    """One page was sent, and answered at once; the next crawl begins ten seconds later. Of many a
    day the instants are coarse: that may hold back longer, by what has passed."""
    given = rule(1, **{"rate": math.inf, **words})
    crawl, after = virtual(given), virtual(given)
    crawl.accept(taken(crawl, leaf(crawl)))
    before, known = crawl.governor.known, after.governor.known
    assert before is not None
    assert known is not None
    for lasting_id, key, times in before.lasting_hits(crawl.now):
        ages = [(min(after.now, after.now + at - crawl.now - 10.0), n) for at, n in times]
        known.recall_hits(lasting_id, key, ages)
    blocked = after.governor.blocked(leaf(after), after.now)
    assert blocked is not None
    assert until - 10.1 <= blocked.until - after.now <= until


def test_a_request_that_was_never_sent_leaves_an_instant_that_is_one() -> None:
    """It was counted by its rate when it left, and nobody has answered it."""
    given = rule(1, rate=1 / 600)
    crawl = virtual(given)
    crawl.governor.on_dropped(taken(crawl, leaf(crawl)), crawl.now)
    assert crawl.governor.known is not None
    [(_, _, times)] = crawl.governor.known.lasting_hits(crawl.now)
    assert times == [(crawl.now, 1)]


def test_who_shares_a_busy_meter_looks_again_and_does_not_wait_for_its_own_answer() -> None:
    """With one meter only, two of three accounts share one: what is under way under one key frees
    it under that key."""
    known = KnownLimits(Book([rule(1, rate=math.inf, concurrency=1, identity=ANYONE)]), most=1)
    leaves = [known.enter(known.leaf_key("s", "site", "/", {"account": each})) for each in "abc"]
    for each in leaves[:2]:
        assert known.blocked(each, 10.0) is None
        known.take(each, 10.0)
    [own, *sharing] = leaves
    assert own.meters[0][0] in dict(known.meters)
    for each in sharing:
        for blocked in (known.blocked(each, 10.0), known.blocked_queued(each, 10.0)):
            assert blocked is not None
            assert blocked.until == 10.5
    own_blocked = known.blocked(own, 10.0)
    assert own_blocked is not None
    assert own_blocked.until == math.inf
