"""A page that is refused whatever the pace is told apart from a pace that is too high."""

import pytest

from scrapy_adaptive.core.diagnosis.broken_pages import MINUTE, MOST_PAGES, Blame, Suspects


def refused_once() -> Suspects:
    """Page "a" was refused alone in its epoch, another was excused a minute ago."""
    suspects = Suspects(excused_at=0.0)
    suspects.on_epoch()
    suspects.on_refused("a")
    return suspects


@pytest.fixture
def suspects() -> Suspects:
    """Page "a" was refused alone in its epoch."""
    return refused_once()


def served(suspects: Suspects, count: int) -> Suspects:
    """So many other pages are accepted."""
    for _ in range(count):
        suspects.on_accepted(None)
    return suspects


def blamed(
    suspects: Suspects,
    page: str | None,
    *,
    probe: bool = False,
    recheck: bool = False,
    now: float = MINUTE,
    noise: float = 0.0,
) -> Blame:
    """A refusal arrives: what is to blame; it is remembered where that is the pace."""
    blame = suspects.blame(page, probe=probe, recheck=recheck, now=now, noise=noise)
    if blame is Blame.PACE:
        suspects.on_refused(page)
    return blame


def test_nothing_is_suspected_at_first() -> None:
    suspects = Suspects()
    assert not suspects
    assert "a" not in suspects
    assert suspects.sole is None


def test_a_page_refused_alone_is_suspected(suspects: Suspects) -> None:
    assert suspects
    assert "a" in suspects
    assert suspects.sole == "a"


def test_the_same_page_refused_twice_in_an_epoch_is_still_alone(suspects: Suspects) -> None:
    suspects.on_refused("a")
    assert suspects.sole == "a"


def test_two_pages_of_one_epoch_suspect_neither(suspects: Suspects) -> None:
    suspects.on_refused("b")
    suspects.on_refused("a")
    assert suspects.sole is None


def test_a_page_without_a_name_is_never_blamed(suspects: Suspects) -> None:
    suspects.on_refused(None)
    assert suspects.sole == "a"
    assert suspects.blame(None, probe=True, recheck=True) is Blame.PACE


def test_a_suspect_refused_at_its_recheck_is_excused(suspects: Suspects) -> None:
    assert blamed(suspects, "a", recheck=True) is Blame.PAGE
    assert "a" in suspects


def test_where_hardly_any_page_is_refused_it_is_broken_then(suspects: Suspects) -> None:
    """One page of 46 is refused. By chance that happens thrice in a row, as a recheck counts twice,
    once in 46 * 46 * 46 = 97,336 times: less often than once in 100,000 it is with 47."""
    served(suspects, 45)
    assert blamed(suspects, "a", recheck=True) is Blame.PAGE
    suspects = served(refused_once(), 46)
    assert blamed(suspects, "a", recheck=True) is Blame.BROKEN


def test_where_many_pages_are_refused_an_excused_one_is_asked_more_often(
    suspects: Suspects,
) -> None:
    """Ten pages of 110 are refused at their first visit: 1 / 11 to the fourth is 6.8e-5, to the
    fifth 6.2e-6."""
    for page in "bcdefghij":
        suspects.on_epoch()
        suspects.on_refused(page)
    suspects.on_epoch()
    suspects.on_refused("a")
    served(suspects, 100)
    assert blamed(suspects, "a", recheck=True) is Blame.PAGE
    assert blamed(suspects, "a") is Blame.BROKEN


def test_where_refusals_come_by_chance_a_page_is_broken_when_chance_explains_no_more(
    suspects: Suspects,
) -> None:
    """A tenth of all is refused, some pages often: less than 1e-10 it must be, at the eleventh."""
    served(suspects, 10_000)
    assert blamed(suspects, "a", noise=0.1001, recheck=True) is Blame.PAGE
    found = [blamed(suspects, "a", noise=0.1001) for _ in range(9)]
    assert found == [Blame.PAGE] * 8 + [Blame.BROKEN]


