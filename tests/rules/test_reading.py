"""Whatever stands in a setting, a file or a row: a rule, or one error that names what is wrong."""

from __future__ import annotations

import math
import os
import random
import re
from collections.abc import Callable
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from scrapy import Request
from scrapy.settings import Settings

from scrapy_adaptive import SettingsError
from scrapy_adaptive.adapters.settings import read_settings
from scrapy_adaptive.adapters.slot_names import ruled_host
from scrapy_adaptive.core.limits.book import Book
from scrapy_adaptive.core.limits.rule import Identity, Rule, RuleError
from scrapy_adaptive.rules.reading import READERS, SYNONYMS, hashed, pausing, read_rule
from scrapy_adaptive.rules.schema import RULES
from scrapy_adaptive.rules.table import RuleTable
from scrapy_adaptive.rules.toml_file import read_toml

DRAWN = int(os.environ.get("RULES_DRAWN", "2500"))
"""Settings and files of chance; of rules and rows four times as many. A setting is a list of four
rules."""

WORDS = (*READERS, *SYNONYMS, "burts", "", "id")

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 10, 1 << 80, 0.5, -0.0, math.nan, math.inf, 1e308),
    *("", "*", "/search/*", "/a/12/b", "*.example.com", "host:80", "Host.EXAMPLE", "account=*"),
    *("account=alice", "=", "a=", "=b", "nan", "inf", "7d", "-3s", "1e9d", "\0", "é", "x" * 5000),
    *(
        b"bytes",
        [],
        [1],
        {},
        {"a": 1},
        Decimal("NaN"),
        Decimal(3),
        object(),
        3j,
        "true",
        "2026-01-01",
    ),
    *(
        datetime(2030, 1, 1, tzinfo=timezone.utc),
        "/*",
        "/a*b",
        "*/",
        "user agent=x",
        "agent=[",
        "²",
    ),
)


def draw(chance: random.Random) -> dict[Any, Any]:
    """Words and values of chance; some of them good."""
    return {chance.choice(WORDS): chance.choice(VALUES) for _ in range(chance.randint(0, 5))}


def test_rules_of_chance_are_read_or_named() -> None:
    """Nothing but `RuleError` is raised, and it says what is allowed."""
    chance = random.Random(24)
    good = 0
    for number in range(4 * DRAWN):
        given: Any = draw(chance) if number % 50 else chance.choice(VALUES)
        told = error_of(read_rule, given, RuleError, id=str(number))
        good += told is None
        assert told is None or ("allowed is" in told and "\n" not in told)
    assert good > DRAWN / 5


def error_of(
    read: Callable[..., object], given: Any, expected: type[Exception], **options: Any
) -> str | None:
    """What a reader says is wrong, None for nothing; another error is one of ours."""
    try:
        read(given, **options)
    except expected as error:
        return str(error)
    return None


def test_settings_of_chance_are_read_or_named() -> None:
    """The place in the list is named, and the word."""
    chance = random.Random(25)
    for _ in range(DRAWN):
        given = [draw(chance) for _ in range(4)]
        told = error_of(read_settings, Settings({"ADAPTIVE_RULES": given}), SettingsError)
        assert told is None or re.match(r"ADAPTIVE_RULES\[\d\]\['.*: allowed is ", told, re.DOTALL)


def test_files_of_chance_are_read_or_named(tmp_path: Path) -> None:
    """A file is taken whole or not at all."""
    chance = random.Random(26)
    path = tmp_path / "rules.toml"
    texts = ('"{}"', "{}", "'{}'", "[{}]", '"""{}"""', "{}.0")
    for _ in range(DRAWN):
        lines = []
        for _ in range(chance.randint(0, 5)):
            lines.append(chance.choice(["[[rules]]", "[[rules]]", "[rules]", "[[other]]", "]"]))
            for _ in range(chance.randint(0, 3)):
                value = chance.choice(texts).format(str(chance.choice(VALUES))[:20])
                lines.append(f"{chance.choice(WORDS) or 'x'} = {value}")
        path.write_text("\n".join(lines), encoding="utf-8")
        told = error_of(read_toml, path, ValueError)
        assert told is None or str(path) in told


