"""A quota that several processes share, and that outlives each of them.

Laws
----
* Each hit is logged by whoever sent it before the next; a sliding log over all of them judges.
* Processes are real, the database is real, and a kill is SIGKILL.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from scrapy_adaptive.core.limits.meter_table import SEPARATOR
from scrapy_adaptive.core.limits.rule import Rule
from scrapy_adaptive.core.limits.tokens import Ask, Tokens, chunk
from scrapy_adaptive.core.limits.uses import Use
from scrapy_adaptive.rules.schema import HITS, RULES, DatabaseError
from scrapy_adaptive.rules.table import RuleTable
from tests.crawling import SEARCHED
from tests.forking import CALL, Forked, forker
from tests.servers.postgres import Postgres

MOST = int(os.environ.get("QUOTA_HITS", "200"))
WINDOW = float(os.environ.get("QUOTA_SECONDS", "60"))
KILLS = int(os.environ.get("QUOTA_KILLS", "3"))
PROCESSES = 4

ROUNDING = 0.001
"""Seconds by which instants of a database may be rounded."""


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Address of a new database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/rules.db"
    postgres: Postgres = request.getfixturevalue("postgres")
    return postgres.database()


@pytest.fixture
def table(url: str) -> Iterator[RuleTable]:
    """Its tables, with one quota."""
    table = RuleTable(url)
    table.create()
    with table.engine.begin() as connection:
        connection.execute(sa.insert(RULES).values(id=1, max_hits=MOST, window_seconds=WINDOW))
    yield table
    table.engine.dispose()


@pytest.fixture
def spenders(url: str, table: RuleTable, tmp_path: Path) -> Iterator[list[Forked]]:
    """Processes that spend it."""
    found = [spender(url, tmp_path) for _ in range(PROCESSES)]
    yield found
    for each in found:
        each.kill()
        each.wait()


def spender(url: str, folder: Path) -> Forked:
    """One process more."""
    own = Path(tempfile.mkdtemp(prefix="spender-", dir=folder))
    call = ["tests.rules.spender:main", url, str(folder / "hits.log")]
    (own / CALL).write_text(json.dumps(call), encoding="utf-8")
    return forker(SEARCHED).fork(own)


def hits(folder: Path) -> list[float]:
    """Instants of all hits."""
    log = folder / "hits.log"
    return sorted(map(float, log.read_text().split())) if log.exists() else []


@pytest.mark.timeout(600)
def test_a_quota_is_never_overspent_whoever_is_killed(
    url: str, table: RuleTable, spenders: list[Forked], tmp_path: Path
) -> None:
    """By no window, wherever it begins; of a kill at most a chunk is wasted."""
    rule = Rule(id="1", is_stored=True, max_hits=MOST, window=WINDOW)
    deadline = time.monotonic() + 120.0
    for kill in range(KILLS):
        wanted = MOST * (kill + 1) // (KILLS + 2)
        while len(hits(tmp_path)) < wanted and time.monotonic() < deadline:
            time.sleep(0.02)
        victim = spenders[kill % PROCESSES]
        victim.kill()
        victim.wait()
        spenders[kill % PROCESSES] = spender(url, tmp_path)
    before = -1
    while before < len(hits(tmp_path)) and time.monotonic() < deadline:
        before = len(hits(tmp_path))
        time.sleep(max(2.0, WINDOW / 12))
    spent = hits(tmp_path)
    print(f"{len(spent)} of {MOST} in {WINDOW:g} s, {KILLS} kills, a chunk is {chunk(rule)}")
    assert spent
    for first, last in zip(spent, spent[MOST:], strict=False):
        assert last - first >= WINDOW
    if spent[-1] - spent[0] < WINDOW:
        # Tokens that ended with their cell are lost too: at most a chunk and a half of each.
        assert len(spent) >= MOST - (KILLS + 3 * PROCESSES) * chunk(rule)


def test_what_is_not_spent_is_given_back(table: RuleTable) -> None:
    """And can be taken by others."""
    rule = Rule(id="1", is_stored=True, max_hits=MOST, window=WINDOW)
    (grant,) = table.quotas.take([Ask("1\x1eall", rule, MOST)])
    assert grant.tokens == MOST
    (none,) = table.quotas.take([Ask("1\x1eall", rule, 1)])
    assert none.tokens == 0
    assert 0 < none.until <= WINDOW * 26 / 24
    table.quotas.give_back([grant], {grant.key: rule})
    (again,) = table.quotas.take([Ask("1\x1eall", rule, 5)])
    assert again.tokens == 5
    assert [each.used for each in table.quotas.left(rule)] == [5]


def loaded(table: RuleTable, *hosts: str) -> dict[str, Rule]:
    """Quotas of these hosts, by host, as they are read after they were loaded."""
    table.load(Rule(id=host, host=host, max_hits=MOST, window=WINDOW) for host in hosts)
    reading = table.read()
    assert reading is not None
    return {rule.host: rule for rule in reading.rules}


def test_a_rule_that_is_loaded_again_keeps_what_was_counted(table: RuleTable) -> None:
    """Wherever it stands in the file."""
    rule = loaded(table, "a")["a"]
    table.quotas.take([Ask("1\x1eall", rule, 7)])
    rules = loaded(table, "b", "a")
    assert {host: table.quotas.left(rule) for host, rule in rules.items()} == {
        "a": [("all", 7, MOST - 7)],
        "b": [],
    }


def test_no_rule_gets_what_was_counted_of_one_that_is_gone(table: RuleTable) -> None:
    """Neither one that is loaded, nor one that is inserted after it."""
    gone = loaded(table, "a")["a"]
    table.quotas.take([Ask("1\x1eall", gone, 7)])
    table.add_uses({gone.lasting_id: Use(sent=7)})
    table.load([])
    rule = loaded(table, "b")["b"]
    with table.engine.begin() as connection:
        connection.execute(sa.insert(RULES).values(host="c"))
        ids = connection.execute(sa.select(RULES.c.id).order_by(RULES.c.id)).scalars().all()
    assert table.quotas.left(rule) == []
    assert int(gone.id) < ids[0] == int(rule.id) < ids[1]


def test_a_cell_of_the_future_counts_too(table: RuleTable) -> None:
    """Where the database's clock was set back."""
    rule = Rule(id="1", is_stored=True, max_hits=MOST, window=WINDOW)
    far = int(1000 * (time.time() + 1000 * WINDOW))
    with table.engine.begin() as connection:
        row = {"rule_id": "1", "key": "all", "cell": far, "taken": MOST}
        connection.execute(sa.insert(HITS).values(**row))
    assert table.quotas.take([Ask("1\x1eall", rule, 1)])[0].tokens == 0


