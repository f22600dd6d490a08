"""The live view: whom it answers, and with what."""

from __future__ import annotations

import http.client
import json
import os
import resource
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from scrapy_adaptive.report.building import Builder
from scrapy_adaptive.report.crawl import Crawl
from scrapy_adaptive.report.live import handlers, server
from scrapy_adaptive.report.live.feed import SHARE, Feed, Watcher
from scrapy_adaptive.report.live.guard import Guard
from scrapy_adaptive.report.live.metrics import openmetrics
from scrapy_adaptive.report.live.server import LiveView
from scrapy_adaptive.report.records import VERSION, CrawlRecord, End, EventRecord, SiteRecord, Start
from tests.report.journals import SITE, start
from tests.report.views import live_view, sites

NAMES = ["a.example", "<b>b.example</b>", 'c "quoted"\\\n.example']
LOCAL = {"Host": "127.0.0.1:6600"}


@pytest.fixture
def view() -> Iterator[LiveView]:
    """A live view of a crawl of three sites."""
    with live_view(NAMES) as live:
        yield live


def ask(
    view: LiveView, path: str, *, method: str = "GET", token: str = "", **headers: str
) -> tuple[int, http.client.HTTPMessage, str]:
    """Status, headers and text of an answer; header names are written with underscores."""
    parts = urlsplit(view.url)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port or 0, timeout=20)
    query = f"?token={token}" if token else ""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path + query, headers=sent)
    answer = connection.getresponse()
    text = answer.read().decode() if path != "/events" else answer.readline().decode()
    connection.close()
    return answer.status, answer.headers, text


# Who is answered


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({}, ""),
        ({"Host": "localhost:8000"}, ""),
        ({"Host": "[::1]:6600"}, ""),
        ({"Origin": "http://127.0.0.1:6600"}, ""),
        ({"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}, ""),
        (
            {
                "Sec-Fetch-Site": "cross-site",
                "Sec-Fetch-Mode": "navigate",
                "Sec-Fetch-Dest": "document",
            },
            "",
        ),
        ({"Host": "evil.example"}, "Host"),
        ({"Host": "127.0.0.1.evil.example:6600"}, "Host"),
        ({"Host": ""}, "Host"),
        ({"Host": "[::1"}, "Host"),
        ({"Origin": "http://evil.example"}, "Origin"),
        ({"Origin": "http://127.0.0.1:8000"}, "Origin"),
        ({"Origin": "null"}, "Origin"),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, "Sec-Fetch-Site"),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, "Sec-Fetch-Site"),
        (
            {
                "Sec-Fetch-Site": "cross-site",
                "Sec-Fetch-Mode": "navigate",
                "Sec-Fetch-Dest": "iframe",
            },
            "Sec-Fetch-Site",
        ),
    ],
)
def test_on_loopback_the_user_is_answered_and_no_page_of_another_origin(
    headers: dict[str, str], why: str
) -> None:
    """A link that the user follows is the user's; a frame, an image or a script is the page's."""
    assert Guard("127.0.0.1").refusal({**LOCAL, **headers}, "").partition(":")[0] == why


def test_elsewhere_the_token_is_wanted_whatever_the_host_is_called() -> None:
    guard = Guard("0.0.0.0")
    host = {"Host": "container:6600"}
    assert len(guard.token) >= 32
    assert guard.refusal(host, "").startswith("token")
    assert guard.refusal(host, guard.token[:-1]).startswith("token")
    assert guard.refusal(host, guard.token) == ""
    assert guard.refusal({**host, "Authorization": f"Bearer {guard.token}"}, "") == ""
    assert guard.refusal({**host, "Origin": "http://evil.example"}, guard.token) != ""


def test_a_view_that_is_not_on_loopback_prints_its_token_and_asks_for_it() -> None:
    live = LiveView("0.0.0.0", 0)
    live.start()
    try:
        token = urlsplit(live.url).query.removeprefix("token=")
        assert ask(live, "/table.json")[0] == 403
        assert ask(live, "/table.json", token=token)[0] == 200
    finally:
        live.stop()


