"""What becomes of tokens while rules are read again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scrapy_adaptive import AdaptiveThrottle
from scrapy_adaptive.adapters import known_limits
from scrapy_adaptive.core.limits.book import Book
from scrapy_adaptive.core.limits.rule import Rule
from scrapy_adaptive.rules.table import RuleTable
from tests.adapters.queues.queue_room import Rooms

KEY = "1\x1eall"


def test_tokens_that_come_after_a_change_of_rules_are_given_back(
    rooms: Rooms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were asked for under the former rules: a hundred, where ten a minute are allowed."""
    url = f"sqlite:///{tmp_path}/rules.db"
    table = RuleTable(url)
    table.create()
    room = rooms(ADAPTIVE_RULES_URL=url)
    extension = room.crawler.get_extension(AdaptiveThrottle)
    assert extension is not None
    keeper, known = extension.rules, room.governor.known
    assert known is not None
    tokens = known.tokens
    assert tokens is not None
    day, minute = (
        Rule(id="1", is_stored=True, max_hits=most, window=window)
        for most, window in ((10_000, 86_400.0), (10, 60.0))
    )
    monkeypatch.setattr(known_limits, "call_later", lambda *_: None)
    monkeypatch.setattr(keeper, "_traffic", room.traffic)
    keeper._swap(Book([day]))
    tokens.ready_at(KEY, day, room.now)

    async def in_thread(call: Callable[..., Any], *arguments: Any) -> Any:
        answer = call(*arguments)
        keeper._swap(Book([minute]))
        return answer

    monkeypatch.setattr(known_limits, "run_in_thread", in_thread)
    with pytest.raises(StopIteration):
        keeper._fetch_in_thread(room.traffic).send(None)
    assert tokens.ready_at(KEY, minute, room.now) > room.now
    assert [grant.tokens for grant in tokens.expired()] == [100]
    assert [ask.rule for ask in tokens.asks()] == [minute]
    table.engine.dispose()
