"""The site's own log of hits: the truth about a crawl's politeness.

Laws
----
* One JSON line per hit, written by the server when the hit has ended.
* Times are seconds of the server's clock; `start` is when the request's head had arrived,
  `end` when the last byte of its answer was handed to the socket.
* A judge reads this log and nothing else: what the crawler says of itself does not count.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

REFUSAL_CODES = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class Hit:
    """One request as the server saw it. Times in seconds of the server's clock."""

    start: float
    end: float
    status: int
    path: str
    host: str = ""
    agent: str = ""
    retry_after: float | None = None
    """Seconds of silence the answer asked for, None where it named none."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class RudeHit:
    """A hit that began while its host had asked for silence."""

    hit: Hit
    refusal: Hit


def read_hits(path: Path) -> list[Hit]:
    """All hits of a log, ordered by their start."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return sorted((Hit(**json.loads(line)) for line in lines if line), key=lambda h: h.start)


def rude_hits(
    hits: Iterable[Hit],
    *,
    silence: float = 0.25,
    grace: float = 0.010,
    refusal_codes: frozenset[int] = REFUSAL_CODES,
) -> Iterator[RudeHit]:
    """Hits that began between a refusal and the end of the silence it asked for.

    For a refusal that ended at *t* no hit of the same host may start in
    (*t* + `grace`, *t* + its Retry-After), or (*t* + `grace`, *t* + `silence`) where the
    answer named no time. `grace` allows for what was on the wire at *t*. All in seconds.
    """
    ordered = sorted(hits, key=lambda hit: hit.start)
    refusals = [hit for hit in ordered if hit.status in refusal_codes]
    for hit in ordered:
        for refusal in refusals:
            if refusal.host != hit.host:
                continue
            wait = refusal.retry_after if refusal.retry_after is not None else silence
            if refusal.end + grace < hit.start < refusal.end + wait:
                yield RudeHit(hit, refusal)
                break
