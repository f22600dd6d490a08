"""What a response means for politeness.

Laws
----
* The status speaks first; the user's classifier, which sees the decoded body, speaks last.
* A malformed header of a site is ignored and counted, never an error.
* A classifier that raises is logged once per kind of error; the status then decides.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, NamedTuple

from scrapy.http.headers import Headers

from scrapy_adaptive.core.headers.parse import HEADER_NAMES, NO_HINTS, Hints, parse_hints
from scrapy_adaptive.core.types import Outcome

from .errors import KindsSeen

if TYPE_CHECKING:
    from scrapy.http import Response
    from scrapy.statscollectors import StatsCollector

    from scrapy_adaptive.core.headers.parse import Quota

    from .setting_types import Classifier

logger = logging.getLogger(__name__)

_HINTING = frozenset(map(Headers().normkey, {*HEADER_NAMES} - {"date", "age"}))
"""Names as Scrapy stores them: most responses have none of these and cost one set operation."""


class Verdict(NamedTuple):
    """An outcome, and the silence the site asked for with it, in seconds."""

    outcome: Outcome
    announced: float | None = None
    quotas: tuple[Quota, ...] = ()
    """What its headers tell."""


class RefusalRules:
    """Turns responses into verdicts.

    Args:
        refusal_codes: statuses that are refusals.
        classifier: the user's last word, or None.
        stats: where ignored headers and classifier errors are counted.
    """

    def __init__(
        self,
        refusal_codes: frozenset[int],
        classifier: Classifier | None,
        stats: StatsCollector,
    ) -> None:
        self._refusal_codes = refusal_codes
        self._classifier = classifier
        self._stats = stats
        self._errors = KindsSeen()

    @property
    def has_classifier(self) -> bool:
        """Whether the last word is only spoken once the body is decoded."""
        return self._classifier is not None

    def by_status(self, response: Response) -> Verdict:
        """The verdict on status and headers alone."""
        hints = self._hints(response)
        status = response.status
        if status in self._refusal_codes:
            return Verdict(Outcome.REFUSED, hints.announced, hints.quotas)
        if status == 403 and (hints.retry_after is not None or hints.exhausted):
            return Verdict(Outcome.REFUSED, hints.announced, hints.quotas)
        if status < 500:
            return Verdict(Outcome.ACCEPTED, quotas=hints.quotas)
        if hints.retry_after is None:
            return Verdict(Outcome.FAILED, quotas=hints.quotas)
        return Verdict(Outcome.REFUSED, hints.announced, hints.quotas)

    def by_body(self, response: Response, verdict: Verdict) -> Verdict:
        """The classifier's verdict on the decoded response; `verdict` where it has none."""
        if self._classifier is None:
            return verdict
        try:
            outcome = self._classifier(response)
            if outcome is not None and not isinstance(outcome, Outcome):
                raise TypeError(f"returned {outcome!r}, allowed is an Outcome or None")
        except Exception as error:
            self._on_classifier_error(error, response)
            return verdict
        if outcome is None or outcome is verdict.outcome:
            return verdict
        announced = self._hints(response).announced if outcome is Outcome.REFUSED else None
        return Verdict(outcome, announced, verdict.quotas)

    def _on_classifier_error(self, error: Exception, response: Response) -> None:
        self._stats.inc_value("adaptive/classifier_errors")
        if self._errors.is_new(error):
            logger.error(
                "ADAPTIVE_CLASSIFIER raised %s on %s; the status decides (further errors of "
                "this kind are only counted, in adaptive/classifier_errors)",
                type(error).__qualname__,
                response,
                exc_info=True,
            )

    def _hints(self, response: Response) -> Hints:
        raw = response.headers
        if _HINTING.isdisjoint(raw):
            return NO_HINTS
        found = {name: raw.getlist(name) for name in HEADER_NAMES if name in raw}
        hints = parse_hints(found, unix_now=time.time())
        if hints.ignored:
            self._stats.inc_value("adaptive/headers_ignored", len(hints.ignored))
        return hints
