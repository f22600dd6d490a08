"""A page that is refused whatever the pace is distinguished from a pace that is too high."""

import pytest

from scrapy_adaptive.core.diagnosis.broken_pages import MINUTE, MOST_PAGES, Blame, SuspectedPages


def refused_once() -> SuspectedPages:
    """Page "a" was refused alone in its epoch, another was excused a minute ago."""
    suspected = SuspectedPages(excused_at=0.0)
    suspected.on_epoch()
    suspected.on_refused("a")
    return suspected


@pytest.fixture
def suspected() -> SuspectedPages:
    """Page "a" was refused alone in its epoch."""
    return refused_once()


def served(suspected: SuspectedPages, count: int) -> SuspectedPages:
    """So many other pages are accepted."""
    for _ in range(count):
        suspected.on_accepted(None)
    return suspected


def blamed(
    suspected: SuspectedPages,
    page: str | None,
    *,
    probe: bool = False,
    recheck: bool = False,
    now: float = MINUTE,
    noise: float = 0.0,
) -> Blame:
    """A refusal arrives: what is to blame; it is remembered where that is the pace."""
    blame = suspected.blame(page, probe=probe, recheck=recheck, now=now, noise=noise)
    if blame is Blame.PACE:
        suspected.on_refused(page)
    return blame


def test_nothing_is_suspected_at_first() -> None:
    suspected = SuspectedPages()
    assert not suspected
    assert "a" not in suspected
    assert suspected.sole is None


def test_a_page_refused_alone_is_suspected(suspected: SuspectedPages) -> None:
    assert suspected
    assert "a" in suspected
    assert suspected.sole == "a"


def test_the_same_page_refused_twice_in_an_epoch_is_still_alone(suspected: SuspectedPages) -> None:
    suspected.on_refused("a")
    assert suspected.sole == "a"


def test_two_pages_of_one_epoch_suspect_neither(suspected: SuspectedPages) -> None:
    suspected.on_refused("b")
    suspected.on_refused("a")
    assert suspected.sole is None


def test_a_page_without_a_name_is_never_blamed(suspected: SuspectedPages) -> None:
    suspected.on_refused(None)
    assert suspected.sole == "a"
    assert suspected.blame(None, probe=True, recheck=True) is Blame.PACE


def test_a_suspect_refused_at_its_recheck_is_excused(suspected: SuspectedPages) -> None:
    assert blamed(suspected, "a", recheck=True) is Blame.PAGE
    assert "a" in suspected


def test_where_hardly_any_page_is_refused_it_is_broken_then(suspected: SuspectedPages) -> None:
    """One page of 46 is refused. By chance that happens thrice in a row, as a recheck counts twice,
    once in 46 * 46 * 46 = 97,336 times: less often than once in 100,000 it is with 47."""
    served(suspected, 45)
    assert blamed(suspected, "a", recheck=True) is Blame.PAGE
    suspected = served(refused_once(), 46)
    assert blamed(suspected, "a", recheck=True) is Blame.BROKEN


def test_where_many_pages_are_refused_an_excused_one_is_asked_more_often(
    suspected: SuspectedPages,
) -> None:
    """Ten pages of 110 are refused at their first visit: 1 / 11 to the fourth is 6.8e-5, to the
    fifth 6.2e-6."""
    for page in "bcdefghij":
        suspected.on_epoch()
        suspected.on_refused(page)
    suspected.on_epoch()
    suspected.on_refused("a")
    served(suspected, 100)
    assert blamed(suspected, "a", recheck=True) is Blame.PAGE
    assert blamed(suspected, "a") is Blame.BROKEN


def test_where_refusals_come_by_chance_a_page_is_broken_when_chance_explains_no_more(
    suspected: SuspectedPages,
) -> None:
    """A tenth of all is refused, some pages often: less than 1e-10 it must be, at the eleventh."""
    served(suspected, 10_000)
    assert blamed(suspected, "a", noise=0.1001, recheck=True) is Blame.PAGE
    found = [blamed(suspected, "a", noise=0.1001) for _ in range(9)]
    assert found == [Blame.PAGE] * 8 + [Blame.BROKEN]


