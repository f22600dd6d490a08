"""The page of a crawl: one HTML file that opens offline.

Laws
----
* Nothing is fetched: style, script, Bokeh and data are in the file, and its own policy forbids
  the browser to ask anybody for more.
* What a crawl wrote is text: it enters the page as JSON and is drawn as text, never as HTML.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any

from scrapy_adaptive.version import VERSION

from .plot import browser_code, empty_curve

if TYPE_CHECKING:
    from .view import View

SCRIPTS = ("format.js", "table.js", "curve.js", "page.js")


def page(view: View) -> str:
    """The whole page of this view.

    Raises:
        ValueError: Bokeh is not installed.
    """
    bokeh = browser_code()
    script = '"use strict";\n(() => {\n' + "".join(map(_read, SCRIPTS)) + "})();\n"
    return Template(_read("page.html")).substitute(
        policy=_policy(bokeh, script, is_live=view.live),
        title=html.escape(view.title),
        about=html.escape(view.about),
        headline=html.escape(view.headline),
        version=VERSION,
        style=_read("page.css"),
        view=_embedded(view.to_json()),
        plot=_embedded(empty_curve()),
        bokeh=bokeh,
        script=script,
    )


def _policy(*scripts: str, is_live: bool) -> str:
    """Only these scripts run, and only a live page asks its own server."""
    hashes = (base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts)
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    connect = "'self'" if is_live else "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        f"img-src data: blob:; connect-src {connect}; base-uri 'none'; form-action 'none'"
    )


def _embedded(data: Any) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _read(name: str) -> str:
    return (resources.files(__name__) / name).read_text(encoding="utf-8")
