"""Real Scrapy crawls, each in a process of its own (see `forking`), and what came of them.

Laws
----
* Settings, spider and arguments cross over by pickle: classes of a test module are named by
  reference and imported there, so a test may bring its own spiders and middlewares.
* Every crawl ends: at its timeout it is killed, and it kills itself if the tests died first.
* A crawl that crashed raises, with the end of its log, unless `check=False` asks to see it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pickle
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from scrapy import Spider

from tests.forking import Forked, forker

ROOT = Path(__file__).parent.parent

SEARCHED = f"{ROOT}{os.pathsep}{ROOT / 'sample_project'}"
"""The `PYTHONPATH` of crawls."""

Reactor = Literal["asyncio", "select", "none"]

REACTORS: Mapping[Reactor, Mapping[str, Any]] = {
    "asyncio": {"TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor"},
    "select": {"TWISTED_REACTOR": "twisted.internet.selectreactor.SelectReactor"},
    "none": {"TWISTED_REACTOR_ENABLED": False},
}


class CrawlError(AssertionError):
    """The crawl crashed or did not end in time."""


@dataclass(frozen=True, slots=True)
class Crawl:
    """What came of a crawl. Instants are wall clock, of the crawl alone without its imports."""

    returncode: int
    stats: dict[str, Any]
    """Empty if the process was killed."""
    items: list[dict[str, Any]]
    log: str
    stderr: str
    started_at: float
    ended_at: float

    @property
    def seconds(self) -> float:
        return self.ended_at - self.started_at

    @property
    def urls(self) -> list[str]:
        """Pages that reached the spider, in that order."""
        return [item["url"] for item in self.items if "status" in item]

    @property
    def lost(self) -> list[str]:
        """Pages whose errback was called instead."""
        return [item["url"] for item in self.items if "error" in item]


@dataclass
class RunningCrawl:
    """A crawl under way."""

    folder: Path
    process: Forked
    deadline: float
    launched_at: float = field(default_factory=time.time)

    def until(self, condition: Callable[[], object]) -> None:
        """Return once `condition` holds; fail if the crawl ends, or its time, before.

        Between two looks it sleeps nineteen times as long as a look took, so that who waits for
        a crawl takes no more than a twentieth of a processor from it.
        """
        looked_at = time.monotonic()
        while not condition():
            if self.process.poll() is not None or time.monotonic() > self.deadline:
                self.kill()
                raise self._failure("ended before the awaited condition")
            time.sleep(min(0.1, max(0.005, 19 * (time.monotonic() - looked_at))))
            looked_at = time.monotonic()

    def interrupt(self) -> None:
        """As Ctrl-C does; a second one forces the end."""
        self.process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """As a power cut does."""
        self.process.kill()
        self.process.wait()

    def wait(self, *, check: bool = True) -> Crawl:
        """The end of the crawl, within the timeout it was started with."""
        try:
            self.process.wait(max(0.0, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
            raise self._failure("did not end in time") from None
        if check and self.process.returncode != 0:
            raise self._failure(f"ended with code {self.process.returncode}")
        return self.outcome()

    def outcome(self) -> Crawl:
        """What is known so far; of a killed crawl, what it had left behind."""
        outcome = json.loads(self._read("outcome.json") or "{}")
        return Crawl(
            returncode=self.process.returncode or 0,
            stats=outcome.get("stats", {}),
            items=[json.loads(line) for line in self._read("items.jsonl").splitlines()],
            log=self.log,
            stderr=self._read("stderr.txt"),
            started_at=outcome.get("started_at", self.launched_at),
            ended_at=outcome.get("ended_at", time.time()),
        )

    @property
    def log(self) -> str:
        return self._read("crawl.log")

    def _read(self, name: str) -> str:
        path = self.folder / name
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def _failure(self, what: str) -> CrawlError:
        ends = (f"--- {name}\n{self._read(name)[-4000:]}" for name in ("crawl.log", "stderr.txt"))
        return CrawlError("\n".join([f"the crawl {what}", *ends]))


@dataclass
class Crawler:
    """Runs crawls in folders under `folder`: call it, or `start` one and watch it."""

    folder: Path
    started: list[RunningCrawl] = field(default_factory=list)

    def __call__(
        self,
        spider: str | type[Spider],
        settings: Mapping[str, Any] | None = None,
        *,
        check: bool = True,
        **options: Any,
    ) -> Crawl:
        """Run a crawl to its end; `options` are those of `start`."""
        return self.start(spider, settings, **options).wait(check=check)

    def start(
        self,
        spider: str | type[Spider],
        settings: Mapping[str, Any] | None = None,
        *,
        arguments: Mapping[str, Any] | None = None,
        adaptive: bool = True,
        reactor: Reactor = "asyncio",
        jobdir: Path | None = None,
        timeout: float = 120.0,
    ) -> RunningCrawl:
        """Start a crawl. With `adaptive` False it is stock Scrapy. `timeout` in seconds."""
        if reactor == "none":
            skip_without_a_handler()
        folder = Path(tempfile.mkdtemp(prefix="crawl-", dir=self.folder))
        job = {
            "spider": spider,
            "arguments": dict(arguments or {}),
            "settings": {
                "LOG_FILE": str(folder / "crawl.log"),
                "TELNETCONSOLE_ENABLED": False,
                **({"ADDONS": {"scrapy_adaptive.Addon": 500}} if adaptive else {}),
                **({"JOBDIR": str(jobdir)} if jobdir else {}),
                **REACTORS[reactor],
                **(settings or {}),
            },
            "timeout": timeout,
        }
        (folder / "job.pickle").write_bytes(pickle.dumps(job))
        process = forker(SEARCHED).fork(folder)
        self.started.append(RunningCrawl(folder, process, time.monotonic() + timeout))
        return self.started[-1]

    def stop(self) -> None:
        """Kill what a test left running."""
        for running in self.started:
            running.kill()


def skip_without_a_handler() -> None:
    """Scrapy's own handler without a reactor is aiohttp's; the first versions had only httpx's."""
    has_aiohttp = importlib.util.find_spec("scrapy.core.downloader.handlers._aiohttp")
    if has_aiohttp is None and importlib.util.find_spec("httpx") is None:
        pytest.skip("this Scrapy needs httpx to download without a reactor")
