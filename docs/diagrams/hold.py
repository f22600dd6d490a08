"""How the ceiling finds a limit and holds it: rate over time under eight servers, simulated.

Laws
----
* Every line is made by the simulation, with the very governor of real crawls, from one seed.
* Each dot is a second's pages; each tick at the bottom is a refusal.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from scrapy_adaptive.core.breaker.global_breaker import GlobalBreaker
from scrapy_adaptive.core.governor import Governor
from scrapy_adaptive.core.slot_config import Limits
from scrapy_adaptive.simulation.crawl import Crawl
from scrapy_adaptive.simulation.network import network
from scrapy_adaptive.simulation.spec import read_spec

SERVERS = {
    "bucket:10/20": "token bucket, 10/s, burst 20",
    "window:300/60": "window, 300 a minute",
    "cap:4/0.25": "four at a time, 0.25 s each",
    "queue:4/0.25,random": "gets slow: four workers, 0.25 s on average",
    "ban:10/20/60,restarted": "bans for 60 s, anew with each hit",
    "window:300/60,ratelimit": "window, told in RateLimit headers",
    "bucket:10/20,noise=0.005": "refuses one in 200, whatever the rate",
    "bucket:10/20,step=0.3@600,step=3.3333@1200": "a limit that moves",
}
"""Servers, and what they are called under the picture."""

MINUTES = 30
GRAIN = 10
"""Seconds of one dot."""
SEED = 3
TARGET_CONCURRENCY = 32.0
IN_FLIGHT = 64


@dataclass(frozen=True)
class Palette:
    """Colours that can be read on one of the theme's two backgrounds."""

    text: str
    rate: str
    limit: str
    refused: str


LIGHT = Palette(text="#1f2328", rate="#0b6e4f", limit="#8a94a0", refused="#b42318")
DARK = Palette(text="#e6e9ee", rate="#5fc9a2", limit="#7d8894", refused="#f28b82")


def crawl(spec: str) -> tuple[list[float], list[float], list[float]]:
    """Pages a second by spans of `GRAIN`, the limit there, and the instants of refusals."""
    site = read_spec(spec, SEED)
    governor = Governor(
        Limits(target_concurrency=TARGET_CONCURRENCY, concurrency=IN_FLIGHT),
        global_breaker=GlobalBreaker(slots=5, window=10.0, cooldown=5.0),
        chance=random.Random(SEED).random,
    )
    delay = network("jittered", random.Random(SEED))
    timeline = Crawl(governor, site.server, site.pages, delay).run(MINUTES * 60.0)
    spans = range(MINUTES * 60 // GRAIN)
    served = Counter(int(at / GRAIN) for at in timeline.accepted)
    limits = [site.server.capacity((span + 0.5) * GRAIN) for span in spans]
    return [served[span] / GRAIN for span in spans], limits, timeline.refused


def draw_server(axes: Axes, spec: str, name: str, colours: Palette) -> None:
    """One server's crawl."""
    rates, limits, refused = crawl(spec)
    minutes = [(span + 0.5) * GRAIN / 60.0 for span in range(len(rates))]
    top = 1.35 * max(limits)
    axes.plot(minutes, limits, color=colours.limit, linewidth=1.0, linestyle="--")
    axes.plot(minutes, rates, color=colours.rate, linewidth=1.1)
    axes.vlines([at / 60.0 for at in refused], 0, 0.07 * top, color=colours.refused, linewidth=0.9)
    axes.set_xlim(0, MINUTES)
    axes.set_ylim(0, top)
    axes.set_title(f"{name}: {len(refused)} refused", fontsize=8.5, color=colours.text, loc="left")
    axes.tick_params(colors=colours.text, labelsize=7)
    axes.patch.set_alpha(0)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(colours.limit)


def draw(colours: Palette) -> None:
    """All servers."""
    figure, grid = plt.subplots(4, 2, figsize=(8.4, 8.4), sharex=True)
    figure.patch.set_alpha(0)
    for axes, (spec, name) in zip(grid.flat, SERVERS.items(), strict=True):
        draw_server(axes, spec, name, colours)
    for axes in grid[-1]:
        axes.set_xlabel("minutes", fontsize=8, color=colours.text)
    for axes in grid[:, 0]:
        axes.set_ylabel("pages / s", fontsize=8, color=colours.text)
    figure.tight_layout()


def light() -> None:
    """For the theme's light pages."""
    draw(LIGHT)


def dark() -> None:
    """For the theme's dark pages."""
    draw(DARK)
