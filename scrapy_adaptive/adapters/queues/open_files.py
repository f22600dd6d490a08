"""The requests of one queue, by host, in memory or in a folder.

Laws
----
* A host with nothing queued leaves nothing behind: no memory, no file, no folder.
* A file that cannot be opened costs its own requests, never the job.
* Of hosts whose requests are stored, a bounded number have their files open.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_adaptive.adapters.scrapy_internals import queue_path, set_damaged_aside

from .host_requests import HostRequests

if TYPE_CHECKING:
    from scrapy.pqueues import ScrapyPriorityQueue


logger = logging.getLogger("scrapy_adaptive")

OPEN_HOSTS = 200
"""Hosts whose files are kept open: each takes a file or more, and a process has about 1,000."""


class OpenFiles:
    """Requests by host.

    Args:
        open_queue: opens Scrapy's own queue of one host, given its key and priorities.
        path: folder in which requests are stored; empty for requests in memory.
    """

    __slots__ = ("_hosts", "_open", "_open_queue", "path")

    def __init__(
        self,
        open_queue: Callable[[str, Iterable[int]], ScrapyPriorityQueue],
        path: str,
    ) -> None:
        self.path = path
        self._open_queue = open_queue
        self._hosts: dict[str, HostRequests] = {}
        self._open: OrderedDict[str, HostRequests] = OrderedDict()

    def __len__(self) -> int:
        return len(self._hosts)

    def __contains__(self, host: str) -> bool:
        return host in self._hosts

    def __iter__(self) -> Iterator[HostRequests]:
        return iter(self._hosts.values())

    def __getitem__(self, host: str) -> HostRequests:
        return self._hosts[host]

    def get(self, host: str) -> HostRequests | None:
        """The requests of a host, if it has one."""
        return self._hosts.get(host)

    def add(self, host: str, priorities: Iterable[int] = ()) -> HostRequests:
        """Room for this host, with what is stored of these priorities."""
        requests = self._hosts[host] = HostRequests(host, self._open_sound, priorities)
        self.keep_open(requests)
        return requests

    def _open_sound(self, host: str, priorities: Iterable[int]) -> ScrapyPriorityQueue:
        """Open a host's queue; a file of it that is damaged is set aside, and told."""
        wanted = list(priorities)
        try:
            return self._open_queue(host, wanted)
        except Exception as error:  # whatever a torn file holds: the job must go on
            folder = Path(queue_path(self.path, host))
            open_queue = partial(self._open_queue, host)
            kept = [
                str(path)
                for priority in (wanted if self.path else ())
                for path in set_damaged_aside(open_queue, folder, priority)
            ]
            if not kept:
                raise
            logger.error(
                "slot %(slot)s: requests of the job are lost, a file of theirs cannot be read "
                "(%(error)r); it is kept as %(kept)s, and the job goes on",
                {"slot": host, "error": error, "kept": ", ".join(kept)},
            )
            return self._open_queue(host, wanted)

    def remove(self, requests: HostRequests) -> None:
        """The host has nothing queued any more."""
        del self._hosts[requests.host]
        self._open.pop(requests.host, None)
        requests.close()
        if self.path:
            with suppress(OSError):  # it is not empty
                Path(queue_path(self.path, requests.host)).rmdir()

    def keep_open(self, requests: HostRequests) -> None:
        """These are in use: close the files of the host that has been left alone for longest."""
        if not self.path:
            return
        self._open[requests.host] = requests
        self._open.move_to_end(requests.host)
        if len(self._open) > OPEN_HOSTS:
            self._open.popitem(last=False)[1].rest()

    def close(self) -> dict[str, list[int]]:
        """Save everything that is stored; returns the priorities of each host."""
        return {host: requests.close() for host, requests in self._hosts.items() if requests}
