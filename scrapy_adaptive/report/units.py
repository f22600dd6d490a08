"""Numbers as people say them: `1 h 2 min`, `30/min`.

Laws
----
* Two figures are enough to read: nothing here is for a machine to read back.
"""

from __future__ import annotations

import math
from datetime import datetime

NARROW = 1.25
"""A limit is well known when a rate no more than so many times it was refused."""

_STEPS = ((86_400, "days"), (3_600, "h"), (60, "min"), (1, "s"))


def duration(seconds: float) -> str:
    """A length of time.

    >>> [duration(each) for each in (0, 0.0231, 7.26, 59.7, 440, 3720, 90000, 180000)]
    ['0 s', '0.023 s', '7.3 s', '1 min', '7 min 20 s', '1 h 2 min', '1 day 1 h', '2 days 2 h']
    """
    if not math.isfinite(seconds):
        return "ever"
    if seconds < 9.95:
        return f"{seconds:.2g} s"
    left = round(seconds) if seconds < 3_600 else round(seconds / 60) * 60
    parts = []
    for size, name in _STEPS:
        if left >= size:
            count = left // size
            parts.append(f"{count} {'day' if count == 1 and name == 'days' else name}")
            left %= size
        elif parts:
            break
    return " ".join(parts[:2])


def rate(per_second: float) -> str:
    """How many requests in a time of which a person has an idea.

    >>> [rate(each) for each in (float("inf"), 52.4, 1.472, 0.5, 0.03, 1 / 3600)]
    ['no limit', '52/s', '1.5/s', '30/min', '1.8/min', '1/h']
    """
    if math.isinf(per_second):
        return "no limit"
    for seconds, name in ((1, "s"), (60, "min"), (3_600, "h")):
        count = per_second * seconds
        if count >= 1 or name == "h":
            break
    return (f"{count:.0f}" if count >= 10 else f"{count:.1f}".removesuffix(".0")) + f"/{name}"


def limit(served: float, refused: float) -> str:
    """A limit between a rate that is served and one that was refused, both 1/s; 0 is not known.

    >>> [limit(*each) for each in ((9.8, 10.4), (3.0, 20.0), (2.0, 0.0), (0.0, 0.0))]
    ['9.8/s', '3/s to 20/s', '2/s', '–']
    """
    if not served:
        return "–"
    if refused > NARROW * served:
        return f"{rate(served)} to {rate(refused)}"
    return rate(served)


def text(name: str, most: int = 60) -> str:
    """A name as it may stand in a line, whatever somebody called it.

    >>> text("a\\nb\\x1b[2J")
    'a\\\\nb\\\\x1b[2J'
    """
    plain = "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in name
    )
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def printable(text: str) -> str:
    r"""The text without what moves a terminal's cursor.

    >>> printable("a\x1b[2Jb")
    'a�[2Jb'
    """
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def clock_time(seconds: float) -> str:
    """The local date and time so many seconds from now, as clocks will show it then."""
    ends = datetime.fromtimestamp(datetime.now().timestamp() + seconds)
    return ends.strftime("%Y-%m-%d %H:%M:%S")
