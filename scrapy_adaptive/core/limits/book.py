"""All rules, and which of them a request comes under.

Laws
----
* Host before URI before identity: an exact one before a pattern, a longer pattern before a shorter
  one, any pattern before none. Of two that say the same the lower id counts, and the log says so.
* Of one name those of the table come before those of the settings. A dry run stands in place of
  no rule that holds, nor one of them in its place.
* A book never changes: a new one takes its place at one instant.
* To match costs the same for ten rules and ten thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from .rule import ANY, Rule

MOST_MATCHES = 50_000
"""Matches remembered; then they are all forgotten."""


class Tie(NamedTuple):
    """Two rules that say the same: the first one counts."""

    counts: Rule
    idle: Rule


class _Leaf:
    """Rules of one host and URI, by identity."""

    __slots__ = ("any", "globs", "literals")

    def __init__(self) -> None:
        self.literals: dict[tuple[str, str], list[Rule]] = {}
        self.globs: list[Rule] = []
        self.any: list[Rule] = []

    def add(self, rule: Rule) -> None:
        if rule.identity is None:
            self.any.append(rule)
        elif rule.identity.is_glob:
            self.globs.append(rule)
            self.globs.sort(key=lambda each: -len(each.identity.pattern) if each.identity else 0)
        else:
            self.literals.setdefault((rule.identity.source, rule.identity.pattern), []).append(rule)

    def find(self, identities: Mapping[str, str]) -> Iterator[Rule]:
        for source, value in identities.items() if self.literals else ():
            yield from self.literals.get((source, value), ())
        for rule in self.globs:
            assert rule.identity is not None
            value = identities.get(rule.identity.source, "")
            if value and fnmatchcase(value, rule.identity.pattern):
                yield rule
        yield from self.any


class Book:
    """The rules of a crawl.

    Args:
        rules: those that hold, in the order of their ids.
    """

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self.rules: dict[str, Rule] = {}
        self.ties: list[Tie] = []
        self._hosts: dict[str, dict[str, _Leaf]] = {}
        self._matches: dict[tuple[str, str, tuple[tuple[str, str], ...]], tuple[Rule, ...]] = {}
        self.sources: set[str] = set()
        """Identities that some rule names: of others nothing needs to be known."""
        self._apart: set[str] = set()
        """Sources of which some rule wants another value than any: a million users of whom none has
        a rule of their own match the same."""
        seen: dict[tuple[object, ...], Rule] = {}
        for rule in rules:
            scope = (rule.is_stored, rule.layer, rule.host, rule.uri, rule.identity)
            if scope in seen:
                self.ties.append(Tie(seen[scope], rule))
                continue
            seen[scope] = self.rules[rule.id] = rule
            if rule.identity is not None:
                self.sources.add(rule.identity.source)
                if rule.identity.pattern != ANY:
                    self._apart.add(rule.identity.source)
            by_uri = self._hosts.setdefault(rule.host, {})
            by_uri.setdefault(rule.uri, _Leaf()).add(rule)

    def __len__(self) -> int:
        return len(self.rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Book) and self.rules == other.rules

    __hash__ = None  # type: ignore[assignment]

    def match(self, host: str, kind: str, identities: Mapping[str, str]) -> tuple[Rule, ...]:
        """The rules that such a request comes under, one of each layer.

        Args:
            host: of the request's URL, in lower case.
            kind: its class: the path, normalised.
            identities: whom it is sent as, by source; those in `sources`, at least.
        """
        apart = self._apart
        values = [
            (source, value if source in apart else value and ANY)
            for source, value in identities.items()
        ]
        key = (host, kind, tuple(values))
        found = self._matches.get(key)
        if found is None:
            if len(self._matches) >= MOST_MATCHES:
                self._matches.clear()
            found = self._matches[key] = self._match(host, kind, identities)
        return found

    def _match(self, host: str, kind: str, identities: Mapping[str, str]) -> tuple[Rule, ...]:
        found: dict[tuple[str, bool], Rule] = {}
        for rule in self.candidates(host, kind, identities):
            known = found.get(rule.layer)
            if known is None or (rule.is_stored and not known.is_stored):
                found[rule.layer] = rule
        return tuple(found.values())

    def candidates(self, host: str, kind: str, identities: Mapping[str, str]) -> Iterator[Rule]:
        """All rules that match, the most specific first."""
        for pattern in _hosts_of(host):
            by_uri = self._hosts.get(pattern)
            if by_uri is not None:
                for uri in _uris_of(kind):
                    leaf = by_uri.get(uri)
                    if leaf is not None:
                        yield from leaf.find(identities)


def _hosts_of(host: str) -> Iterator[str]:
    """The ways in which a rule may name a host.

    >>> list(_hosts_of("a.b.org"))
    ['a.b.org', '*.b.org', '*.org', '*']
    """
    yield host
    rest = host
    while "." in rest:
        rest = rest.partition(".")[2]
        yield f"*.{rest}"
    yield ANY


def _uris_of(kind: str) -> Iterator[str]:
    """The ways in which a rule may name a class of pages.

    >>> list(_uris_of("/search/#?q"))
    ['/search/#?q', '/search/#', '/search/#/*', '/search/*', '/*', '*']
    """
    yield kind
    path = kind.partition("?")[0]
    if path != kind:
        yield path
    path = path.rstrip("/")
    while path:
        yield f"{path}/*"
        path = path.rpartition("/")[0]
    yield "/*"
    yield ANY
