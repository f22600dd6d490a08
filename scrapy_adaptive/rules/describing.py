"""What a rule says, in words that people read.

Laws
----
* Units are those of the log; numbers are rounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scrapy_adaptive.core.limits.rule import ANY, Rule
from scrapy_adaptive.core.limits.uses import Use
from scrapy_adaptive.report import units


def scope(rule: Rule) -> str:
    """What it matches.

    >>> scope(Rule(id="1", host="*.example.com", uri="/search/*", rate=1.0))
    '*.example.com /search/*'
    >>> scope(Rule(id="1", rate=1.0))
    'every request'
    """
    parts = [part for part in (rule.host, rule.uri) if part != ANY]
    if rule.host == ANY and parts:
        parts = ["any host", *parts]
    if rule.identity is not None:
        parts.append(str(rule.identity))
    return (" ".join(parts) or "every request") + (", all together" if rule.shared else "")


def limits(rule: Rule) -> str:
    """What it allows.

    >>> limits(Rule(id="1", max_hits=20_000, window=604_800.0, concurrency=2))
    '20,000 in 7 days, 2 at once'
    >>> limits(Rule(id="1"))
    'no limit: it exempts'
    """
    found = []
    if rule.paused:
        found.append("paused")
    if rule.interval:
        found.append(f"one each {units.duration(rule.interval)}")
    if rule.max_hits:
        found.append(f"{rule.max_hits:,} in {units.duration(rule.window)}")
    if rule.rate < math.inf:
        found.append(units.rate(rule.rate))
    if rule.burst:
        found.append(f"{rule.burst:g} in a burst")
    if rule.concurrency:
        found.append(f"{rule.concurrency:,} at once")
    text = ", ".join(found) or "no limit: it exempts"
    return f"{text} (dry run)" if rule.dry_run else text


def use(found: Use | None) -> str:
    """What came of the requests under it.

    >>> use(Use(sent=1200, refused=0, held=33))
    '1,200 sent, none refused: the site never refused under it; waited for 33 times'
    >>> use(None)
    'not used yet'
    """
    if found is None or not found.sent:
        return "not used yet"
    refused = "none refused" if not found.refused else f"{found.refused:,} refused"
    never = ": the site never refused under it" if not found.refused and found.held else ""
    held = f"; waited for {found.held:,} times" if found.held else ""
    return f"{found.sent:,} sent, {refused}{never}{held}"


def counted(rule: Rule, *, has_table: bool) -> str:
    """Where it is counted.

    >>> counted(Rule(id="1", max_hits=9, window=1.0, shared=True), has_table=True)
    'counted by each process for itself'
    """
    parts = []
    if rule.is_quota:
        parts.append("the window in the table, for all processes" if has_table else "the window")
    rest = [rule.interval, rule.concurrency, rule.rate < math.inf, not rule.is_quota]
    if not rule.is_quota or any(rest[:3]) or not has_table:
        parts.append("each process for itself")
    if parts == ["the window in the table, for all processes"]:
        return "counted in the table, for all processes"
    if len(parts) == 2 and has_table:
        return "the window is counted in the table, for all processes; the rest by each for itself"
    return "counted by each process for itself" if rule.limits else "counts nothing"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side."""
    cells = [head, *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
