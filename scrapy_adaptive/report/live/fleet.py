"""The live page of a whole fleet: fed from its workers' journals, by a process of its own.

Laws
----
* It only reads: the workers know nothing of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from scrapy_adaptive.report.reader import Journals

from .server import INTERVAL, LiveView


def serve(paths: Sequence[Path], address: str, port: int, tell: Callable[[str], None]) -> None:
    """Serve the page until each of the journals has ended, or until Ctrl-C.

    Args:
        address: what to bind to.
        port: where to listen; if it is taken, or 0, a free one.
        tell: is given the address of the page.

    Raises:
        ValueError: a package is missing, or a journal is none.
        OSError: a journal cannot be read, or the address cannot be bound.
    """
    view = LiveView(address, port)
    with Journals(paths) as journals:
        _feed(view, journals)
        journals.check()
        view.start()
        try:
            tell(view.url)
            while not journals.have_ended:
                time.sleep(INTERVAL)
                _feed(view, journals)
                view.check()
        except KeyboardInterrupt:
            pass
        finally:
            view.stop()


def _feed(view: LiveView, journals: Journals) -> None:
    for source, found in journals.read():
        view.put(found, source)
