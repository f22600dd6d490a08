"""One request past the gate, until it has left all downloader middlewares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy_adaptive.core.permit import Permit
    from scrapy_adaptive.core.types import Decision, Outcome

    from .refusal_rules import Verdict


@dataclass(slots=True, eq=False)
class Flight:
    """One request past the gate."""

    permit: Permit
    scheduled: bool
    """Whether the scheduler gave it out, and takes it back."""
    on_wire: bool = False
    verdict: Verdict | None = None
    """What the status said, while the classifier has the last word."""
    answered_at: float = 0.0
    """The instant at which the status was read, where there is a classifier."""
    latency: float | None = None
    """Seconds to the response's head."""
    outcome: Outcome | None = None
    decision: Decision | None = None

    @property
    def is_answered(self) -> bool:
        """Whether its response, or failure, has arrived."""
        return self.decision is not None or self.verdict is not None
