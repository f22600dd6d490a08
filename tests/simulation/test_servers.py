"""Each server model, by numbers worked by hand."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_adaptive.core.types import Outcome
from scrapy_adaptive.simulation.servers.bans import BanServer, WhileBanned
from scrapy_adaptive.simulation.servers.base import Page
from scrapy_adaptive.simulation.servers.occupancy import CapServer, FreeServer, QueueServer
from scrapy_adaptive.simulation.servers.rates import allowed, constant, stepped, vanishing, waving
from scrapy_adaptive.simulation.servers.token_bucket import BucketServer, EndpointServer
from scrapy_adaptive.simulation.servers.windows import (
    CounterServer,
    LastHitServer,
    LogServer,
    WindowServer,
)
from tests.simulation.hits import PAGE, accepts, paced, server_of

YES, NO = True, False


class TestBuckets:
    """nginx and most libraries."""

    def test_a_burst_of_five_then_one_each_tenth_of_a_second(self) -> None:
        server = BucketServer(constant(10.0), 5)
        assert accepts(server, [0.0] * 6) == [YES] * 5 + [NO]
        assert accepts(server, [0.05, 0.1, 0.15, 0.2]) == [NO, YES, NO, YES]

    def test_a_wait_until_retry_at_is_accepted_and_half_of_it_is_not(self) -> None:
        server = BucketServer(constant(10.0), 1)
        accepts(server, [0.0])
        assert server.retry_at(0.02, PAGE) == pytest.approx(0.1)
        assert accepts(server, [0.05, 0.1]) == [NO, YES]

    def test_the_search_pages_own_limit_leaves_the_other_pages_alone(self) -> None:
        server = EndpointServer(
            BucketServer(constant(10.0), 3), {"search": BucketServer(constant(1.0), 1)}
        )
        kinds = ["search", "search", "page", "page", "page"]
        replies = [server.on_arrival(0.0, Page(1, kind)).outcome for kind in kinds]
        assert [o is Outcome.ACCEPTED for o in replies] == [YES, NO, YES, YES, NO]
        assert server.capacity(0.0) == 10.0


class TestWindows:
    """Counts of a period."""

    def test_an_aligned_window_begins_again_on_its_grid(self) -> None:
        server = WindowServer(constant(2.0), 10.0, begin=-4.0)
        assert accepts(server, [0.0, 1.0, 5.9, 6.0, 6.0, 15.9, 16.0]) == [
            *(YES, YES, NO),
            *(YES, YES, NO),
            YES,
        ]

    def test_a_window_of_the_first_hit_begins_with_the_next_hit(self) -> None:
        server = WindowServer(constant(2.0), 10.0, begin=None)
        assert accepts(server, [7.0, 8.0, 16.9, 18.0, 27.0, 27.9, 28.0]) == [
            *(YES, YES, NO),
            *(YES, YES, NO),
            YES,
        ]

    def test_a_log_forgets_each_hit_by_itself(self) -> None:
        server = LogServer(constant(2.0), 10.0)
        assert accepts(server, [0.0, 4.0, 9.0, 10.0, 13.0, 14.0]) == [YES, YES, NO, YES, NO, YES]

    def test_a_log_that_counts_refusals_stays_full_under_hits(self) -> None:
        server = LogServer(constant(2.0), 10.0, counts_refusals=True)
        assert accepts(server, [0.0, 4.0, 9.0, 10.0, 20.1]) == [YES, YES, NO, NO, YES]

    def test_haproxys_counter_lets_the_last_period_fade(self) -> None:
        """At 12 s four hits of the last period count 3.2: one more is 4.2, two are 5.2 > 4."""
        server = CounterServer(constant(4.0), 10.0)
        assert accepts(server, [0.0, 0.0, 0.0, 0.0]) == [YES] * 4
        assert accepts(server, [12.0, 12.0]) == [YES, NO]

    def test_connoteas_gap_begins_again_with_every_hit(self) -> None:
        server = LastHitServer(constant(0.5))
        assert accepts(server, [0.0, 1.9, 3.8, 5.8]) == [YES, NO, NO, YES]

    @pytest.mark.parametrize("spec", ["window:5/10", "log:5/10", "counter:5/10", "connotea"])
    def test_the_announced_instant_is_kept_and_a_little_earlier_is_too_early(
        self, spec: str
    ) -> None:
        server, again = server_of(spec), server_of(spec)
        for each in (server, again):
            accepts(each, [0.0] * (1 if spec == "connotea" else 5))
        at = server.retry_at(0.5, PAGE)  # type: ignore[attr-defined]
        assert accepts(server, [at]) == [YES]
        assert accepts(again, [at - 0.01]) == [NO]


class TestOccupancy:
    """Limits of what is done at once."""

    def test_a_cap_refuses_the_third_until_one_of_two_is_served(self) -> None:
        server = CapServer(constant(2.0), 0.25)
        assert accepts(server, [0.0, 0.1, 0.2, 0.25, 0.3, 0.35]) == [YES, YES, NO, YES, NO, YES]
        assert server.capacity(0.0) == 8.0

    def test_a_queue_serves_two_at_once_and_the_third_after_them(self) -> None:
        server = QueueServer(2, 0.25, constant(1.0))
        services = [server.on_arrival(now, PAGE).service for now in (0.0, 0.0, 0.0, 0.1)]
        assert services == pytest.approx([0.25, 0.25, 0.5, 0.4])
        assert server.capacity(0.0) == 8.0

    def test_random_service_takes_the_given_time_on_average(self) -> None:
        server = QueueServer(1, 0.25, constant(1.0), random.Random(1))
        services = [server.on_arrival(100.0 * hit, PAGE).service for hit in range(4000)]
        assert sum(services) / 4000 == pytest.approx(0.25, rel=0.05)

    def test_without_a_limit_everything_is_served(self) -> None:
        server = FreeServer(0.05)
        assert server.on_arrival(0.0, PAGE).service == 0.05
        assert server.capacity(0.0) == math.inf


class TestBans:
    """Bucket of 1/s, burst 1; the second hit at 0 s begins a ban of 10 s."""

    @pytest.mark.parametrize(
        ("while_banned", "over_at"),
        [
            (WhileBanned.IGNORED, 10.0),
            (WhileBanned.RESTARTS, 16.0),
            (WhileBanned.DOUBLES, 46.0),
        ],
    )
    def test_two_hits_during_a_ban(self, while_banned: WhileBanned, over_at: float) -> None:
        """At 5 s and 6 s; doubled twice, 6 s + 40 s."""
        server = BanServer(BucketServer(constant(1.0), 1), 10.0, while_banned)
        replies = [server.on_arrival(now, PAGE) for now in (0.0, 0.0, 5.0, 6.0)]
        assert [reply.banned for reply in replies] == [NO, NO, YES, YES]
        assert server.retry_at(6.0, PAGE) == over_at
        assert accepts(server, [over_at]) == [YES]
        assert server.ban_count == 1


class TestRates:
    """Limits that change."""

    def test_a_step_keeps_its_factor_from_its_instant_on(self) -> None:
        rate = stepped(constant(10.0), 0.3, 60.0)
        assert (rate(59.9), rate(60.0)) == (10.0, 3.0)

    def test_a_sine_of_sixty_per_cent_rises_first(self) -> None:
        rate = waving(constant(10.0), 0.6)
        assert [rate(at) for at in (0.0, 900.0, 2700.0)] == pytest.approx([10.0, 16.0, 4.0])
        assert allowed(rate, 0.0, 3600.0) == pytest.approx(36_000.0)

    def test_a_vanished_limit_lets_everything_through_and_returns(self) -> None:
        server = BucketServer(vanishing(constant(1.0), 10.0, 20.0), 1)
        assert accepts(server, [0.0, 0.0, 12.0, 12.1, 12.2]) == [YES, NO, YES, YES, YES]
        assert accepts(server, [25.0, 25.1, 26.1]) == [YES, NO, YES]


class TestOracle:
    """A crawler that knows the capacity is never refused, and a greedier one is."""

    SPECS = (
        *("bucket:50/1", "bucket:10/5", "window:60/60", "window:60/60,first-hit"),
        *("log:30/10", "log:30/10,counted", "counter:30/10", "cap:4/0.25", "ban:20/5/60"),
        *("connotea", "bucket:10/5,step=0.3@0", "bucket:10/1,ratelimit,retry-after"),
    )

    @pytest.mark.parametrize("spec", SPECS)
    def test_exactly_at_capacity_nothing_is_refused(self, spec: str) -> None:
        server = server_of(spec)
        assert all(accepts(server, paced(server.capacity(0.0), 300.0, start=0.003)))

    @pytest.mark.parametrize("spec", SPECS)
    def test_a_tenth_above_it_something_is(self, spec: str) -> None:
        server = server_of(spec)
        assert not all(accepts(server, paced(1.1 * server.capacity(0.0), 300.0, start=0.003)))

    BURSTS = (
        *(("bucket:2/5", 5), ("window:6/3", 6 + 6), ("log:6/3", 6), ("log:6/3,counted", 6)),
        *(("counter:6/3", 6 + 6), ("cap:2/1", 2), ("ban:2/5/10,restarted", 5)),
        *(("connotea", 1), ("endpoint:2/1", 4)),
    )

    @given(
        model=st.sampled_from(BURSTS),
        gaps=st.lists(st.sampled_from([0.0, 0.01, 0.1, 0.3, 1.0, 4.0]), max_size=80),
    )
    def test_no_interval_holds_more_than_capacity_and_burst(
        self, model: tuple[str, int], gaps: list[float]
    ) -> None:
        spec, burst = model
        server = server_of(spec)
        instants = list(itertools.accumulate(gaps))
        hits = zip(instants, accepts(server, instants), strict=True)
        accepted = [now for now, accepts in hits if accepts]
        rate = server.capacity(0.0)
        for first, begin in enumerate(accepted):
            for last, end in enumerate(accepted[first:], start=first):
                assert last - first + 1 <= rate * (end - begin) + burst + 1e-6


class TestAround:
    """Faults and headers around a server."""

    def test_noise_refuses_its_share(self) -> None:
        server = server_of("free:0.05,noise=0.05")
        served = accepts(server, paced(1.0, 10_000.0))
        assert sum(served) / 10_000 == pytest.approx(0.95, abs=0.01)

    def test_noise_and_dead_pages_take_their_share_of_the_capacity(self) -> None:
        server = server_of("bucket:100/1,noise=0.1,dead=2")
        assert server.capacity(0.0) == pytest.approx(45.0)

    def test_a_dead_page_is_refused_every_time(self) -> None:
        server = server_of("free:0.05,dead=3")
        answers = [server.on_arrival(0.0, Page(n, "page")).outcome for n in (3, 4, 3, 6)]
        assert [o is Outcome.REFUSED for o in answers] == [YES, NO, YES, YES]

    def test_retry_after_is_whole_seconds_on_refusals_only(self) -> None:
        server = server_of("bucket:0.4/1,retry-after")
        waits = [server.on_arrival(0.0, PAGE).hints.retry_after for _ in range(2)]
        assert waits == [None, 3.0]

    def test_a_fault_tells_retry_after_too(self) -> None:
        """What the limit behind it, which was hit, asks for; or what the spec says."""
        for flag, told in (("retry-after", 1.0), ("retry-after=5", 5.0)):
            server = server_of(f"bucket:10/1,dead=2,{flag}")
            assert server.on_arrival(0.0, Page(2, "page")).hints.retry_after == told
        limited = server_of("bucket:10/1,retry-after=5")
        assert [limited.on_arrival(0.0, PAGE).hints.retry_after for _ in range(2)] == [None, 5.0]

    def test_ratelimit_tells_what_remains_and_when_there_is_more(self) -> None:
        server = server_of("log:3/10,ratelimit")
        quotas = [server.on_arrival(now, PAGE).hints.quotas[0] for now in (0.0, 1.0, 2.5, 3.0)]
        assert [quota.remaining for quota in quotas] == [2, 1, 0, 0]
        assert [quota.reset for quota in quotas] == [10.0, 9.0, 8.0, 7.0]
        assert (quotas[0].limit, quotas[0].window) == (3, 10.0)

    def test_a_lying_server_says_that_everything_remains(self) -> None:
        server = server_of("log:1/10,lying=remaining")
        replies = [server.on_arrival(now, PAGE) for now in (0.0, 1.0)]
        assert replies[1].outcome is Outcome.REFUSED
        assert replies[1].hints.quotas[0].remaining == 1

    def test_a_reset_in_the_past_is_zero_or_missing(self) -> None:
        server = server_of("log:1/10,lying=reset")
        replies = [server.on_arrival(0.0, Page(number, "page")) for number in (2, 3)]
        assert [reply.hints.quotas[0].reset for reply in replies] == [0.0, None]
