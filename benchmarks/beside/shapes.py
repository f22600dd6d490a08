"""Project shapes drawn at random: hosts, pages, failures and settings, all from one seed.

Laws
----
* A shape is a function of its seed and number alone, and a page's answer of the shape and its URL:
  both arms meet the same sites.
* No site refuses anything: what fails is a 404, a 500, a cut connection or a dead host.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from benchmarks.beside.scenario import Arena, Job, Scenario, numbered
from tests.servers.origin import HALF_A_WORD, Answer, Visit, redirect, robots_txt

PAGES = 300
"""Most pages of a shape."""

FORBIDDEN = "/page/7"
"""How the paths begin that robots.txt forbids. Stock Scrapy asks for some of them: of the pages
that wait for a robots.txt together, all but the first are let through. So they are not there."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What was drawn."""

    seed: str
    hosts: int
    pages: int
    """Of each host."""
    latency: float
    """Mean seconds of an answer; each host has its own."""
    size: int
    """Bytes of a page."""
    links: int
    """Links of each page, 0 where all pages are asked for by the spider."""
    media: int
    dead: int
    not_found: float
    redirects: float
    broken: float
    settings: dict[str, Any]
    jobdir: bool

    def __str__(self) -> str:
        switches = [name for name, value in self.settings.items() if value is True]
        numbers = [f"{name}={value}" for name, value in self.settings.items() if value is not True]
        parts = [
            f"{self.hosts} hosts × {self.pages} pages",
            f"{self.latency:.2f} s",
            f"{self.size} B",
            *([f"{self.links} links"] if self.links else []),
            *([f"{self.media} files"] if self.media else []),
            *([f"{self.dead} dead"] if self.dead else []),
            f"404 {self.not_found:.0%}, 3xx {self.redirects:.0%}, broken {self.broken:.0%}",
            *switches,
            *numbers,
            *(["JOBDIR"] if self.jobdir else []),
        ]
        return ", ".join(parts)


def draw(seed: int, number: int) -> Shape:
    """The shape of that number."""
    name = f"{seed}/{number}"
    chance = Random(name)
    hosts = chance.choice((1, 1, 2, 5, 12, 25, 40))
    settings: dict[str, Any] = {}
    for setting in ("ROBOTSTXT_OBEY", "HTTPCACHE_ENABLED"):
        if chance.random() < 0.4:
            settings[setting] = True
    if chance.random() < 0.3:
        settings["DOWNLOAD_DELAY"] = chance.choice((0.05, 0.2, 0.5))
    if chance.random() < 0.5:
        settings["CONCURRENT_REQUESTS"] = chance.choice((4, 16, 64))
    if chance.random() < 0.5:
        settings["CONCURRENT_REQUESTS_PER_DOMAIN"] = chance.choice((1, 2, 8, 16))
    fewer = 4 if settings.get("DOWNLOAD_DELAY") or hosts == 1 else 1
    return Shape(
        seed=name,
        hosts=hosts,
        pages=max(3, chance.randint(PAGES // 3, PAGES) // fewer // hosts),
        latency=chance.choice((0.0, 0.02, 0.1, 0.3)),
        size=chance.choice((200, 5_000, 100_000)),
        links=chance.choice((0, 0, 3, 10)),
        media=chance.choice((0, 0, 0, 2)),
        dead=chance.choice((0, 0, 0, 1, 4)),
        not_found=chance.choice((0.0, 0.05, 0.4)),
        redirects=chance.choice((0.0, 0.1)),
        broken=chance.choice((0.0, 0.0, 0.05)),
        settings=settings,
        jobdir=chance.random() < 0.25,
    )


def _answer(shape: Shape, visit: Visit) -> Answer:
    """What a site of that shape has at a URL: the same at the sites of both arms."""
    host = visit.host.partition(":")[0].rpartition(".")[2]
    chance = Random(f"{shape.seed} {host} {visit.path}")
    latency = shape.latency * (0.5 + Random(f"{shape.seed} {host}").random())
    if visit.path == "/robots.txt":
        return robots_txt(f"User-agent: *\nDisallow: {FORBIDDEN}\n")
    if visit.path.startswith("/file/"):
        return Answer(body=b"0" * shape.size, delay=latency)
    if visit.path.startswith(FORBIDDEN):
        return Answer(404)
    number = int(visit.path.rpartition("/")[2])
    draw = chance.random()
    if number and draw < shape.not_found:
        return Answer(404, delay=latency)
    draw -= shape.not_found
    if number and visit.path.startswith("/page/") and 0 <= draw < shape.redirects:
        return redirect(f"/moved/{number}")
    draw -= shape.redirects
    if number and 0 <= draw < shape.broken:
        return Answer(500, delay=latency, drop=number % 2 == 0, drop_after=HALF_A_WORD)
    first = shape.links * number + 1
    links = (n for n in range(first, first + shape.links) if n < shape.pages)
    body = "".join(f"<a href='/page/{n}'>{n}</a>" for n in links)
    body += "".join(f"<img src='/file/{number}-{n}'>" for n in range(shape.media))
    return Answer(body=body.ljust(shape.size), delay=latency)


def shape_scenario(seed: int, number: int) -> Scenario:
    """The scenario of a shape."""
    shape = draw(seed, number)

    def build(arena: Arena) -> Job:
        hosts = arena.site(lambda visit: _answer(shape, visit), shape.hosts)
        settings = dict(shape.settings)
        if settings.get("HTTPCACHE_ENABLED"):
            settings["HTTPCACHE_DIR"] = str(arena.folder / "cache")
        if shape.media:
            settings["ITEM_PIPELINES"] = {"scrapy.pipelines.files.FilesPipeline": 1}
            settings["FILES_STORE"] = str(arena.folder / "files")
        urls = numbered(hosts, 1 if shape.links else shape.pages)
        urls += numbered(arena.dead(shape.dead), 2)
        follow = {"follow": bool(shape.links)}
        return Job(urls, settings, arguments=follow, jobdir=shape.jobdir)

    return Scenario(f"shape-{seed}-{number}", str(shape), build)
