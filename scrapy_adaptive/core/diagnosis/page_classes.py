"""Which class of pages a refusal is about: limits on one endpoint, beside limits on the host.

Laws
----
* The class of a page is its path with names in place of numbers, dates and identifiers.
* A limiter blind to the class refuses each class as often as it serves it. Each epoch weighs that
  against a limit of the refused class; below `BLIND` the limiter was not blind.
* Where many classes have limits, each is refused as often as it is served, too. But a limit of a
  class refuses a page that follows others of its class, and a blind one as often as served pages
  do: each epoch weighs that as well.
* Below `DOUBT` the host is given the benefit of the doubt: its upper bound is lifted, its cut taken
  back.
* Nothing is counted before the first refusal, and nothing of a host that has one class.
* Memory is bounded: by what was served lately, and by `MOST` classes of a host.

**Source**: E. S. Page, Continuous Inspection Schemes, 1954.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Annotated

from scrapy_adaptive.core.evidence import LEAST_SHARE, MEMORY
from scrapy_adaptive.core.state.fields import Amount, Count, Latest, Share

DOUBT = 0.1
"""Chance from which the host's upper bound is lifted: at a faster rate the next epochs say soon."""

OWN = 0.8
"""Share of the epochs that a class with a limit of its own begins. The others are a limit of the
host, or of another class: two classes with limits are found too."""

NEAR = 0.3
"""Pages back that are close to a page, as a share of the number of classes: with ten classes the
last three, so that about one page in four follows its own class closely by chance."""

MOST = 16
"""Most classes of one host with a slot of their own."""

DEPTH = 6
"""Parts of a path that are looked at."""

LONGEST = 20
"""Characters of a part that may be a name; what is longer identifies a page."""

_IDENTIFIER = re.compile(
    rf"(?<=/)(?!v\d{{1,2}}(?:/|$)|(?=[^/]{{1,{LONGEST}}}(?:/|$))[A-Za-z]+(?:[-_.][A-Za-z]+)?(?:/|$))"
    r"[^/]+"
)


def normalised(path: str, query: str = "") -> str:
    """The class of a page, by its path; by the first name of its query where the path is none.

    >>> normalised("/entity/123/version/7")
    '/entity/#/version/#'
    >>> normalised("/v2/users/550e8400-e29b-41d4-a716-446655440000")
    '/v2/users/#'
    >>> normalised("/2024/05/17/how-to-be-polite.html"), normalised("/api/search", "q=shoes")
    ('/#/#/#/#', '/api/search')
    >>> normalised("/", "s=shoes"), normalised("/index.php", "id=7&page=2")
    ('/?s', '/index.php?id')
    """
    parts = path.split("/", DEPTH + 1)
    if len(parts) > DEPTH + 1:
        path = "/".join(parts[:-1])
    kind = _IDENTIFIER.sub("#", path) or "/"
    if query and (kind == "/" or kind.endswith((".php", ".asp", ".aspx", ".cgi", ".jsp"))):
        name = re.split("[=&;]", query, maxsplit=1)[0]
        kind = f"{kind}?{name if len(name) <= LONGEST else '#'}"
    return kind


