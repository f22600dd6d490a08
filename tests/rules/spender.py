"""A process that spends a quota as fast as it may, and says when each hit left.

It ends when it is killed.
"""

from __future__ import annotations

import os
import time

from scrapy_adaptive.core.limits.book import Book
from scrapy_adaptive.core.limits.known import KnownLimits
from scrapy_adaptive.core.limits.tokens import Tokens
from scrapy_adaptive.core.permit import Permit
from scrapy_adaptive.rules.table import RuleTable


def main(url: str, path: str) -> None:
    """Spend until killed: a byte for each hit is on its way to the log before the next."""
    table = RuleTable(url)
    reading = table.read()
    assert reading is not None
    known = KnownLimits(Book(reading.rules))
    tokens = known.tokens = Tokens(lambda: None)
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    leaf = known.leaf(known.leaf_key("site", "site", "/", {}))
    rules = dict(leaf.meters)
    while True:
        asks, asked_at = tokens.asks(), time.monotonic()
        if asks:
            try:
                table.quotas.give_back(tokens.expired(), rules)
                found = table.quotas.take(asks)
            except OSError:
                tokens.on_failed(asks, asked_at + 0.1)
            else:
                grants = [each._replace(until=asked_at + each.until) for each in found]
                tokens.on_grants(grants, time.monotonic())
        now = time.monotonic()
        if known.blocked(leaf, now) is not None:
            time.sleep(0.002)
            continue
        permit = Permit("site", now, meters=known.take(leaf, now))
        os.write(log, b"%.6f\n" % time.time())
        known.on_ended(permit, time.monotonic(), is_hit=True)