def test_a_page_that_comes_back_whenever_a_bucket_is_empty_is_not_broken(
    suspects: Suspects,
) -> None:
    """Only a refusal at a recheck shows that it is not the pace."""
    served(suspects, 10_000)
    assert {blamed(suspects, "a", noise=0.03) for _ in range(100)} == {Blame.PACE}


def test_where_refusals_come_by_chance_a_page_is_rechecked_from_its_second_on(
    suspects: Suspects,
) -> None:
    assert suspects.asks_again(0.0)
    assert not suspects.asks_again(0.1)
    suspects.on_refused("a")
    assert suspects.asks_again(0.1)


def test_another_page_refused_at_the_recheck_is_not_excused(suspects: Suspects) -> None:
    assert blamed(suspects, "b", recheck=True) is Blame.PACE


def test_a_suspect_refused_without_a_recheck_is_not_excused(suspects: Suspects) -> None:
    assert blamed(suspects, "a") is Blame.PACE


def test_a_page_of_a_crowded_epoch_is_not_excused_at_a_recheck(suspects: Suspects) -> None:
    suspects.on_refused("b")
    assert blamed(suspects, "a", recheck=True) is Blame.PACE


def test_an_excused_page_is_excused_until_it_is_accepted(suspects: Suspects) -> None:
    """In the epochs of other pages too: its next refusals tell nothing that was not known."""
    blamed(suspects, "a", recheck=True)
    assert blamed(suspects, "a") is Blame.PAGE
    suspects.on_epoch()
    suspects.on_refused("b")
    assert blamed(suspects, "a", probe=True) is Blame.PAGE
    suspects.on_accepted("a")
    assert "a" not in suspects
    assert blamed(suspects, "a") is Blame.PACE


def test_visits_are_counted_of_pages_that_are_served_in_the_end(suspects: Suspects) -> None:
    """Four pages at one visit each are what every site begins with; "a" takes three more, as its
    recheck counts for two; "b" one; "c" is never served, and says nothing."""
    assert suspects.visits == 1.0
    blamed(suspects, "a", recheck=True)
    suspects.on_accepted("a")
    assert suspects.visits == 1.0 + 2.0 / 5.0
    for page in "bc":
        suspects.on_epoch()
        suspects.on_refused(page)
    suspects.on_accepted("b")
    assert suspects.visits == 1.0 + 2.0 / 6.0
    assert blamed(suspects, "c", recheck=True) is Blame.PAGE
    assert suspects.visits == 1.0 + 2.0 / 6.0


def served_late(suspects: Suspects, count: int, *, refusals: int) -> Suspects:
    """So many pages are served after so many refusals, the first of which excused them if there
    were several."""
    for _ in range(count):
        suspects.on_epoch()
        suspects.on_refused("late")
        for visit in range(refusals - 1):
            blamed(suspects, "late", recheck=not visit, noise=0.01)  # then it counts once
        suspects.on_accepted("late")
    return suspects


def test_old_visits_fade() -> None:
    """A hundred pages that take four visits each, and two hundred that take one."""
    suspects = served_late(Suspects(), 100, refusals=4)
    assert suspects.visits > 2.8
    assert served_late(suspects, 200, refusals=1).visits < 1.2


def test_one_page_alone_does_not_decide_how_many_visits_others_take() -> None:
    """It was refused for an hour; it counts no more than the four that each site begins with."""
    assert served_late(Suspects(), 1, refusals=1000).visits == 1.0 + 4.0 / 5.0


def test_refusals_for_the_pace_are_no_visits_in_vain(suspects: Suspects) -> None:
    for _ in range(10):
        blamed(suspects, "a")
    suspects.on_accepted("a")
    assert suspects.visits == 1.0


