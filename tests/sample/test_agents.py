"""Who is taken for what."""

from __future__ import annotations

import pytest

from docsite.agents import BLANK, LONGEST_NAME, Agent, AgentClass, classify

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("Scrapy/2.19.0 (+https://scrapy.org)", "Scrapy"),
        ("pydocs/1.0 (sample project; Scrapy/2.19.0)", "Scrapy"),
        ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "Googlebot"),
        ("wget/1.21", "Wget"),
        ("", BLANK),
        ("   ", BLANK),
    ],
)
def test_a_known_crawler_is_counted_under_its_name_in_the_list(header: str, name: str) -> None:
    """Wherever the name stands, in whatever case; a blank header is a crawler's too."""
    assert classify(header) == Agent(AgentClass.KNOWN_CRAWLER, name)


def test_a_browser_says_mozilla_and_no_bot_word() -> None:
    """The whole header tells browsers apart."""
    assert classify(FIREFOX) == Agent(AgentClass.BROWSER, FIREFOX)


@pytest.mark.parametrize(
    "header", ["curl/8.5.0", "python-requests/2.34", "Mozilla/5.0 (compatible; NewBot/0.1)"]
)
def test_everything_else_is_assumed_to_be_a_bot(header: str) -> None:
    """Also what calls itself Mozilla and a bot in one breath."""
    assert classify(header).kind is AgentClass.ASSUMED_BOT


def test_an_agent_in_no_list_is_no_known_crawler() -> None:
    """The list is the site's to choose."""
    assert classify("Scrapy/2.19", known_crawlers=()).kind is AgentClass.ASSUMED_BOT


def test_an_endless_header_gives_a_name_of_bounded_length() -> None:
    """8 kB of User-Agent cost the site 200 characters."""
    assert len(classify("x" * 8000).name) == LONGEST_NAME
