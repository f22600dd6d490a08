"""The benchmark of real crawls: its sites' rules by a virtual clock, and its arithmetic."""

from pathlib import Path

import pytest

from benchmarks.crawls.limiters import Ban, Limiter, Step, TokenBucket, TwoPeriodCounter, Window
from benchmarks.crawls.measure import Hit, Outcome, first_reached, measure, per_bin
from benchmarks.crawls.side_by_side import Result
from benchmarks.crawls.sites import KINDS
from benchmarks.crawls.summary import keep, summarise
from benchmarks.crawls.table import losses, misses, table


def served(limiter: Limiter, rate: float, begin: float, end: float) -> int:
    """How many of `rate` hits a second are served from `begin` until `end`."""
    count = round((end - begin) * rate)
    return sum(limiter.hit(begin + (n + 0.5) / rate).served for n in range(count))


class TestLimiters:
    """What each rule serves."""

    def test_a_token_bucket_serves_its_burst_and_then_its_rate(self) -> None:
        bucket = TokenBucket(50.0, 20.0)
        assert [bucket.hit(7.0).served for _ in range(21)] == [True] * 20 + [False]
        assert served(bucket, 200.0, 7.0, 17.0) == pytest.approx(500, abs=1)

    def test_a_step_falls_for_the_second_third_of_the_run(self) -> None:
        step = Step(50.0, 20.0, ratio=0.3, seconds=30.0)
        thirds = [served(step, 200.0, 100.0 + at, 110.0 + at) for at in (0.0, 10.0, 20.0)]
        assert thirds == pytest.approx([520, 150, 500], abs=2)

    def test_a_step_counts_its_thirds_from_the_first_hit(self) -> None:
        step = Step(50.0, 1.0, ratio=0.3, seconds=3.0)
        step.hit(1000.0)
        assert step.hit(1001.0).served
        assert [step.hit(1001.04).served, step.hit(1001.08).served] == [False, True]

    def test_a_two_period_counter_serves_its_limit_to_who_keeps_it(self) -> None:
        assert served(TwoPeriodCounter(300, 10.0), 29.5, 0.0, 60.0) == 1770

    def test_a_two_period_counter_counts_refusals(self) -> None:
        counter = TwoPeriodCounter(300, 10.0)
        served(counter, 100.0, 0.0, 20.0)
        assert served(counter, 100.0, 20.0, 60.0) == 0

    def test_a_two_period_counter_forgets_who_was_away(self) -> None:
        counter = TwoPeriodCounter(300, 10.0)
        served(counter, 100.0, 0.0, 20.0)
        assert counter.hit(45.0).served

    def test_a_window_begins_with_the_first_hit(self) -> None:
        window = Window(2, 10.0)
        instants = (3.0, 4.0, 12.9, 13.0, 13.1, 22.0, 23.0)
        expected = [True, True, False, True, True, False, True]
        assert [window.hit(now).served for now in instants] == expected

    def test_a_window_says_what_is_left_and_when_to_come_again(self) -> None:
        window = Window(1, 10.0, headers=True)
        policy = {"RateLimit-Policy": '"default";q=1;w=10'}
        assert window.hit(0.0).headers == {**policy, "RateLimit": '"default";r=0;t=10'}
        assert window.hit(7.5).headers == {
            **policy,
            "RateLimit": '"default";r=0;t=3',
            "Retry-After": "3",
        }

    def test_coming_again_when_told_is_early_enough(self) -> None:
        window = Window(1, 10.0, headers=True)
        window.hit(0.25)
        refused = window.hit(3.1)
        assert window.hit(3.1 + int(refused.headers["Retry-After"])).served

    def test_a_ban_begins_anew_with_each_hit(self) -> None:
        ban = Ban(1.0, 1.0, 10.0)
        verdicts = [ban.hit(now) for now in (0.0, 0.1, 10.0, 19.9, 29.9)]
        assert [verdict.served for verdict in verdicts] == [True, False, False, False, True]
        assert [verdict.banned for verdict in verdicts] == [False, False, True, True, False]

    def test_a_step_serves_its_integral(self) -> None:
        kind = next(kind for kind in KINDS if kind.name == "step")
        assert kind.capacity(180.0) == pytest.approx(60 * 50 + 60 * 15 + 60 * 50)
        assert [kind.limit_at(at, 180.0) for at in (0.0, 60.0, 120.0)] == [50.0, 15.0, 50.0]


