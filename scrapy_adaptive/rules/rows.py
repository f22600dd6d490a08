"""The rows of the table, all at one instant, whatever they hold.

Laws
----
* A row comes as it is stored: what is wrong with it is told by whoever reads rules, by its id.
* From SQLite they come in few steps. Each step of it gives the other threads a turn, and one that
  computes keeps it for five milliseconds: ten thousand rows took a minute of a busy crawl, and
  whoever wanted to change one found the database locked.
"""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa

from .schema import RULES

IDS = 500
"""Rows of so many ids come in one step."""


def read_rows(connection: sa.Connection) -> dict[str, tuple[Any, ...]]:
    """The values of each row by its id, in their order; columns as in the table, without the id."""
    if connection.dialect.name != "sqlite":
        rows = [tuple(row) for row in connection.execute(sa.select(RULES).order_by(RULES.c.id))]
    else:
        steps = connection.execute(sa.text(_IN_STEPS)).scalars()
        rows = sorted(
            tuple(map(_stored, row)) for step in steps for row in json.loads(step, strict=False)
        )
    return {str(number): tuple(values) for number, *values in rows}


def _as_json(column: str) -> str:
    """What SQLite has of a value, so that JSON loses nothing of it."""
    return (
        f"CASE typeof({column}) WHEN 'real' THEN json_array(quote({column})) "
        f"WHEN 'blob' THEN json_object('blob', hex({column})) ELSE {column} END"
    )


_IN_STEPS = "SELECT json_group_array(json_array({})) FROM {} GROUP BY id / {}".format(
    ", ".join(_as_json(column.name) for column in RULES.columns), RULES.name, IDS
)


def _stored(value: Any) -> Any:
    if isinstance(value, list):
        return float(value[0])
    return bytes.fromhex(value["blob"]) if isinstance(value, dict) else value
