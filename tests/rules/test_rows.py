"""What stands in a table's rows comes out of it as it is, in few steps, and is checked once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from scrapy_adaptive.core.limits.rule import Rule
from scrapy_adaptive.core.limits.uses import Use
from scrapy_adaptive.rules.rows import IDS, read_rows
from scrapy_adaptive.rules.schema import RULES
from scrapy_adaptive.rules.table import RuleTable

VALUES: tuple[Any, ...] = (
    *(None, 0, 1, -1, 2**62, 0.5, 1 / 3, -0.0, 1e-300, 1e300, math.inf, -math.inf),
    *("", "*", "it's", 'a "b" \\ c', "\x01\n\x1f", "é 漢 \U0001f600", b"", b"\x00\xff"),
)


@pytest.fixture
def table(tmp_path: Path) -> RuleTable:
    """A table without rows."""
    made = RuleTable(f"sqlite:///{tmp_path}/rules.db")
    made.create()
    return made


def test_values_come_out_as_they_are_stored(table: RuleTable) -> None:
    """Of any type in any column: SQLite keeps what it is given."""
    names = ("host", "note", "identity", "expires_at", "max_hits", "paused")
    statement = f"INSERT INTO adaptive_rules ({', '.join(names)}) VALUES (?, ?, ?, ?, ?, ?)"
    with table.engine.begin() as connection:
        for value in VALUES:
            kept = [value, value, value, value, value, value]
            if value is None:
                kept[0], kept[5] = "*", 0
            connection.exec_driver_sql(statement, tuple(kept))
        stored = connection.exec_driver_sql("SELECT * FROM adaptive_rules ORDER BY id").all()
        rows = read_rows(connection)
    assert [(int(number), *values) for number, values in rows.items()] == [*map(tuple, stored)]
    types = [[*map(type, values)] for values in rows.values()]
    assert types == [[*map(type, row[1:])] for row in stored]


def test_many_rows_come_in_few_steps(table: RuleTable) -> None:
    """Each step lets the other threads go first, and one that computes takes its time."""
    count, statements = 3 * IDS, 0
    with table.engine.begin() as connection:
        rows = [{"id": number, "host": f"h{number}.org", "rate": 1.0} for number in range(count)]
        connection.execute(sa.insert(RULES), rows)
    with table.engine.connect() as connection:
        wire = connection.connection.dbapi_connection
        assert wire is not None

        def on_row(cursor: object, row: tuple[Any, ...]) -> tuple[Any, ...]:
            nonlocal statements
            statements += 1
            return row

        wire.row_factory = on_row
        found = read_rows(connection)
    assert [*found] == [str(number) for number in range(count)]
    assert statements == 3


def test_rows_that_have_not_changed_are_the_same_rules(table: RuleTable) -> None:
    """To change one of ten thousand costs one; a bad one is told of each time."""
    with table.engine.begin() as connection:
        rows = [{"id": number, "rate": -1.0 if number == 3 else 1.0} for number in range(5)]
        connection.execute(sa.insert(RULES), rows)
    first = table.read()
    with table.engine.begin() as connection:
        connection.execute(sa.update(RULES).where(RULES.c.id == 1).values(rate=2.0))
    second = table.read()
    assert first is not None
    assert second is not None
    same = [old is new for old, new in zip(first.rules, second.rules, strict=True)]
    assert same == [True, False, True, True, True]
    assert second.rules[1].rate == 2.0
    assert first.problems[0].id == second.problems[0].id == "3"


def test_a_file_that_another_took_the_place_of_is_read_no_more(
    table: RuleTable, tmp_path: Path
) -> None:
    """As `mv` puts it there; what is written goes into the new one."""
    assert table.read() is not None
    other = RuleTable(f"sqlite:///{tmp_path}/other.db")
    other.create()
    other.load([Rule(id="1", paused=True)])
    (tmp_path / "other.db").rename(tmp_path / "rules.db")
    reading = table.read()
    assert reading is not None
    assert [rule.paused for rule in reading.rules] == [True]
    table.add_uses({"1": Use(3, 0, 0)})
    assert RuleTable(f"sqlite:///{tmp_path}/rules.db").uses() == {"1": Use(3, 0, 0)}


def test_a_row_that_never_was_good_holds_what_it_may_mean_now(table: RuleTable) -> None:
    """What it may have meant before is no good form of it."""
    with table.engine.begin() as connection:
        connection.execute(sa.insert(RULES).values(id=1, host="a.org", rate=-1.0))
    table.read()
    with table.engine.begin() as connection:
        connection.execute(sa.update(RULES).values(host="b.org"))
    reading = table.read()
    assert reading is not None
    assert [(rule.host, rule.paused) for rule in reading.rules] == [("b.org", True)]
