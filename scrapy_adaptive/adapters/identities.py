"""Whom a request is sent as, for known limits: an account, an agent, a proxy.

Laws
----
* An identity is what ADAPTIVE_IDENTITY says; `agent` and `proxy` are always known.
* What may be a secret (a header, a query parameter, what a proxy's address says of its user) is
  known by its hash from here on: it is neither shown nor stored.
* A request that lacks an identity comes under no rule that names it. So does one on which the
  callable of ADAPTIVE_IDENTITY raises: an error in it loses no request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from scrapy.utils.httpobj import urlparse_cached

from scrapy_adaptive.rules.reading import hashed, is_hash

from .errors import KindsSeen

if TYPE_CHECKING:
    from scrapy import Request

logger = logging.getLogger(__name__)

Identify = Callable[["Request", Container[str]], Mapping[str, str]]
"""Tells whom a request is sent as, of the identities that are wanted at least."""

ALWAYS: Mapping[str, str] = {"agent": "header:User-Agent", "proxy": "proxy"}
"""Identities that need no setting."""

AGENT = "header:user-agent"


def is_spec(spec: Any) -> bool:
    """Whether this says where an identity is found in a request."""
    if spec in ("proxy", "cookiejar"):
        return True
    kind, _, name = spec.partition(":") if isinstance(spec, str) else ("", "", "")
    return kind in ("meta", "header", "query") and bool(name)


def is_secret(spec: str) -> bool:
    """Whether what is found there is known by its hash only."""
    return spec.startswith(("header:", "query:")) and spec.lower() != AGENT


class Identities:
    """Finds the identities of requests.

    Args:
        given: ADAPTIVE_IDENTITY: where each is found, or a callable that tells them.
        agents: ADAPTIVE_AGENTS: classes of User-Agents, and the patterns of each.
        own_agent: the User-Agent of requests that have not got it yet.
    """

    def __init__(
        self,
        given: Mapping[str, str] | Callable[[Any], Any],
        agents: Mapping[str, Sequence[str]],
        *,
        own_agent: str = "",
    ) -> None:
        self._own_agent = own_agent
        self._errors = KindsSeen()
        self._call = given if callable(given) else None
        specs = ALWAYS if callable(given) else {**ALWAYS, **given}
        self._agents = agents
        self._finders = {source: self._finder(spec) for source, spec in specs.items()}
        self.sources = None if callable(given) else frozenset(specs)
        """What a rule may name; None where only the callable knows."""
        self._of_agent = {source for source, spec in specs.items() if spec.lower() == AGENT}
        self.secrets = frozenset(source for source, spec in specs.items() if is_secret(spec))

    def of(self, request: Request, wanted: Container[str] | None = None) -> dict[str, str]:
        """Whom this request is sent as, by source: all, or at least those that are wanted."""
        found = {
            source: find(request)
            for source, find in self._finders.items()
            if wanted is None or source in wanted
        }
        if self._call is not None and (wanted is None or wanted):
            found |= self._asked(self._call, request)
        return {source: value for source, value in found.items() if value}

    def _asked(self, call: Callable[[Any], Any], request: Request) -> dict[str, str]:
        """What the callable says; nothing where it raises."""
        try:
            told = call(request)
            if told is None:
                return {}
            if not isinstance(told, Mapping):  # which may be a secret
                kind = type(told).__name__
                raise TypeError(f"returned a value of type {kind}: allowed is a dict, or None")
            return {str(source): str(value) for source, value in told.items() if value}
        except Exception as error:
            if self._errors.is_new(error):
                logger.error(
                    "ADAPTIVE_IDENTITY raised %s on %s; it has no identity of the callable's "
                    "(further errors of this kind are not logged)",
                    type(error).__qualname__,
                    request,
                    exc_info=True,
                )
            return {}

    def known_as(self, source: str, value: str) -> str:
        """What a value of this identity is known by: the hash of what may be a secret, the class of
        a User-Agent."""
        if source in self._of_agent and value not in self._agents:
            return self._class_of(value)
        is_plain = source not in self.secrets or is_hash(value)
        return value if is_plain else _hashed(value)

    def _finder(self, spec: str) -> Callable[[Request], str]:
        kind, _, name = spec.partition(":")
        if spec.lower() == AGENT:
            return self._agent
        if kind == "header":
            return lambda request: _hashed(_header(request, name))
        if kind == "query":
            return lambda request: _hashed(_query(request, name))
        key = "cookiejar" if kind == "cookiejar" else name
        return _proxy if kind == "proxy" else lambda request: _text(request.meta.get(key))

    def _agent(self, request: Request) -> str:
        """The class of its User-Agent, or the header itself."""
        return self._class_of(_header(request, "User-Agent") or self._own_agent)

    def _class_of(self, header: str) -> str:
        for name, patterns in self._agents.items():
            if any(fnmatchcase(header.lower(), pattern.lower()) for pattern in patterns):
                return name
        return header


def _header(request: Request, name: str) -> str:
    value = request.headers.get(name)
    return "" if value is None else value.decode("latin-1")


def _query(request: Request, name: str) -> str:
    return dict(parse_qsl(urlparse_cached(request).query)).get(name, "")


def _proxy(request: Request) -> str:
    """Address of the proxy; of its user the hash. What is no address is no proxy's."""
    address = _text(request.meta.get("proxy"))
    credentials = _header(request, "Proxy-Authorization")
    try:
        parts = urlsplit(address if "//" in address else f"//{address}")
    except ValueError:
        return ""
    user, sign, host = parts.netloc.rpartition("@")
    secret = user if sign else credentials
    return f"{hashed(secret)}@{host}" if secret and host else host


def _hashed(secret: str) -> str:
    return hashed(secret) if secret else ""


def _text(value: Any) -> str:
    return "" if value is None else "".join(c if c.isprintable() else "?" for c in str(value))
