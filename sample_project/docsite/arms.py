"""The crawls that are compared, each in a process of its own against a site of its own.

Laws
----
* Every process started here is gone when its block is left, however it is left.
* The crawls differ in the settings named here and in nothing else.
* A crawl that exceeds its time is killed and said to be.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

HOME = Path(__file__).resolve().parents[1]
LIVE_LINE = re.compile(rb"\[scrapy_adaptive[\w.]*\] \w+: (.*)")
LOG_LINE = re.compile(rb"\d{4}-\d\d-\d\d ")
"""How Scrapy begins a record; any other line goes on with the record before it."""
READY_LINE = re.compile(rb"docsite: \d+ pages at (\S+)")
LONGEST_LINE = 1 << 20
"""Bytes of a log line that can be read (Scrapy prints whole items)."""
PATIENCE = 20.0
"""Seconds a site may take to be ready."""


class ArmError(Exception):
    """A site or a crawl did not start; the message says where to look."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of crawling: what it is called and what it sets."""

    name: str
    slug: str
    settings: tuple[str, ...]
    is_ours: bool = False
    """Whether it may lose no page, and the add-on's log lines are shown while it crawls."""


ARMS = (
    Arm("stock Scrapy", "stock", ("ADDONS={}",)),
    Arm("AutoThrottle", "autothrottle", ("ADDONS={}", "AUTOTHROTTLE_ENABLED=True")),
    Arm("scrapy-adaptive", "adaptive", ("ADAPTIVE_DEBUG=True",), is_ours=True),
)


@dataclass(frozen=True, slots=True)
class Crawl:
    """How one crawl ended: its exit status, None where it was killed for its time."""

    exit_status: int | None


@contextlib.asynccontextmanager
async def running(
    command: Sequence[str],
) -> AsyncIterator[tuple[asyncio.subprocess.Process, asyncio.StreamReader]]:
    """A process and what it says, in a group of its own so that only this block ends it."""
    paths = [str(HOME), str(HOME.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=HOME,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        limit=LONGEST_LINE,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


@contextlib.asynccontextmanager
async def site(pages: Path, log: Path, options: Sequence[str]) -> AsyncIterator[str]:
    """A site on a free port; gives its address. Raises ArmError where it does not start."""
    command = [sys.executable, "-m", "docsite", "--port", "0", "--pages", str(pages)]
    command += ["--log", str(log), *options]
    async with running(command) as (process, output):
        try:
            line = await asyncio.wait_for(output.readline(), PATIENCE)
        except asyncio.TimeoutError:
            raise ArmError(f"the site did not start within {PATIENCE:g} s") from None
        ready = READY_LINE.match(line)
        if ready is None:
            raise ArmError(f"the site did not start: {line.decode(errors='replace').strip()}")
        yield ready[1].decode()
        process.terminate()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(process.wait(), PATIENCE)


async def crawl(
    arm: Arm, url: str, folder: Path, seconds: float, say: Callable[[str], None]
) -> Crawl:
    """Runs ``scrapy crawl pages`` for at most `seconds`. Its log and items go to `folder`."""
    feeds = {str(folder / f"{arm.slug}.items.jsonl"): {"format": "jsonlines", "overwrite": True}}
    command = [sys.executable, "-m", "scrapy", "crawl", "pages", "-a", f"url={url}"]
    settings = [*arm.settings, f"FEEDS={json.dumps(feeds)}"]
    if arm.is_ours and find_spec("bokeh"):
        settings.append(f"ADAPTIVE_REPORT={report_of(arm, folder)}")
    for setting in settings:
        command += ["-s", setting]
    async with running(command) as (process, output):
        with (folder / f"{arm.slug}.log").open("wb") as log:
            following = _follow(output, log, say if arm.is_ours else None)
            try:
                await asyncio.wait_for(following, seconds)
            except asyncio.TimeoutError:
                return Crawl(None)
        return Crawl(await process.wait())


def report_of(arm: Arm, folder: Path) -> Path:
    """Where the report of an arm's crawl is, if Bokeh is there to draw it."""
    return folder / f"{arm.slug}.report.html"


async def _follow(
    output: asyncio.StreamReader, log: BinaryIO, say: Callable[[str], None] | None
) -> None:
    """Copies a crawl's lines to its log until it ends, and says those of the add-on."""
    live = False
    async for line in output:
        log.write(line)
        record = LIVE_LINE.search(line)
        live = record is not None if LOG_LINE.match(line) else live
        if live and say:
            say((record[1] if record else line.rstrip(b"\n")).decode(errors="replace"))
