"""What a site says in its headers is read whole, strictly, and without ever raising."""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from email.utils import format_datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_adaptive.core.headers.parse import (
    HEADER_NAMES,
    MAX_BYTES,
    NO_HINTS,
    HeaderValues,
    Hints,
    Quota,
    parse_hints,
)
from scrapy_adaptive.core.headers.values import MAX_WAIT

# RFC 9110 section 5.6.7 writes one instant three ways; it is 784111777 s after 1970.
# NOW is 08:49:00 of that day, so that instant is 37 s away and 08:50:00 is 60 s away.
IMF = b"Sun, 06 Nov 1994 08:49:37 GMT"
NOW = 784_111_740.0


def hints(now: float = NOW, **lines: bytes | list[bytes]) -> Hints:
    """Parse headers given as keywords, `_` standing for `-`."""
    headers = {
        name.replace("_", "-"): value if isinstance(value, list) else [value]
        for name, value in lines.items()
    }
    return parse_hints(headers, unix_now=now)


class TestRetryAfter:
    """Retry-After: the one wait that is an order."""

    @pytest.mark.parametrize(
        ("value", "wait"),
        [
            pytest.param(b"120", 120.0, id="RFC 9110 10.2.3, seconds"),
            pytest.param(b"0", 0.0, id="at once"),
            pytest.param(b"007", 7.0, id="leading zeros are digits"),
            pytest.param(b" \t120 ", 120.0, id="white space around"),
            pytest.param(b"1.5", 1.5, id="seen in the wild, a decimal"),
            pytest.param(b"86400", 86_400.0, id="a day is not capped"),
            pytest.param(b"315359999", 315_359_999.0, id="a second less than ten years"),
            pytest.param(IMF, 37.0, id="RFC 9110 5.6.7, IMF-fixdate"),
            pytest.param(b"Sunday, 06-Nov-94 08:49:37 GMT", 37.0, id="RFC 9110 5.6.7, RFC 850"),
            pytest.param(b"Sun Nov  6 08:49:37 1994", 37.0, id="RFC 9110 5.6.7, asctime"),
            pytest.param(b"Sun, 6 Nov 1994 08:49:37 GMT", 37.0, id="a day of one digit"),
            pytest.param(b"Sun, 06 Nov 1994 10:49:37 +0200", 37.0, id="PHP's DATE_RFC2822"),
            pytest.param(b"1994-11-06T08:49:37Z", 37.0, id="ISO 8601"),
            pytest.param(b"1994-11-06T08:49:37.500+00:00", 37.5, id="ISO 8601 with a fraction"),
            pytest.param(b"Sun, 06 Nov 1994 08:48:59 GMT", 0.0, id="a date gone by"),
            pytest.param(b"Thu, 01 Jan 1970 00:00:00 GMT", 0.0, id="the epoch, long gone by"),
        ],
    )
    def test_each_shape_gives_its_wait(self, value: bytes, wait: float) -> None:
        """Each shape means the seconds worked out by hand, and nothing is ignored."""
        assert hints(retry_after=value) == Hints(retry_after=wait)

    @pytest.mark.parametrize(
        "value",
        [
            *(b"", b" ", b"-1", b"+5", b"1_000", b"0x10", b"1e3", b"nan", b"inf", b"Infinity"),
            *(b".5", b"5.", b"1.5.2", b"5s", b"5 s", b"12 0", b"60\r\n", b"\x0060"),
            *(b"soon", b"\xff\xfe", "٣٠".encode(), "３０".encode(), b"null", b"true"),
            *(b"315360000", b"9" * 400, b"1" + b"0" * 400, b"0" * 2_000),
            *(b"Sun, 31 Feb 1994 08:49:37 GMT", b"Sun, 06 Nov 1994 25:00:00 GMT"),
            *(b"Sun, 06 Foo 1994 08:49:37 GMT", b"sun, 06 nov 1994 08:49:37 gmt", b"Sun, 06 Nov"),
            *(b"Fri, 31 Dec 9999 23:59:59 GMT", b"Sun, 06 Nov 1994 08:49:37 +9999"),
            *(b"0000-00-00T00:00:00Z", b"1994-13-01T00:00:00Z", b"1994-11-06T08:49:37+24:00"),
        ],
    )
    def test_what_cannot_be_meant_is_ignored_and_named(self, value: bytes) -> None:
        """No wait is invented from a value that is malformed or beyond ten years."""
        assert hints(retry_after=value) == Hints(ignored=("retry-after",))

    def test_the_longest_of_several_lines_counts(self) -> None:
        """Two layers of a site may each add a line; the patient one is obeyed."""
        assert hints(retry_after=[b"5", b"120", IMF]) == Hints(retry_after=120.0)

    def test_a_malformed_line_does_not_hide_a_valid_one(self) -> None:
        """The valid line counts and the header is named once."""
        found = hints(retry_after=[b"soon", b"30", b"later"])
        assert found == Hints(retry_after=30.0, ignored=("retry-after",))

    def test_a_date_waits_by_the_site_clock_when_it_is_behind_ours(self) -> None:
        """The site is at 08:48:30: 67 s by its clock, 37 s by ours."""
        found = hints(retry_after=IMF, date=b"Sun, 06 Nov 1994 08:48:30 GMT")
        assert found.retry_after == 67.0

    def test_a_date_waits_by_our_clock_when_it_is_behind_the_site(self) -> None:
        """The site is at 08:49:30: 7 s by its clock, 37 s by ours."""
        found = hints(retry_after=IMF, date=b"Sun, 06 Nov 1994 08:49:30 GMT")
        assert found.retry_after == 37.0

    @pytest.mark.parametrize(
        "date",
        [b"Sat, 05 Nov 1994 08:48:59 GMT", b"Thu, 01 Jan 1970 00:00:00 GMT", b"0", b"", b"\xff"],
    )
    def test_a_site_clock_more_than_a_day_off_is_left_aside(self, date: bytes) -> None:
        """A broken or unreadable Date changes nothing, and is no malformed hint."""
        assert hints(retry_after=IMF, date=date) == Hints(retry_after=37.0)

    def test_a_site_clock_just_a_day_off_is_believed(self) -> None:
        """At a skew of 86,400 s exactly the wait is 86,437 s."""
        found = hints(retry_after=IMF, date=b"Sat, 05 Nov 1994 08:49:00 GMT")
        assert found.retry_after == 86_437.0

    def test_seconds_do_not_depend_on_any_clock(self) -> None:
        """A wait in seconds is from now, whatever the Date says."""
        found = hints(retry_after=b"120", date=b"Sun, 06 Nov 1994 08:48:30 GMT")
        assert found.retry_after == 120.0