class TestMeasure:
    """What is counted from a site's log."""

    def test_pages_count_once_and_only_within_the_run(self) -> None:
        hits = [
            Hit(9.0, 9.1, 200, "/early"),
            Hit(10.1, 10.2, 200, "/a"),
            Hit(10.5, 10.7, 200, "/a"),
            Hit(11.0, 11.3, 429, "/b", banned=True),
            Hit(11.5, 11.6, 503, "/b"),
            Hit(11.9, 12.1, 200, "/late"),
        ]
        outcome = measure(
            "arm",
            hits,
            {"lost": 3, "cpu": 0.5},
            began_at=10.0,
            seconds=2.0,
            capacity=4.0,
            limit=2.0,
        )
        assert (outcome.goodput, outcome.refused, outcome.hits) == (25.0, 50.0, 4)
        assert (outcome.served, outcome.refusals, outcome.banned, outcome.lost) == (1, 2, 1, 3)
        assert outcome.latency == pytest.approx(0.15)
        assert (outcome.served_series, outcome.refused_series) == ([1, 0], [0, 2])

    def test_the_limit_is_reached_with_nine_tenths_of_it_over_five_seconds(self) -> None:
        assert first_reached([float(n) for n in range(1, 9)], 1.0) == 5.0
        assert first_reached([1.5 * n for n in range(20)], 1.0) is None

    def test_the_last_instant_belongs_to_the_last_second(self) -> None:
        assert per_bin([0.0, 0.9, 1.0, 3.0], 3.0) == [2, 1, 1]


def outcome(arm: str, goodput: float, refused: float, lost: int = 0) -> Outcome:
    """An arm's outcome, as far as it is judged."""
    return Outcome(arm, goodput, refused, 100, 90, 10, 0, lost, None, None, 0.0, [1] * 60, [0] * 60)


class TestJudgement:
    """What counts as a loss, and what as a miss."""

    OURS = outcome("hold", 95.0, 0.5)

    @pytest.mark.parametrize(
        ("goodput", "refused", "is_loss"),
        [
            (97.1, 0.5, True),
            (96.9, 0.5, False),
            (97.1, 0.51, False),
            (95.0, 0.29, True),
            (95.0, 0.31, False),
            (94.9, 0.0, False),
        ],
    )
    def test_a_loss_is_better_in_one_and_no_worse_in_the_other(
        self, goodput: float, refused: float, is_loss: bool
    ) -> None:
        found = losses("ban", [outcome("peer", goodput, refused), self.OURS])
        assert len(found) == is_loss

    def test_every_loss_is_told(self) -> None:
        peers = [outcome(name, 99.0, 0.0) for name in ("stock", "aimd")]
        assert [line.split()[1] for line in losses("ban", [*peers, self.OURS])] == ["stock", "aimd"]

    def test_each_bound_is_missed_for_itself(self) -> None:
        bad = outcome("hold", 91.9, 0.9, lost=1)
        assert [line.split()[1] for line in misses("ban", [bad], 60.0)] == [
            "goodput",
            "refused",
            "1",
        ]
        assert misses("ban", [outcome("hold", 92.0, 0.8)], 60.0) == []

    def test_a_long_run_against_limit_req_has_bounds_of_its_own(self) -> None:
        assert misses("limit_req-429", [self.OURS], 599.0) == []
        assert len(misses("limit_req-429", [self.OURS], 600.0)) == 2

    def test_a_line_of_the_table_is_as_wide_as_its_rule(self) -> None:
        lines = table([self.OURS]).splitlines()
        assert len({len(line) for line in lines}) == 1
        assert lines[3].startswith("hold  ")


class TestSummary:
    """What a folder of results comes to."""

    def test_it_is_of_all_kinds_that_are_kept_in_the_order_of_the_kinds(
        self, tmp_path: Path
    ) -> None:
        """Two runs; the first's miss is told in the summary of both."""
        by_name = {kind.name: kind for kind in KINDS}
        for name, command, goodput in (("step", "run a", 80.0), ("counter", "run b", 95.0)):
            arms = [outcome("botocore", 70.0, 1.0), outcome("hold", goodput, 0.1)]
            keep(tmp_path, command, Result(by_name[name], 60.0, 1800.0, arms))
        counter, step = summarise(tmp_path).split("step, 60 s")
        assert "run b" in counter
        assert "run a" in step
        assert "losses of hold: none" in step
        assert "step: goodput 80.0 %, bound 92.0 %" in step
