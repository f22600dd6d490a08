"""The ideal client of a site that limits what is in flight: it keeps just so many in flight.

It runs beside the arms, against a site of its own, so that what it is served is the capacity on
this machine under this load: `IN_FLIGHT` / (service + overhead).

    python -m benchmarks.crawls.oracle BASE BEGINS_AT SECONDS
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time

import aiohttp

from benchmarks.crawls.sites import FILES, IN_FLIGHT


async def crawl(base: str, begins_at: float, seconds: float) -> None:
    """Fetch page after page on each of the places."""
    numbers = itertools.count(1)

    async def keep_busy(session: aiohttp.ClientSession) -> None:
        while time.time() < begins_at + seconds:
            number = next(numbers)
            async with session.get(f"{base}/page/{number % FILES}.html?n={number}") as response:
                await response.read()

    await asyncio.sleep(max(0.0, begins_at - time.time()))
    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(keep_busy(session) for _ in range(IN_FLIGHT)))


if __name__ == "__main__":
    asyncio.run(crawl(sys.argv[1], float(sys.argv[2]), float(sys.argv[3])))
