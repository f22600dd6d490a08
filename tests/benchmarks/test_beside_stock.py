"""The judge of `benchmarks/beside_stock.py`, and the shapes that it draws."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.beside.compare import Result, bound_of, compare, failings, result_of
from benchmarks.beside.scenario import Arena, Job, Scenario, numbered
from benchmarks.beside.shapes import draw, shape_scenario
from benchmarks.instructions import counted
from docsite.hits import Hit
from tests.crawling import Crawl
from tests.servers.origin import Answer

STOCK = Result(ended=True, seconds=10.0, pages=100, items=120, hits=130)


def build(arena: Arena) -> Job:
    """Ten pages."""
    return Job(numbered(arena.site(lambda _: Answer()), 10))


ORDINARY = Scenario("ten-pages", "ten pages of a host", build)


def test_a_crawl_like_stocks_own_is_as_good() -> None:
    assert failings(ORDINARY, STOCK, STOCK) == []


def test_a_crawl_may_take_a_fifth_longer_and_six_seconds() -> None:
    assert bound_of(ORDINARY, STOCK) == pytest.approx(18.0)
    assert failings(ORDINARY, STOCK, replace(STOCK, seconds=17.9)) == []
    assert failings(ORDINARY, STOCK, replace(STOCK, seconds=18.1)) == ["too slow"]


def test_stock_is_no_faster_than_the_users_cap_allows() -> None:
    """Two requests at a time at a host that was allowed one: 20 s in the add-on's way, and 6."""
    stock = replace(STOCK, within_cap=20.0)
    assert bound_of(ORDINARY, stock) == pytest.approx(30.0)
    assert bound_of(ORDINARY, replace(STOCK, within_cap=5.0)) == bound_of(ORDINARY, STOCK)


@pytest.mark.parametrize(
    ("ours", "failed"),
    [
        (replace(STOCK, ended=False), "not ended"),
        (replace(STOCK, pages=99), "fewer pages"),
        (replace(STOCK, items=119), "fewer items"),
        (replace(STOCK, hits=131), "more hits"),
    ],
)
def test_a_crawl_that_comes_to_less_or_asks_for_more_is_worse(ours: Result, failed: str) -> None:
    assert failings(ORDINARY, STOCK, ours) == [failed]


def test_a_page_more_may_take_a_hit_more() -> None:
    assert failings(ORDINARY, STOCK, replace(STOCK, pages=102, hits=132)) == []
    assert failings(ORDINARY, STOCK, replace(STOCK, pages=102, hits=133)) == ["more hits"]


def test_where_a_site_refuses_neither_hits_nor_the_whole_time_are_compared() -> None:
    scenario = replace(ORDINARY, refuses=True)
    assert failings(scenario, STOCK, replace(STOCK, hits=500, seconds=100.0)) == []
    assert failings(replace(scenario, most=50.0), STOCK, replace(STOCK, seconds=60.0))


def test_of_a_crawl_that_is_closed_early_each_page_has_to_have_its_items() -> None:
    """Twelve items for ten pages, as stock's has."""
    scenario = replace(ORDINARY, closes_early=True)
    assert failings(scenario, STOCK, replace(STOCK, pages=10, items=12)) == []
    assert failings(scenario, STOCK, replace(STOCK, pages=10, items=11)) == ["fewer items"]


def test_a_scenario_in_which_stock_itself_comes_to_nothing_proves_nothing() -> None:
    assert failings(ORDINARY, replace(STOCK, ended=False), STOCK)


def test_a_shape_is_a_function_of_its_seed_and_number() -> None:
    assert draw(3, 5) == draw(3, 5)
    assert len({str(draw(3, n)) for n in range(30)}) == 30
    assert str(draw(3, 5)) != str(draw(4, 5))


def test_every_shape_can_be_built(tmp_path: Path) -> None:
    for number in range(1, 13):
        with ExitStack() as stack:
            assert shape_scenario(1, number).build(Arena(tmp_path, stack)).urls


def test_the_time_within_the_cap_is_that_of_the_slowest_host() -> None:
    """Ten answers of .2 s at one host, three at another, one at a time: 2 s."""
    hits = [Hit(0.0, 0.2, 200, "/", host) for host in "a" * 10 + "b" * 3]
    crawl = Crawl(0, {}, [], log="", stderr="", started_at=0.0, ended_at=1.0)
    result = result_of(ORDINARY, crawl, hits, cap=1, ended=True)
    assert result.hits == 13
    assert result.within_cap == pytest.approx(2.0)


def test_both_arms_of_a_scenario_are_crawled(tmp_path: Path) -> None:
    """Ten pages each, from sites of their own."""
    stock, ours = compare(ORDINARY, tmp_path)
    assert (stock.ended, stock.pages, stock.items, stock.hits) == (True, 10, 10, 10)
    assert (ours.ended, ours.pages, ours.items, ours.hits) == (True, 10, 10, 10)


@pytest.mark.parametrize(
    ("said", "instructions"),
    [
        ("3762976888,,instructions:u,2736,100.00,,", 3762976888),
        ("==42== \n==42== I   refs:      3,762,976,888\n", 3762976888),
        ("<not supported>,,instructions:u,0,100.00,,", None),
        ("", None),
    ],
)
def test_instructions_are_read_from_what_perf_and_valgrind_say(
    said: str, instructions: int | None
) -> None:
    assert counted(said) == instructions
