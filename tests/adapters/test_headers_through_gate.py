"""Whatever bytes a site puts into its headers, nothing changes but one counter.

Hundreds of headers are generated with a fixed seed and served by a raw socket, byte for byte;
the crawl is compared with one of the same site without them.
"""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from scrapy_adaptive.core.headers.parse import HEADER_NAMES, parse_hints
from tests.crawling import Crawler, Reactor, RunningCrawl
from tests.servers.wire import LOCALHOST
from tests.spiders import UrlsSpider

Header = tuple[bytes, bytes]
HINTS = sorted(set(HEADER_NAMES) - {"date", "age"})
PAGES = 400

_BYTES = bytes(byte for byte in range(256) if byte not in b"\r\n\0").decode("latin-1")
"""All that a header may hold on the wire."""

ODD_VALUES = (
    st.text(_BYTES, max_size=40)
    | st.text("0123456789.,;=eE+-_ \t\"'()", max_size=30)
    | st.sampled_from(
        [
            "soon",
            "-1",
            "1e9",
            "inf",
            "nan",
            "0x10",
            "1_000",
            "٣",
            "9" * 400,
            "Thu, 99 Foo 2026 25:61:61 GMT",
            '"burst";r=;t=30',
            '"burst";r=-1;t=30',
            "limit=5, remaining=x",
            "a" * 10_000,
            "1," * 5_000,
        ]
    )
)


def is_malformed(headers: list[Header]) -> bool:
    """All of it is noise: what could be read would rightly change the pace."""
    found: dict[str, list[bytes]] = {}
    for name, value in headers:
        found.setdefault(name.decode().lower(), []).append(value)
    hints = parse_hints(found, unix_now=0.0)
    return hints.retry_after is None and not hints.quotas and bool(hints.ignored)


def is_tame(headers: list[Header]) -> bool:
    """Readable without a reactor, where Scrapy's handler fails at bytes that are not UTF-8."""
    values = b"".join(value for _, value in headers)
    text = values.decode("utf-8", "replace")
    return len(values) < 8_000 and "\N{REPLACEMENT CHARACTER}" not in text and text.isprintable()


def generate(count: int) -> list[list[Header]]:
    """The headers of `count` answers: two to five lines each, names repeated."""
    name = st.sampled_from(HINTS).map(str.encode)
    value = ODD_VALUES.map(lambda text: text.encode("utf-8" if "٣" in text else "latin-1"))
    answers: list[list[Header]] = []

    @seed(2026)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(st.tuples(name, value), min_size=2, max_size=5).filter(is_malformed))
    def collect(headers: list[Header]) -> None:
        answers.append(headers)

    collect()
    return (answers * count)[:count]


class RawServer(socketserver.ThreadingTCPServer):
    """Answers each path once with its own headers; every hundredth is refused the first time."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, headers: list[list[Header]]) -> None:
        super().__init__((LOCALHOST, 0), Connection)
        self.headers = headers
        self.seen: list[int] = []

    @property
    def urls(self) -> list[str]:
        """Its pages."""
        return [
            f"http://{LOCALHOST}:{self.server_address[1]}/{n}" for n in range(len(self.headers))
        ]

    def answer(self, n: int) -> bytes:
        """What is sent for page n."""
        refused = n % 100 == 50 and n not in self.seen
        self.seen.append(n)
        status = b"429 Too Many Requests" if refused else b"200 OK"
        lines = [b"%b: %b" % header for header in self.headers[n]]
        head = [b"HTTP/1.1 " + status, b"Content-Type: text/html", b"Content-Length: 4", *lines]
        return b"\r\n".join(head) + b"\r\n\r\npage"


class Connection(socketserver.StreamRequestHandler):
    """One kept-open connection."""

    def handle(self) -> None:
        server = cast("RawServer", self.server)
        while line := self.rfile.readline():
            while self.rfile.readline().strip():
                pass
            self.wfile.write(server.answer(int(line.split()[1].strip(b"/"))))


@contextmanager
def serving(headers: list[list[Header]]) -> Iterator[RawServer]:
    with RawServer(headers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def start(crawl: Crawler, server: RawServer, reactor: Reactor) -> RunningCrawl:
    """A crawl of all its pages."""
    return crawl.start(
        UrlsSpider,
        {
            "ADAPTIVE_START_DELAY": 0.001,
            "ADAPTIVE_TARGET_CONCURRENCY": 8,
            "ADAPTIVE_BACKOFF_RATIO": 0.9,
            "LOG_LEVEL": "INFO",
        },
        reactor=reactor,
        arguments={"urls": server.urls},
    )


@pytest.fixture(scope="module")
def answers() -> list[list[Header]]:
    return generate(PAGES)


def test_the_generated_headers_are_of_many_kinds(answers: list[list[Header]]) -> None:
    """Bytes beyond ASCII, 10 kB, duplicates, every name that is read."""
    values = [value for headers in answers for _, value in headers]
    assert len(set(values)) > 100
    assert any(max(value, default=0) > 127 for value in values)
    assert any(len(value) >= 10_000 for value in values)
    assert any(len({name for name, _ in headers}) < len(headers) for headers in answers)
    assert {name.decode() for headers in answers for name, _ in headers} == set(HINTS)


@pytest.mark.parametrize(("reactor", "pages"), [("asyncio", PAGES), ("select", 100), ("none", 100)])
def test_headers_that_cannot_be_read_change_nothing_but_a_counter(
    reactor: Reactor, pages: int, answers: list[list[Header]], crawl: Crawler
) -> None:
    """As many pages, hits, refusals and trips as without them; no error; no longer waits."""
    readable = answers if reactor != "none" else list(filter(is_tame, answers))
    served = readable[:pages]
    with serving([[] for _ in served]) as clean, serving(served) as odd:
        both = [start(crawl, clean, reactor), start(crawl, odd, reactor)]
        plain, noisy = (running.wait() for running in both)
    for done, server in ((plain, clean), (noisy, odd)):
        assert sorted(done.urls) == sorted(server.urls)
        assert len(server.seen) == pages + pages // 100
    assert noisy.stats["adaptive/headers_ignored"] >= pages
    assert "adaptive/headers_ignored" not in plain.stats
    for name in ("refusals", "trips", "requeued", "permits/measured"):
        assert noisy.stats[f"adaptive/{name}"] == plain.stats[f"adaptive/{name}"], name
    assert noisy.stats["adaptive/time_paused"] < plain.stats["adaptive/time_paused"] + 3
    assert "log_count/ERROR" not in noisy.stats
    assert "Traceback" not in noisy.log + noisy.stderr
