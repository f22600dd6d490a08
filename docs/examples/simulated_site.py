"""A site with a rule of its own, and a crawl of it in virtual time."""

from scrapy_adaptive.simulate import ACCEPTED, REFUSED, Page, Reply, simulate


class OfficeHours:
    """Serves ten pages a second until the office opens, after two hours, and then two."""

    def __init__(self) -> None:
        self._next = 0.0

    def on_arrival(self, now: float, page: Page) -> Reply:
        """A request arrives, `now` seconds after the crawl began."""
        if now < self._next:
            return REFUSED
        self._next = now + 1.0 / self.capacity(now)
        return ACCEPTED

    def capacity(self, now: float) -> float:
        """What a crawler that knows the site would be served, in pages a second."""
        return 10.0 if now < 2 * 3600.0 else 2.0


if __name__ == "__main__":
    crawl = simulate(
        OfficeHours(), seconds=3 * 3600.0, settings={"ADAPTIVE_TARGET_CONCURRENCY": "auto"}
    )
    print(f"served: {crawl.goodput:.1%} of the limit")
    print(f"refused: {crawl.refused:.2%} of all hits")
    print(f"longest pause: {crawl.longest_pause:.1f} s")
    crawl.draw("office-hours.png", title="Office hours")
