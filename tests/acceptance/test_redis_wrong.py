"""A wrong address of Redis, or wrong settings of scrapy-redis: one line, and nothing is sent."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy.settings import BaseSettings

pytest.importorskip("scrapy_redis")

from scrapy_adaptive.__main__ import main
from scrapy_adaptive.adapters.frontier.redis_settings import connector
from scrapy_adaptive.frontier.opening import open_frontier
from scrapy_adaptive.frontier.poller import Ranking
from scrapy_adaptive.frontier.protocol import FrontierError
from tests.acceptance.test_recrawls import BooksSpider
from tests.crawling import Crawler
from tests.servers.valkey import Valkey

NUMBER = "allowed as the database is a number"

ADDRESSES = {
    "?prefx=books": "'prefx' is no option of this connection: allowed behind the ? of an address",
    "?socket_timeout=abc": "Invalid value for 'socket_timeout'",
    "abc": NUMBER,
    "0x1": NUMBER,
    "1/2": NUMBER,
}
"""What stands behind a server's name and port, and why it is refused."""

UNREADABLE = ("redis://127.0.0.1:abc/0", "redis://[::1/0", "redis://:secret/1@127.0.0.1/0")
"""Addresses whose server cannot be read."""

SETTINGS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"REDIS_PARAMS": {"foo": 1}}, "'foo' is no option"),
    ({"REDIS_PARAMS": {"max_connections": "x"}}, "redis-py can make no connection of this"),
    ({"REDIS_PARAMS": "secret"}, "allowed as REDIS_PARAMS is a dict"),
)
"""Settings of scrapy-redis, and why they are refused."""

URLS = ("127.0.0.1:6401", "u:secret@127.0.0.1", "redis://127.0.0.1:abc", "redis://127.0.0.1/abc")
"""What no REDIS_URL may be."""


def why_refused(address: str, **settings: Any) -> str:
    """What a crawl with these settings is told."""
    with pytest.raises(FrontierError) as refused:
        open_frontier(address, "one", Ranking(), connector(BaseSettings(settings)))
    return str(refused.value)


@pytest.mark.parametrize("rest", ADDRESSES)
def test_a_wrong_address_is_told_in_one_line_by_the_command(
    rest: str, valkey: Valkey, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"redis://127.0.0.1:{valkey.port}/{rest}"
    with pytest.raises(SystemExit):
        main(["frontier", "show", "--frontier", address, "--spider", "one"])
    said = capsys.readouterr().err
    assert ADDRESSES[rest] in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("address", UNREADABLE)
def test_an_address_whose_server_cannot_be_read_is_refused_and_not_shown(address: str) -> None:
    """A part of it may be one of a password."""
    told = why_refused(address)
    assert told == "allowed is redis://HOST:PORT/0, the port being a number"


@pytest.mark.parametrize(("settings", "why"), SETTINGS)
def test_wrong_settings_of_scrapy_redis_are_refused(
    settings: dict[str, Any], why: str, valkey: Valkey
) -> None:
    told = why_refused(valkey.frontier(), **settings)
    assert why in told
    assert "secret" not in told


@pytest.mark.parametrize("url", URLS)
def test_a_wrong_url_of_scrapy_redis_is_refused_by_name(url: str) -> None:
    told = why_refused("redis://", REDIS_URL=url)
    assert told.startswith("REDIS_URL is ")
    assert "allowed " in told
    assert "secret" not in told


@pytest.mark.parametrize("address", ["redis:///2", "redis://?prefix=books&db=2"])
def test_where_no_server_is_named_no_database_of_it_is(address: str, valkey: Valkey) -> None:
    """It would be that of REDIS_URL."""
    assert "nothing but redis:// or" in why_refused(address, REDIS_URL=valkey.url())


@pytest.mark.parametrize("options", [{"REDIS_PARAMS": {"foo": 1}}, {}])
def test_a_crawl_tells_it_in_one_line_without_a_traceback(
    options: dict[str, Any], crawl: Crawler, valkey: Valkey
) -> None:
    rest = "0" if options else "0?prefx=books"
    address = f"redis://:secret@127.0.0.1:{valkey.port}/{rest}"
    given = {"ADAPTIVE_FRONTIER": address, "LOG_LEVEL": "ERROR", **options}
    done = crawl(BooksSpider, given, arguments={"url": "http://127.0.0.1:1"}, check=False)
    (line,) = done.log.splitlines()
    assert f"ADAPTIVE_FRONTIER = 'redis://@127.0.0.1:{valkey.port}/{rest}': " in line
    assert "is no option of this connection: allowed behind" in line
