"""The table of all settings: their names, defaults, what is allowed and what they mean.

Laws
----
* One table names every setting; the documentation is held against it by a test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scrapy_adaptive.core.ceiling.registry import CEILINGS

from .robots import CRAWL, READINGS
from .setting_types import (
    COUNT,
    RATIO,
    SECONDS,
    SOME_SECONDS,
    SWITCH,
    address,
    agents,
    boolean,
    concurrency,
    database,
    egress_name,
    frontier_address,
    function,
    identity,
    number,
    one_of,
    output_file,
    port,
    queue_class,
    revisits,
    rules,
    state_file,
    statuses,
    strategy_class,
    whole,
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table of settings."""

    name: str
    default: Any
    allowed: str
    """What is allowed, in words, as the error says it."""
    parse: Callable[[Any], Any]
    """Raises ValueError or TypeError for what is not allowed."""
    meaning: str


SETTINGS: tuple[Setting, ...] = (
    Setting("ADAPTIVE_ENABLED", True, SWITCH, boolean, "Off: the add-on changes nothing."),
    Setting("ADAPTIVE_START_DELAY", 1.0, SECONDS, number(0), "First delay of a slot nobody knows."),
    Setting(
        "ADAPTIVE_MAX_DELAY",
        60.0,
        SOME_SECONDS,
        number(0, above=True),
        "Most that the latency law may ask for.",
    ),
    Setting(
        "ADAPTIVE_TARGET_CONCURRENCY",
        "auto",
        'a number, more than 0, or "auto"',
        concurrency,
        "AutoThrottle's N: requests of a slot that are in flight on average.",
    ),
    Setting(
        "ADAPTIVE_BURST",
        1,
        COUNT,
        whole(1),
        "Most tokens a slot may save up; 1 again after a refusal.",
    ),
    Setting(
        "ADAPTIVE_REFUSAL_CODES",
        [429, 503],
        "a list of HTTP statuses from 400 to 999",
        statuses,
        "Statuses that are refusals.",
    ),
    Setting(
        "ADAPTIVE_CEILING",
        "hold",
        " or ".join(f'"{name}"' for name in CEILINGS),
        one_of(CEILINGS),
        "The law that learns a site's limit.",
    ),
    Setting(
        "ADAPTIVE_BACKOFF_RATIO",
        0.5,
        "a number between 0 and 1, both excluded",
        number(0, above=True, below=1),
        'Fraction of the rate kept on a refusal, where the ceiling is "aimd".',
    ),
    Setting(
        "ADAPTIVE_MAX_REFUSALS",
        100,
        COUNT,
        whole(1),
        "Refusals of one request before it is handed to RetryMiddleware.",
    ),
    Setting(
        "ADAPTIVE_CLASSIFIER",
        None,
        "a callable or its import path",
        function,
        "callable(response) that returns an Outcome, or None for what the status says.",
    ),
    Setting(
        "ADAPTIVE_SLOT",
        None,
        "a callable or its import path",
        function,
        "callable(request) that returns the name of a slot, or None for Scrapy's own.",
    ),
    Setting(
        "ADAPTIVE_GLOBAL_TRIP_SLOTS",
        5,
        COUNT,
        whole(1),
        "Distinct slots, refused within the window, that may share a limit; 1: any stops a crawl.",
    ),
    Setting(
        "ADAPTIVE_GLOBAL_WINDOW",
        10.0,
        SOME_SECONDS,
        number(0, above=True),
        "Time within which they must be refused.",
    ),
    Setting(
        "ADAPTIVE_GLOBAL_COOLDOWN",
        5.0,
        SECONDS,
        number(0),
        "Pause of the whole crawl once nothing is in flight.",
    ),
    Setting(
        "ADAPTIVE_GLOBAL_RATE",
        0.0,
        "a number of requests a second, 0 (no bound) or more",
        number(0),
        "Most sends a second over all slots.",
    ),
    Setting(
        "ADAPTIVE_MAX_CRAWL_DELAY",
        300.0,
        SECONDS,
        number(0),
        "Most that a Crawl-delay in robots.txt may ask for.",
    ),
    Setting(
        "ADAPTIVE_ROBOTSTXT_REFUSED",
        CRAWL,
        " or ".join(f'"{name}"' for name in READINGS),
        one_of(READINGS),
        "What a robots.txt means that its site refuses to the end.",
    ),
    Setting(
        "ADAPTIVE_MAX_SLOTS",
        10_000,
        COUNT,
        whole(1),
        "Slots remembered; the least recently used idle ones are forgotten.",
    ),
    Setting(
        "ADAPTIVE_MAX_PAUSE",
        3600.0,
        SECONDS,
        number(0),
        "A host that asks for a longer pause, or whose quota is spent for longer, is parked.",
    ),
    Setting(
        "ADAPTIVE_HOST_DEPTH_DISCOUNT",
        0.0,
        "a number, 0 or more",
        number(0),
        "The kth request taken from one host counts k times so much less than its priority says.",
    ),
    Setting(
        "ADAPTIVE_FALLBACK_PRIORITY_QUEUE",
        "scrapy.pqueues.DownloaderAwarePriorityQueue",
        "a priority queue class or its import path",
        queue_class,
        "What HostQueue stands for while ADAPTIVE_ENABLED is False.",
    ),
    Setting(
        "ADAPTIVE_STATE_FILE",
        None,
        "the path of a plain file in a folder that exists",
        state_file,
        "Where crawls remember what they learned, if not in their JOBDIR.",
    ),
    Setting(
        "ADAPTIVE_JOURNAL",
        None,
        "the path of a file in a folder that exists",
        output_file,
        "File to which the journal of the crawl is appended.",
    ),
    Setting(
        "ADAPTIVE_REPORT",
        None,
        "the path of a file in a folder that exists",
        output_file,
        "HTML file to which the report of the crawl is written at its end.",
    ),
    Setting("ADAPTIVE_WATCH", False, SWITCH, boolean, "Serves a live view of the crawl."),
    Setting(
        "ADAPTIVE_WATCH_ADDRESS",
        "127.0.0.1",
        "an address or a name of this machine",
        address,
        "Address that the live view is bound to.",
    ),
    Setting(
        "ADAPTIVE_WATCH_PORT",
        6600,
        "a port, from 0 (any that is free) to 65535",
        port,
        "Port of the live view; where it is taken, a free one is used.",
    ),
    Setting(
        "ADAPTIVE_RULES",
        [],
        "a list of dicts, one for each rule, or a dict of them by host",
        rules,
        "Known limits.",
    ),
    Setting(
        "ADAPTIVE_RULES_URL",
        None,
        "the address of a database: sqlite:///… or postgresql+psycopg://…",
        database,
        "Database whose table adaptive_rules has known limits.",
    ),
    Setting(
        "ADAPTIVE_RULES_REFRESH",
        10.0,
        SOME_SECONDS,
        number(0, above=True),
        "Time after which the table is read again.",
    ),
    Setting(
        "ADAPTIVE_RULES_OPTIONAL",
        False,
        SWITCH,
        boolean,
        "Whether the crawl may begin while the table cannot be read.",
    ),
    Setting(
        "ADAPTIVE_IDENTITY",
        {},
        'a dict of names to "meta:…", "header:…", "query:…", "cookiejar" or "proxy"; or a callable '
        "or its import path",
        identity,
        "Where rules find whom a request is sent as.",
    ),
    Setting(
        "ADAPTIVE_AGENTS",
        {},
        "a dict of names to lists of patterns",
        agents,
        "Classes of User-Agents, for rules.",
    ),
    Setting(
        "ADAPTIVE_MAX_METERS",
        100_000,
        COUNT,
        whole(1),
        "Counts of rules that are remembered one by one.",
    ),
    Setting(
        "ADAPTIVE_FRONTIER",
        None,
        "sqlite:///PATH, postgresql://USER@HOST/DATABASE or redis://HOST/0",
        frontier_address,
        "Database that keeps the crawl's requests, so that no crash can hurt it.",
    ),
    Setting(
        "ADAPTIVE_FRONTIER_LEASE",
        30.0,
        "a number of seconds, 1 or more",
        number(1),
        "Time after which the hosts of a worker that has died are another's.",
    ),
    Setting(
        "ADAPTIVE_FRONTIER_ORDERS",
        500,
        COUNT,
        whole(1),
        "Requests that a worker takes out of the frontier at a time.",
    ),
    Setting(
        "ADAPTIVE_FRONTIER_HOSTS",
        200,
        COUNT,
        whole(1),
        "Most hosts that a worker holds at a time.",
    ),
    Setting(
        "ADAPTIVE_FRONTIER_PER_HOST",
        100,
        COUNT,
        whole(1),
        "Most requests of one host that are taken out of the frontier.",
    ),
    Setting(
        "ADAPTIVE_FRONTIER_POLL_INTERVAL",
        1.0,
        SOME_SECONDS,
        number(0, above=True),
        "Least time between two polls of the frontier.",
    ),
    Setting(
        "ADAPTIVE_FRONTIER_MIN_ORDERS",
        0.5,
        RATIO,
        number(0, above=True, below=1.000001),
        "Share of ADAPTIVE_FRONTIER_ORDERS below which more are polled.",
    ),
    Setting(
        "ADAPTIVE_FRONTIER_MIN_HOSTS",
        0.5,
        RATIO,
        number(0, above=True, below=1.000001),
        "Share of ADAPTIVE_FRONTIER_HOSTS below which more orders are polled.",
    ),
    Setting(
        "ADAPTIVE_FRONTIER_STAY",
        60.0,
        SECONDS,
        number(0),
        "A crawl waits for what is due within this time; else it ends.",
    ),
    Setting(
        "ADAPTIVE_FRONTIER_STRATEGY",
        None,
        "a subclass of scrapy_adaptive.frontier.poller.PollStrategy or its import path",
        strategy_class,
        "Class that says when to poll the frontier for how much.",
    ),
    Setting(
        "ADAPTIVE_EGRESS",
        "shared",
        "a name of letters, digits and . : _ -",
        egress_name,
        "Name of the address that sites see; workers of one name share a host's pace.",
    ),
    Setting(
        "ADAPTIVE_REVISIT",
        None,
        'None, "new", or {"first": "1d", "min": "1h", "max": "30d"} with times of your own',
        revisits,
        "When pages of the frontier are visited again.",
    ),
    Setting("ADAPTIVE_DEBUG", False, SWITCH, boolean, "One log line per response."),
    Setting(
        "ADAPTIVE_LOG_INTERVAL",
        60.0,
        SECONDS + "; 0 for none",
        number(0),
        "Time between two summary lines.",
    ),
)
