"""Monitors for Spidermon: sites that refuse too much, pages given up, sites that are parked."""

from __future__ import annotations

from typing import Any

from spidermon import Monitor, MonitorSuite, monitors

MOST_REFUSED = 0.01
"""Share of a site's answers that may be refusals."""

FEWEST = 100
"""Answers of a site below which its share of refusals says nothing."""


def sites(stats: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The stats of the busiest sites, by site."""
    found: dict[str, dict[str, Any]] = {}
    for name, value in stats.items():
        if name.startswith("adaptive/site/"):
            site, _, what = name.removeprefix("adaptive/site/").rpartition("/")
            found.setdefault(site, {})[what] = value
    return found


@monitors.name("Politeness")
class PolitenessMonitor(Monitor):
    """What a crawl should not do to a site, and a site not to a crawl."""

    @monitors.name("No site refuses more than 1 % of its answers")
    def test_refusals(self) -> None:
        """A site of which few pages are asked may refuse one."""
        shares = {}
        for site, found in sites(dict(self.data.stats)).items():
            answers = found["pages"] + found["refused"]
            if answers >= FEWEST and found["refused"] > MOST_REFUSED * answers:
                shares[site] = f"{found['refused'] / answers:.1%}"
        assert not shares, f"sites that refuse too much: {shares}"

    @monitors.name("No page is given up")
    def test_given_up(self) -> None:
        """Refused too often, refused at any pace, or waiting for a paused site at the end."""
        stats = dict(self.data.stats)
        names = ("handed_over", "broken_pages", "given_up")
        counts = {name: stats.get(f"adaptive/{name}", 0) for name in names}
        assert not any(counts.values()), f"pages were given up: {counts}"

    @monitors.name("No site is parked")
    def test_parked(self) -> None:
        """With a JOBDIR the next run goes on with these."""
        parked = self.data.stats.get("adaptive/parked", 0)
        assert not parked, f"{parked} sites asked for a longer wait than ADAPTIVE_MAX_PAUSE"


class AdaptiveSuite(MonitorSuite):
    """All of them."""

    monitors = (PolitenessMonitor,)
