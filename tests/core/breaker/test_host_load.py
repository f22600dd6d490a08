"""When several slots of a host are refused at once, and when each is its own affair."""

from __future__ import annotations

from scrapy_adaptive.core.breaker.host_load import AT_ONCE, MOST_SLOTS, HostLoad


def load(*slots: str, host: str = "host") -> HostLoad:
    """A host whose requests go to these slots."""
    found = HostLoad(10)
    for slot in slots:
        found.on_sent(host, slot)
    return found


def test_one_refused_proxy_of_four_pauses_no_other() -> None:
    """Nor do two of four: half of them is not most."""
    four = load("a", "b", "c", "d")
    assert four.on_refused("host", "a", 0.0) == []
    assert four.on_refused("host", "b", 0.0) == []


def test_most_slots_refused_at_once_pause_the_rest() -> None:
    """The third of four within a second."""
    four = load("a", "b", "c", "d")
    for slot, at in (("a", 0.0), ("b", 0.4)):
        four.on_refused("host", slot, at)
    assert four.on_refused("host", "c", 0.8) == ["d"]


def test_refusals_far_apart_are_private() -> None:
    """A second and more between them."""
    three = load("a", "b", "c")
    three.on_refused("host", "a", 0.0)
    assert three.on_refused("host", "b", AT_ONCE) == []


def test_a_slot_of_its_own_is_never_load() -> None:
    """However often it is refused, and hosts that nobody sent elsewhere are not known."""
    one = load("a")
    assert [one.on_refused("host", "a", 0.1 * n) for n in range(5)] == [[]] * 5
    assert one.on_refused("other", "a", 0.0) == []


def test_slots_that_change_with_each_request_are_forgotten() -> None:
    """The ones used last are kept."""
    many = load(*(str(n) for n in range(MOST_SLOTS + 5)))
    assert many.on_refused("host", "0", 0.0) == []
    for n in range(5, 5 + MOST_SLOTS // 2):
        assert many.on_refused("host", str(n), 0.0) == []
    assert len(many.on_refused("host", str(MOST_SLOTS), 0.0)) == MOST_SLOTS - MOST_SLOTS // 2 - 1
