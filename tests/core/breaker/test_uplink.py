"""The crawler's own line: down when hosts that answered stop answering together."""

import pytest

from scrapy_adaptive.core.breaker.uplink import FAILING, GIVE_UP, LATELY, TEST_EVERY, Uplink


def answering(*keys: str) -> Uplink:
    """A line over which these hosts have just answered."""
    uplink = Uplink()
    for key in keys:
        uplink.on_answer(key, 0.0)
    return uplink


def cut(uplink: Uplink, now: float = 1.0) -> Uplink:
    """The same, found to be down."""
    assert [uplink.on_silence(key, now) for key in "abc"] == [False, False, True]
    return uplink


def test_three_hosts_that_stop_answering_together_are_the_line() -> None:
    uplink = cut(answering(*"abcd"))
    assert uplink.is_down
    assert uplink.failing == ("a", "b", "c")


def test_one_host_that_fails_often_is_one_host() -> None:
    uplink = answering(*"abcd")
    assert not any(uplink.on_silence("a", 1.0) for _ in range(10 * FAILING))


def test_hosts_that_never_answered_are_no_evidence() -> None:
    uplink = answering(*"ab")
    assert not any(uplink.on_silence(key, 1.0) for key in "vwxyz")


def test_a_host_that_failed_while_another_answered_is_no_evidence_until_it_answers() -> None:
    """Five hosts die in the middle of a crawl; when the others are done, that is no cut."""
    uplink = answering(*"abcde", "good")
    for key in "abcde":
        uplink.on_silence(key, 1.0)
        uplink.on_answer("good", 1.0)
    assert not any(uplink.on_silence(key, 2.0) for key in "abcde")
    uplink.on_answer("a", 3.0)
    uplink.on_answer("b", 3.0)
    uplink.on_answer("c", 3.0)
    cut(uplink, 4.0)


def test_an_answer_of_long_ago_is_no_evidence() -> None:
    uplink = answering(*"abc")
    assert not any(uplink.on_silence(key, LATELY) for key in "abc")


def test_one_test_request_leaves_at_a_time() -> None:
    uplink = cut(answering(*"abc"))
    assert uplink.hold_until(1.0) == 1.0 + TEST_EVERY
    assert uplink.hold_until(1.0 + TEST_EVERY) is None
    uplink.on_sent(4.0)
    assert uplink.hold_until(4.0) == 4.0 + TEST_EVERY


def test_a_promised_place_is_the_test_of_the_queues() -> None:
    """A request that waits at the gate may go meanwhile."""
    uplink = cut(answering(*"abc"))
    uplink.on_promised(5.0)
    assert uplink.hold_until(5.0, queued=True) == 5.0 + TEST_EVERY
    assert uplink.hold_until(5.0) is None


def test_whatever_comes_back_ends_it_at_once() -> None:
    uplink = cut(answering(*"abc"))
    uplink.on_answer("z", 1.5)
    assert not uplink.is_down
    assert uplink.hold_until(1.5) is None


@pytest.mark.parametrize(("after", "down"), [(GIVE_UP - 1.0, True), (GIVE_UP, False)])
def test_a_crawl_without_a_network_ends(after: float, down: bool) -> None:
    """From then on nothing is evidence before something has answered."""
    uplink = cut(answering(*"abc"))
    uplink.on_silence("a", 1.0 + after)
    assert uplink.is_down is down
    assert not any(uplink.on_silence(key, 1.0 + after) for key in "abc")