def test_a_page_that_comes_back_whenever_a_bucket_is_empty_is_not_broken(
    suspected: SuspectedPages,
) -> None:
    """Only a refusal at a recheck shows that it is not the pace."""
    served(suspected, 10_000)
    assert {blamed(suspected, "a", noise=0.03) for _ in range(100)} == {Blame.PACE}


def test_where_refusals_come_by_chance_a_page_is_rechecked_from_its_second_on(
    suspected: SuspectedPages,
) -> None:
    assert suspected.asks_again(0.0)
    assert not suspected.asks_again(0.1)
    suspected.on_refused("a")
    assert suspected.asks_again(0.1)


def test_another_page_refused_at_the_recheck_is_not_excused(suspected: SuspectedPages) -> None:
    assert blamed(suspected, "b", recheck=True) is Blame.PACE


def test_a_suspect_refused_without_a_recheck_is_not_excused(suspected: SuspectedPages) -> None:
    assert blamed(suspected, "a") is Blame.PACE


def test_a_page_of_a_crowded_epoch_is_not_excused_at_a_recheck(suspected: SuspectedPages) -> None:
    suspected.on_refused("b")
    assert blamed(suspected, "a", recheck=True) is Blame.PACE


def test_an_excused_page_is_excused_until_it_is_accepted(suspected: SuspectedPages) -> None:
    """In the epochs of other pages too: its next refusals tell nothing that was not known."""
    blamed(suspected, "a", recheck=True)
    assert blamed(suspected, "a") is Blame.PAGE
    suspected.on_epoch()
    suspected.on_refused("b")
    assert blamed(suspected, "a", probe=True) is Blame.PAGE
    suspected.on_accepted("a")
    assert "a" not in suspected
    assert blamed(suspected, "a") is Blame.PACE


def test_visits_are_counted_of_pages_that_are_served_in_the_end(suspected: SuspectedPages) -> None:
    """Four pages at one visit each are what every site begins with; "a" takes three more, as its
    recheck counts for two; "b" one; "c" is never served, and says nothing."""
    assert suspected.visits == 1.0
    blamed(suspected, "a", recheck=True)
    suspected.on_accepted("a")
    assert suspected.visits == 1.0 + 2.0 / 5.0
    for page in "bc":
        suspected.on_epoch()
        suspected.on_refused(page)
    suspected.on_accepted("b")
    assert suspected.visits == 1.0 + 2.0 / 6.0
    assert blamed(suspected, "c", recheck=True) is Blame.PAGE
    assert suspected.visits == 1.0 + 2.0 / 6.0


def served_late(suspected: SuspectedPages, count: int, *, refusals: int) -> SuspectedPages:
    """So many pages are served after so many refusals, the first of which excused them if there
    were several."""
    for _ in range(count):
        suspected.on_epoch()
        suspected.on_refused("late")
        for visit in range(refusals - 1):
            blamed(suspected, "late", recheck=not visit, noise=0.01)  # then it counts once
        suspected.on_accepted("late")
    return suspected


def test_old_visits_fade() -> None:
    """A hundred pages that take four visits each, and two hundred that take one."""
    suspected = served_late(SuspectedPages(), 100, refusals=4)
    assert suspected.visits > 2.8
    assert served_late(suspected, 200, refusals=1).visits < 1.2


def test_one_page_alone_does_not_decide_how_many_visits_others_take() -> None:
    """It was refused for an hour; it counts no more than the four that each site begins with."""
    assert served_late(SuspectedPages(), 1, refusals=1000).visits == 1.0 + 4.0 / 5.0


def test_refusals_for_the_pace_are_no_visits_in_vain(suspected: SuspectedPages) -> None:
    for _ in range(10):
        blamed(suspected, "a")
    suspected.on_accepted("a")
    assert suspected.visits == 1.0