class Classes:
    """The evidence of one slot: which classes are served, and which are refused."""

    __slots__ = ("_close", "_closeness", "_evidence", "_lately", "_served", "_total")

    _served: Annotated[dict[str, Count], Latest(MOST)]
    _total: Count
    _evidence: Annotated[dict[str, Amount], Latest(MOST)]
    _close: Count
    _closeness: Share

    def __init__(self) -> None:
        self._served: dict[str, float] = {}
        self._total = 0.0
        self._lately: list[str] = []
        """Classes of the last pages that were accepted."""
        self._close = 0.0
        """Accepted pages that followed one of their class closely."""
        self._closeness = 1.0
        """The chance that as many refused pages did so, under a blind limiter, beside limits of
        classes."""
        self._evidence: dict[str, float] = {}
        """Class to the chance of what was seen under a blind limiter, beside its own limit; what
        speaks for neither is not kept."""

    def after_reading(self, names: Collection[str]) -> None:
        """Only so many classes were kept: shares are of these."""
        self._total = sum(self._served.values())

    def share(self, kind: str) -> float:
        """Share of the requests accepted lately that had this class; high while few are known."""
        return (self._served.get(kind, 0.0) + 1.0) / (self._total + 1.0)

    @property
    def _reach(self) -> int:
        """Pages back that are close: a share of the classes, those counted less that are rare."""
        squares = sum(count * count for count in self._served.values())
        return max(1, round(NEAR * self._total * self._total / squares)) if squares else 1

    def _follows(self, kind: str) -> bool:
        return kind in self._lately[-self._reach :]

    def on_accepted(self, kind: str) -> None:
        """A page of that class was accepted."""
        self._close += self._follows(kind)
        self._lately = [*self._lately[1 - MOST :], kind]
        self._served[kind] = self._served.get(kind, 0.0) + 1.0
        self._total += 1.0
        if self._total > MEMORY:
            halves = {each: 0.5 * count for each, count in self._served.items()}
            self._served = {each: half for each, half in halves.items() if half > 0.25}
            self._total = sum(self._served.values())
            self._close *= 0.5

    def on_epoch(self, kind: str) -> float:
        """A page of that class began an epoch.

        Returns:
            The chance of as much evidence under a blind limiter, against the class or, where the
            page followed its own closely, against many classes alike; the smaller one.
        """
        evidence = self._evidence
        for each in list(evidence):
            share = max(LEAST_SHARE, self.share(each))
            evidence[each] *= share / OWN if each == kind else (1.0 - share) / (1.0 - OWN)
            if share >= OWN or evidence[each] >= 1.0:
                del evidence[each]
        own = evidence.setdefault(kind, 1.0)  # the first of a row is any class: no evidence
        many = self._on_refused(kind) and self._closeness < DOUBT * DOUBT  # one alone comes often
        return min(own, self._closeness) if many else own

    def _on_refused(self, kind: str) -> bool:
        """Weigh whether the page followed one of its class closely; returns whether it did."""
        follows = self._follows(kind)
        share = max(LEAST_SHARE, (self._close + 1.0) / (self._total + 1.0))
        if share >= OWN:
            self._closeness = 1.0
        else:
            ratio = share / OWN if follows else (1.0 - share) / (1.0 - OWN)
            self._closeness = min(1.0, self._closeness * ratio)
        return follows

    def forget(self, kind: str) -> None:
        """The class has a slot of its own from here."""
        self._evidence.pop(kind, None)
        before, self._total = self._total, self._total - self._served.pop(kind, 0.0)
        self._close *= self._total / before if before else 0.0
        self._lately = [each for each in self._lately if each != kind]


class Families:
    """The classes that have slots of their own, and the slots that they are under."""

    __slots__ = ("_hosts", "_most", "kinds")

    def __init__(self, most: int) -> None:
        self._most = most
        self._hosts: dict[str, str] = {}
        self.kinds: dict[str, dict[str, str]] = {}
        """Key of a host's slot to class to the key of that class's slot."""

    def __contains__(self, key: str) -> bool:
        return key in self._hosts or key in self.kinds

    def add(self, host: str, kind: str) -> str | None:
        """The key of this class's slot from here on; None where there are too many."""
        kinds = self.kinds.get(host, {})
        if host in self._hosts or len(kinds) >= MOST or len(self._hosts) >= self._most:
            return None
        key = f"{host} {kind}"
        self.kinds.setdefault(host, {})[kind] = key
        self._hosts[key] = host
        return key

    def recall(self, key: str) -> None:
        """A slot of that key was remembered: it may be a class's."""
        host, space, path = key.partition(" /")
        if space:
            self.add(host, f"/{path}")

    def host_of(self, key: str) -> str | None:
        """The slot that a class's slot is under; None for any other slot."""
        return self._hosts.get(key)

    def of(self, key: str) -> tuple[str, ...]:
        """The slots that hold each other up: a host's and its classes'."""
        host = self._hosts.get(key, key)
        return (host, *self.kinds.get(host, {}).values())