def test_a_clock_that_is_set_forward_frees_nothing(
    table: RuleTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does one that is set back and forward again."""
    rule = Rule(id="1", is_stored=True, max_hits=MOST, window=WINDOW)
    now = time.time()
    told = iter([now, now + 10 * WINDOW, now - 10 * WINDOW, now + 20 * WINDOW])
    clock = SimpleNamespace(time=lambda: next(told))
    monkeypatch.setattr("scrapy_adaptive.rules.quotas.time", clock)
    assert table.quotas.take([Ask("1\x1eall", rule, MOST)])[0].tokens == MOST
    for _ in range(3):
        assert table.quotas.take([Ask("1\x1eall", rule, 1)])[0].tokens == 0


def test_tokens_are_asked_for_before_the_last_is_spent() -> None:
    """And again only when an answer is there."""
    rule = Rule(id="1", is_stored=True, max_hits=1000, window=60.0)
    tokens = Tokens(lambda: None)
    assert tokens.ready_at("k", rule, 0.0) == float("inf")
    assert [ask.tokens for ask in tokens.asks()] == [10]
    assert tokens.ready_at("k", rule, 0.0) == float("inf")
    assert tokens.asks() == []


@pytest.mark.parametrize("longer", [3600.0, 86_400.0])
def test_a_window_that_is_lengthened_is_refilled_when_it_has_passed(
    table: RuleTable, longer: float
) -> None:
    """What was taken in the shorter one still counts, and not for thousands of years."""
    began_at = time.monotonic()
    short = Rule(id="1", max_hits=10, window=60.0)
    assert [grant.tokens for grant in table.quotas.take([Ask("1\x1ea", short, 10)])] == [10]
    [grant] = table.quotas.take([Ask("1\x1ea", Rule(id="1", max_hits=10, window=longer), 1)])
    assert grant.tokens == 0
    left = longer - (time.monotonic() - began_at) - ROUNDING
    assert left <= grant.until <= longer * (1 + 2 / 24) + ROUNDING


@pytest.mark.parametrize("shorter", [60.0, 3000.0, 3590.0])
def test_a_window_that_is_shortened_forgets_nothing_that_it_counts(
    table: RuleTable, shorter: float
) -> None:
    """What was taken just now is still taken; it was within the shorter window too."""
    began_at = time.monotonic()
    long = Rule(id="1", max_hits=10, window=3600.0)
    assert [grant.tokens for grant in table.quotas.take([Ask("1\x1ea", long, 10)])] == [10]
    short = Rule(id="1", max_hits=10, window=shorter)
    [grant] = table.quotas.take([Ask("1\x1ea", short, 1)])
    assert grant.tokens == 0
    left = shorter - (time.monotonic() - began_at) - ROUNDING
    assert left <= grant.until <= shorter * (1 + 2 / 24) + ROUNDING
    assert table.quotas.left(short) == [("a", 10, 0)]


@pytest.mark.parametrize("longer", [61.0, 3600.0])
def test_who_asks_again_when_he_was_told_gets_tokens(
    longer: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells of the window that was lengthened end within those of the new one: who was told
    their end asked without a pause until the present cell was over, an hour where a window is a
    day."""
    now = 1e9
    monkeypatch.setattr("scrapy_adaptive.rules.quotas.time.time", lambda: now)
    monkeypatch.setattr("scrapy_adaptive.rules.quotas.boot_time", lambda: now)
    table = RuleTable(f"sqlite:///{tmp_path}/rules.db")
    table.create()
    for number in range(50):
        key = f"1{SEPARATOR}{number}"
        now += 0.77
        table.quotas.take([Ask(key, Rule(id="1", max_hits=10, window=60.0), 10)])
        ask = Ask(key, Rule(id="1", max_hits=10, window=longer), 1)
        [none] = table.quotas.take([ask])
        assert longer <= none.until <= longer * (1 + 2 / 24)
        now += none.until + 0.001
        assert [grant.tokens for grant in table.quotas.take([ask])] == [1]
    table.engine.dispose()


def test_a_word_that_stands_for_a_number_is_an_error_of_the_database(tmp_path: Path) -> None:
    """SQLite keeps in a column of numbers what it is given: who waits for tokens asks again."""
    table = RuleTable(f"sqlite:///{tmp_path}/rules.db")
    table.create()
    quota = Rule(id="1", max_hits=100, window=60.0)
    table.quotas.take([Ask(f"1{SEPARATOR}", quota, 1)])
    with table.engine.begin() as connection:
        connection.execute(sa.text("UPDATE adaptive_hits SET taken = 'many'"))
    with pytest.raises(DatabaseError, match=r"rules\.db"):
        table.quotas.take([Ask(f"1{SEPARATOR}", quota, 1)])
    table.engine.dispose()


def test_who_stops_while_he_takes_does_not_stop_the_others(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What he counts is free after a while, and none of it has happened."""
    monkeypatch.setattr("scrapy_adaptive.rules.schema.PATIENCE", 1)
    url = postgres.database()
    stopped, other = RuleTable(url), RuleTable(url)
    stopped.create()
    asks = [Ask(f"1{SEPARATOR}", Rule(id="1", max_hits=100, window=60.0), 1)]
    tokens = 0
    with suppress(DatabaseError), stopped.quotas._locked(asks) as (connection, _now):
        time.sleep(0.5)
        tokens = other.quotas.take(asks)[0].tokens
        connection.execute(sa.select(HITS))
        pytest.fail("he has his locks yet")
    assert tokens == 1
    for table in (stopped, other):
        table.engine.dispose()