def test_a_page_of_a_slow_backend_is_not_broken_sooner_than_others_were_served() -> None:
    """More than four visits a page, when thirty pages had taken twenty: three of four to the
    fortieth is 1.0e-5."""
    suspected = served_late(served(SuspectedPages(excused_at=0.0), 1000), 30, refusals=20)
    assert suspected.visits > 4.0
    suspected.on_epoch()
    suspected.on_refused("z")
    blames = [blamed(suspected, "z", recheck=True)] + [blamed(suspected, "z") for _ in range(37)]
    assert set(blames) == {Blame.PAGE}


def test_until_a_minute_after_the_first_that_came_back_pages_are_asked_more_often() -> None:
    """A fifth to the eighth is 2.6e-6, to the seventh 1.3e-5; a recheck counts twice. The crawl of
    other pages between the recheck and the first visit after it shows nothing."""
    suspected = served(SuspectedPages(), 1000)
    suspected.on_epoch()
    suspected.on_refused("a")
    assert blamed(suspected, "a", recheck=True, now=0.0) is Blame.PAGE
    found = [blamed(suspected, "a", now=500.0 + visit) for visit in range(5)]
    assert found == [Blame.PAGE] * 4 + [Blame.BROKEN]
    suspected.on_epoch()
    suspected.on_refused("b")
    assert blamed(suspected, "b", recheck=True, now=559.9) is Blame.PAGE
    assert blamed(suspected, "b", now=560.0) is Blame.BROKEN


def test_the_last_pages_of_a_crawl_are_asked_as_often(suspected: SuspectedPages) -> None:
    """Nothing else is left to test a pause with; without an excuse three times were enough."""
    suspected = served(SuspectedPages(), 100)
    suspected.on_epoch()
    suspected.on_refused("a")
    blames = [blamed(suspected, "a", recheck=True, now=0.0)]
    blames += [blamed(suspected, "a", probe=True, now=1.0) for _ in range(5)]
    assert blames == [Blame.PAGE] * 5 + [Blame.BROKEN]


def test_what_was_refused_together_stays_so(suspected: SuspectedPages) -> None:
    """A third page of an epoch whose second was found to be at fault was not alone in it."""
    suspected.on_refused("b")
    suspected.on_rollback()
    suspected.on_refused("c")
    assert suspected.sole is None


def test_of_pages_refused_together_one_that_was_before_is_asked_again(
    suspected: SuspectedPages,
) -> None:
    """Two broken pages that wait side by side would never be found one by one."""
    suspected.on_refused("b")
    assert not suspected.asks_again(0.0)
    suspected.on_epoch()
    suspected.on_refused("b")
    suspected.on_refused("a")
    assert suspected.asks_again(0.0)
    assert (suspected.suspect, suspected.sole) == ("a", None)


def test_an_accepted_page_is_neither_refused_nor_excused(suspected: SuspectedPages) -> None:
    blamed(suspected, "a", recheck=True)
    suspected.on_refused("b")
    suspected.on_accepted("a")
    suspected.on_accepted("b")
    assert not suspected


def test_a_suspect_that_was_accepted_is_no_suspect_any_more(suspected: SuspectedPages) -> None:
    suspected.on_accepted("a")
    assert suspected.sole is None
    assert blamed(suspected, "a", recheck=True) is Blame.PACE


def test_three_refused_probes_of_refused_pages_break_the_last_ones_page(
    suspected: SuspectedPages,
) -> None:
    found = [blamed(suspected, "a", probe=True) for _ in range(3)]
    assert found == [Blame.PACE, Blame.PACE, Blame.BROKEN]


def test_the_three_probes_may_be_of_different_refused_pages(suspected: SuspectedPages) -> None:
    suspected.on_refused("b")
    found = [blamed(suspected, page, probe=True) for page in "bab"]
    assert found == [Blame.PACE, Blame.PACE, Blame.BROKEN]


def test_a_probe_of_a_fresh_page_counts_anew(suspected: SuspectedPages) -> None:
    assert [blamed(suspected, page, probe=True) for page in "aabaa"] == [Blame.PACE] * 5
    assert blamed(suspected, "a", probe=True) is Blame.BROKEN


def test_an_acceptance_between_counts_anew(suspected: SuspectedPages) -> None:
    """Even one of a page whose name nobody asked for."""
    for _ in range(2):
        blamed(suspected, "a", probe=True)
    suspected.on_accepted(None)
    assert blamed(suspected, "a", probe=True) is Blame.PACE


