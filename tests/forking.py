"""Processes of test crawls, forked from one that has imported Scrapy before.

A crawl of a test takes a tenth of a second; to import Scrapy, aiohttp and pytest took half of one,
some thousand times. `python -m tests.forking` imports them once, and each crawl is a fork of it.

Laws
----
* No reactor is there before the fork: which one is installed is the crawl's own business.
* What was imported before is frozen: the collector, which runs as each process ends, would visit
  all of it and have its pages copied, for three times the work of a small crawl.
* A fork has signals, folder and standard streams as a new process would.
* A folder with `command.json` asks for the `scrapy` command, one with `call.json` for a function,
  one with `job.pickle` for a crawl.
* Whoever reads the end of its standard input has no tests left to serve, and ends.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.run_crawl import main as run_crawl

PRELOADED = (
    "aiohttp",
    "hypothesis",
    "pytest",
    "psycopg",
    "scrapy.pipelines.images",
    "scrapy_adaptive.adapters.frontier.composing",
    "scrapy_adaptive.frontier.sql.frontier",
    "scrapy_adaptive.rules.table",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "tests.servers.nginx",
    "tests.servers.origin",
    "tests.spiders",
)
"""What most crawls import, or takes them long, beside what Scrapy's default settings name."""

OPTIONAL = ("scrapy_adaptive.frontier.redis.frontier", "scrapy_redis.spiders")
"""The same, where `redis` and `scrapy_redis` are installed."""

COMMAND = "command.json"
"""Arguments of `scrapy`, its folder, and seconds after which it ends itself."""

CALL = "call.json"
"""Name of a function, as `package.module:function`, and its arguments."""


@dataclass
class Forked:
    """A crawl's process, with what the tests use of `subprocess.Popen`."""

    pid: int
    forker: Forker
    returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code (minus the signal that ended it), None while it runs."""
        if self.returncode is None:
            self.forker.read(0.0)
            self.returncode = self.forker.ended.get(self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return once it has ended.

        Raises:
            TimeoutExpired: it has not, after `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired("crawl", timeout or 0.0)
            self.forker.read(left)
        return code

    def send_signal(self, number: int) -> None:
        """Nothing happens if it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """As a power cut does."""
        self.send_signal(signal.SIGKILL)


@dataclass
class Forker:
    """The process that forks, seen from the tests."""

    process: subprocess.Popen[bytes]
    ended: dict[int, int] = field(default_factory=dict)
    """Exit codes by process."""
    _started: list[int] = field(default_factory=list)
    _unread: bytes = b""

    @classmethod
    def launch(cls, environment: dict[str, str]) -> Forker:
        """Start it; the first crawl waits until it is ready."""
        return cls(
            subprocess.Popen(
                [sys.executable, "-m", "tests.forking"],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        )

    def fork(self, folder: Path) -> Forked:
        """Run the job of a folder."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{folder}\n".encode())
        self.process.stdin.flush()
        while not self._started:
            self.read(None)
        return Forked(self._started.pop(), self)

    def stop(self) -> None:
        """End it; crawls under way go on."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def read(self, timeout: float | None) -> None:
        """What has become of the crawls, within `timeout` seconds."""
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(timeout):
                return
        said = os.read(self.process.stdout.fileno(), 65536)
        if not said:
            raise RuntimeError("the process that forks the crawls has ended")
        *lines, self._unread = (self._unread + said).split(b"\n")
        for line in lines:
            pid, *code = map(int, line.split())
            if code:
                self.ended[pid] = code[0]
            else:
                self._started.append(pid)


@cache
def forker(path: str) -> Forker:
    """The one of this process, its `PYTHONPATH` being `path`."""
    forker = Forker.launch({**os.environ, "PYTHONPATH": path})
    atexit.register(forker.stop)
    return forker


def preload() -> None:
    """Import what crawls will, but no reactor; no fork collects any of it."""
    from scrapy.settings import default_settings
    from scrapy.utils.misc import load_object

    for name in PRELOADED:
        importlib.import_module(name)
    for name in OPTIONAL:
        with suppress(ImportError):
            importlib.import_module(name)
    for value in vars(default_settings).values():
        names = [*value, *value.values()] if isinstance(value, dict) else [value]
        for each in names:
            if isinstance(each, str) and each.startswith("scrapy."):
                load_object(each)
    assert "twisted.internet.reactor" not in sys.modules
    gc.collect()
    gc.freeze()


def run_command(command: Path) -> int:
    """Run the script `scrapy` from the folder of its project."""
    from scrapy.cmdline import execute

    asked = json.loads(command.read_text(encoding="utf-8"))
    signal.alarm(asked["timeout"])
    os.chdir(asked["folder"])
    os.environ.pop("SCRAPY_SETTINGS_MODULE", None)
    os.environ["BROWSER"] = "true"
    sys.path.insert(0, asked["folder"])
    sys.argv = ["scrapy", *asked["arguments"]]
    sys.orig_argv = [sys.executable, *sys.argv]
    execute()
    return 0


def run_call(call: Path) -> int:
    """Call a function; its process ends with it."""
    name, *arguments = json.loads(call.read_text(encoding="utf-8"))
    pkgutil.resolve_name(name)(*arguments)
    return 0


def say(*numbers: int) -> None:
    """One line to the tests: a process has begun, or ended with that code."""
    os.write(1, f"{' '.join(map(str, numbers))}\n".encode())


def reap() -> None:
    """Say which crawls have ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        say(pid, os.waitstatus_to_exitcode(status))


def fork(folder: Path) -> bool:
    """Fork; returns True in the new process, which then is as one that was started in `folder`."""
    pid = os.fork()
    if pid:
        say(pid)
        return False
    os.close(signal.set_wakeup_fd(-1))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    output = os.open(folder / "stderr.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)
    os.chdir(folder)
    return True


def serve(wakeup: int) -> Path | None:
    """Fork for each folder that is asked for; returns the folder in each fork, None at the end."""
    asked = b""
    with selectors.DefaultSelector() as selector:
        for source in (0, wakeup):
            selector.register(source, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if wakeup in ready:
                os.read(wakeup, 4096)
                reap()
            if 0 not in ready:
                continue
            read = os.read(0, 65536)
            if not read:
                return None
            *lines, asked = (asked + read).split(b"\n")
            for folder in (Path(os.fsdecode(line)) for line in lines):
                if fork(folder):
                    return folder


def main() -> int:
    """Fork a crawl for each folder that is named on the standard input, and run it there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    preload()
    wakeup, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    folder = serve(wakeup)
    if folder is None:
        return 0
    os.close(wakeup)
    for name, run in ((COMMAND, run_command), (CALL, run_call)):
        if (folder / name).exists():
            return run(folder / name)
    return run_crawl(folder)


if __name__ == "__main__":
    sys.exit(main())
