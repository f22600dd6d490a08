"""Whom a request is sent as: what rules name is looked up, and nothing else."""

from __future__ import annotations

import pytest
from scrapy import Request

from scrapy_adaptive.adapters.identities import Identities
from scrapy_adaptive.core.limits.book import Book
from scrapy_adaptive.core.limits.rule import Identity, Rule
from scrapy_adaptive.rules.reading import hashed

SPECS = {"account": "meta:account", "key": "header:X-Key"}
REQUEST = Request("http://a.org", headers={"X-Key": "k"}, meta={"account": "alice"})


def test_all_are_told_or_those_that_are_wanted() -> None:
    identities = Identities(SPECS, {}, own_agent="bot")
    assert identities.of(REQUEST) == {"agent": "bot", "account": "alice", "key": hashed("k")}
    assert identities.of(REQUEST, {"account", "proxy"}) == {"account": "alice"}
    assert identities.of(REQUEST, ()) == {}


def test_a_user_agent_that_is_told_is_known_by_its_class() -> None:
    """As that of a request is; the name of a class may be told as well."""
    identities = Identities({}, {"crawler": ["*bot*"], "bots": ["x"]})
    told = ("Googlebot/2.1", "crawler", "bots", "curl/8.5")
    known = [identities.known_as("agent", each) for each in told]
    assert known == ["crawler", "crawler", "bots", "curl/8.5"]
    assert Identities({"agent": "meta:agent"}, {"crawler": ["*bot*"]}).known_as("agent", "bot") == (
        "bot"
    )


def test_a_callable_is_asked_where_any_rule_names_an_identity() -> None:
    """It alone knows what it tells."""
    identities = Identities(lambda request: {"team": "a"}, {}, own_agent="bot")
    assert identities.of(REQUEST, {"team"}) == {"team": "a"}
    assert identities.of(REQUEST, ()) == {}


@pytest.mark.parametrize("told", ["alice", ["team"], 0])
def test_an_error_in_a_callable_is_logged_once_and_leaves_the_request_without_identity(
    told: object, caplog: pytest.LogCaptureFixture
) -> None:
    """So does what is no dict."""
    identities = Identities(lambda request: told, {}, own_agent="bot")
    assert [identities.of(REQUEST) for _ in range(2)] == [{"agent": "bot"}] * 2
    assert caplog.text.count("ADAPTIVE_IDENTITY raised TypeError on <GET http://a.org>") == 1
    assert "allowed is a dict, or None" in caplog.text
    assert "alice" not in caplog.text.replace(REQUEST.url, "")


def test_what_is_no_address_of_a_proxy_is_no_identity() -> None:
    """The download fails for it, later, as without rules."""
    bad = REQUEST.replace(meta={"proxy": "http://[bad"})
    assert Identities({}, {}, own_agent="bot").of(bad) == {"agent": "bot"}


def test_a_book_says_which_its_rules_name() -> None:
    rules = [Rule(id="1", rate=1.0), Rule(id="2", rate=1.0, identity=Identity("key", "*"))]
    assert Book(rules).sources == {"key"}
