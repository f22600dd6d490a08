"""Who may look at a live view.

Laws
----
* Bound to loopback it answers to loopback's names only, so that no site can reach it by a name of
  its own that points here (DNS rebinding).
* Bound to anything else it wants the token of the printed URL.
* A page of another origin gets nothing: no script of a site that is visited meanwhile reads it.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Sent with each answer."""


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach that address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if address.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Guard:
    """Judges requests to a server that is bound to this address."""

    address: str
    token: str = field(init=False)
    """Empty where none is needed."""

    def __post_init__(self) -> None:
        token = "" if is_loopback(self.address) else secrets.token_urlsafe(24)
        object.__setattr__(self, "token", token)

    def refusal(self, headers: Mapping[str, str], token: str) -> str:
        """Why a request with these headers and this token is refused; empty if it is not."""
        host = headers.get("Host", "")
        if not self.token and not is_loopback(_name(host)):
            return "Host: only names of this machine's loopback are answered"
        origin = headers.get("Origin")
        if origin is not None and _place(origin).lower() != host.lower():
            return "Origin: pages of other origins are not answered"
        if _is_cross_origin(headers):
            return "Sec-Fetch-Site: pages of other origins are not answered"
        bearer = headers.get("Authorization", "").removeprefix("Bearer ")
        if self.token and not any(_equal(each, self.token) for each in (token, bearer)):
            return "token: take the whole address that the crawl has printed"
        return ""


def _is_cross_origin(headers: Mapping[str, str]) -> bool:
    """Whether a browser says that another origin's page asks; not by a link that a user follows."""
    if headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin"):
        return False
    mode, target = headers.get("Sec-Fetch-Mode"), headers.get("Sec-Fetch-Dest")
    return not (mode == "navigate" and target == "document")


def _name(host: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _place(origin: str) -> str:
    """The host and port of an origin."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _equal(given: str, token: str) -> bool:
    return secrets.compare_digest(given.encode(errors="surrogateescape"), token.encode())
