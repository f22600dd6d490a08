"""What has been found and done since the last turn.

Laws
----
* A visit leaves in one turn with the last of its links, or later.
* A turn takes so many links and no more, however many a page has: others wait for it, and so does
  the heartbeat.
* Links that were added not long ago are not sent again: what is done after them is written down
  with them or later, so that they cannot be lost.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_adaptive.frontier.protocol import Done, Visit

MOST_LINKS = 5_000
"""Links of one turn: well within what a statement may name, and what Redis does without a pause."""

MOST_KNOWN = 100_000
"""Fingerprints that are remembered."""


class Outbox:
    """Collects visits that are done, and links."""

    def __init__(self) -> None:
        self._done: list[Done] = []
        self._new: list[Visit] = []
        self._under_way: tuple[list[Done], list[Visit]] = ([], [])
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        """Everything that has not been written down for sure."""
        return sum(len(each) for each in (self._done, self._new, *self._under_way))

    @property
    def done(self) -> list[Done]:
        """What is done, and has not been written down for sure."""
        return [*self._under_way[0], *self._done]

    @property
    def done_count(self) -> int:
        """Visits that wait for the next turn."""
        return len(self._done) + len(self._under_way[0])

    def is_known(self, fingerprint: bytes) -> bool:
        """Whether such a link has left, or will leave no later than what is done from now on."""
        return fingerprint in self._known

    def add_links(self, links: Sequence[Visit]) -> None:
        """Links that nobody waits for."""
        for link in links:
            if link.fingerprint is not None:
                if link.fingerprint in self._known:
                    continue
                self._known[link.fingerprint] = None
            self._new.append(link)
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)

    def add_done(self, done: Done, links: Sequence[Visit]) -> None:
        """A visit is done, and gave these links."""
        self._done.append(done)
        self.add_links(links)

    @property
    def has_more(self) -> bool:
        """Whether there is what no turn has taken yet."""
        return bool(self._done or self._new)

    def take(self) -> tuple[list[Done], list[Visit]]:
        """What the next turn brings: all there is, with what a turn that failed has left; where
        that is too much the first links alone."""
        done, new = self._under_way
        done, new = [*done, *self._done], [*new, *self._new]
        self._done, self._new = (done, new[MOST_LINKS:]) if len(new) > MOST_LINKS else ([], [])
        self._under_way = ([] if self._done else done, new[:MOST_LINKS])
        return self._under_way

    def forget_done(self) -> None:
        """What is done has to be done again; links stay."""
        self._done = []
        self._under_way = ([], self._under_way[1])

    def forget_known(self) -> None:
        """What has left may have been lost on its way, or there: links are brought again."""
        self._known.clear()

    def confirm(self) -> None:
        """The turn has happened."""
        self._under_way = ([], [])
