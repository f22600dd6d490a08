"""The real site on the loopback interface."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path

from aiohttp import ClientSession
from aiohttp.test_utils import TestServer
from yarl import URL

from docsite.app import ROBOTS, Site
from docsite.hits import Hit
from docsite.load_control import LoadControl
from docsite.load_rules import LoadRules
from docsite.pages import read_manifest

BROWSER = "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0"


def build(
    pages: Path, rules: LoadRules | None, *, latency: float = 0.0, tell_wait: bool = False
) -> Site:
    """A site that logs to memory; without rules, one that refuses nobody."""
    manifest = read_manifest(pages)
    assert manifest is not None
    control = None if rules is None else LoadControl(rules)
    files = manifest.files(pages)
    return Site(files, control, io.StringIO(), latency=latency, tell_wait=tell_wait)


def hits(site: Site) -> list[Hit]:
    assert isinstance(site.log, io.StringIO)
    return [Hit(**json.loads(line)) for line in site.log.getvalue().splitlines()]


class Visitor:
    """A client that says who it is and asks for one path after another."""

    def __init__(self, session: ClientSession, server: TestServer) -> None:
        self.session = session
        self.server = server

    async def get(self, path: str, *, method: str = "GET") -> tuple[int, str, dict[str, str]]:
        url = URL(f"http://127.0.0.1:{self.server.port}{path}", encoded=True)
        async with self.session.request(method, url) as response:
            return response.status, await response.text(), dict(response.headers)

    async def statuses(self, *paths: str) -> list[int]:
        return [(await self.get(path))[0] for path in paths]


@contextlib.asynccontextmanager
async def visiting(site: Site, agent: str = "Scrapy/2.19") -> AsyncIterator[Visitor]:
    server = TestServer(site.application(), host="127.0.0.1")
    await server.start_server()
    try:
        async with ClientSession(headers={"User-Agent": agent}) as session:
            yield Visitor(session, server)
    finally:
        await server.close()


def test_pages_are_served_and_unknown_paths_are_not_found(pages: Path) -> None:
    """The index at /, every module at its name, nothing else."""

    async def visit() -> None:
        async with visiting(build(pages, None)) as visitor:
            assert await visitor.statuses("/", "/alpha.html", "/beta.html") == [200, 200, 200]
            assert await visitor.statuses("/gamma.html", "/index.html", "/alpha") == [404] * 3
            _, page, headers = await visitor.get("/alpha.html")
            assert "module alpha" in page
            assert headers["Content-Type"] == "text/html; charset=utf-8"

    asyncio.run(visit())


def test_a_page_that_cannot_be_read_is_an_error_in_the_log_too(pages: Path) -> None:
    """Rendered anew while the site serves."""

    async def visit() -> None:
        site = build(pages, None)
        async with visiting(site) as visitor:
            (pages / "alpha.html").unlink()
            assert await visitor.statuses("/alpha.html") == [500]
        assert [hit.status for hit in hits(site)] == [500]

    asyncio.run(visit())


def test_no_path_leads_out_of_the_folder(pages: Path) -> None:
    """Neither dots nor their encodings, nor the manifest inside it."""
    (pages.parent / "secret.html").write_text("secret")

    async def visit() -> None:
        async with visiting(build(pages, None)) as visitor:
            for path in (
                "/../secret.html",
                "/%2e%2e/secret.html",
                "/..%2fsecret.html",
                "/pages/../../secret.html",
                "//etc/passwd",
                "/alpha.html%00",
                "/manifest.json",
            ):
                status, text, _ = await visitor.get(path)
                assert (status, "secret" in text) == (404, False)

    asyncio.run(visit())


def test_only_reading_is_allowed(pages: Path) -> None:
    """HEAD has no body, POST is refused with what is allowed."""

    async def visit() -> None:
        async with visiting(build(pages, None)) as visitor:
            assert (await visitor.get("/alpha.html", method="HEAD"))[:2] == (200, "")
            status, _, headers = await visitor.get("/alpha.html", method="POST")
            assert (status, headers["Allow"]) == (405, "GET, HEAD")

    asyncio.run(visit())


def test_a_crawler_that_hurries_is_refused_with_a_reason_and_no_more(pages: Path) -> None:
    """503, a sentence, and no Retry-After."""

    async def visit() -> None:
        async with visiting(build(pages, LoadRules())) as visitor:
            assert await visitor.statuses("/") == [200]
            status, text, headers = await visitor.get("/alpha.html")
            assert status == 503
            assert "less than 30 s ago" in text
            assert "Retry-After" not in headers

    asyncio.run(visit())


def test_a_site_may_tell_the_wait_in_whole_seconds(pages: Path) -> None:
    """0.3 s are rounded up, in the header and in the log."""
    site = build(pages, LoadRules(crawler_interval=0.3), tell_wait=True)

    async def visit() -> str:
        async with visiting(site) as visitor:
            await visitor.get("/")
            return (await visitor.get("/"))[2]["Retry-After"]

    assert asyncio.run(visit()) == "1"
    assert [hit.retry_after for hit in hits(site)] == [None, 1.0]


def test_robots_txt_is_free_and_allows_everything(pages: Path) -> None:
    """It is neither refused nor counted: the first page after it is served."""

    async def visit() -> None:
        async with visiting(build(pages, LoadRules())) as visitor:
            assert (await visitor.get("/robots.txt"))[:2] == (200, ROBOTS)
            assert await visitor.statuses("/", "/alpha.html", "/robots.txt") == [200, 503, 200]

    asyncio.run(visit())


def test_the_eleventh_page_of_a_hurried_browser_is_refused(pages: Path) -> None:
    """An unknown page is a hit like any other."""

    async def visit() -> None:
        async with visiting(build(pages, LoadRules()), agent=BROWSER) as visitor:
            assert await visitor.statuses(*["/alpha.html"] * 9, "/gamma.html") == [200] * 9 + [404]
            assert await visitor.statuses("/alpha.html") == [503]

    asyncio.run(visit())


def test_over_the_load_a_request_sleeps_and_is_served(pages: Path) -> None:
    """One place: the second request waits until the first has its page."""
    site = build(pages, LoadRules(max_running=1, sleep=0.1), latency=0.03)

    async def visit() -> list[int]:
        async with visiting(site, agent=BROWSER) as visitor:
            both = await asyncio.gather(visitor.get("/"), visitor.get("/alpha.html"))
            return [status for status, _, _ in both]

    assert asyncio.run(visit()) == [200, 200]
    assert max(hit.end - hit.start for hit in hits(site)) >= 0.13


def test_a_client_that_leaves_while_it_sleeps_gives_its_place_back(pages: Path) -> None:
    """It is logged as gone, and neither runs nor sleeps afterwards."""
    site = build(pages, LoadRules(max_running=1, sleep=60.0), latency=60.0)
    control = site.control
    assert control is not None

    async def visit() -> None:
        async with visiting(site, agent=BROWSER) as visitor:
            asked = [asyncio.create_task(visitor.get("/")) for _ in range(2)]
            while (control.running_count, control.sleeper_count) != (1, 1):
                await asyncio.sleep(0.005)
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
            while len(hits(site)) < 2:
                await asyncio.sleep(0.005)

    asyncio.run(visit())
    assert (control.running_count, control.sleeper_count) == (0, 0)
    assert [hit.status for hit in hits(site)] == [499, 499]


def test_every_hit_is_one_line_of_the_log(pages: Path) -> None:
    """Served, refused and not found, with who asked whom for what and when."""
    site = build(pages, LoadRules(crawler_interval=0.0, any_crawler_interval=0.0), latency=0.01)

    async def visit() -> int | None:
        async with visiting(site) as visitor:
            await visitor.statuses("/", "/gamma.html", "/robots.txt")
            return visitor.server.port

    port = asyncio.run(visit())
    logged = hits(site)
    assert [(hit.path, hit.status) for hit in logged] == [
        ("/", 200),
        ("/gamma.html", 404),
        ("/robots.txt", 200),
    ]
    assert {(hit.host, hit.agent) for hit in logged} == {(f"127.0.0.1:{port}", "Scrapy/2.19")}
    assert logged[0].end - logged[0].start >= 0.01
    assert logged[0].end <= logged[1].start
