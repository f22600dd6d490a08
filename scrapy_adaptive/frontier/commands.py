"""The command `frontier`: what is in a frontier, and what is to be in it.

Laws
----
* It works beside a crawl that runs, and on its database when none does.
* The address and the spiders are those of the project's settings, where nothing else is said.
"""

from __future__ import annotations

import argparse
import base64
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import urlsplit

from scrapy_adaptive.command_line import OneLineParser, add_command, print_text
from scrapy_adaptive.report import units

from .opening import missing_file, open_frontier
from .poller import Ranking
from .protocol import Counts, UnavailableError, Visit
from .revisits import duration

if TYPE_CHECKING:
    from scrapy_adaptive.command_line import Commands

    from .protocol import Frontier
    from .redis.admin import Admin as RedisAdmin
    from .redis.frontier import RedisFrontier
    from .sql.admin import Admin as SqlAdmin
    from .sql.frontier import SqlFrontier

FRONTIER = "Look into a frontier, add to it, and tell its workers what to do."

DAY = 86_400.0

DUE = "now, tomorrow, or a time from now: 90s, 15m, 2h, 3d, 2w"
"""When an address that is added may be due."""

BATCH = 1000
"""Addresses that are added at once."""

HEAD = ("host", "ready", "asleep", "leased", "failed", "done", "next", "limit", "pause", "owner")


class Project(NamedTuple):
    """What the commands know of the project in whose folder they run."""

    address: str | None
    """ADAPTIVE_FRONTIER; None where it is not set."""
    spiders: list[str]
    page: Callable[[str], tuple[str, str, bytes]]
    """Host, URL and fingerprint of a GET of that URL, as a crawl sends it."""
    sitemap: Callable[[str], Iterable[str]]
    """URLs of a sitemap, by its own URL or path."""
    connect: Callable[[str], Any] | None = None
    """A client of Redis as the project's settings say."""


def add(commands: Commands, project_of: Callable[[], Project]) -> None:
    """Add the command."""
    parser = commands.add_parser("frontier", help=FRONTIER, description=FRONTIER)
    parser.set_defaults(parser=parser)
    subs = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=OneLineParser)

    def add_one(name: str, told: str, run: Callable[..., str]) -> argparse.ArgumentParser:
        def call(given: argparse.Namespace) -> str:
            try:
                return _run(given, project_of(), run)
            except UnavailableError as error:
                raise ValueError(str(error)) from None

        one = add_command(subs, name, told, call)
        one.add_argument("--frontier", metavar="URL", help="its address (default: the project's)")
        one.add_argument("--spider", metavar="NAME", help="whose visits (default: the only one)")
        return one

    new = add_one(
        "add", "Add URLs: of a file with one a line, of standard input, of a sitemap.", _add
    )
    new.add_argument("source", metavar="FILE|-", nargs="?", default="-", help="one URL a line")
    new.add_argument("--sitemap", metavar="URL|FILE", help="take the URLs of this sitemap")
    new.add_argument("--priority", type=_priority, default=0.0, help="higher ones come first")
    new.add_argument("--due", default="now", help=DUE)
    show = add_one("show", "Count visits, and tell hosts with most of them.", _show)
    show.add_argument("--host", help="this host alone")
    again = add_one("retry", "Have failed visits made again, now.", _retry)
    again.add_argument("--status", help="those of this status: 503, or 5xx")
    again.add_argument("--host", help="those of this host")
    swap = add_one("swap", "Have workers give back what they have not sent, and poll anew.", _swap)
    swap.add_argument("--host", help="first give this host's visits another priority")
    swap.add_argument("--priority", type=_priority, help="that priority")
    add_one("export", "Print every visit as a line of JSON.", _export)
    old = add_one(
        "forget", "Forget finished visits; they are new when they are found again.", _forget
    )
    old.add_argument("--older-than", metavar="TIME", required=True, help="90d, for instance")


def _priority(text: str) -> float:
    with suppress(ValueError):
        if math.isfinite(found := float(text)):
            return found
    raise argparse.ArgumentTypeError(f"must be a number, not {text!r}")


def _run(given: argparse.Namespace, project: Project, run: Callable[..., str]) -> str:
    address = given.frontier or project.address
    if not address:
        raise ValueError("ADAPTIVE_FRONTIER is not set here: say --frontier URL")
    spider = given.spider or (project.spiders[0] if len(project.spiders) == 1 else None)
    if spider is None:
        found = ", ".join(project.spiders) or "none here"
        raise ValueError(f"say --spider NAME; the project's are: {found}")
    missing = missing_file(address)
    if missing is not None and run is not _add:
        raise ValueError(f"there is no file {missing}: a crawl, or frontier add, makes it")
    with closing(open_frontier(address, spider, Ranking(), project.connect)) as frontier:
        is_strange = bool(project.spiders) and spider not in project.spiders
        if is_strange and run is not _add and frontier.counts() == Counts():
            found = ", ".join(project.spiders)
            raise ValueError(
                f"{spider!r} has no visits here, and the project's spiders are: {found}"
            )
        return run(given, frontier, project)


def admin_of(frontier: Frontier) -> SqlAdmin | RedisAdmin:
    """What the commands ask of that engine."""
    if "sql" in type(frontier).__module__.split("."):
        from .sql.admin import Admin as SqlAdmin

        return SqlAdmin(cast("SqlFrontier", frontier))
    from .redis.admin import Admin as RedisAdmin

    return RedisAdmin(cast("RedisFrontier", frontier))


