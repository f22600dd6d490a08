"""Pages that wait for the media of a paused host do not keep others from being fetched.

Scrapy's scraper takes 5 MB of responses whose items are not done, and these items wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy.http import Response

from tests.crawling import Crawler, Reactor
from tests.servers.origin import Answer, Origin, Visit, refusal
from tests.spiders import UrlsSpider

PAGES, IMAGES = "127.1.1.1", "127.1.1.2"

COUNT = 50
SIZE = 200_000
"""Bytes of a page: half of them are more than Scrapy's scraper takes."""


class PicturesSpider(UrlsSpider):
    """Each page shows an image of the other host."""

    name = "pictures"

    def parse(self, response: Response) -> Iterator[Any]:
        picture = response.url.replace(PAGES, IMAGES) + ".png"
        yield {"url": response.url, "status": response.status, "image_urls": [picture]}


def images_refused(visit: Visit) -> Answer:
    if visit.host.startswith(IMAGES):
        return refusal(retry_after=60)
    return Answer(body=b"0" * SIZE)


@pytest.mark.parametrize("reactor", ["asyncio", "select"])
def test_pages_are_fetched_while_the_images_of_all_of_them_wait(
    reactor: Reactor, origin: Callable[..., Origin], crawl: Crawler, tmp_path: Path
) -> None:
    site = origin(images_refused, addresses=[PAGES, IMAGES])
    running = crawl.start(
        PicturesSpider,
        {
            "ITEM_PIPELINES": {"scrapy.pipelines.images.ImagesPipeline": 1},
            "IMAGES_STORE": str(tmp_path),
            "ADAPTIVE_START_DELAY": 0.05,
            "ADAPTIVE_TARGET_CONCURRENCY": 8,
        },
        arguments={"urls": [f"{site.url_at(PAGES)}/{n}" for n in range(COUNT)]},
        reactor=reactor,
        timeout=25,
    )
    running.until(lambda: sum(hit.status == 200 for hit in site.hits()) == COUNT)
    assert {hit.status for hit in site.hits() if hit.host.startswith(IMAGES)} == {429}
    assert running.process.poll() is None
    running.kill()
