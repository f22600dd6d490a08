"""Which class of pages a refusal is about: numbers worked by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

import pytest

from scrapy_adaptive.core.diagnosis.page_classes import (
    DEPTH,
    DOUBT,
    MOST,
    Classes,
    Families,
    normalised,
)
from scrapy_adaptive.core.evidence import BLIND
from scrapy_adaptive.core.state.reading import Clock, read_into
from scrapy_adaptive.core.state.writing import written


def served(**counts: int) -> Classes:
    """What was served lately, by class."""
    classes = Classes()
    for kind, count in counts.items():
        for _ in range(count):
            classes.on_accepted(kind)
    return classes


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/entity/123/version/7", "/entity/#/version/#"),
        ("/v2/users/550e8400-e29b-41d4-a716-446655440000", "/v2/users/#"),
        ("/2024/05/17/how-to-be-polite.html", "/#/#/#/#"),
        ("/api/search", "/api/search"),
        ("/commit/0fcafe12", "/commit/#"),
        ("/about-us/", "/about-us/"),
        ("/a-very-long-word-in-one", "/#"),
        ("/%C3%9Cber", "/#"),
        ("", "/"),
    ],
)
def test_numbers_and_identifiers_give_way_and_names_stay(path: str, kind: str) -> None:
    assert normalised(path) == kind


def test_values_of_a_query_never_count_and_its_name_only_where_the_path_is_none() -> None:
    assert normalised("/search", "q=shoes") == "/search"
    assert normalised("/", "s=shoes") == normalised("/", "s=boots&page=2") == "/?s"
    assert normalised("/index.php", "id=7") == "/index.php?id"


def test_a_class_is_short_whatever_the_path() -> None:
    assert normalised("/name" * 1000).count("/") == DEPTH
    assert len(normalised("/" + "x" * 100_000, "y" * 100_000)) < 200


def test_a_class_refused_ten_times_its_share_is_found_within_eight_epochs() -> None:
    """Of 50 pages 9 were searches: (9 + 1) / (50 + 1) / 0.8 = 0.245 each, after the first."""
    classes = served(page=41, search=9)
    chances = [classes.on_epoch("search") for _ in range(8)]
    assert chances[:3] == pytest.approx([1.0, 0.245, 0.060], abs=0.001)
    assert chances[2] < DOUBT
    assert chances[6] > BLIND > chances[7]


def test_refusals_of_a_common_class_are_no_evidence() -> None:
    classes = served(page=45, search=5)
    assert [classes.on_epoch("page") for _ in range(50)] == [1.0] * 50


def test_refusals_of_every_class_as_often_as_it_is_served_are_no_evidence() -> None:
    """Each of five classes in turn: no chance ever falls under the first hit's."""
    classes = served(a=10, b=10, c=10, d=10, e=10)
    assert min(classes.on_epoch("abcde"[n % 5]) for n in range(100)) > DOUBT


def test_two_limited_classes_are_found_though_each_begins_half_of_the_epochs() -> None:
    classes = served(page=44, search=3, export=3)
    choose = Random(1).choice
    assert min(classes.on_epoch(choose(["search", "export"])) for _ in range(200)) < BLIND


def test_many_limited_classes_are_found_though_each_is_refused_as_it_is_served() -> None:
    """Of ten classes in turn the last three are close (.3 of ten), and no served page is close to
    its own: a refused one that is counts as (0 + 1) / (60 + 1) / .8 = .0205, if not alone."""
    classes = Classes()
    for n in range(60):
        classes.on_accepted(f"/{n % 10}")
    chances = [classes.on_epoch(f"/{n % 10}") for n in (59, 58, 57)]
    assert chances == pytest.approx([1.0, 0.0205**2, 0.0205**3], rel=0.01)
    assert chances[2] < BLIND


ORDERS: dict[str, Callable[[Random, int], int]] = {
    "any": lambda chance, n: chance.randrange(10),
    "fifty of each in a row": lambda chance, n: n // 50 % 10,
    "each in turn": lambda chance, n: n % 10,
    "one list and twenty of its pages": lambda chance, n: min(1, n % 21),
    "rows of three": lambda chance, n: n // 3 * 7 % 10,
    "in any order for a while, then in rows": lambda chance, n: (
        chance.randrange(10) if n // 100 % 2 else n // 5 % 10
    ),
}
"""Class of the page of that number."""


@pytest.mark.parametrize("order", list(ORDERS))
def test_a_limit_that_is_blind_to_classes_is_not_taken_for_theirs(order: str) -> None:
    """Each 15th page or so is refused, in whatever order classes come; it is fetched again soon."""
    chance, classes, choose = Random(3), Classes(), ORDERS[order]
    chances = []
    for n in range(20_000):
        kind = f"/{choose(chance, n)}"
        if chance.random() < 1.0 / 15.0:
            chances.append(classes.on_epoch(kind))
        classes.on_accepted(kind)
    assert len(chances) > 1000
    assert min(chances) > BLIND


def test_a_crawl_that_turns_to_other_pages_makes_them_common_soon() -> None:
    classes = served(a=1000, b=100)
    assert classes.share("b") > 0.75
    assert classes.share("a") < 0.25


def test_memory_is_bounded_by_what_was_served_lately() -> None:
    classes = Classes()
    for n in range(10_000):
        classes.on_accepted(f"/{n}")
    assert len(classes._served) <= 65


def test_a_class_of_its_own_is_counted_no_more() -> None:
    classes = served(page=30, search=20)
    classes.forget("search")
    assert classes.share("page") == 1.0


def test_slots_of_one_family_know_each_other() -> None:
    families = Families(100)
    assert families.add("a", "/x") == "a /x"
    assert families.host_of("a /x") == "a"
    assert families.host_of("a") is None
    assert families.of("a") == families.of("a /x") == ("a", "a /x")
    assert families.of("b") == ("b",)


def test_a_host_has_a_bounded_number_of_classes_and_a_class_has_none() -> None:
    families = Families(100)
    keys = [families.add("a", f"/{n}") for n in range(MOST + 1)]
    assert keys[-1] is None
    assert None not in keys[:-1]
    assert families.add("a /1", "/x") is None
    assert Families(1).add("a", "/x") == "a /x"


def test_a_remembered_key_makes_its_family_again() -> None:
    families = Families(100)
    for key in ("a", "my slot", "a /search/#"):
        families.recall(key)
    assert families.of("a") == ("a", "a /search/#")
    assert "my slot" not in families


def test_of_many_classes_the_shares_are_of_those_that_were_kept() -> None:
    """Two pages each of 30 classes; the latest sixteen are kept: 2 of 32."""
    classes = served(**{f"k{number}": 2 for number in range(30)})
    read = Classes()
    read_into(read, json.loads(json.dumps(written(classes, Classes(), 0.0))), Clock(0.0, 0.0))
    assert read.share("k29") == pytest.approx((2 + 1) / (32 + 1))