def _add(given: argparse.Namespace, frontier: Frontier, project: Project) -> str:
    delay = _delay(given.due)
    added = known = 0
    batch: list[Visit] = []

    def flush() -> None:
        nonlocal added, known
        turn = frontier.turn([], batch, {})
        added, known = added + turn.added, known + turn.known
        batch.clear()

    urls = project.sitemap(given.sitemap) if given.sitemap else _lines(given.source)
    for number, url in enumerate(urls, 1):
        if not url:
            continue
        try:
            host, sent, fingerprint = _page(project, url)
        except ValueError as error:
            why = f" ({error})" if str(error) else ""
            told = f"line {number} is no URL{why}: {url[:100]!r}; {added} were added before"
            raise ValueError(told) from None
        batch.append(Visit(host, sent, "", fingerprint, given.priority, delay))
        if len(batch) == BATCH:
            flush()
    if batch:
        flush()
    return f"{added} added, {known} known already"


def _page(project: Project, url: str) -> tuple[str, str, bytes]:
    try:
        url.encode()
    except UnicodeEncodeError:
        raise ValueError("it is not UTF-8") from None
    if "://" not in url or not urlsplit(url).hostname:
        raise ValueError
    return project.page(url)


def _lines(source: str) -> Iterator[str]:
    """Its lines; empty ones for remarks, so that lines can be counted."""
    stream = sys.stdin.buffer if source == "-" else Path(source).open("rb")  # noqa: SIM115
    with stream:
        for line in stream:
            text = line.decode("utf-8-sig", errors="surrogateescape")
            yield "" if text.startswith("#") else text.strip()


def _delay(due: str) -> float:
    known = {"now": 0.0, "tomorrow": DAY}
    try:
        return known[due] if due in known else duration(due)
    except ValueError:
        raise ValueError(f"--due {due}: allowed is {DUE}") from None


def _show(given: argparse.Namespace, frontier: Frontier, project: Project) -> str:
    counts = frontier.counts()
    admin = admin_of(frontier)
    workers = admin.workers()
    lines = [
        f"{counts.ready} ready, {counts.asleep} asleep, {counts.leased} leased, "
        f"{counts.finished} done, {counts.failed} failed; {counts.hosts} hosts, "
        f"{len(workers)} workers"
    ]
    lines += [
        f"worker {each.name}, egress {each.egress}: {each.hosts} hosts, lives {each.lives:.0f} s "
        "without a word"
        for each in workers
    ]
    rows = [
        (
            row.host,
            *map(_count, (row.ready, row.asleep, row.leased, row.failed, row.finished)),
            "–" if row.due_in is None else _due(row.due_in),
            "–" if row.limit is None else f"{row.limit:.3g}/s",
            "–" if row.pause is None else units.duration(row.pause),
            row.owner or "–",
        )
        for row in admin.hosts(given.host)
    ]
    if rows:
        widths = [max(map(len, column)) for column in zip(HEAD, *rows, strict=True)]
        for row in (HEAD, *rows):
            cells = (f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
            lines.append(f"{row[0]:<{widths[0]}}  {'  '.join(cells)}")
    return "\n".join(lines)


def _count(count: int | None) -> str:
    return "–" if count is None else str(count)


def _due(seconds: float) -> str:
    return "now" if seconds <= 0 else units.duration(seconds)


def _retry(given: argparse.Namespace, frontier: Frontier, project: Project) -> str:
    least, most = _statuses(given.status)
    count = admin_of(frontier).retry(least=least, most=most, host=given.host)
    return f"{count} visits are due now" if count != 1 else "1 visit is due now"


def _statuses(told: str | None) -> tuple[int | None, int | None]:
    if told is None:
        return None, None
    digits = told.lower().removesuffix("xx")
    if digits.isdecimal() and len(digits) == 1 and told.lower().endswith("xx"):
        return int(digits) * 100, int(digits) * 100 + 99
    if told.isdecimal() and len(told) == 3:
        return int(told), int(told)
    raise ValueError(f"--status {told}: allowed is a status, 503, or a class of them, 5xx")


def _swap(given: argparse.Namespace, frontier: Frontier, project: Project) -> str:
    admin = admin_of(frontier)
    if (given.host is None) != (given.priority is None):
        raise ValueError("--host and --priority go together")
    if given.host is not None:
        count = admin.set_priority(given.priority, given.host)
        return f"{count} visits of {given.host} have that priority now; workers poll anew"
    return f"workers give back what they have not sent: generation {admin.swap()}"


def _export(given: argparse.Namespace, frontier: Frontier, project: Project) -> str:
    for row in admin_of(frontier).rows():
        if print_text(json.dumps(_plain(row), ensure_ascii=False)):
            break
    return ""


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row for JSON: bytes as hexadecimal digits."""
    return {
        name: base64.b16encode(value).decode().lower() if isinstance(value, bytes) else value
        for name, value in row.items()
        if name not in ("spider_id", "host_id", "generation")
    }


def _forget(given: argparse.Namespace, frontier: Frontier, project: Project) -> str:
    count = admin_of(frontier).forget(duration(given.older_than))
    return f"{count} visits are forgotten" if count != 1 else "1 visit is forgotten"
