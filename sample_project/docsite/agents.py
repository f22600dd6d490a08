"""Who asks: the class of an agent, told from its User-Agent header.

Laws
----
* A known crawler is known by its name, wherever the name stands in the header.
* A blank header is a known crawler's: nobody honest sends none.
* Nothing is a browser that says it is a bot; all the rest is assumed to be a bot.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

KNOWN_CRAWLERS = (
    "AhrefsBot",
    "Applebot",
    "archive.org_bot",
    "Baiduspider",
    "bingbot",
    "CCBot",
    "DuckDuckBot",
    "Googlebot",
    "heritrix",
    "ia_archiver",
    "msnbot",
    "Nutch",
    "Scrapy",
    "Slurp",
    "Wget",
    "YandexBot",
)
BOT_WORDS = ("bot", "crawl", "fetch", "harvest", "scrap", "spider")
BLANK = "-"
LONGEST_NAME = 200
"""Characters of a header that tell agents apart, so that a header cannot fill the memory."""


class AgentClass(Enum):
    BROWSER = "browser"
    KNOWN_CRAWLER = "known crawler"
    ASSUMED_BOT = "assumed bot"


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent's class and the name it is counted under: for a known crawler the name in
    the list, so that two versions of it are one crawler."""

    kind: AgentClass
    name: str


def classify(header: str, known_crawlers: Iterable[str] = KNOWN_CRAWLERS) -> Agent:
    """Who sends this User-Agent header.

    >>> classify("pydocs/1.0 (Scrapy/2.19)")
    Agent(kind=<AgentClass.KNOWN_CRAWLER: 'known crawler'>, name='Scrapy')
    >>> classify("Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0").kind.value
    'browser'
    >>> classify("curl/8.5").kind.value
    'assumed bot'

    **Source** Connotea, Bibliotech::Throttle: lists of known bots and of browsers, blank is a bot.
    **Departs** Connotea lists browsers by name; those of today all begin with "Mozilla".
    """
    lowered = header.lower()
    if not header.strip():
        return Agent(AgentClass.KNOWN_CRAWLER, BLANK)
    for name in known_crawlers:
        if name.lower() in lowered:
            return Agent(AgentClass.KNOWN_CRAWLER, name)
    is_browser = header.startswith("Mozilla") and not any(word in lowered for word in BOT_WORDS)
    kind = AgentClass.BROWSER if is_browser else AgentClass.ASSUMED_BOT
    return Agent(kind, header[:LONGEST_NAME])
