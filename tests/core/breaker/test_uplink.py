"""The crawler's own line: down when hosts that answered stop answering together."""

import pytest

from scrapy_adaptive.core.breaker.uplink import (
    FAILING,
    FIRST_TEST,
    GIVE_UP,
    HEAD_START,
    LATELY,
    PROOF,
    TEST_EVERY,
    Uplink,
)


def answering(*keys: str) -> Uplink:
    """A line over which these hosts have just answered."""
    uplink = Uplink()
    for key in keys:
        uplink.on_answer(key, 0.0)
    return uplink


def cut(uplink: Uplink, now: float = 1.0) -> Uplink:
    """The same, found to be down."""
    assert [uplink.on_unanswered(key, now) for key in "abc"] == [False, False, True]
    return uplink


def test_three_hosts_that_stop_answering_together_are_the_line() -> None:
    uplink = cut(answering(*"abcd"))
    assert uplink.is_down
    assert uplink.failing == ("a", "b", "c")


def test_one_host_that_fails_often_is_one_host() -> None:
    uplink = answering(*"abcd")
    assert not any(uplink.on_unanswered("a", 1.0) for _ in range(10 * FAILING))


def test_hosts_that_never_answered_are_no_evidence() -> None:
    uplink = answering(*"ab")
    assert not any(uplink.on_unanswered(key, 1.0) for key in "vwxyz")


def test_a_host_that_failed_while_another_answered_is_no_evidence_until_it_answers() -> None:
    """Five hosts die in the middle of a crawl; when the others are done, that is no cut."""
    uplink = answering(*"abcde", "good")
    for key in "abcde":
        uplink.on_unanswered(key, 1.0)
        uplink.on_answer("good", 1.0)
    assert not any(uplink.on_unanswered(key, 2.0) for key in "abcde")
    uplink.on_answer("a", 3.0)
    uplink.on_answer("b", 3.0)
    uplink.on_answer("c", 3.0)
    cut(uplink, 4.0)


def test_an_answer_of_long_ago_is_no_evidence() -> None:
    uplink = answering(*"abc")
    assert not any(uplink.on_unanswered(key, LATELY) for key in "abc")


def test_one_test_request_leaves_at_a_time_each_wait_twice_as_long_up_to_the_longest() -> None:
    uplink = cut(answering(*"abc"))
    now, waits = 1.0, []
    for _ in range(7):
        until = uplink.hold_until(now)
        assert until is not None
        assert uplink.hold_until(until) is None
        waits.append(until - now)
        now = until
        uplink.on_sent("a", now)
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0])
    assert waits[0] == pytest.approx(FIRST_TEST)
    assert waits[-1] == pytest.approx(TEST_EVERY)


def test_tests_of_other_hosts_follow_shortly_until_the_line_is_proven_down() -> None:
    """Of a few hosts that die in the same instant not all are known to fail yet."""
    uplink = cut(answering(*"abc"))
    now, waits = 1.0, []
    for key in "defghij":
        until = uplink.hold_until(now)
        assert until is not None
        waits.append(until - now)
        now = until
        uplink.on_sent(key, now)
        uplink.on_unanswered(key, now, now)
    assert waits == pytest.approx([0.1] * (PROOF + 1) + [0.2])


def test_the_next_cut_begins_with_a_short_wait_again() -> None:
    uplink = cut(answering(*"abcdef"))
    for _ in range(5):
        uplink.on_sent("a", 4.0)
    uplink.on_answer("d", 5.0)
    assert [uplink.on_unanswered(key, 6.0) for key in "def"] == [False, False, True]
    assert uplink.hold_until(6.0) == 6.0 + FIRST_TEST


def test_a_promised_place_is_the_test_of_the_queues() -> None:
    """A request that waits at the gate may go meanwhile."""
    uplink = cut(answering(*"abc"))
    uplink.on_promised(5.0)
    assert uplink.hold_until(5.0, queued=True) == 5.0 + FIRST_TEST
    assert uplink.hold_until(5.0) is None


def test_hosts_that_are_not_known_to_fail_are_tested_first() -> None:
    """They have a head start; where there are none, those that fail are tested."""
    uplink = cut(answering(*"abcd"))
    due = 1.0 + FIRST_TEST
    assert uplink.hold_until(due, queued=True) is None
    assert uplink.hold_failing_until("d", due) is None
    assert uplink.hold_failing_until("a", due) == due + HEAD_START
    assert uplink.hold_failing_until("a", due + HEAD_START) is None
    uplink.on_answer("d", due)
    assert uplink.hold_failing_until("a", due) is None


def test_whatever_comes_back_ends_it_at_once() -> None:
    uplink = cut(answering(*"abc"))
    uplink.on_answer("z", 1.5)
    assert not uplink.is_down
    assert uplink.hold_until(1.5) is None


def test_a_cut_is_proven_by_five_tests_that_fail_and_not_by_what_was_sent_before_it() -> None:
    uplink = cut(answering(*"abcdef"))
    proven = []
    for key, sent_at in (("d", 0.9), ("e", 0.9), *((key, 1.2) for key in "abcde")):
        uplink.on_unanswered(key, 2.0, sent_at)
        proven.append(uplink.cut.is_proven)
    assert proven == [False] * 6 + [True]
    first = uplink.cut
    uplink.on_answer("z", 2.0)
    assert uplink.cut is first
    for key in "abc":
        uplink.on_answer(key, 3.0)
    assert not cut(uplink, 4.0).cut.is_proven
    assert first.is_proven


@pytest.mark.parametrize(("after", "down"), [(GIVE_UP - 1.0, True), (GIVE_UP, False)])
def test_a_crawl_without_a_network_ends(after: float, down: bool) -> None:
    """From then on nothing is evidence before something has answered."""
    uplink = cut(answering(*"abc"))
    uplink.on_unanswered("a", 1.0 + after)
    assert uplink.is_down is down
    assert not any(uplink.on_unanswered(key, 1.0 + after) for key in "abc")
