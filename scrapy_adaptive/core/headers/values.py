"""One header value: a number, an instant, a wait, the members of a structured field.

Laws of this module, a leaf that only `headers` uses:

1. A value is read strictly or refused with ValueError; nothing else is raised.
2. A wait is in [0, `MAX_WAIT`): never negative, never capped, never infinite.
3. No clock is read: `now` is seconds since 1970, and every wait is seconds from then.

**Source** RFC 9110 sections 5.6.7 and 10.2.3 (dates, Retry-After); RFC 9651 (structured fields).
"""

import re
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import cast

from http_sf import Token, parse

MAX_WAIT = 10 * 365 * 86_400.0  # s, ten years; no site means more, and every epoch is above it
MAX_SECONDS = 86_400.0  # longest X-RateLimit-Reset read as seconds from now
MIN_EPOCH_MS = 1e11  # as milliseconds the year 1973, as seconds the year 5138
MAX_NUMBER = 1e15  # RFC 9651: an integer has at most 15 digits

_NUMBER = re.compile(rb"[0-9]+(\.[0-9]+)?")
_LIST = re.compile(rb"(?:(?<![A-Za-z])|(?<=GMT)|(?<=UTC))[ \t]*,[ \t]*")
"""A comma, but not that of "Mon, 01 Jan"."""

_HTTP_DATE = re.compile(
    r"[A-Z][a-z]{2}, \d\d? [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d (GMT|UTC|[+-]\d{4})"
    r"|[A-Z][a-z]{5,8}, \d\d-[A-Z][a-z]{2}-\d\d \d\d:\d\d:\d\d GMT"  # RFC 850
    r"|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}",  # asctime
)
_ISO_DATE = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)?")


def split(value: bytes) -> list[bytes]:
    """The lines that a proxy may have joined in one (RFC 9110 section 5.3), empty ones aside.

    >>> split(b"0, 500"), split(b"Mon, 01 Jan 2024 00:00:00 GMT"), split(b"")
    ([b'0', b'500'], [b'Mon, 01 Jan 2024 00:00:00 GMT'], [b''])
    """
    return [part for part in _LIST.split(value) if part] or [value]


def read_number(value: bytes) -> float:
    """Read ASCII digits with at most one point: no sign, exponent, underscore, NaN or infinity."""
    if not _NUMBER.fullmatch(value) or float(value) >= MAX_NUMBER:
        raise ValueError("not a plain number")
    return float(value)


def read_instant(value: bytes) -> float:
    """Read an HTTP date in its three formats, or an ISO date; UTC where no zone is given."""
    text = value.decode("ascii")  # so that \d is 0 to 9
    if _HTTP_DATE.fullmatch(text):
        date = parsedate_to_datetime(text)
        return date.replace(tzinfo=date.tzinfo or timezone.utc).timestamp()
    iso = _ISO_DATE.fullmatch(text)
    if iso is None:
        raise ValueError("not a date")
    day, clock, fraction, zone = iso.groups()
    zone = "+00:00" if zone in (None, "Z") else zone
    return datetime.fromisoformat(f"{day}T{clock}{zone}").timestamp() + float(fraction or 0)


def read_retry_after(value: bytes, *, now: float) -> float:
    """Read how long to wait: seconds, or until a date; a date gone by is no wait.

    **Departs** from RFC 9110 by reading decimals and ISO dates too: what is plainly meant counts.
    So does a list, into which a proxy joins headers of one name (RFC 9110 section 5.3): its longest
    wait. A member that is empty says nothing (section 5.6.1).

    >>> read_retry_after(b"Thu, 01 Jan 1970 00:02:00 GMT", now=30.0)
    90.0
    >>> read_retry_after(b"5, 10", now=0.0)
    10.0
    """
    return max(_read_wait(part, now=now) for part in split(value))


def _read_wait(value: bytes, *, now: float) -> float:
    if _NUMBER.fullmatch(value):
        return _plausible(read_number(value))
    return _until(read_instant(value), now)


def read_reset(value: bytes, *, now: float, max_seconds: float) -> float:
    """Read the wait until a quota is full again, whose unit the size of the number must tell.

    - From `MIN_EPOCH_MS` up: an epoch in milliseconds.
    - From `MAX_WAIT` up: an epoch in seconds, since nobody waits ten years.
    - Up to `max_seconds`: seconds. RateLimit-Reset is defined so (draft 06), and its
      `max_seconds` is `MAX_WAIT`, though GitLab sends an epoch there.
    - Between: milliseconds. For X-RateLimit-Reset it begins above `MAX_SECONDS`, a day, for
      quotas per day are common and longer ones rare. A wrong guess costs a pause of a day at
      most, or one refused probe each 86 s.

    >>> [read_reset(v, now=1.7e9, max_seconds=86_400.0) for v in (b"3600", b"900000")]
    [3600.0, 900.0]
    >>> [read_reset(v, now=1.7e9, max_seconds=86_400.0) for v in (b"1700000060", b"1700000060000")]
    [60.0, 60.0]
    """
    if not _NUMBER.fullmatch(value):
        return _until(read_instant(value), now)
    number = read_number(value)
    if number >= MIN_EPOCH_MS:
        return _until(number / 1000, now)
    if number >= MAX_WAIT:
        return _until(number, now)
    return number if number <= max_seconds else number / 1000


def read_remaining(value: bytes) -> int:
    """Read a count, rounded down; Reddit sends `598.0`, Docker Hub `76;w=21600`."""
    return int(read_number(value.partition(b";")[0].rstrip()))


def read_members(value: bytes) -> list[tuple[object, dict[str, object]]]:
    """Read a structured list, never empty: each member with its parameters."""
    members = parse(value, tltype="list")
    if not members:
        raise ValueError("an empty list")
    return cast("list[tuple[object, dict[str, object]]]", members)


def read_dictionary(value: bytes) -> dict[str, object]:
    """Read a structured dictionary without the parameters of its members."""
    members = cast("dict[str, tuple[object, object]]", parse(value, tltype="dictionary"))
    return {key: member for key, (member, _) in members.items()}


def as_name(item: object) -> str:
    """Take a string, a token, or a limit standing as a name, as before draft 08."""
    if isinstance(item, bool) or not isinstance(item, str | Token | int):
        raise ValueError("not a name")
    return str(item)


def as_count(item: object) -> int:
    """Take an integer from 0 up."""
    if isinstance(item, bool) or not isinstance(item, int) or item < 0:
        raise ValueError("not a count")
    return item


def as_seconds(item: object) -> float | None:
    """Take whole seconds, or None where the site says nothing."""
    return None if item is None else _plausible(float(as_count(item)))


def _until(instant: float, now: float) -> float:
    return _plausible(max(0.0, instant - now))


def _plausible(wait: float) -> float:
    if not 0 <= wait < MAX_WAIT:
        raise ValueError("longer than any site means")
    return wait
