"""Asks a crawl that runs: what its live view answers.

Laws
----
* Its own address is asked, no proxy: the token in it is told to nobody else.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from . import units

ADDRESS = "http://127.0.0.1:6600/"
"""Where a crawl with ADAPTIVE_WATCH is, if nothing else was set."""

PATIENCE = 10.0
"""Seconds that an answer may take."""


def is_address(where: str) -> bool:
    """Whether this is the address of a live view, not the path of a journal."""
    return where.lower().startswith(("http://", "https://"))


def address_of_one(where: Sequence[str]) -> str:
    """The address of a live view that is named here; empty where journals are.

    Raises:
        ValueError: something else is named beside it, or what is named is neither.
    """
    address = next(filter(is_address, where), "")
    if address and len(where) > 1:
        raise ValueError(f"{address} is the address of one crawl: name it alone, or journals")
    missing = None if address else next((each for each in where if not Path(each).exists()), None)
    if missing is not None:
        raise ValueError(f"{missing}: No such file; the address of a crawl begins with http://")
    return address


def no_crawl(address: str) -> ValueError:
    """What to raise where something else answers than a crawl."""
    return ValueError(f"what answers at {urlsplit(address).netloc} is no crawl of this version")


def asked(where: str, name: str) -> Any:
    """The JSON of that name under a live view's address, as the crawl has printed it.

    Raises:
        ValueError: nobody answers, or something else than a live view does.
    """
    parts = urlsplit(where)
    address = urlunsplit((parts.scheme, parts.netloc, f"/{name}", parts.query, ""))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(address, timeout=PATIENCE) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        said = units.printable(error.read(200).decode(errors="replace").strip())
        why = said or f"{error.code} {units.printable(error.reason)}".strip()
        raise ValueError(f"{parts.netloc} refuses: {why}") from None
    except (OSError, ValueError, RecursionError, http.client.HTTPException):
        raise ValueError(
            f"no crawl answers at {parts.scheme}://{parts.netloc}: it has ended, or runs without "
            "ADAPTIVE_WATCH; a journal is named by its path"
        ) from None