def test_a_page_of_a_slow_backend_is_not_broken_sooner_than_others_were_served() -> None:
    """More than four visits a page, when thirty pages had taken twenty: three of four to the
    fortieth is 1.0e-5."""
    suspects = served_late(served(Suspects(excused_at=0.0), 1000), 30, refusals=20)
    assert suspects.visits > 4.0
    suspects.on_epoch()
    suspects.on_refused("z")
    blames = [blamed(suspects, "z", recheck=True)] + [blamed(suspects, "z") for _ in range(37)]
    assert set(blames) == {Blame.PAGE}


def test_until_a_minute_after_the_first_that_came_back_pages_are_asked_more_often() -> None:
    """A fifth to the eighth is 2.6e-6, to the seventh 1.3e-5; a recheck counts twice. The crawl of
    other pages between the recheck and the first visit after it shows nothing."""
    suspects = served(Suspects(), 1000)
    suspects.on_epoch()
    suspects.on_refused("a")
    assert blamed(suspects, "a", recheck=True, now=0.0) is Blame.PAGE
    found = [blamed(suspects, "a", now=500.0 + visit) for visit in range(5)]
    assert found == [Blame.PAGE] * 4 + [Blame.BROKEN]
    suspects.on_epoch()
    suspects.on_refused("b")
    assert blamed(suspects, "b", recheck=True, now=559.9) is Blame.PAGE
    assert blamed(suspects, "b", now=560.0) is Blame.BROKEN


def test_the_last_pages_of_a_crawl_are_asked_as_often(suspects: Suspects) -> None:
    """Nothing else is left to test a pause with; without an excuse three times were enough."""
    suspects = served(Suspects(), 100)
    suspects.on_epoch()
    suspects.on_refused("a")
    blames = [blamed(suspects, "a", recheck=True, now=0.0)]
    blames += [blamed(suspects, "a", probe=True, now=1.0) for _ in range(5)]
    assert blames == [Blame.PAGE] * 5 + [Blame.BROKEN]


def test_what_was_refused_together_stays_so(suspects: Suspects) -> None:
    """A third page of an epoch whose second was found to be at fault was not alone in it."""
    suspects.on_refused("b")
    suspects.on_pardon()
    suspects.on_refused("c")
    assert suspects.sole is None


def test_of_pages_refused_together_one_that_was_before_is_asked_again(suspects: Suspects) -> None:
    """Two broken pages that wait side by side would never be found one by one."""
    suspects.on_refused("b")
    assert not suspects.asks_again(0.0)
    suspects.on_epoch()
    suspects.on_refused("b")
    suspects.on_refused("a")
    assert suspects.asks_again(0.0)
    assert (suspects.suspect, suspects.sole) == ("a", None)


def test_an_accepted_page_is_neither_refused_nor_excused(suspects: Suspects) -> None:
    blamed(suspects, "a", recheck=True)
    suspects.on_refused("b")
    suspects.on_accepted("a")
    suspects.on_accepted("b")
    assert not suspects


def test_a_suspect_that_was_accepted_is_no_suspect_any_more(suspects: Suspects) -> None:
    suspects.on_accepted("a")
    assert suspects.sole is None
    assert blamed(suspects, "a", recheck=True) is Blame.PACE


def test_three_refused_probes_of_refused_pages_break_the_last_ones_page(suspects: Suspects) -> None:
    found = [blamed(suspects, "a", probe=True) for _ in range(3)]
    assert found == [Blame.PACE, Blame.PACE, Blame.BROKEN]


def test_the_three_probes_may_be_of_different_refused_pages(suspects: Suspects) -> None:
    suspects.on_refused("b")
    found = [blamed(suspects, page, probe=True) for page in "bab"]
    assert found == [Blame.PACE, Blame.PACE, Blame.BROKEN]


def test_a_probe_of_a_fresh_page_counts_anew(suspects: Suspects) -> None:
    assert [blamed(suspects, page, probe=True) for page in "aabaa"] == [Blame.PACE] * 5
    assert blamed(suspects, "a", probe=True) is Blame.BROKEN


def test_an_acceptance_between_counts_anew(suspects: Suspects) -> None:
    """Even one of a page whose name nobody asked for."""
    for _ in range(2):
        blamed(suspects, "a", probe=True)
    suspects.on_accepted(None)
    assert blamed(suspects, "a", probe=True) is Blame.PACE


