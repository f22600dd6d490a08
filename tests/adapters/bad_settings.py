"""What no setting may be: bad values by setting and by kind of mistake.

Laws
----
* Which kinds apply to a setting is told by its own words, not by this table.
"""

from __future__ import annotations

import math
import re
from itertools import cycle
from typing import Any

from scrapy_adaptive.adapters.setting_table import Setting

TYPE, NEGATIVE, NAN, INFINITE, RANGE, PATH = KINDS = (
    "wrong type",
    "negative",
    "NaN",
    "infinite",
    "out of range",
    "unknown import path",
)

Cases = dict[str, tuple[Any, ...]]
"""Bad values of one setting, by kind."""

NUMBER: Cases = {
    TYPE: ("soon", [1], True),
    NEGATIVE: (-1, "-0.5"),
    NAN: (math.nan, "nan"),
    INFINITE: (math.inf, "inf"),
}
"""What is wrong for every number that is 0 or more."""

POSITIVE: Cases = {**NUMBER, RANGE: (0,)}
WHOLE: Cases = {**NUMBER, RANGE: (0, 1.5)}
SWITCH: Cases = {
    TYPE: ("maybe", [True]),
    NEGATIVE: (-1,),
    NAN: (math.nan,),
    INFINITE: (math.inf,),
    RANGE: (2,),
}

FUNCTION: Cases = {
    TYPE: (5, [len], "os", "os.sep"),
    NEGATIVE: (-1,),
    NAN: (math.nan,),
    INFINITE: (math.inf,),
    PATH: ("no.such.thing", "os.nothing"),
}

BAD: dict[str, Cases] = {
    "ADAPTIVE_MAX_PAUSE": NUMBER,
    "ADAPTIVE_HOST_DEPTH_DISCOUNT": NUMBER,
    "ADAPTIVE_FALLBACK_PRIORITY_QUEUE": {
        TYPE: (3, ["scrapy.pqueues.ScrapyPriorityQueue"], "scrapy.Request", len),
        NEGATIVE: (-1,),
        NAN: (math.nan,),
        INFINITE: (math.inf,),
        PATH: ("scrapy.pqueues.NoSuchQueue", "nowhere"),
    },
    "ADAPTIVE_ENABLED": SWITCH,
    "ADAPTIVE_START_DELAY": NUMBER,
    "ADAPTIVE_MAX_DELAY": POSITIVE,
    "ADAPTIVE_TARGET_CONCURRENCY": POSITIVE,
    "ADAPTIVE_BURST": WHOLE,
    "ADAPTIVE_REFUSAL_CODES": {
        TYPE: ("many", "429;503", 429, [True], [None], [429.5]),
        NEGATIVE: ([-429],),
        NAN: ([math.nan],),
        INFINITE: ([429, math.inf],),
        RANGE: ([399], [1000]),
    },
    "ADAPTIVE_CEILING": {
        TYPE: (3, ["hold"], True),
        NEGATIVE: (-1,),
        NAN: (math.nan,),
        INFINITE: (math.inf,),
        RANGE: ("cubic", "Hold", ""),
    },
    "ADAPTIVE_STATE_FILE": {
        TYPE: (3, ["state.json"], True),
        NEGATIVE: (-1,),
        NAN: (math.nan,),
        INFINITE: (math.inf,),
        RANGE: ("/no/such/folder/state.json", "/", "/dev/null"),
    },
    "ADAPTIVE_JOURNAL": {
        TYPE: (3, ["run.jsonl"], True),
        NEGATIVE: (-1,),
        NAN: (math.nan,),
        INFINITE: (math.inf,),
        RANGE: ("/no/such/folder/run.jsonl", "/"),
    },
    "ADAPTIVE_REPORT": {
        TYPE: (3, ["report.html"], True),
        NEGATIVE: (-1,),
        NAN: (math.nan,),
        INFINITE: (math.inf,),
        RANGE: ("/no/such/folder/report.html", "/"),
    },
    "ADAPTIVE_RULES": {
        TYPE: (3, "rate", True),
        NEGATIVE: (-1,),
        NAN: (math.nan,),
        INFINITE: (math.inf,),
        RANGE: ("[{",),
    },
    "ADAPTIVE_RULES_URL": {
        TYPE: (3, ["sqlite:///rules.db"], True),
        NEGATIVE: (-1,),
        NAN: (math.nan,),
        INFINITE: (math.inf,),
        RANGE: ("rules.db",),
    },
    "ADAPTIVE_RULES_REFRESH": POSITIVE,
    "ADAPTIVE_RULES_OPTIONAL": SWITCH,
    "ADAPTIVE_IDENTITY": {
        TYPE: (
            *(3, ["account"], "{", True),
            *({"account": "body:name"}, {"an account": "proxy"}, {"account": "meta:"}),
        ),
        NEGATIVE: (-1,),
        NAN: (math.nan,),
        INFINITE: (math.inf,),
        PATH: ("no.such.thing", "os.nothing"),
    },
    "ADAPTIVE_AGENTS": {
        TYPE: (3, ["*bot*"], True, {"crawler": 3}),
        NEGATIVE: (-1,),
        NAN: (math.nan,),
        INFINITE: (math.inf,),
        RANGE: ({"": ["*bot*"]}, {"crawler": [3]}),
    },
    "ADAPTIVE_MAX_METERS": WHOLE,
    "ADAPTIVE_WATCH": SWITCH,
    "ADAPTIVE_WATCH_ADDRESS": {
        TYPE: (3, ["127.0.0.1"], True),
        NEGATIVE: (-1,),
        NAN: (math.nan,),
        INFINITE: (math.inf,),
        RANGE: ("no address", "http://127.0.0.1", ""),
    },
    "ADAPTIVE_WATCH_PORT": {
        TYPE: ("many", [6600], True, 66.5),
        NEGATIVE: (-1,),
        NAN: (math.nan,),
        INFINITE: (math.inf,),
        RANGE: (65_536,),
    },
    "ADAPTIVE_BACKOFF_RATIO": {**NUMBER, RANGE: (0, 1, 1.5)},
    "ADAPTIVE_MAX_REFUSALS": WHOLE,
    "ADAPTIVE_CLASSIFIER": FUNCTION,
    "ADAPTIVE_SLOT": FUNCTION,
    "ADAPTIVE_GLOBAL_TRIP_SLOTS": WHOLE,
    "ADAPTIVE_GLOBAL_WINDOW": POSITIVE,
    "ADAPTIVE_GLOBAL_COOLDOWN": NUMBER,
    "ADAPTIVE_GLOBAL_RATE": NUMBER,
    "ADAPTIVE_MAX_CRAWL_DELAY": NUMBER,
    "ADAPTIVE_MAX_SLOTS": WHOLE,
    "ADAPTIVE_DEBUG": SWITCH,
    "ADAPTIVE_LOG_INTERVAL": NUMBER,
    "ADAPTIVE_ROBOTSTXT_REFUSED": {
        TYPE: (3, ["crawl"], True),
        NEGATIVE: (-1,),
        NAN: (math.nan,),
        INFINITE: (math.inf,),
        RANGE: ("allow", "Crawl", ""),
    },
    "ADAPTIVE_FRONTIER": {
        TYPE: (3, ["sqlite:///crawl.db"], True),
        NEGATIVE: (-1,),
        NAN: (math.nan,),
        INFINITE: (math.inf,),
        RANGE: ("crawl.db", "mysql://host/crawl", "sqlite"),
    },
    "ADAPTIVE_FRONTIER_LEASE": {**NUMBER, RANGE: (0, 0.5)},
    "ADAPTIVE_FRONTIER_ORDERS": WHOLE,
    "ADAPTIVE_FRONTIER_HOSTS": WHOLE,
    "ADAPTIVE_FRONTIER_PER_HOST": WHOLE,
    "ADAPTIVE_FRONTIER_POLL_INTERVAL": POSITIVE,
    "ADAPTIVE_FRONTIER_MIN_ORDERS": {**NUMBER, RANGE: (0, 1.5)},
    "ADAPTIVE_FRONTIER_MIN_HOSTS": {**NUMBER, RANGE: (0, 1.5)},
    "ADAPTIVE_FRONTIER_STAY": NUMBER,
    "ADAPTIVE_FRONTIER_STRATEGY": FUNCTION,
    "ADAPTIVE_EGRESS": {
        TYPE: (3, ["shared"], True),
        NEGATIVE: (-1,),
        NAN: (math.nan,),
        INFINITE: (math.inf,),
        RANGE: ("", "two words"),
    },
    "ADAPTIVE_REVISIT": {
        TYPE: (3, ["new"], True),
        NEGATIVE: (-1,),
        NAN: (math.nan,),
        INFINITE: (math.inf,),
        RANGE: ("always", {"first": "1d"}, {"first": "1s", "min": "1h", "max": "30d"}),
    },
}