@pytest.mark.parametrize("path", ["/", "/events", "/state.json", "/table.json", "/metrics"])
def test_nothing_of_the_crawl_is_in_an_answer_to_another_origin(view: LiveView, path: str) -> None:
    status, headers, text = ask(view, path, Origin="http://evil.example")
    assert (status, "example" in text) == (403, False)
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_it_can_be_read_only(view: LiveView, method: str) -> None:
    assert ask(view, "/", method=method)[0] == 405


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 20_000,
        b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: a",
        b"GET /\xff HTTP/1.1\r\nHost: a",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: a",
    ],
)
def test_what_is_no_http_is_not_in_the_log_of_the_crawl(
    view: LiveView, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Anybody can send it, with no token."""
    with socket.create_connection(("127.0.0.1", urlsplit(view.url).port or 0), 20.0) as peer:
        peer.sendall(sent + b"\r\n\r\n")
        assert peer.recv(100).startswith(b"HTTP/1.")
    view.stop()
    assert caplog.messages == []


def test_what_fails_in_a_handler_is_in_the_log(
    view: LiveView, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view._feed, "table", lambda: 1 // 0)
    assert ask(view, "/table.json")[0] == 500
    (line,) = caplog.records
    assert line.message == "the live view cannot answer /table.json"
    assert line.exc_info


# What connections cost the crawl


def connect(view: LiveView) -> socket.socket:
    return socket.create_connection(("127.0.0.1", urlsplit(view.url).port or 0), 20.0)


def test_connections_that_say_nothing_are_bounded(view: LiveView) -> None:
    """Each of them is a file descriptor that the crawl cannot have."""
    most = server.MOST_CONNECTIONS + handlers.MOST_STREAMS
    with ExitStack() as stack:
        peers = [stack.enter_context(connect(view)) for _ in range(most + 20)]
        closed: list[socket.socket] = []
        while len(closed) < 20:
            closed, _, _ = select.select(peers, [], [], 20.0)
            assert closed, "nothing more happens"
        left = [peer for peer in peers if peer not in closed]
        assert 0 < len(left) <= most
        assert {peer.recv(1) for peer in closed} == {b""}


def test_who_says_nothing_keeps_no_user_out(view: LiveView) -> None:
    """However many connections there are, and are opened again; one that is fed stays open."""
    with ExitStack() as stack:
        fed = stack.enter_context(connect(view))
        fed.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert fed.recv(8) == b"HTTP/1.1"
        for _ in range(5):
            for _ in range(2 * server.MOST_CONNECTIONS):
                with suppress(OSError):
                    stack.enter_context(connect(view))
            assert ask(view, "/table.json")[0] == 200
        fed.setblocking(False)
        while select.select([fed], [], [], 0.0)[0]:
            assert fed.recv(65_536), "it is still open"


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"])
def test_a_connection_without_a_whole_request_is_closed(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser that is fed has sent one."""
    monkeypatch.setattr(server, "SILENCE", 0.5)
    with live_view(NAMES) as view, connect(view) as fed, connect(view) as peer:
        fed.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        peer.sendall(sent)
        assert peer.recv(1) == b""
        assert fed.recv(1)
        fed.setblocking(False)
        while select.select([fed], [], [], 0.0)[0]:
            assert fed.recv(65_536), "it is still open"


def test_who_is_refused_keeps_no_connection(view: LiveView) -> None:
    """One that takes none of its answers would be at work for ever."""
    assert ask(view, "/", Origin="http://evil.example")[1]["Connection"] == "close"
    assert ask(view, "/")[1]["Connection"] != "close"


def test_that_file_descriptors_are_lacking_is_told_once(
    view: LiveView, caplog: pytest.LogCaptureFixture
) -> None:
    """The crawl's own may take all there are."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        peer = stack.enter_context(socket.socket())
        peer.settimeout(20.0)
        resource.setrlimit(resource.RLIMIT_NOFILE, (peer.fileno() + 1, before[1]))
        with suppress(OSError):
            while True:
                stack.callback(os.close, os.dup(peer.fileno()))
        peer.connect(("127.0.0.1", urlsplit(view.url).port or 0))
        while not caplog.messages:
            time.sleep(0.01)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        peer.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert peer.recv(8) == b"HTTP/1.1", "it tries again"
    assert caplog.messages == [
        "the live view accepts no connection for now: [Errno 24] Too many open files"
    ]


# What is answered


def test_its_state_is_the_read_model(view: LiveView) -> None:
    crawl = Crawl.from_json(json.loads(ask(view, "/state.json")[2]))
    assert set(crawl.sites) == set(NAMES)
    assert crawl.totals.served == 6


def test_its_metrics_are_openmetrics_with_escaped_names(view: LiveView) -> None:
    _, headers, text = ask(view, "/metrics")
    assert headers["Content-Type"].startswith("application/openmetrics-text")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    (served,) = families["scrapy_adaptive_served"].samples
    by_site = families["scrapy_adaptive_site_served"].samples
    assert served.value == 6
    assert {sample.labels["site"]: sample.value for sample in by_site} == dict(
        zip(NAMES, (1, 2, 3), strict=True)
    )


def test_a_latency_that_is_not_known_yet_is_no_metric() -> None:
    """Records tell it after ten seconds: until then a slow site would be the quickest."""
    builder = Builder()
    builder.add(Start(VERSION, 0.0, "pages"))
    builder.add(SiteRecord(1.0, "new", fresh=True, sent=2, in_flight=2))
    builder.add(SiteRecord(1.0, "known", fresh=True, sent=2, latency=0.5))
    text, _ = openmetrics(builder.crawl())
    families = {each.name: each for each in text_string_to_metric_families(text.decode())}
    samples = families["scrapy_adaptive_site_latency_seconds"].samples
    assert [(each.labels["site"], each.value) for each in samples] == [("known", 0.5)]


def test_its_page_may_ask_its_own_server_alone(view: LiveView) -> None:
    status, headers, html = ask(view, "/")
    assert status == 200
    assert "connect-src 'self'" in html
    assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    assert headers["Cache-Control"] == "no-store"


def test_its_stream_begins_with_all_there_is(view: LiveView) -> None:
    _, headers, line = ask(view, "/events")
    change = json.loads(line.removeprefix("data: "))
    assert headers["Content-Type"] == "text/event-stream"
    assert [row[0] for row in change["sites"]] == NAMES[::-1]


def test_where_the_port_is_taken_another_one_is_printed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        live = LiveView("127.0.0.1", taken.getsockname()[1])
        live.start()
        try:
            assert urlsplit(live.url).port != taken.getsockname()[1]
            assert ask(live, "/table.json")[0] == 200
        finally:
            live.stop()


def test_an_address_that_is_not_this_machines_is_an_error() -> None:
    live = LiveView("192.0.2.1", 6600)
    with pytest.raises(OSError, match=r"192\.0\.2\.1"):
        live.start()
    live.stop()


# What is sent again


def test_a_watcher_is_sent_what_is_new_and_nothing_twice() -> None:
    feed, watcher = Feed(), Watcher()
    feed.put([start(), *sites(NAMES[:2]), EventRecord(1.0, "pause", SITE, 1.0)])
    feed.refresh(must=True)
    first = feed.change(watcher)
    assert (len(first["sites"]), len(first["events"]), first["fresh"]) == (2, 1, True)

    again = feed.change(watcher)
    assert (again["sites"], again["events"], again["fresh"]) == ([], [], False)

    feed.put([SiteRecord(60.0, NAMES[0], served=9), EventRecord(60.0, "recovery", SITE)])
    feed.put([CrawlRecord(60.0, served=11, sites=2)])
    feed.refresh(must=True)
    changed = feed.change(watcher)
    assert [row[0] for row in changed["sites"]] == [NAMES[0]]
    assert [text for _, _, text in changed["events"]] == ["recovered"]


def test_the_events_of_several_runs_are_sent_once() -> None:
    feed, watcher = Feed(), Watcher()
    for source in ("a", "b"):
        feed.put([start(run=source), *sites(NAMES[:1]), EventRecord(1.0, "pause", SITE)], source)
    sent = []
    for _ in range(3):
        feed.refresh(must=True)
        sent.append(len(feed.change(watcher)["events"]))
    assert sent == [2, 0, 0]


@pytest.mark.parametrize("headers", [{"Origin": "http://[x"}, {"Authorization": "Bearer \udcff"}])
def test_headers_that_are_none_are_refused(headers: dict[str, str]) -> None:
    assert Guard("127.0.0.1" if "Origin" in headers else "0.0.0.0").refusal(
        {**LOCAL, **headers}, ""
    )


def test_a_view_that_has_failed_takes_nothing_more_and_says_so(
    view: LiveView, caplog: pytest.LogCaptureFixture
) -> None:
    view.put([Start(VERSION + 1, 0.0, "later")])
    view._thread.join(20.0)
    with pytest.raises(ValueError, match=f"version {VERSION + 1}"):
        view.check()
    view.put([CrawlRecord(1.0)])
    assert not view._feed._waiting
    assert f"version {VERSION + 1}" in caplog.text


def test_a_crawl_that_takes_long_to_look_at_is_not_looked_at_each_time() -> None:
    """Ten requests in a row look seldom."""
    feed = Feed()
    feed.put([start(), *sites([f"site-{number}.example" for number in range(3_000)])])
    seen = set()
    for _ in range(10):
        feed.refresh()
        seen.add(id(feed.rows))
    assert len(seen) < 10


def test_an_answer_is_made_once_of_each_look_and_its_cost_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten ask each second, for one that takes a second to make."""
    now, made = 0.0, 0
    answers: set[int] = set()

    def make(feed: Feed) -> int:
        nonlocal now, made
        now, made = now + 1.0, made + 1
        return made

    clock = SimpleNamespace(monotonic=lambda: now, thread_time=lambda: now)
    monkeypatch.setattr("scrapy_adaptive.report.live.feed.time", clock)
    feed = Feed()
    while now < 1_000.0:
        answers.update(feed.made(make) for _ in range(10))
        now += 1.0
    assert made == len(answers)
    assert made == pytest.approx(1_000.0 * SHARE, rel=0.1)


def test_the_last_change_says_that_the_crawl_has_ended(view: LiveView) -> None:
    """Stopped while a browser is fed."""
    parts = urlsplit(view.url)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port or 0, timeout=20)
    connection.request("GET", "/events")
    answer = connection.getresponse()
    answer.readline()
    view.put([End(61.0, "finished")])
    view.stop()
    rest = answer.read().decode()
    assert "ended: finished" in rest
    assert "event: ended" in rest
    connection.close()