def test_refusals_that_are_no_probes_break_nothing_where_nothing_was_accepted(
    suspects: Suspects,
) -> None:
    assert {blamed(suspects, "a") for _ in range(10)} == {Blame.PACE}
    assert blamed(suspects, "a", probe=True) is Blame.PACE


def test_a_pardon_forgets_the_page_of_the_epoch_only(suspects: Suspects) -> None:
    suspects.on_pardon()
    assert suspects.sole is None
    assert "a" in suspects


def test_memory_is_bounded_and_the_oldest_page_goes_first() -> None:
    suspects = Suspects()
    suspects.on_epoch()
    for page in range(MOST_PAGES):
        suspects.on_refused(page)
    suspects.on_refused(0)
    suspects.on_refused("new")
    assert 0 in suspects
    assert 1 not in suspects
    assert sum(page in suspects for page in range(MOST_PAGES)) == MOST_PAGES - 1


def visits(suspects: Suspects, *pages: str) -> None:
    """Each of them is refused at its first visit, and served at its second, as a probe."""
    for page in pages:
        suspects.on_epoch()
        blamed(suspects, page)
        suspects.on_accepted(page)


def test_three_pages_served_at_their_second_visit_alone_are_a_site_that_refuses_first_visits() -> (
    None
):
    suspects = Suspects()
    visits(suspects, "a", "b")
    assert not suspects.refuses_first
    visits(suspects, "c")
    assert suspects.refuses_first


def test_so_they_are_though_hundreds_were_served_at_their_first_visit() -> None:
    suspects = served(Suspects(), 500)
    visits(suspects, "a", "b", "c")
    assert suspects.refuses_first


def test_one_page_served_at_its_first_visit_ends_that() -> None:
    suspects = Suspects()
    visits(suspects, "a", "b", "c")
    suspects.on_accepted("d")
    assert not suspects.refuses_first


def test_pages_of_a_pause_that_come_back_one_after_the_other_are_no_first_visits() -> None:
    suspects = Suspects()
    for page in "abcdef":
        blamed(suspects, page, probe=True)
    for page in "abcdef":
        suspects.on_accepted(page)
    assert not suspects.refuses_first


def test_where_second_visits_are_refused_too_it_is_a_slow_limit() -> None:
    """Most test requests of a slow bucket are of pages that were refused before."""
    suspects = Suspects()
    blamed(suspects, "x")
    for page in "abcdef":
        visits(suspects, page)
        blamed(suspects, "x")
    assert not suspects.refuses_first


def test_once_it_is_known_that_first_visits_are_refused_a_second_one_may_be() -> None:
    suspects = Suspects()
    blamed(suspects, "x")
    visits(suspects, "a", "b", "c")
    blamed(suspects, "x")
    assert suspects.refuses_first


def looks(suspects: Suspects, *pages: str) -> list[bool]:
    """Test requests of these pages are refused: whether a page refused before is asked for next."""
    found = []
    for page in pages:
        blamed(suspects, page, probe=True)
        found.append(suspects.looks_again)
    return found


def test_where_nothing_was_served_every_second_test_request_is_a_page_refused_before(
    suspects: Suspects,
) -> None:
    """It may be a site that refuses first visits; the first request asks about the host."""
    assert looks(suspects, "b", "a", "c", "a") == [True, False, True, False]


def test_so_it_is_where_a_page_was_served_at_its_second_visit(suspects: Suspects) -> None:
    served(suspects, 10)
    visits(suspects, "x")
    assert looks(suspects, "b", "a") == [True, False]


def test_where_first_visits_are_served_it_is_so_after_three_refused_test_requests(
    suspects: Suspects,
) -> None:
    """A page refused before may be broken: that would say nothing of the site."""
    served(suspects, 10)
    assert looks(suspects, "b", "c", "d", "a") == [False, False, True, False]
