"""What a frontier keeps of a request comes back as it was, or is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from scrapy import FormRequest, Request, Spider

from scrapy_adaptive.adapters.frontier.payload import Payloads, UnreadableError, UnstorableError
from scrapy_adaptive.adapters.frontier.visits import Mark

URL = "https://site.example/1"


class OwnSpider(Spider):
    """Has a callback of its own."""

    name = "own"

    def parse_more(self, response: object) -> None:
        """Whatever came."""


@pytest.fixture
def payloads() -> Payloads:
    return Payloads(OwnSpider())


@pytest.mark.parametrize(
    "given",
    [
        {"dont_filter": 1},
        {"dont_filter": True, "priority": -3, "flags": ["x"]},
        {"method": "POST", "body": b"\xff\x00", "headers": {"X-One": ["a", "b"]}},
        {"cookies": {"a": "1"}, "meta": {"depth": 2, "list": [1, None]}, "cb_kwargs": {"n": 1.5}},
        {"encoding": "latin-1"},
    ],
)
def test_a_request_comes_back_as_it_was(payloads: Payloads, given: dict[str, Any]) -> None:
    request = Request(URL, **given)
    back = payloads.read(URL, payloads.write(request))
    for name in request.attributes:
        assert getattr(back, name) == getattr(request, name)


def test_a_plain_request_is_nothing_but_its_address(payloads: Payloads) -> None:
    assert payloads.write(Request(URL, dont_filter=0)) == ""  # type: ignore[arg-type]
    assert payloads.read(URL, "").url == URL


def test_a_slot_that_the_user_has_chosen_is_kept_and_one_that_was_written_for_him_is_not(
    payloads: Payloads,
) -> None:
    """A redirect to another host brings the meta of the first."""
    for ours, kept in (("a", {}), ("b", {"download_slot": "a"})):
        request = Request(URL, meta={"download_slot": "a", "adaptive_slot": ours})
        assert payloads.read(URL, payloads.write(request)).meta == kept


def test_meta_may_be_copied_deep() -> None:
    """The mark of a visit stays itself: behind it is the whole crawl."""
    mark = Mark("visit 1")
    assert copy.deepcopy({"adaptive_visit": mark})["adaptive_visit"] is mark
    assert copy.copy(mark) is mark


def test_a_class_of_requests_and_a_method_of_the_spider_come_back() -> None:
    spider = OwnSpider()
    payloads = Payloads(spider)
    request = FormRequest(URL, formdata={"a": "b"}, callback=spider.parse_more)
    back = payloads.read(URL, payloads.write(request))
    assert (type(back), back.body, back.callback) == (FormRequest, b"a=b", spider.parse_more)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"meta": {"x": {1: 2}}}, "no text"),
        ({"meta": {"x": float("nan")}}, "infinite or no number"),
        ({"cb_kwargs": {"x": object()}}, "a object"),
        ({"callback": lambda response: None}, "not a method of the spider"),
        ({"priority": 2**60}, "priority"),
    ],
)
def test_what_json_cannot_hold_is_named(
    payloads: Payloads, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(UnstorableError, match=words):
        payloads.write(Request(URL, **given))


@pytest.mark.parametrize(
    "payload",
    [
        "[]",
        '{"url":"https://other.example/"}',
        '{"callback":"__init__"}',
        '{"_class":"os.system"}',
        '{"priority":true}',
        '{"dont_filter":1}',
        '{"meta":{"x":NaN}}',
    ],
)
def test_what_nobody_wrote_here_is_no_request(payloads: Payloads, payload: str) -> None:
    with pytest.raises(UnreadableError):
        payloads.read(URL, payload)