class TestRateLimit:
    """RateLimit in its drafts, and the X- headers before it."""

    @pytest.mark.parametrize(
        ("headers", "quotas"),
        [
            pytest.param(
                {
                    "ratelimit-policy": [b'"burst";q=100;w=60,"daily";q=1000;w=86400'],
                    "ratelimit": [b'"burst";r=50;t=30'],
                },
                [Quota(50, 30.0, 100, 60.0), Quota(None, None, 1000, 86_400.0)],
                id="draft 10, sections 3 and 4",
            ),
            pytest.param(
                {
                    "ratelimit-policy": [b'"a";q=5;w=1', b'"b";q=9'],
                    "ratelimit": [b'"b";r=8', b'"a";r=4;t=1'],
                },
                [Quota(8, None, 9), Quota(4, 1.0, 5, 1.0)],
                id="draft 10, lists split over several lines",
            ),
            pytest.param(
                {"ratelimit": [b'"default";r=999;pk=:dHJpYWwxMjEzMjM=:']},
                [Quota(999)],
                id="draft 10 section 4.2, a partition key and no window",
            ),
            pytest.param(
                {
                    "ratelimit-policy": [b'"slots";q=8;qu="concurrent-requests"'],
                    "ratelimit": [b'"slots";r=0'],
                },
                [Quota(0, None, 8, None, "concurrent-requests")],
                id="draft 10 section 3.1.2, requests in flight",
            ),
            pytest.param(
                {
                    "ratelimit-policy": [
                        b'"peruser";q=65535;qu="content-bytes";w=10;pk=:sdfjLJUOUH==:'
                    ]
                },
                [Quota(None, None, 65_535, 10.0, "content-bytes")],
                id="draft 10 section 3.2, bytes",
            ),
            pytest.param(
                {
                    "ratelimit-policy": [b'"100-in-15min"; q=100; w=900; pk=:YjJjZmI0ZDc4:'],
                    "ratelimit": [b'"100-in-15min"; r=99; t=897'],
                },
                [Quota(99, 897.0, 100, 900.0)],
                id="draft 08, express-rate-limit",
            ),
            pytest.param(
                {"ratelimit-policy": [b"name;q=5;w=60"], "ratelimit": [b"name;r=4;t=60"]},
                [Quota(4, 60.0, 5, 60.0)],
                id="draft 08, a token for a name",
            ),
            pytest.param(
                {"ratelimit-policy": [b"5;w=60"], "ratelimit": [b"limit=5, remaining=4, reset=60"]},
                [Quota(4, 60.0, 5, 60.0)],
                id="draft 07, express-rate-limit",
            ),
            pytest.param(
                {"ratelimit": [b"limit=10", b"remaining=0", b"reset=10"]},
                [Quota(0, 10.0, 10)],
                id="draft 07, a dictionary split over lines",
            ),
            pytest.param(
                {"ratelimit": [b"limit=10, reset=10"]},
                [Quota(None, 10.0, 10)],
                id="draft 07 section 3.1, remaining is optional",
            ),
            pytest.param(
                {
                    "ratelimit-policy": [b"5;w=60"],
                    "ratelimit-limit": [b"5"],
                    "ratelimit-remaining": [b"4"],
                    "ratelimit-reset": [b"57"],
                },
                [Quota(4, 57.0, 5, 60.0)],
                id="draft 06, express-rate-limit",
            ),
            pytest.param(
                {
                    "ratelimit-limit": [b"10, 10;w=1;burst=1000, 1000;w=3600"],
                    "ratelimit-remaining": [b"9"],
                    "ratelimit-reset": [b"1"],
                },
                [Quota(9, 1.0, 10, 1.0), Quota(None, None, 1000, 3600.0)],
                id="draft 03, policies inside the limit",
            ),
            pytest.param(
                {
                    "ratelimit-limit": [b"100;w=21600"],
                    "ratelimit-remaining": [b"76;w=21600"],
                },
                [Quota(76, None, 100, 21_600.0)],
                id="Docker Hub",
            ),
            pytest.param(
                {
                    "ratelimit-limit": [b"60"],
                    "ratelimit-remaining": [b"0"],
                    "ratelimit-reset": [b"784111770"],
                },
                [Quota(0, 30.0, 60)],
                id="GitLab, an epoch where draft 06 has seconds",
            ),
            pytest.param(
                {"ratelimit-reset": [b"604800"], "ratelimit-remaining": [b"1"]},
                [Quota(1, 604_800.0)],
                id="draft 06, a week is in seconds",
            ),
            pytest.param(
                {
                    "x-ratelimit-limit": [b"5000"],
                    "x-ratelimit-remaining": [b"4999"],
                    "x-ratelimit-reset": [b"784115340"],
                },
                [Quota(4999, 3600.0, 5000)],
                id="GitHub",
            ),
            pytest.param(
                {"x-ratelimit-remaining": [b"598.0"], "x-ratelimit-reset": [b"120"]},
                [Quota(598, 120.0)],
                id="Reddit",
            ),
            pytest.param(
                {
                    "x-rate-limit-limit": [b"15"],
                    "x-rate-limit-remaining": [b"0"],
                    "x-rate-limit-reset": [b"784112640"],
                },
                [Quota(0, 900.0, 15)],
                id="X and Okta, the other spelling",
            ),
            pytest.param(
                {
                    "x-ratelimit-limit": [b"60", b"1000"],
                    "x-ratelimit-remaining": [b"0", b"990"],
                    "x-ratelimit-reset": [b"30"],
                },
                [Quota(0, 30.0, 60), Quota(990, None, 1000)],
                id="two limiters stacked, the n-th lines belong together",
            ),
            pytest.param(
                {
                    "x-ratelimit-limit": [b"60, 1000"],
                    "x-ratelimit-remaining": [b"0, 990"],
                    "x-ratelimit-reset": [b"30, 3000"],
                },
                [Quota(0, 30.0, 60), Quota(990, 3000.0, 1000)],
                id="two limiters stacked, and a proxy has joined their lines",
            ),
        ],
    )
    def test_each_shape_gives_its_quotas(self, headers: HeaderValues, quotas: list[Quota]) -> None:
        """Each shape is read as its draft or its site defines it, and nothing is ignored."""
        assert parse_hints(headers, unix_now=NOW) == Hints(quotas=tuple(quotas))

    @pytest.mark.parametrize(
        ("value", "reset"),
        [
            pytest.param(b"0", 0.0, id="seconds, now"),
            pytest.param(b"1.25", 1.25, id="seconds, a decimal"),
            pytest.param(b"3600", 3600.0, id="seconds, Zalando's hour"),
            pytest.param(b"86400", 86_400.0, id="seconds, the longest"),
            pytest.param(b"86401", 86.401, id="milliseconds, the shortest"),
            pytest.param(b"900000", 900.0, id="milliseconds, a quarter of an hour"),
            pytest.param(b"784111800", 60.0, id="epoch seconds, GitHub"),
            pytest.param(b"784111800.250", 60.25, id="epoch seconds, Discord's decimals"),
            pytest.param(b"784111800000", 60.0, id="epoch milliseconds"),
            pytest.param(b"784111700", 0.0, id="epoch seconds gone by"),
            pytest.param(IMF, 37.0, id="HTTP date"),
            pytest.param(b"1994-11-06T08:50:00Z", 60.0, id="ISO date"),
            pytest.param(b"1994-11-06 08:50:00", 60.0, id="ISO date without a zone"),
        ],
    )
    def test_the_size_of_a_reset_tells_its_unit(self, value: bytes, reset: float) -> None:
        """X-RateLimit-Reset has no standard: the thresholds decide."""
        (quota,) = hints(x_ratelimit_reset=value).quotas
        assert quota.reset == pytest.approx(reset)

    def test_an_epoch_waits_by_the_slower_clock(self) -> None:
        """The site is at 08:48:30, 30 s behind us: 08:50:00 is 90 s away."""
        date = b"Sun, 06 Nov 1994 08:48:30 GMT"
        (quota,) = hints(x_ratelimit_reset=b"784111800", date=date).quotas
        assert quota.reset == 90.0

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("ratelimit", b'"burst";r=50;t=30,'),
            ("ratelimit", b'"burst";r=-1;t=30'),
            ("ratelimit", b'"burst";r=5.0;t=30'),
            ("ratelimit", b'"burst";r=?1;t=30'),
            ("ratelimit", b'"burst";r=50;t=315360000'),
            ("ratelimit", b'"burst";t=30'),
            ("ratelimit", b'"burst";r=50, "daily";r=many'),
            ("ratelimit", b'("burst");r=50'),
            ("ratelimit", b"?1;r=50"),
            ("ratelimit", b"limit=5, remaining=4"),
            ("ratelimit", b"remaining=4, reset=60"),
            ("ratelimit", b"limit=(5 6), remaining=4, reset=60"),
            ("ratelimit", b""),
            ("ratelimit-policy", b'"burst";q=100;w=0'),
            ("ratelimit-policy", b'"burst";w=60'),
            ("ratelimit-policy", b'"burst";q=100;w=60;qu=:AAAA:'),
            ("ratelimit-policy", b"-5;w=60"),
            ("ratelimit-policy", b'"burst;q=100'),
            ("ratelimit-policy", '"été";q=1'.encode()),
            ("ratelimit-limit", b"unlimited"),
            ("x-ratelimit-limit", b"60 per minute"),
            ("x-ratelimit-remaining", b"-1"),
            ("x-ratelimit-remaining", b"9" * 400),
            ("x-ratelimit-reset", b"in a while"),
            ("x-ratelimit-reset", b"30 3000"),
            ("x-rate-limit-reset", b"99999999999"),
            ("x-rate-limit-reset", b"9" * 400),
        ],
    )
    def test_a_malformed_field_is_ignored_whole_and_named(self, name: str, value: bytes) -> None:
        """Draft 10, Client Behavior: malformed fields MUST be ignored."""
        assert parse_hints({name: [value]}, unix_now=NOW) == Hints(ignored=(name,))

    def test_a_malformed_part_leaves_the_other_parts(self) -> None:
        """An unlimited limit does not hide what remains."""
        found = hints(x_ratelimit_limit=b"unlimited", x_ratelimit_remaining=b"3")
        assert found == Hints(quotas=(Quota(3),), ignored=("x-ratelimit-limit",))

    def test_quotas_of_a_response_from_a_cache_are_stale(self) -> None:
        """Draft 10, Caching: a positive Age ignores the fields, but not Retry-After."""
        found = hints(ratelimit=b'"a";r=0;t=30', retry_after=b"5", age=b"12")
        assert found == Hints(retry_after=5.0)

    @pytest.mark.parametrize("age", [b"0", b"", b"-3", b"old"])
    def test_a_response_fresh_from_the_site_tells_its_quotas(self, age: bytes) -> None:
        """Age 0 or nonsense is no sign of a cache, and no malformed hint."""
        assert hints(ratelimit=b'"a";r=0;t=30', age=age) == Hints(quotas=(Quota(0, 30.0),))


