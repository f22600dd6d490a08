"""A crawl that has nothing to ask for in between, against two limits at once."""

import random

from scrapy_adaptive.models import BucketServer, NestedServer, WindowServer
from scrapy_adaptive.simulate import Crawl, governor_of, network, pages, read

HOUR = 3600.0

if __name__ == "__main__":
    chance = random.Random(1)
    # ten a second, and no more than 300 a minute
    a_second, a_minute = BucketServer(10.0, 5), WindowServer(300.0, 60.0)
    site = NestedServer([a_second, a_minute])
    crawl = Crawl(
        governor_of({"CONCURRENT_REQUESTS_PER_DOMAIN": 16}, chance.random),
        site,
        pages({"/": 1.0}, chance),
        network("jittered", chance),
    )
    crawl.run(0.5 * HOUR)
    crawl.drain()  # what is in flight is answered
    crawl.wait(0.75 * HOUR)  # nobody crawls until that instant
    readings = read(crawl.run(2 * HOUR), site, 2 * HOUR)
    print(f"served: {readings.second_half.goodput_ratio:.1%} of the limit in the second hour")
    print(f"refused: {readings.whole.refused_ratio:.2%} of all hits")