def kinds_of(setting: Setting) -> set[str]:
    """Which mistakes its own words make possible; below 0 there is no range but "negative"."""
    kinds = {TYPE, NEGATIVE, NAN, INFINITE}
    if "import path" in setting.allowed:
        return kinds | {PATH}
    is_open_above_zero = re.search(r"\b0\b.* or more", setting.allowed)
    return kinds if is_open_above_zero else kinds | {RANGE}


def on_command_line(value: Any) -> str:
    """The value as a user would write it after -s."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


PATHS = (
    "ADAPTIVE_STATE_FILE",
    "ADAPTIVE_JOURNAL",
    "ADAPTIVE_REPORT",
    "ADAPTIVE_WATCH_ADDRESS",
    "ADAPTIVE_FRONTIER",
    "ADAPTIVE_EGRESS",
    "ADAPTIVE_REVISIT",
)
"""Settings for which most words of a command line are a path, or a name: one out of range is not.
"""


def one_of_each(bad: dict[str, Cases]) -> dict[tuple[str, str], str]:
    """One value of each setting, by setting and kind; the kinds take turns."""
    turns = cycle(KINDS)
    chosen = {}
    for name, cases in bad.items():
        given = {PATH: PATH in cases, RANGE: name in PATHS}
        kind = next((each for each, is_it in given.items() if is_it), None) or next(
            turn for turn in turns if turn in cases
        )
        chosen[name, kind] = on_command_line(cases[kind][0])
    return chosen


BAD_SLOTS: dict[str, Any] = {
    "a slot that is text": {"a": "fast"},
    "a slot that is no mapping": {"a": 3},
    "a delay that is no number": {"a": {"delay": "soon"}},
    "a negative delay": {"a": {"delay": -1}},
    "a delay of NaN": {"a": {"delay": math.nan}},
    "no concurrency": {"a": {"concurrency": 0}},
    "half a request": {"a": {"concurrency": 1.5}},
}

SHELL_CASES: dict[tuple[str, str], str] = {
    **one_of_each(BAD),
    ("ADAPTIVE_BRUST", "unknown name"): "3",
    ("DOWNLOAD_DELAY", TYPE): "soon",
    ("DOWNLOAD_SLOTS", NEGATIVE): '{"a": {"delay": -1}}',
    ("CONCURRENT_REQUESTS_PER_DOMAIN", RANGE): "0",
}
"""What is set with -s under a real `scrapy crawl`, by setting and kind."""
