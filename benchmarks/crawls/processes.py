"""The processes of a run: sites and crawls, started, waited for, and always ended.

Laws
----
* A site or a crawl ends when the pipe to its standard input does, whatever became of the runner;
  a crawl is killed when its time is over.
* What a process says on its standard error is in its folder, and is quoted when it fails.
"""

from __future__ import annotations

import json
import os
import pprint
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.crawls.arms import Arm
from benchmarks.crawls.measure import Hit

ROOT = Path(__file__).resolve().parent.parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'sample_project'}"}
READY = 60.0
"""Most seconds until a process is ready."""


class Site:
    """A site in a process of its own."""

    def __init__(self, kind: str, folder: Path, seconds: float, nice: int = 0) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        command = [sys.executable, "-m", "benchmarks.crawls.serve", kind, "--folder", str(folder)]
        command += ["--seconds", str(seconds), "--nice", str(nice)]
        self._errors = folder / "stderr.txt"
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=ENVIRONMENT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    @property
    def port(self) -> int:
        """Its port, once it serves; to be asked for once."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a site did not start:\n{self._errors.read_text()}")
        return int(line)

    def stop(self) -> None:
        """End it; its hits are written then."""
        try:
            self._process.communicate(timeout=READY)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def hits(self) -> list[Hit]:
        """All its hits, by their start, once it was stopped."""
        log = self.folder / "hits.jsonl"
        if not log.exists():
            raise RuntimeError(f"a site failed:\n{self._errors.read_text()}")
        return [Hit(*json.loads(line)) for line in log.read_text().splitlines()]


class Crawl:
    """An arm's crawl of a site: `scrapy crawl pages`, with a settings module of its own."""

    def __init__(self, arm: Arm, port: int, folder: Path, seconds: float) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        settings = {**arm.settings, "LOG_FILE": str(folder / "crawl.log")}
        lines = [f"{name} = {pprint.pformat(value)}\n" for name, value in settings.items()]
        (folder / "arm_settings.py").write_text("".join(lines))
        command = ["nice", "-n", str(arm.nice), sys.executable, "-m", "scrapy", "crawl", "pages"]
        for name, value in {
            "base": f"http://127.0.0.1:{port}",
            "folder": folder,
            "seconds": seconds,
        }.items():
            command += ["-a", f"{name}={value}"]
        paths = os.pathsep.join([str(folder), ENVIRONMENT["PYTHONPATH"]])
        self._errors = folder / "stderr.txt"
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": paths, "SCRAPY_SETTINGS_MODULE": "arm_settings"},
                stdin=subprocess.PIPE,
                stdout=errors,
                stderr=errors,
            )

    def wait_ready(self) -> None:
        """Until it waits for the start."""
        self._wait_for("ready", time.monotonic() + READY)

    def report(self, patience: float) -> dict[str, Any]:
        """What it says of itself at the end of its time."""
        self._wait_for("report.json", time.monotonic() + patience)
        report: dict[str, Any] = json.loads((self.folder / "report.json").read_text())
        return report

    def _wait_for(self, name: str, deadline: float) -> None:
        while not (self.folder / name).exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.folder.name}: no {name}\n{self._said()}")
            time.sleep(0.05)

    def _said(self) -> str:
        log = self.folder / "crawl.log"
        return self._errors.read_text() + (log.read_text()[-4000:] if log.exists() else "")

    def stop(self) -> None:
        """End it; its report was written before."""
        self._process.kill()
        self._process.communicate()
