"""The token bucket: never early, and as early as it said."""

import copy
import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_adaptive.core.pacing.token_bucket import TokenBucket
from tests.core.virtual import STEADY

DELAYS = st.sampled_from([0.0, 0.001, 0.1, 1.0, 7.0]) | st.floats(0.0, 4000.0)
CHANCES = st.floats(0.0, 1.0, exclude_max=True)
STEPS = st.tuples(
    st.sampled_from(["take", "drain", "accepted"]),
    st.sampled_from([0.0, 0.05, 1.0]) | st.floats(0.0, 1e4),
    DELAYS,
    CHANCES,
)
HISTORIES = st.lists(STEPS, max_size=30)


def lived(
    burst: float, history: list[tuple[str, float, float, float]]
) -> tuple[TokenBucket, float]:
    """A bucket after that history, and the time; a take that is too early is left out."""
    bucket, now = TokenBucket(burst, 0.0), 0.0
    for step, seconds, delay, chance in history:
        now += seconds
        if step == "drain":
            bucket.drain(now, delay)
        elif step == "accepted":
            bucket.on_accepted()
        elif now >= bucket.ready_at(delay):
            bucket.take(now, delay, chance)
        assert 1.0 <= bucket.capacity <= burst
        assert 0.0 <= bucket.tokens(now, delay) <= bucket.capacity
    return bucket, now


class TestPromises:
    """What holds whatever has happened before."""

    @STEADY
    @given(st.floats(1.0, 50.0), HISTORIES, DELAYS, st.floats(0.0, 1e6))
    def test_tokens_are_never_negative_and_never_above_the_burst(
        self,
        burst: float,
        history: list[tuple[str, float, float, float]],
        delay: float,
        idle: float,
    ) -> None:
        bucket, now = lived(burst, history)
        assert 0.0 <= bucket.tokens(now + idle, delay) <= bucket.capacity <= burst

    @STEADY
    @given(st.floats(1.0, 50.0), HISTORIES, DELAYS, CHANCES)
    def test_waiting_the_promised_time_admits(
        self,
        burst: float,
        history: list[tuple[str, float, float, float]],
        delay: float,
        chance: float,
    ) -> None:
        bucket, now = lived(burst, history)
        bucket.take(max(now, bucket.ready_at(delay)), delay, chance)

    @STEADY
    @given(st.floats(1.0, 50.0), HISTORIES, DELAYS, st.floats(0.0, 1.0, exclude_max=True))
    def test_waiting_less_does_not(
        self,
        burst: float,
        history: list[tuple[str, float, float, float]],
        delay: float,
        share: float,
    ) -> None:
        """Neither a part of the wait nor all of it but for the last bit."""
        bucket, now = lived(burst, history)
        ready_at = bucket.ready_at(delay)
        if ready_at > now:
            part = min(now + share * (ready_at - now), math.nextafter(ready_at, now))
            for early in (part, math.nextafter(ready_at, now)):
                with pytest.raises(ValueError, match="no token before"):
                    copy.copy(bucket).take(early, delay, 0.0)

    @STEADY
    @given(
        st.floats(1.0, 20.0),
        st.floats(0.01, 100.0),
        st.lists(st.tuples(st.floats(0.0, 500.0), CHANCES), min_size=1, max_size=60),
    )
    def test_chance_never_makes_a_send_early(
        self, burst: float, delay: float, idles: list[tuple[float, float]]
    ) -> None:
        """Between any two of a greedy client's sends, at most the burst is not paid by time."""
        bucket, sent = TokenBucket(burst, 0.0), [0.0]
        bucket.take(0.0, delay, 0.0)
        for idle, chance in idles:
            sent.append(max(sent[-1] + idle, bucket.ready_at(delay)))
            bucket.take(sent[-1], delay, chance)
        for first in range(len(sent)):
            for last in range(first, len(sent)):
                paid = (sent[last] - sent[first]) / delay
                assert last - first + 1 <= burst + paid + 1e-6

    @settings(STEADY, max_examples=50)
    @given(st.floats(0.001, 1000.0), st.lists(CHANCES, min_size=2, max_size=50))
    def test_a_gap_is_the_delay_and_at_most_a_fiftieth_more(
        self, delay: float, chances: list[float]
    ) -> None:
        bucket, sent = TokenBucket(1.0, 0.0), [0.0]
        for chance in chances:
            bucket.take(sent[-1], delay, chance)
            sent.append(bucket.ready_at(delay))
        for before, after in pairwise(sent):
            assert before + delay <= after <= before + 1.02 * delay + 1e-9 * after


