"""Shows the crawl: the report at its end, and the live view while it runs.

Laws
----
* Both are fed with the records of the journal, whether a journal is written or not; but for those
  of sites that were forgotten before any record named them.
* What is missing for either is told before the crawl begins; what fails later is told in a line,
  and the crawl goes on.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from scrapy_adaptive.report.building import Builder
from scrapy_adaptive.report.live.server import LiveView
from scrapy_adaptive.report.page.plot import check_bokeh
from scrapy_adaptive.report.page.writing import write_page

from .errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_adaptive.report.records import Record

    from .recorder import Recorder
    from .settings import AdaptiveSettings

logger = logging.getLogger("scrapy_adaptive")


class Showing:
    """The report and the live view of one crawl, where its settings ask for them.

    Raises:
        SettingsError: a package is missing that one of them needs.
    """

    def __init__(self, settings: AdaptiveSettings) -> None:
        self._path = settings.report
        self._builder = Builder()
        self._view: LiveView | None = None
        name, value = "ADAPTIVE_REPORT", str(settings.report)
        try:
            if settings.report is not None:
                check_bokeh()
            name, value = "ADAPTIVE_WATCH", "True"
            if settings.watch:
                self._view = LiveView(settings.watch_address, settings.watch_port)
        except ValueError as error:
            raise SettingsError(name, value, str(error)) from None

    @property
    def is_wanted(self) -> bool:
        """Whether there is anything to show."""
        return self._path is not None or self._view is not None

    def begin(self, recorder: Recorder) -> None:
        """The crawl begins: follow what is recorded of it."""
        if self._path is not None:
            recorder.sinks.append(self._on_records)
        if self._view is None:
            return
        try:
            self._view.start()
        except OSError as error:
            logger.warning("there is no live view, as it cannot be served: %s", error)
            return
        recorder.sinks.append(self._view.put)
        logger.info("watch at %s", self._view.url)

    def end(self) -> None:
        """The crawl has ended, and its last record is known."""
        if self._view is not None:
            self._view.stop()
        if self._path is None:
            return
        try:
            write_page(self._builder.crawl(), self._path)
        except OSError as error:
            logger.error("the report cannot be written: %s", error)
        else:
            logger.info("the report of this crawl is %s", self._path)

    def _on_records(self, records: Sequence[Record]) -> None:
        for record in records:
            self._builder.add(record)