class TestHints:
    """What the quotas mean together."""

    def test_the_longest_reset_of_the_exhausted_quotas_counts(self) -> None:
        """A quota with something left does not prolong the wait."""
        found = hints(ratelimit=b'"a";r=0;t=30, "b";r=0;t=90, "c";r=1;t=3600')
        assert (found.exhausted, found.reset) == (True, 90.0)

    def test_an_exhausted_quota_may_not_tell_its_reset(self) -> None:
        """Exhausted, and no wait is invented."""
        found = hints(ratelimit=b'"a";r=0')
        assert (found.exhausted, found.reset) == (True, None)

    def test_a_reset_that_is_past_tells_no_wait(self) -> None:
        """It would end the wait at once; the site's own word in Retry-After still counts."""
        found = hints(ratelimit=b'"a";r=0;t=0')
        assert (found.exhausted, found.reset, found.announced) == (True, None, None)
        assert hints(ratelimit=b'"a";r=0;t=0', retry_after=b"0").announced == 0.0

    def test_no_place_in_flight_is_not_exhaustion(self) -> None:
        """Concurrent requests come back with their answers, not with time."""
        policy, limit = b'"a";q=8;qu="concurrent-requests"', b'"a";r=0;t=30'
        found = hints(ratelimit_policy=policy, ratelimit=limit)
        assert (found.exhausted, found.reset) == (False, None)
        assert found.quotas[0].concurrent

    def test_no_byte_left_is_exhaustion(self) -> None:
        """Nothing left is nothing left, in any unit but requests in flight."""
        policy, limit = b'"a";q=65535;qu="content-bytes"', b'"a";r=0;t=30'
        found = hints(ratelimit_policy=policy, ratelimit=limit)
        assert (found.exhausted, found.reset) == (True, 30.0)

    def test_a_response_without_hints_costs_no_object(self) -> None:
        """The common case is one shared value."""
        headers = {"content-type": [b"text/html"], "date": [IMF], "retry-after": []}
        assert parse_hints(headers, unix_now=NOW) is NO_HINTS

    @pytest.mark.parametrize("name", sorted(set(HEADER_NAMES) - {"date", "age"}))
    def test_a_value_too_long_is_not_looked_at(self, name: str) -> None:
        """A number that would be valid is ignored above MAX_BYTES, leading zeros and all."""
        value = b"0" * MAX_BYTES + b"1"
        assert parse_hints({name: [value]}, unix_now=NOW) == Hints(ignored=(name,))

    def test_lines_of_one_field_too_long_together_are_not_looked_at(self) -> None:
        """Ten thousand short lines are no way around the bound."""
        found = hints(ratelimit=[b'"a";r=1'] * 10_000)
        assert found == Hints(ignored=("ratelimit",))

    def test_header_names_lists_all_that_is_read(self) -> None:
        """An adapter that passes on HEADER_NAMES alone loses nothing and carries nothing idle."""
        asked: set[str] = set()

        class Recording(Mapping[str, Sequence[bytes]]):
            """Every header there is, remembering which were looked up."""

            def __getitem__(self, name: str) -> Sequence[bytes]:
                asked.add(name)
                return [b"0"]

            def __iter__(self) -> Iterator[str]:
                raise AssertionError("headers are looked up, never walked through")

            def __len__(self) -> int:
                return 1_000

        parse_hints(Recording(), unix_now=NOW)
        assert asked == set(HEADER_NAMES)


