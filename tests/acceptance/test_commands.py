"""`fetch`, `view`, `shell` and `parse` show a refusal at once: their user waits for one answer.

That a command is one of these is told by how its process was started: `fetch` and `crawl` have one
of their own, the others are forks.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.project import ADDON, Project
from tests.servers.origin import Answer, Origin, Visit, refusal

SILENCE = 40
"""Seconds that the site asks for: more than any command of these may take, which is ended after
thirty."""

COMMANDS = {
    "fetch": (["fetch"], "refused"),
    "fetch --headers": (["fetch", "--headers"], f"< Retry-After: {SILENCE}"),
    "view": (["view"], "Crawled (429)"),
    "shell": (["shell", "-c", "'status', response.status"], "('status', 429)"),
    "parse": (["parse", "--spider", "one", "--callback", "parse"], "'status': 429"),
}
"""Arguments, and what the user is shown."""


def refuse(visit: Visit) -> object:
    return refusal(retry_after=SILENCE)


@pytest.mark.parametrize("command", list(COMMANDS))
@pytest.mark.parametrize("reactor", ["with a reactor", "without one"])
def test_the_refusal_is_shown_at_once(
    command: str, reactor: str, tmp_path: Path, origin: Callable[..., Origin]
) -> None:
    """One hit, no waiting, no retry."""
    site = origin(refuse)
    lines = [ADDON, *(["TWISTED_REACTOR_ENABLED = False"] if reactor == "without one" else [])]
    arguments, shown = COMMANDS[command]
    project = Project.make(tmp_path, site.url, *lines)
    run = project.process if command == "fetch" else project.scrapy
    done = run(*arguments, f"{site.url}/page")
    assert shown in done.stdout
    assert "Traceback" not in done.stdout
    assert [hit.path for hit in site.hits()] == ["/page"]


def test_crawl_waits_the_refusal_out_instead(tmp_path: Path, origin: Callable[..., Origin]) -> None:
    """The same project and site: a crawl brings the page."""
    site = origin(lambda visit: refusal(retry_after=1) if visit.count == 1 else refusal(200))
    done = Project.make(tmp_path, site.url, ADDON).process("crawl", "one")
    assert done.returncode == 0
    assert "{'status': 200, 'body': 'refused'}" in done.stdout
    assert len(site.hits()) == 2


def test_fetch_and_shell_end_soon_while_robots_txt_is_refused(
    tmp_path: Path, origin: Callable[..., Origin]
) -> None:
    """Nobody at a prompt waits for forty seconds to be told that a site refuses."""
    site = origin(refuse)
    project = Project.make(tmp_path, site.url, ADDON, "ROBOTSTXT_OBEY = True")
    for arguments in (["fetch", f"{site.url}/page"], ["shell", f"{site.url}/page", "-c", "1 + 1"]):
        done = project.scrapy(*arguments)
        assert "Traceback" not in done.stdout
    assert {hit.path for hit in site.hits()} <= {"/robots.txt", "/page"}


def test_a_second_fetch_in_a_shell_of_a_host_that_refused_the_first_ends_soon(
    tmp_path: Path, origin: Callable[..., Origin]
) -> None:
    """The log has told of the pause; the host is not asked again."""
    site = origin(refuse)
    project = Project.make(tmp_path, site.url, ADDON)
    again = f"fetch('{site.url}/second')"
    done = project.scrapy("shell", f"{site.url}/first", "-c", again)
    assert "paused for" in done.stdout
    assert [hit.path for hit in site.hits()] == ["/first"]


def test_a_prompt_leaves_the_frontier_alone(origin: Callable[..., Origin], tmp_path: Path) -> None:
    """Its user asks for one page, and has nothing else fetched."""
    site = origin(lambda visit: Answer())
    address = f'ADAPTIVE_FRONTIER = "sqlite:///{tmp_path}/crawl.db"'
    project = Project.make(tmp_path / "project", site.url, ADDON, address)
    done = project.scrapy("fetch", f"{site.url}/page")
    assert done.returncode == 0
    assert [hit.path for hit in site.hits()] == ["/page"]
    assert not (tmp_path / "crawl.db").exists()


CONTRACT = """\
import scrapy


class CheckedSpider(scrapy.Spider):
    name = "checked"

    def parse(self, response):
        \"\"\"
        @url {url}
        @returns items 1 1
        \"\"\"
        yield {{"url": response.url}}
"""


def test_who_checks_contracts_leaves_the_frontier_alone(
    origin: Callable[..., Origin], tmp_path: Path
) -> None:
    """They have their own pages: an interrupted crawl's would be fetched, and lost to it."""
    site = origin(lambda visit: Answer())
    address = f'ADAPTIVE_FRONTIER = "sqlite:///{tmp_path}/crawl.db"'
    project = Project.make(tmp_path / "project", site.url, ADDON, address)
    spider = project.folder / "shop" / "spiders" / "checked.py"
    spider.write_text(CONTRACT.format(url=f"{site.url}/contract"))
    done = project.scrapy("check", "checked")
    assert "OK" in done.stdout
    assert [hit.path for hit in site.hits()] == ["/contract"]
    assert not (tmp_path / "crawl.db").exists()
