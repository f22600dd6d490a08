"""A page that is refused whatever the pace is told apart from a pace that is too high."""

import pytest

from scrapy_adaptive.core.diagnosis.broken_pages import MOST_PAGES, Suspects


@pytest.fixture
def suspects() -> Suspects:
    """Page "a" was refused alone in its epoch."""
    suspects = Suspects()
    suspects.on_epoch()
    suspects.on_refused("a")
    return suspects


def broken(
    suspects: Suspects, page: str | None, *, probe: bool = False, recheck: bool = False
) -> bool:
    """A refusal arrives: whether the page is to blame; it is remembered if not."""
    if suspects.is_broken(page, probe=probe, recheck=recheck):
        return True
    suspects.on_refused(page)
    return False


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
    assert not suspects.is_broken(None, probe=True, recheck=True)


def test_a_suspect_refused_at_its_recheck_is_broken(suspects: Suspects) -> None:
    assert broken(suspects, "a", recheck=True)
    assert "a" in suspects


def test_another_page_refused_at_the_recheck_is_not(suspects: Suspects) -> None:
    assert not broken(suspects, "b", recheck=True)


def test_a_suspect_refused_without_a_recheck_is_not_broken(suspects: Suspects) -> None:
    assert not broken(suspects, "a")


def test_a_page_of_a_crowded_epoch_is_not_broken_at_a_recheck(suspects: Suspects) -> None:
    suspects.on_refused("b")
    assert not broken(suspects, "a", recheck=True)


def test_a_broken_page_stays_broken_within_its_epoch(suspects: Suspects) -> None:
    assert broken(suspects, "a", recheck=True)
    assert broken(suspects, "a")
    assert broken(suspects, "a", probe=True)


def test_another_epoch_makes_a_broken_page_innocent_again(suspects: Suspects) -> None:
    """The site refuses other pages too, so the pace may be to blame after all."""
    broken(suspects, "a", recheck=True)
    suspects.on_epoch()
    suspects.on_refused("b")
    assert not broken(suspects, "a")


def test_a_broken_page_that_is_doubted_is_no_good_probe(suspects: Suspects) -> None:
    broken(suspects, "a", recheck=True)
    suspects.on_epoch()
    assert "a" in suspects


def test_a_broken_page_survives_the_epoch_of_another_broken_page(suspects: Suspects) -> None:
    """The epoch was page b's fault alone, so nothing speaks for page a any more."""
    broken(suspects, "a", recheck=True)
    suspects.on_epoch()
    suspects.on_refused("b")
    assert broken(suspects, "b", recheck=True)
    suspects.on_pardon()
    assert broken(suspects, "a")
    assert broken(suspects, "b")


def test_a_broken_page_that_is_served_in_the_epoch_of_another_is_innocent(
    suspects: Suspects,
) -> None:
    broken(suspects, "a", recheck=True)
    suspects.on_epoch()
    suspects.on_refused("b")
    suspects.on_accepted("a")
    suspects.on_pardon()
    assert "a" not in suspects


def test_two_epochs_of_the_pace_make_a_broken_page_innocent_for_good(suspects: Suspects) -> None:
    """A pardon of the second epoch gives back only what was broken when that one began."""
    broken(suspects, "a", recheck=True)
    suspects.on_epoch()
    suspects.on_refused("b")
    suspects.on_epoch()
    suspects.on_refused("c")
    suspects.on_pardon()
    assert not broken(suspects, "a")


def test_an_accepted_page_is_neither_refused_nor_broken(suspects: Suspects) -> None:
    broken(suspects, "a", recheck=True)
    suspects.on_refused("b")
    suspects.on_accepted("a")
    suspects.on_accepted("b")
    assert not suspects


def test_a_suspect_that_was_accepted_is_no_suspect_any_more(suspects: Suspects) -> None:
    suspects.on_accepted("a")
    assert suspects.sole is None
    assert not broken(suspects, "a", recheck=True)


def test_three_refused_probes_of_refused_pages_break_the_last_ones_page(suspects: Suspects) -> None:
    assert [broken(suspects, "a", probe=True) for _ in range(3)] == [False, False, True]


def test_the_three_probes_may_be_of_different_refused_pages(suspects: Suspects) -> None:
    suspects.on_refused("b")
    assert [broken(suspects, page, probe=True) for page in "bab"] == [False, False, True]


def test_a_probe_of_a_fresh_page_counts_anew(suspects: Suspects) -> None:
    assert [broken(suspects, page, probe=True) for page in "aabaa"] == [False] * 5
    assert broken(suspects, "a", probe=True)


def test_an_acceptance_between_counts_anew(suspects: Suspects) -> None:
    """Even one of a page whose name nobody asked for."""
    for _ in range(2):
        broken(suspects, "a", probe=True)
    suspects.on_accepted(None)
    assert not broken(suspects, "a", probe=True)


def test_refusals_that_are_no_probes_do_not_count(suspects: Suspects) -> None:
    assert not any(broken(suspects, "a") for _ in range(10))
    assert not broken(suspects, "a", probe=True)


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
        broken(suspects, page)
        suspects.on_accepted(page)


def test_three_pages_served_at_their_second_visit_alone_are_a_site_that_refuses_first_visits() -> (
    None
):
    suspects = Suspects()
    visits(suspects, "a", "b")
    assert not suspects.refuses_first
    visits(suspects, "c")
    assert suspects.refuses_first


def test_one_page_served_at_its_first_visit_ends_that() -> None:
    suspects = Suspects()
    visits(suspects, "a", "b", "c")
    suspects.on_accepted("d")
    assert not suspects.refuses_first


def test_pages_of_a_pause_that_come_back_one_after_the_other_are_no_first_visits() -> None:
    suspects = Suspects()
    for page in "abcdef":
        broken(suspects, page, probe=True)
    for page in "abcdef":
        suspects.on_accepted(page)
    assert not suspects.refuses_first


def test_every_second_test_request_is_a_page_that_was_refused_before() -> None:
    """The first asks about the host."""
    suspects, found = Suspects(), []
    for page, is_probe in (("a", False), ("b", True), ("a", True)):
        broken(suspects, page, probe=is_probe)
        found.append(suspects.looks_again)
    assert found == [False, True, False]
