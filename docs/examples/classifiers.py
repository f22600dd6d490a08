"""Classifiers: what a response meant, where its status does not say so."""

from __future__ import annotations

from scrapy.http import Response, TextResponse

from scrapy_adaptive import Outcome


def captcha(response: Response) -> Outcome | None:
    """A form to be filled in by people stands where the page should be."""
    if isinstance(response, TextResponse) and response.css("form#captcha"):
        return Outcome.REFUSED
    return None


def soft_ban(response: Response) -> Outcome | None:
    """A redirect to the page for those who are blocked."""
    location = response.headers.get("Location") or b""
    return Outcome.REFUSED if b"/blocked" in location else None


def maxlag(response: Response) -> Outcome | None:
    """MediaWiki's replicas lag behind: a 200, whose headers and body say so."""
    return Outcome.REFUSED if "X-Database-Lag" in response.headers else None


def classify(response: Response) -> Outcome | None:
    """The first rule that has an answer; None leaves it to the status."""
    for rule in (captcha, soft_ban, maxlag):
        outcome = rule(response)
        if outcome is not None:
            return outcome
    return None