def test_refusals_that_are_no_probes_break_nothing_where_nothing_was_accepted(
    suspected: SuspectedPages,
) -> None:
    assert {blamed(suspected, "a") for _ in range(10)} == {Blame.PACE}
    assert blamed(suspected, "a", probe=True) is Blame.PACE


def test_a_rollback_forgets_the_page_of_the_epoch_only(suspected: SuspectedPages) -> None:
    suspected.on_rollback()
    assert suspected.sole is None
    assert "a" in suspected


def test_memory_is_bounded_and_the_oldest_page_goes_first() -> None:
    suspected = SuspectedPages()
    suspected.on_epoch()
    for page in range(MOST_PAGES):
        suspected.on_refused(page)
    suspected.on_refused(0)
    suspected.on_refused("new")
    assert 0 in suspected
    assert 1 not in suspected
    assert sum(page in suspected for page in range(MOST_PAGES)) == MOST_PAGES - 1


def visits(suspected: SuspectedPages, *pages: str) -> None:
    """Each of them is refused at its first visit, and served at its second, as a probe."""
    for page in pages:
        suspected.on_epoch()
        blamed(suspected, page)
        suspected.on_accepted(page)


def test_three_pages_served_at_their_second_visit_alone_are_a_site_that_refuses_first_visits() -> (
    None
):
    suspected = SuspectedPages()
    visits(suspected, "a", "b")
    assert not suspected.refuses_first
    visits(suspected, "c")
    assert suspected.refuses_first


def test_so_they_are_though_hundreds_were_served_at_their_first_visit() -> None:
    suspected = served(SuspectedPages(), 500)
    visits(suspected, "a", "b", "c")
    assert suspected.refuses_first


def test_one_page_served_at_its_first_visit_ends_that() -> None:
    suspected = SuspectedPages()
    visits(suspected, "a", "b", "c")
    suspected.on_accepted("d")
    assert not suspected.refuses_first


def test_pages_of_a_pause_that_come_back_one_after_the_other_are_no_first_visits() -> None:
    suspected = SuspectedPages()
    for page in "abcdef":
        blamed(suspected, page, probe=True)
    for page in "abcdef":
        suspected.on_accepted(page)
    assert not suspected.refuses_first


def test_where_second_visits_are_refused_too_it_is_a_slow_limit() -> None:
    """Most test requests of a slow bucket are of pages that were refused before."""
    suspected = SuspectedPages()
    blamed(suspected, "x")
    for page in "abcdef":
        visits(suspected, page)
        blamed(suspected, "x")
    assert not suspected.refuses_first


def test_once_it_is_known_that_first_visits_are_refused_a_second_one_may_be() -> None:
    suspected = SuspectedPages()
    blamed(suspected, "x")
    visits(suspected, "a", "b", "c")
    blamed(suspected, "x")
    assert suspected.refuses_first


def looks(suspected: SuspectedPages, *pages: str) -> list[bool]:
    """Test requests of these pages are refused: whether a page refused before is asked for next."""
    found = []
    for page in pages:
        blamed(suspected, page, probe=True)
        found.append(suspected.looks_again)
    return found


def test_where_nothing_was_served_every_second_test_request_is_a_page_refused_before(
    suspected: SuspectedPages,
) -> None:
    """It may be a site that refuses first visits; the first request asks about the host."""
    assert looks(suspected, "b", "a", "c", "a") == [True, False, True, False]


def test_so_it_is_where_a_page_was_served_at_its_second_visit(suspected: SuspectedPages) -> None:
    served(suspected, 10)
    visits(suspected, "x")
    assert looks(suspected, "b", "a") == [True, False]


def test_where_first_visits_are_served_it_is_so_after_three_refused_test_requests(
    suspected: SuspectedPages,
) -> None:
    """A page refused before may be broken: that would say nothing of the site."""
    served(suspected, 10)
    assert looks(suspected, "b", "c", "d", "a") == [False, False, True, False]