FRAGMENTS = st.sampled_from(
    [
        *(b'"burst"', b"name", b";q=", b";r=", b";t=", b";w=", b";qu=", b";pk=:AA==:", b", ", b","),
        *(b"limit=", b"remaining=", b"reset=", b"0", b"5", b"60", b"1e9", b"1.5", b"-", b"(", b")"),
        *(b"?1", b"@1700000000", b"@99999999999999", b'%"%c3%a9"', b"\\", b'"', b"\xff", b"\x00"),
        *(b"1700000000", b"1700000000000", b"9" * 15, b"9" * 400, b"1994-11-06T08:49:37", b"Z"),
        *(IMF, b"Sunday, 06-Nov-94 08:49:37 GMT", b"Sun Nov  6 08:49:37 ", b"1994", b"+0000"),
    ]
)
VALUES = st.one_of(st.binary(max_size=40), st.lists(FRAGMENTS, max_size=8).map(b"".join))
HEADERS = st.dictionaries(st.sampled_from(HEADER_NAMES), st.lists(VALUES, max_size=3))
CLOCKS = st.floats(min_value=0, max_value=4e9)


class TestPromises:
    """What holds whatever a site sends."""

    @given(headers=HEADERS, unix_now=CLOCKS)
    @example(headers={"ratelimit": [b'"a";r=1;x=@999999999999999']}, unix_now=0.0)
    @example(headers={"retry-after": [b"0001-01-01T00:00:00+23:59"]}, unix_now=0.0)
    def test_no_bytes_raise_and_every_wait_is_finite(
        self, headers: HeaderValues, unix_now: float
    ) -> None:
        """Waits lie in [0, MAX_WAIT), counts are not negative, only sent headers are named."""
        found = parse_hints(headers, unix_now=unix_now)
        waits = [
            found.retry_after,
            found.reset,
            *(quota.reset for quota in found.quotas),
        ]
        assert all(wait is None or 0 <= wait < MAX_WAIT for wait in waits)
        windows = [quota.window for quota in found.quotas]
        assert all(window is None or 0 < window < MAX_WAIT for window in windows)
        counts = [count for quota in found.quotas for count in (quota.remaining, quota.limit)]
        assert all(count is None or count >= 0 for count in counts)
        assert set(found.ignored) <= set(headers)
        assert len(set(found.ignored)) == len(found.ignored)

    @given(headers=HEADERS, unix_now=CLOCKS)
    def test_the_same_headers_at_the_same_instant_say_the_same(
        self, headers: HeaderValues, unix_now: float
    ) -> None:
        """No clock and no memory hide in the parser."""
        assert parse_hints(headers, unix_now=unix_now) == parse_hints(headers, unix_now=unix_now)

    @given(wait=st.integers(min_value=0, max_value=int(MAX_WAIT) - 1), unix_now=CLOCKS)
    def test_any_valid_wait_comes_out_whole(self, wait: int, unix_now: float) -> None:
        """Retry-After is neither capped nor rounded."""
        headers = {"retry-after": [b"%d" % wait]}
        assert parse_hints(headers, unix_now=unix_now).retry_after == wait

    @given(waits=st.lists(st.integers(min_value=0, max_value=10**6), min_size=1, max_size=5))
    def test_the_longest_of_any_lines_comes_out(self, waits: list[int]) -> None:
        """The order of the lines does not matter."""
        assert hints(retry_after=[b"%d" % wait for wait in waits]).retry_after == max(waits)

    @given(
        date=st.datetimes(datetime(1970, 1, 1), datetime(2068, 12, 31)),
        wait=st.integers(min_value=0, max_value=10**7),
        shape=st.sampled_from(["IMF-fixdate", "RFC 850", "asctime", "ISO 8601"]),
    )
    def test_any_date_gives_the_time_until_it(self, date: datetime, wait: int, shape: str) -> None:
        """A date written in any of its shapes `wait` seconds ahead is `wait` seconds away."""
        date = date.replace(microsecond=0, tzinfo=timezone.utc)
        shapes = {
            "IMF-fixdate": format_datetime(date, usegmt=True),
            "RFC 850": date.strftime("%A, %d-%b-%y %H:%M:%S GMT"),
            "asctime": date.ctime(),
            "ISO 8601": date.isoformat(),
        }
        found = hints(now=date.timestamp() - wait, retry_after=shapes[shape].encode())
        assert found.retry_after == wait

    @given(
        skew=st.floats(min_value=-3 * 86_400, max_value=3 * 86_400),
        ahead=st.integers(min_value=0, max_value=10**6),
    )
    def test_no_date_waits_less_than_our_own_clock_says(self, skew: float, ahead: int) -> None:
        """Whatever the site's clock shows, 08:49:00 plus `ahead` is not visited before its time."""
        instant = datetime.fromtimestamp(NOW + ahead, timezone.utc)
        clock = datetime.fromtimestamp(NOW + skew, timezone.utc)
        found = hints(
            retry_after=format_datetime(instant, usegmt=True).encode(),
            date=format_datetime(clock, usegmt=True).encode(),
        )
        assert found.retry_after is not None
        assert ahead <= found.retry_after <= ahead + 86_400
        assert math.isfinite(found.retry_after)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"5, 10", 10.0),
        (b"10,5", 10.0),
        (b"120 , 120", 120.0),
        (b"30, Thu, 01 Jan 1970 00:00:50 GMT", 50.0),
        (b"Thu, 01 Jan 1970 00:00:50 GMT, 30", 50.0),
        (b"Thu, 01 Jan 1970 00:00:50 GMT, Thu, 01 Jan 1970 00:00:40 GMT", 50.0),
        (b"5, soon", None),
        (b"60, ", 60.0),
        (b", 60", 60.0),
        (b"5, , 10", 10.0),
        (b"Thu, 01 Jan 1970 00:00:50 GMT,", 50.0),
        (b",", None),
        (b", soon", None),
    ],
)
def test_a_retry_after_that_a_proxy_joined_of_two_is_their_longest_wait(
    value: bytes, seconds: float | None
) -> None:
    """RFC 9110, sections 5.3 and 5.6.1: lines of one name may be joined by commas, and an empty
    line leaves a member that says nothing."""
    hints = parse_hints({"retry-after": [value]}, unix_now=0.0)
    assert hints.retry_after == seconds
    assert hints.ignored == (() if seconds is not None else ("retry-after",))