class TestByHand:
    """Small numbers."""

    def test_the_first_request_goes_at_once_whatever_the_burst(self) -> None:
        for burst in (1.0, 5.0):
            bucket = TokenBucket(burst, 100.0)
            assert bucket.ready_at(3.0) == 100.0
            bucket.take(100.0, 3.0, 0.0)
            assert bucket.ready_at(3.0) == 103.0

    def test_chance_lengthens_the_next_gap_by_two_percent_at_most(self) -> None:
        """Half of the chance is one percent of ten seconds."""
        bucket = TokenBucket(1.0, 0.0)
        bucket.take(0.0, 10.0, 0.5)
        assert bucket.ready_at(10.0) == pytest.approx(10.1)

    def test_saved_tokens_go_out_at_once_and_no_more_than_the_burst(self) -> None:
        bucket = TokenBucket(3.0, 0.0)
        assert bucket.tokens(1.5, 1.0) == 2.5
        for _ in range(3):
            bucket.take(60.0, 1.0, 0.0)
        assert bucket.ready_at(1.0) == 61.0

    def test_a_new_delay_holds_from_the_next_dispatch_on(self) -> None:
        bucket = TokenBucket(1.0, 0.0)
        bucket.take(10.0, 1.0, 0.0)
        assert bucket.ready_at(4.0) == 14.0
        assert bucket.ready_at(0.5) == 10.5

    def test_several_tokens_come_one_delay_after_the_other(self) -> None:
        """Empty at 10 s, and one comes each two seconds; a bucket of three never has four."""
        bucket = TokenBucket(3.0, 10.0)
        bucket.take(10.0, 2.0, 0.0)
        instants = [bucket.ready_at(2.0, count) for count in (1, 2, 3, 4)]
        assert instants == [12.0, 14.0, 16.0, math.inf]

    def test_without_a_delay_a_token_is_always_there(self) -> None:
        bucket = TokenBucket(2.0, 5.0)
        for _ in range(10):
            bucket.take(5.0, 0.0, 0.9)
        assert bucket.tokens(5.0, 0.0) == 2.0

    def test_a_delay_that_begins_after_none_counts_from_the_last_send(self) -> None:
        bucket = TokenBucket(1.0, 0.0)
        bucket.take(5.0, 0.0, 0.0)
        assert bucket.ready_at(2.0) == 7.0

    def test_draining_loses_every_token_and_the_capacity(self) -> None:
        bucket = TokenBucket(5.0, 0.0)
        assert bucket.drain(3.0, 1.0) == 4.0
        assert bucket.tokens(3.0, 1.0) == 0.0
        assert bucket.ready_at(1.0) == 4.0
        assert bucket.tokens(100.0, 1.0) == bucket.capacity == 1.0

    def test_ten_accepted_requests_give_one_token_of_capacity_back(self) -> None:
        bucket = TokenBucket(3.0, 0.0)
        bucket.drain(0.0, 1.0)
        for _ in range(10):
            bucket.on_accepted()
        assert bucket.capacity == pytest.approx(2.0)
        assert bucket.tokens(100.0, 1.0) == pytest.approx(2.0)

    def test_the_capacity_grows_back_to_the_burst_and_no_further(self) -> None:
        bucket = TokenBucket(2.5, 0.0)
        bucket.drain(0.0, 1.0)
        for _ in range(16):
            bucket.on_accepted()
        assert bucket.capacity == 2.5
