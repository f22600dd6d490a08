"""A priority queue as a user may have one: Scrapy's default, under another name."""

from __future__ import annotations

from scrapy.pqueues import DownloaderAwarePriorityQueue


class OwnQueue(DownloaderAwarePriorityQueue):
    """Keeps hosts apart as Scrapy's default does, and is none of ours."""
