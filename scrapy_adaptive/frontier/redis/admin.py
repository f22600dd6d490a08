"""What the commands ask of a frontier on Redis.

Laws
----
* Nothing that a worker holds is changed.
* Hosts that are held are told first, then those that come next.
* What is done is a number of eight bytes: it is neither exported nor forgotten one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from scrapy_adaptive.frontier.protocol import Visit
from scrapy_adaptive.frontier.rows import HostRow, WorkerRow, read_state

from .records import priority_of, read

if TYPE_CHECKING:
    from .frontier import RedisFrontier

BATCH = 1000


class Admin:
    """The commands on one spider's visits."""

    def __init__(self, frontier: RedisFrontier) -> None:
        self._frontier = frontier
        self._server = frontier.server
        self._client: Any = frontier.server.client
        self._prefix = frontier.server.prefix
        self._key = frontier.key

    def workers(self) -> list[WorkerRow]:
        """Sessions of this spider that live."""
        rows = []
        with self._server.errors():
            now = self._server.now()
            for session in self._frontier.sessions():
                name, egress = self._client.hmget(f"{self._prefix}:n:{session}", "worker", "egress")
                ends = self._client.zscore(f"{self._prefix}:sessions", session) or now
                hosts = int(self._client.scard(f"{self._prefix}:h:{session}"))
                lives = (ends - now) / 1000
                rows.append(WorkerRow(_text(name), _text(egress), hosts, lives))
        return rows

    def hosts(self, host: str | None = None, most: int = 50) -> list[HostRow]:
        """Hosts that are held, and the next ones; or one of them."""
        with self._server.errors():
            found = {egress: self._held(egress) for egress in self._egresses()}
            rows: dict[tuple[str, str], HostRow] = {}
            for egress, held in found.items():
                coming = self._client.zrange(f"{self._key}:r:{egress}", 0, most - 1)
                for name in (*held, *coming) if host is None else (host.encode(),):
                    if len(rows) < most:
                        rows[egress, _text(name)] = self._row(egress, name, held.get(name))
        return list(rows.values())

    def _egresses(self) -> list[str]:
        return sorted(_text(each) for each in self._client.smembers(f"{self._key}:e"))

    def _held(self, egress: str) -> dict[bytes, tuple[str, str, str]]:
        """The leases of an egress, by host: session, generation, spider."""
        leases = self._client.hgetall(f"{self._prefix}:l:{egress}")
        split = {name: tuple(_text(lease).split(" ")) for name, lease in leases.items()}
        return {name: each for name, each in split.items() if len(each) == 3}

    def _row(self, egress: str, host: bytes, lease: tuple[str, str, str] | None) -> HostRow:
        shown = _text(host)
        lanes = [*self._client.zrange(b"%s:p:%s" % (self._key.encode(), host), 0, -1), b"0"]
        own = self._key.encode()
        lengths = [self._client.llen(b"%s:q:%s:%s" % (own, lane, host)) for lane in lanes]
        owner, leased = None, 0
        if lease is not None:
            owner = _text(self._client.hget(f"{self._prefix}:n:{lease[0]}", "worker"))
            leased = int(self._client.hlen(f"{self._prefix}:o:{lease[1]}"))
        saved = self._client.get(f"{self._prefix}:t:{egress}:{shown}") or b""
        at, _, state = saved.partition(b" ")
        now = self._server.now()
        age = (now - int(at)) / 1000 if at.isdigit() else 0.0
        limit, pause = read_state(state, age)
        wake = self._client.zscore(f"{self._prefix}:k:{egress}", shown)
        due = 0.0 if sum(lengths) else None
        if wake is not None and wake > now:
            due = pause = (wake - now) / 1000
        return HostRow(shown, sum(lengths), None, leased, None, None, due, owner, limit, pause)

    def swap(self) -> int:
        """Have workers give back what they have not sent; returns the new generation."""
        with self._server.errors():
            return int(self._client.hincrby(f"{self._key}:i", "generation", 1))

    def set_priority(self, priority: float, host: str) -> int:
        """Give all visits of a host that wait this priority, and swap.

        They wait aside until they are written: who is interrupted says it again, and loses none.
        """
        count, aside = 0, f"{self._key}:w:{host}"
        own = f"{self._key}:q:{priority_of(priority)}:{host}"
        while True:
            with self._server.errors():
                records = self._client.lrange(aside, 0, BATCH - 1)
                if not records:
                    lanes = self._client.zrange(f"{self._key}:p:{host}", 0, -1)
                    keys = [f"{self._key}:q:{_text(lane)}:{host}" for lane in (*lanes, b"0")]
                    others = (each for each in keys if each != own and self._client.llen(each))
                    key = next(others, None)
                    if key is None:
                        break
                    self._client.rename(key, aside)
                    continue
            self._frontier.turn([], [self._visit(host, one, priority) for one in records], {})
            with self._server.errors():
                self._client.hincrby(f"{self._key}:i", "ready", -len(records))
                self._client.ltrim(aside, len(records), -1)
            count += len(records)
        self.swap()
        return count

    def retry(self, *, least: int | None, most: int | None, host: str | None) -> int:
        """Visits that have failed are due now; of these statuses, where they are given."""
        with self._server.errors():
            entries = self._client.lrange(f"{self._key}:f", 0, -1)
        count = 0
        for entry in entries:
            name, _, rest = entry.partition(b"\t")
            priority, _, record = rest.partition(b"\t")
            status = read(record)[2].status
            if host is not None and name != host.encode():
                continue
            if least is not None and most is not None and not least <= (status or 0) <= most:
                continue
            self._frontier.turn([], [self._visit(_text(name), record, float(priority))], {})
            with self._server.errors():
                self._client.lrem(f"{self._key}:f", 1, entry)
                self._client.hincrby(f"{self._key}:i", "failed", -1)
            count += 1
        return count

    def _visit(self, host: str, record: bytes, priority: float) -> Visit:
        """A visit as it was, but for what its last one has left."""
        url, payload, _, _ = read(record)
        return Visit(host, url, payload, priority=priority)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every visit that waits, is not due yet, or has failed."""
        with self._server.errors():
            for key in self._client.scan_iter(match=f"{self._key}:q:*", count=BATCH):
                _, _, rest = _text(key)[len(self._key) :].partition(":q:")
                priority, _, host = rest.partition(":")
                for start in range(0, self._client.llen(key), BATCH):
                    for found in self._client.lrange(key, start, start + BATCH - 1):
                        yield _exported(host, priority, found)
            for entry, _ in self._client.zscan_iter(f"{self._key}:d", count=BATCH):
                _, host, priority, found = entry.split(b"\t", 3)
                yield _exported(_text(host), _text(priority), found)
            for entry in self._client.lrange(f"{self._key}:f", 0, -1):
                host, priority, found = entry.split(b"\t", 2)
                yield _exported(_text(host), _text(priority), found)

    def forget(self, older_than: float) -> int:
        """What is done has no date here.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            "a frontier on Redis keeps eight bytes of what is done, without a date: forget all "
            "with SCHEDULER_FLUSH_ON_START, or use SQL"
        )


def _exported(host: str, priority: str, found: bytes) -> dict[str, Any]:
    url, payload, last, _ = read(found)
    return {
        "host": host,
        "url": url,
        "payload": payload,
        "priority": priority,
        "status": last.status,
    }


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode("utf-8", "backslashreplace")
