"""Which of Scrapy's tests are run, how, and which of them cannot hold.

Laws
----
* A difference is named with its reason; none loses a request, an item or a signal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Difference(NamedTuple):
    """A test that does not hold."""

    reason: str
    since: tuple[int, int] = (2, 15)
    """The version of Scrapy that brought it."""


@dataclass(frozen=True, slots=True)
class Group:
    """Modules that are run together.

    Args:
        plugin: a module of this folder, given to pytest.
        least: tests that have to hold at least: fewer, and most were not even run.
        in_place: whether the modules' priority queues are replaced by HostQueue.
    """

    name: str
    plugin: str
    modules: tuple[str, ...]
    different: Mapping[str, Difference]
    least: int
    in_place: bool = False


START_DELAY = "without a delay of its own the crawl would be fast: it has the polite start"
NO_PEEK = "there is no peek: which host's turn it is shows only when its place is reserved"

DEFAULTS = Group(
    "the add-on in its defaults",
    "with_addon",
    (
        "test_closespider",
        "test_core_downloader",
        "test_crawl",
        "test_downloadermiddleware_httpcache",
        "test_downloadermiddleware_robotstxt",
        "test_downloaderslotssettings",
        "test_engine",
        "test_engine_close_spider",
        "test_engine_download",
        "test_engine_loop",
        "test_engine_stop_download_bytes",
        "test_engine_stop_download_headers",
        "test_pipeline_crawl",
        "test_pipeline_files",
        "test_pipeline_images",
        "test_pipeline_media",
        "test_request_attribute_binding",
        "test_request_left",
        "test_robotstxt_interface",
        "test_scheduler",
        "test_scheduler_base",
        "test_signals",
        "test_spider_start",
    ),
    {
        "test_crawl::TestCrawl::test_fixed_delay": Difference(START_DELAY),
        "test_crawl::TestCrawl::test_randomized_delay": Difference(START_DELAY),
        "test_crawl::TestCrawl::test_retry_503": Difference(
            "a 503 is a refusal: it is waited out, and spends no retries"
        ),
        "test_downloaderslotssettings::test_delay": Difference(
            "it reads the delay of the slot in the downloader, and ours is kept at the gate"
        ),
        "test_scheduler::TestIncompatibility::test_incompatibility": Difference(
            "Scrapy's default queue, set by name, is replaced by ours, which has no such obstacle"
        ),
        "test_engine_loop::TestRequestSendOrder::test_lazy": Difference(
            "it is about the milliseconds between two requests, and requests are paced"
        ),
    },
    least=480,
)

QUEUES = Group(
    "HostQueue in place of Scrapy's priority queues",
    "queue_in_place",
    ("test_pqueues", "test_scheduler"),
    {
        "test_pqueues::TestPriorityQueue::test_peek": Difference(NO_PEEK),
        "test_pqueues::TestDownloaderAwarePriorityQueue::test_peek": Difference(NO_PEEK),
        "test_pqueues::TestPriorityQueue::test_queue_push_pop_priorities": Difference(
            "its state is a list of priorities, ours is a table of hosts"
        ),
        "test_pqueues::TestDownloaderAwarePriorityQueue::"
        "test_pop_prefers_slot_with_fewer_active_downloads": Difference(
            "turns go by priority and waiting time, not by active downloads", (2, 17)
        ),
        "test_scheduler::TestMigration::test_migration": Difference(
            "it moves a job between two queues, and one stands here in the place of both"
        ),
        "test_scheduler::TestIncompatibility::test_incompatibility": Difference(
            "CONCURRENT_REQUESTS_PER_IP is no obstacle: it is read as the cap of a host"
        ),
    },
    least=24,
    in_place=True,
)

GROUPS = (DEFAULTS, QUEUES)
