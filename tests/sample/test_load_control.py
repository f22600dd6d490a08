"""Connotea's rules, with instants worked by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from docsite.load_control import Admit, Decision, Defer, LoadControl, Refuse
from docsite.load_rules import LoadRules

CRAWLER = "Scrapy/2.19"
OTHER_CRAWLER = "Googlebot/2.1"
BROWSER = "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0"
HERE = "10.0.0.1"
THERE = "10.0.0.2"


def hit(control: LoadControl, now: float, *, address: str = HERE, agent: str = CRAWLER) -> Decision:
    """One hit that is answered at once where it is admitted."""
    decision = control.on_hit(now, address, agent)
    if decision == Admit():
        control.on_answered()
    return decision


def is_admitted(decision: Decision) -> bool:
    return isinstance(decision, Admit)


def test_a_crawler_is_refused_until_thirty_seconds_after_its_last_hit() -> None:
    """29.9 s are too few; 30 s after that, not after the page, it is let in."""
    control = LoadControl(LoadRules())
    assert is_admitted(hit(control, 100.0))
    assert hit(control, 129.9) == Refuse(
        "the last hit of Scrapy from this address is less than 30 s ago", wait=30.0
    )
    assert not is_admitted(hit(control, 130.0))
    assert is_admitted(hit(control, 160.0))


def test_a_refused_hit_may_be_told_not_to_count() -> None:
    """As in Connotea's source: 30 s after the last page, refused hits or not."""
    control = LoadControl(LoadRules(refused_hits_count=False))
    assert is_admitted(hit(control, 100.0))
    assert not is_admitted(hit(control, 129.9))
    assert is_admitted(hit(control, 130.0))


def test_two_crawlers_are_kept_two_seconds_apart() -> None:
    """Whoever they are: the second interval is the site's, not an agent's."""
    control = LoadControl(LoadRules())
    assert is_admitted(hit(control, 0.0))
    early = hit(control, 1.5, address=THERE, agent=OTHER_CRAWLER)
    assert early == Refuse("the last hit of a crawler is less than 2 s ago", wait=2.0)
    assert is_admitted(hit(control, 31.5, address=THERE, agent=OTHER_CRAWLER))


def test_one_crawler_at_two_addresses_is_two_clients() -> None:
    """30 s are per crawler and address; 2 s are for all."""
    control = LoadControl(LoadRules())
    assert is_admitted(hit(control, 0.0, address=HERE))
    assert is_admitted(hit(control, 2.0, address=THERE))


def test_two_versions_of_a_crawler_are_one_client() -> None:
    """A new version number is no new crawler."""
    control = LoadControl(LoadRules())
    assert is_admitted(hit(control, 0.0, agent="Scrapy/2.18"))
    assert not is_admitted(hit(control, 10.0, agent="Scrapy/2.19"))


@pytest.mark.parametrize("agent", [BROWSER, "curl/8.5"])
def test_the_eleventh_hit_in_fifteen_seconds_is_refused(agent: str) -> None:
    """One hit a second from 0: that at 10 is the eleventh, and those to 14 follow it. At 29.5
    nothing is left of them but 14.5 s to remember, so the next hit is let in."""
    control = LoadControl(LoadRules())
    assert all(is_admitted(hit(control, float(second), agent=agent)) for second in range(10))
    refused = Refuse("more than 10 hits in 15 s", wait=15.0)
    assert [hit(control, float(second), agent=agent) for second in range(10, 15)] == [refused] * 5
    assert is_admitted(hit(control, 29.5, agent=agent))


def test_a_browser_that_goes_on_stays_refused() -> None:
    """One hit a second is refused from the eleventh on, for an hour."""
    control = LoadControl(LoadRules())
    decisions = [hit(control, float(second), agent=BROWSER) for second in range(3600)]
    assert sum(map(is_admitted, decisions)) == 10


def test_a_hit_leaves_the_stack_after_exactly_fifteen_seconds() -> None:
    """Ten hits at 0, then one at 14.9 (refused) and one at 15.0."""
    control = LoadControl(LoadRules())
    for _ in range(10):
        hit(control, 0.0, agent=BROWSER)
    assert not is_admitted(hit(control, 14.9, agent=BROWSER))
    assert is_admitted(hit(control, 15.0, agent=BROWSER))


def test_the_sixteenth_running_request_is_deferred_and_tries_once_more() -> None:
    """It sleeps 15 s; with a place free it runs, without one it is refused."""
    control = LoadControl(LoadRules())
    for number in range(15):
        assert is_admitted(control.on_hit(0.0, f"10.0.1.{number}", BROWSER))
    assert control.on_hit(0.0, HERE, BROWSER) == Defer(15.0)
    assert control.on_woken() == Refuse("15 requests are running", wait=15.0)
    assert control.on_hit(15.0, THERE, BROWSER) == Defer(15.0)
    control.on_answered()
    assert control.on_woken() == Admit()
    assert (control.running_count, control.sleeper_count) == (15, 0)


