"""What a response means: status and headers first, the user's classifier last."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse, Response
from scrapy.statscollectors import MemoryStatsCollector, StatsCollector

from scrapy_adaptive import Outcome
from scrapy_adaptive.adapters.refusal_rules import RefusalRules, Verdict
from scrapy_adaptive.core.headers.parse import Quota

ACCEPTED, REFUSED, FAILED = Outcome.ACCEPTED, Outcome.REFUSED, Outcome.FAILED

RETRY = {"Retry-After": "7"}
SPENT = {"RateLimit": '"burst";r=0;t=30'}
LEFT = {"RateLimit": '"burst";r=4;t=30'}
X_SPENT = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "40"}
X_LEFT = {"X-RateLimit-Remaining": "3", "X-RateLimit-Reset": "40"}

VERDICTS: dict[str, tuple[int, dict[str, str], Verdict]] = {
    "200": (200, {}, Verdict(ACCEPTED)),
    "200 of a spent quota": (200, {**RETRY, **SPENT}, Verdict(ACCEPTED)),
    "302": (302, RETRY, Verdict(ACCEPTED)),
    "404": (404, RETRY, Verdict(ACCEPTED)),
    "429": (429, {}, Verdict(REFUSED)),
    "429 that names a wait": (429, RETRY, Verdict(REFUSED, 7.0)),
    "429 that names no wait": (429, {"Retry-After": "0"}, Verdict(REFUSED, 0.0)),
    "429 of a spent quota": (429, SPENT, Verdict(REFUSED, 30.0)),
    "429 of a spent X- quota": (429, X_SPENT, Verdict(REFUSED, 40.0)),
    "429 with quota left": (429, LEFT, Verdict(REFUSED)),
    "429 with both": (429, {**RETRY, **SPENT}, Verdict(REFUSED, 7.0)),
    "429 with a Retry-After that cannot be read": (
        429,
        {"Retry-After": "soon", **SPENT},
        Verdict(REFUSED, 30.0),
    ),
    "503": (503, {}, Verdict(REFUSED)),
    "503 that names a wait": (503, RETRY, Verdict(REFUSED, 7.0)),
    "403": (403, {}, Verdict(ACCEPTED)),
    "403 that names a wait": (403, RETRY, Verdict(REFUSED, 7.0)),
    "403 that names no wait": (403, {"Retry-After": "0"}, Verdict(REFUSED, 0.0)),
    "403 of a spent quota": (403, SPENT, Verdict(REFUSED, 30.0)),
    "403 of a spent X- quota": (403, X_SPENT, Verdict(REFUSED, 40.0)),
    "403 with quota left": (403, LEFT, Verdict(ACCEPTED)),
    "403 with X- quota left": (403, X_LEFT, Verdict(ACCEPTED)),
    "403 with a Retry-After that cannot be read": (
        403,
        {"Retry-After": "soon"},
        Verdict(ACCEPTED),
    ),
    "500": (500, {}, Verdict(FAILED)),
    "502": (502, {}, Verdict(FAILED)),
    "500 that names a wait": (500, RETRY, Verdict(REFUSED, 7.0)),
    "504 that names a wait": (504, RETRY, Verdict(REFUSED, 7.0)),
    "500 of a spent quota": (500, SPENT, Verdict(FAILED)),
}


def respond(status: int = 200, headers: dict[str, Any] | None = None, body: str = "") -> Response:
    return HtmlResponse("http://site.test/", status, headers, body.encode(), encoding="utf-8")


@pytest.fixture
def stats() -> StatsCollector:
    return MemoryStatsCollector(Crawler(Spider))


@pytest.fixture
def judge(stats: StatsCollector) -> Callable[..., RefusalRules]:
    """A judge by the default codes: `judge(classifier)`."""

    def make(classifier: Any = None, codes: frozenset[int] = frozenset({429, 503})) -> RefusalRules:
        return RefusalRules(codes, classifier, stats)

    return make


@pytest.mark.parametrize(
    ("status", "headers", "verdict"), list(VERDICTS.values()), ids=list(VERDICTS)
)
def test_status_and_headers_make_a_verdict(
    status: int, headers: dict[str, str], verdict: Verdict, judge: Callable[..., RefusalRules]
) -> None:
    """And the silence that was asked for: Retry-After, else the reset of a spent quota."""
    assert judge().by_status(respond(status, headers))._replace(quotas=()) == verdict


@pytest.mark.parametrize("status", [200, 403, 429, 500])
def test_a_verdict_tells_the_quotas_of_its_headers(
    status: int, judge: Callable[..., RefusalRules]
) -> None:
    """Whatever the status: the pace goes by them."""
    assert judge().by_status(respond(status, LEFT)).quotas == (Quota(4, 30.0),)
    assert judge().by_status(respond(status, {})).quotas == ()


def test_of_several_waits_the_longest_is_kept(judge: Callable[..., RefusalRules]) -> None:
    """A header may come twice."""
    verdict = judge().by_status(respond(429, {"Retry-After": ["3", "9", "5"]}))
    assert verdict == Verdict(REFUSED, 9.0)


def test_the_users_codes_replace_the_default_ones(judge: Callable[..., RefusalRules]) -> None:
    """420 is a refusal then; 429 is served, and 503 is a failure like any 5xx."""
    own = judge(codes=frozenset({420}))
    outcomes = [own.by_status(respond(status)).outcome for status in (420, 429, 503)]
    assert outcomes == [REFUSED, ACCEPTED, FAILED]


@pytest.mark.parametrize("status", [200, 403, 429, 500])
@pytest.mark.parametrize("last_word", list(Outcome))
def test_the_classifier_has_the_last_word(
    status: int, last_word: Outcome, judge: Callable[..., RefusalRules]
) -> None:
    """Whatever the status said."""
    own, response = judge(lambda _: last_word), respond(status)
    assert own.by_body(response, own.by_status(response)) == Verdict(last_word)


def test_a_classifier_without_an_opinion_leaves_the_verdict(
    judge: Callable[..., RefusalRules],
) -> None:
    """With the wait that goes with it."""
    own, verdict = judge(lambda _: None), Verdict(REFUSED, 7.0)
    assert own.by_body(respond(429), verdict) is verdict


@pytest.mark.parametrize(("headers", "told"), [({}, None), (RETRY, 7.0), (SPENT, 30.0)])
def test_a_refusal_that_only_the_classifier_saw_keeps_its_silence(
    headers: dict[str, str], told: float | None, judge: Callable[..., RefusalRules]
) -> None:
    """A captcha under a 200 may name a wait too."""
    own = judge(lambda response: REFUSED if "captcha" in response.text else None)
    response = respond(200, headers, "<p>captcha</p>")
    verdict = own.by_body(response, own.by_status(response))
    assert verdict._replace(quotas=()) == Verdict(REFUSED, told)


def test_an_acceptance_by_the_classifier_asks_for_no_silence(
    judge: Callable[..., RefusalRules],
) -> None:
    """A 429 that is no refusal leaves no wait behind."""
    own, response = judge(lambda _: ACCEPTED), respond(429, RETRY)
    assert own.by_body(response, own.by_status(response)) == Verdict(ACCEPTED)


def test_only_a_judge_with_a_classifier_waits_for_the_body(
    judge: Callable[..., RefusalRules],
) -> None:
    """Without one the status has spoken."""
    assert (judge().has_classifier, judge(lambda _: None).has_classifier) == (False, True)
    verdict = Verdict(FAILED)
    assert judge().by_body(respond(500), verdict) is verdict


@pytest.mark.parametrize("wrong", [True, "refused", math.nan, 0])
def test_a_classifier_that_returns_no_outcome_is_overruled_and_counted(
    wrong: object, judge: Callable[..., RefusalRules], stats: StatsCollector
) -> None:
    """The status decides."""
    own, verdict = judge(lambda _: wrong), Verdict(REFUSED, 7.0)
    assert own.by_body(respond(429), verdict) is verdict
    assert stats.get_value("adaptive/classifier_errors") == 1


def test_a_classifier_that_raises_is_logged_once_per_kind_and_counted_each_time(
    judge: Callable[..., RefusalRules], stats: StatsCollector, caplog: pytest.LogCaptureFixture
) -> None:
    """Three errors of two kinds."""

    def fall(response: Response) -> Outcome:
        return {"a": REFUSED}[response.text] if response.text else Outcome("?")

    own, verdict = judge(fall), Verdict(ACCEPTED)
    for body in ("b", "", "b"):
        assert own.by_body(respond(200, None, body), verdict) is verdict
    assert stats.get_value("adaptive/classifier_errors") == 3
    kinds = [record.getMessage().split()[2] for record in caplog.records]
    assert kinds == ["KeyError", "ValueError"]


def test_headers_that_cannot_be_read_are_counted_by_name(
    judge: Callable[..., RefusalRules], stats: StatsCollector
) -> None:
    """Twice the same malformed header of one response is one; the next response counts anew."""
    own = judge()
    own.by_status(respond(200, {"Retry-After": ["soon", "later"], "RateLimit": "="}))
    assert stats.get_value("adaptive/headers_ignored") == 2
    own.by_status(respond(429, {"Retry-After": "soon"}))
    assert stats.get_value("adaptive/headers_ignored") == 3


def test_headers_that_can_be_read_are_not_counted(
    judge: Callable[..., RefusalRules], stats: StatsCollector
) -> None:
    """Nor is a broken Date, which is no hint by itself."""
    judge().by_status(respond(429, {**RETRY, **SPENT, **X_SPENT}))
    judge().by_status(respond(200, {"Date": "yesterday"}))
    assert stats.get_value("adaptive/headers_ignored") is None