def test_rows_of_chance_are_read_or_named(tmp_path: Path) -> None:
    """SQLite takes any value in any column; the good rows hold."""
    table = RuleTable(f"sqlite:///{tmp_path}/rules.db")
    table.create()
    chance = random.Random(27)
    columns = [column.name for column in RULES.columns][1:]
    plain = [each for each in VALUES if isinstance(each, (str, int, float)) and each != 1 << 80]
    with table.engine.begin() as connection:
        raw = connection.connection
        for number in range(4 * DRAWN):
            chosen = chance.sample(columns, chance.randint(0, 4))
            names = ", ".join(["id", *chosen])
            marks = ", ".join("?" * (len(chosen) + 1))
            values = [number, *(chance.choice(plain) for _ in chosen)]
            raw.execute(f"INSERT OR IGNORE INTO adaptive_rules ({names}) VALUES ({marks})", values)
    reading = table.read()
    assert reading is not None
    assert len(reading.rules) > 0.4 * DRAWN
    assert len(reading.problems) > 0.4 * DRAWN
    assert all("allowed is" in each.why and each.id in each.why for each in reading.problems)


GOOD: dict[str, tuple[dict[str, Any], Callable[[Rule], object], object]] = {
    "the words of Scrapy's draft": (
        {"delay": 2, "quota": 9, "window": 60, "concurrency": 3},
        lambda rule: (rule.interval, rule.max_hits, rule.window, rule.concurrency),
        (2.0, 9, 60.0, 3),
    ),
    "a raw path": ({"uri": "/entity/12/version/7"}, lambda rule: rule.uri, "/entity/#/version/#"),
    "a prefix": ({"uri": "/search/*"}, lambda rule: rule.uri, "/search/*"),
    "a week": ({"max_hits": 9, "window": "1w"}, lambda rule: rule.window, 604_800.0),
    "a date": ({"expires_at": "1970-01-02T00:00:00Z"}, lambda rule: rule.expires_at, 86_400.0),
    "an identity": (
        {"identity": "account=*"},
        lambda rule: rule.identity,
        Identity("account", "*"),
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_a_rule_is_read(name: str) -> None:
    words, look, expected = GOOD[name]
    assert look(read_rule(words, id="1")) == expected


def test_a_secret_is_stored_as_its_hash() -> None:
    """Whether the rule has the secret, or the hash already."""
    for told in ("swordfish", hashed("swordfish")):
        rule = read_rule({"identity": f"key={told}"}, id="1", sources={"key"}, secrets={"key"})
        assert rule.identity == Identity("key", hashed("swordfish"))


def test_an_identity_that_nobody_tells_is_refused() -> None:
    """A slip would open the gate."""
    with pytest.raises(RuleError, match=r"acount=\*.*account, agent"):
        read_rule({"identity": "acount=*"}, id="1", sources={"agent", "account"})


def test_a_bad_row_keeps_its_last_good_form(tmp_path: Path) -> None:
    """An operator's slip opens no gate; a row that never was good pauses what it means."""
    table = RuleTable(f"sqlite:///{tmp_path}/rules.db")
    table.create()
    with table.engine.begin() as connection:
        connection.execute(sa.insert(RULES).values(id=7, rate=2.0))
    first = table.read()
    assert table.read() is None
    with table.engine.begin() as connection:
        connection.execute(sa.update(RULES).values(rate=-2.0))
        connection.execute(sa.insert(RULES).values(id=8, rate=-1.0))
    second = table.read()
    assert first is not None
    assert second is not None
    assert second.rules[0] == first.rules[0]
    assert second.rules[1] == Rule(id="8", is_stored=True, name="bad row 8", paused=True)
    assert [each.id for each in second.problems] == ["7", "8"]
    assert "adaptive_rules id 7: rate = -2.0" in second.problems[0].why
    assert "last good form holds" in second.problems[0].why
    assert "nothing that it may mean is sent" in second.problems[1].why


PAUSED: dict[str, tuple[dict[str, Any], Callable[[Rule], object], object]] = {
    "its host": ({"host": "A.org", "rate": -1}, lambda rule: rule.host, "a.org"),
    "its pages": ({"uri": "/api/*", "rate": -1}, lambda rule: rule.uri, "/api/*"),
    "all pages, where it cannot be read which": (
        {"host": "a.org", "uri": "api"},
        lambda rule: (rule.host, rule.uri),
        ("a.org", "*"),
    ),
    "its account": (
        {"identity": "account=alice", "rate": -1},
        lambda rule: rule.identity,
        Identity("account", "alice"),
    ),
    "everybody, where nobody knows whom": (
        {"identity": "acount=alice", "rate": 1},
        lambda rule: rule.identity,
        None,
    ),
    "nobody, in a dry run": ({"dry_run": 1, "rate": -1}, lambda rule: rule.dry_run, True),
    "nobody any more": ({"expires_at": 9, "rate": -1}, lambda rule: rule.expires_at, 9.0),
}


@pytest.mark.parametrize("name", PAUSED)
def test_a_row_that_never_was_good_pauses(name: str) -> None:
    given, look, expected = PAUSED[name]
    with pytest.raises(RuleError):
        read_rule(given, id="1", sources={"account"})
    rule = pausing(given, id="1", sources={"account"})
    assert rule is not None
    assert rule.paused
    assert look(rule) == expected


def test_a_row_whose_host_cannot_be_read_holds_nobody() -> None:
    """Whoever reads it is told; a crawl does not begin with it."""
    assert pausing({"host": "a b", "rate": 1.0}, id="1") is None


@pytest.mark.parametrize(
    "given", ["2024-01-01 00:00:00", " 2024-01-01", datetime(2024, 1, 1)], ids=repr
)
def test_a_bad_row_pauses_until_its_date_without_a_zone_is_past_in_every_zone(given: Any) -> None:
    """For good where it is no date."""
    rule = pausing({"host": "a.org", "rate": 1.0, "expires_at": given}, id="1")
    assert rule is not None
    assert rule.paused
    noon = datetime(2024, 1, 1, 12, tzinfo=timezone.utc)
    assert rule.expires_at == noon.timestamp()
    long_ago = pausing({"host": "a.org", "expires_at": "1960-01-01"}, id="1")
    assert long_ago is not None
    assert long_ago.expires_at == 1.0
    for never in ("soon", -1, "9999-12-31T23:59:59", datetime.max):
        rule = pausing({"host": "a.org", "expires_at": never}, id="1")
        assert rule is not None
        assert rule.expires_at > 1e11


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("München.example", "http://münchen.example/"),
        ("xn--mnchen-3ya.example", "http://münchen.example/"),
        ("*.münchen.example", "http://www.MÜNCHEN.example/"),
        ("straße.example", "http://straße.example:8080/"),
        ("api.example.com.", "http://api.example.com/"),
        ("api.example.com", "http://api.example.com./"),
        ("a_b.example.com", "http://A_b.example.com/"),
    ],
)
def test_a_host_matches_however_it_is_written(host: str, url: str) -> None:
    book = Book([read_rule({"host": host, "rate": 1}, id="1")])
    assert book.match(ruled_host(Request(url)), "/", {})


@pytest.mark.parametrize("host", [".", "..", ".example.com", "*.", "*..org", "a..b"])
def test_a_host_that_no_url_has_is_named(host: str) -> None:
    """It would hold nobody, or everybody."""
    told = error_of(read_rule, {"host": host, "rate": 1}, RuleError, id="1")
    assert told is not None
    assert told.startswith("host = ")


def test_an_instant_without_a_zone_is_named() -> None:
    """It would be another one on the next machine."""
    for instant in (datetime(2030, 1, 1, 10), "2030-01-01T10:00:00", "2030-01-01"):
        told = error_of(read_rule, {"rate": 1, "expires_at": instant}, RuleError, id="1")
        assert told is not None
        assert "a date and time with its zone" in told