def test_only_so_many_requests_may_sleep() -> None:
    """The eleventh is refused at once."""
    control = LoadControl(LoadRules(max_running=1))
    assert is_admitted(control.on_hit(0.0, HERE, BROWSER))
    for number in range(10):
        assert control.on_hit(0.0, f"10.0.1.{number}", BROWSER) == Defer(15.0)
    assert isinstance(control.on_hit(0.0, THERE, BROWSER), Refuse)


def test_a_paused_service_refuses_everybody_and_opens_again() -> None:
    """The switch is thrown while the site runs."""
    control = LoadControl(LoadRules(service_paused=True))
    assert hit(control, 0.0, agent=BROWSER) == Refuse("the service is paused", wait=15.0)
    control.service_paused = False
    assert is_admitted(hit(control, 0.0, agent=BROWSER))


def test_a_hit_during_the_pause_counts() -> None:
    """Every hit counts: 30 s run from the hit the pause refused."""
    control = LoadControl(LoadRules(service_paused=True))
    hit(control, 0.0)
    control.service_paused = False
    assert not is_admitted(hit(control, 29.0))


def test_an_interval_of_zero_switches_its_rule_off() -> None:
    """Ten hits of a crawler at one instant, all let in."""
    control = LoadControl(LoadRules(crawler_interval=0, any_crawler_interval=0))
    assert all(is_admitted(hit(control, 0.0)) for _ in range(10))


@pytest.mark.parametrize("end", ["on_answered", "on_woken", "on_left"])
def test_nothing_ends_that_has_not_begun(end: str) -> None:
    """Each request ends exactly once; a second end is a mistake of the caller."""
    with pytest.raises(ValueError, match=r"^nothing (runs|sleeps)$"):
        getattr(LoadControl(LoadRules()), end)()


def test_a_client_is_forgotten_when_no_rule_can_ask_for_it() -> None:
    """30 s after its last hit, at the next hit of anybody."""
    control = LoadControl(LoadRules())
    for number in range(100):
        hit(control, 0.0, address=f"10.0.1.{number}", agent=BROWSER)
    assert control.client_count == 100
    hit(control, 30.0, agent=BROWSER)
    assert control.client_count == 1


GAPS = st.floats(min_value=0.0, max_value=40.0, allow_nan=False)


@given(st.lists(st.floats(min_value=0.0, max_value=5.0), max_size=80))
def test_a_browser_is_let_in_at_most_ten_times_in_any_fifteen_seconds(gaps: list[float]) -> None:
    """Whatever the gaps between its hits."""
    control, now, admitted = LoadControl(LoadRules()), 0.0, list[float]()
    for gap in gaps:
        now += gap
        if is_admitted(hit(control, now, agent=BROWSER)):
            admitted.append(now)
    for begin in admitted:
        assert sum(begin <= instant < begin + 14.999 for instant in admitted) <= 10


@given(st.lists(GAPS, max_size=40))
def test_a_crawler_is_let_in_exactly_when_it_was_silent_for_thirty_seconds(
    gaps: list[float],
) -> None:
    """Waiting the interval succeeds, less fails, whatever came before."""
    control, now, last = LoadControl(LoadRules()), 0.0, float("-inf")
    for gap in gaps:
        now += gap
        assert is_admitted(hit(control, now)) == (last <= now - 30.0)
        last = now


class AnyCrowd(RuleBasedStateMachine):
    """Agents come, sleep, leave and are answered in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.control = LoadControl(LoadRules(max_sleepers=2, max_clients=20))
        self.now = 0.0
        self.running = 0
        self.sleeping = 0

    @rule(
        gap=st.sampled_from([0.0, 0.0, 0.0, 1.0, 40.0]),
        count=st.integers(min_value=1, max_value=12),
        first=st.integers(min_value=0, max_value=200),
        agent=st.sampled_from([CRAWLER, OTHER_CRAWLER, BROWSER, "curl/8.5", ""]),
    )
    def crowd_arrives(self, gap: float, count: int, first: int, agent: str) -> None:
        self.now += gap
        for number in range(first, first + count):
            decision = self.control.on_hit(self.now, str(number), agent)
            self.running += isinstance(decision, Admit)
            self.sleeping += isinstance(decision, Defer)

    @precondition(lambda self: self.sleeping)
    @rule()
    def sleeper_wakes(self) -> None:
        self.running += isinstance(self.control.on_woken(), Admit)
        self.sleeping -= 1

    @precondition(lambda self: self.sleeping)
    @rule()
    def sleeper_leaves(self) -> None:
        self.control.on_left()
        self.sleeping -= 1

    @precondition(lambda self: self.running)
    @rule()
    def request_is_answered(self) -> None:
        self.control.on_answered()
        self.running -= 1

    @invariant()
    def counts_are_true_and_bounded(self) -> None:
        assert self.control.running_count == self.running <= 15
        assert self.control.sleeper_count == self.sleeping <= 2
        assert self.control.client_count <= 20


AnyCrowd.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestAnyCrowd = AnyCrowd.TestCase
