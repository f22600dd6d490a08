"""How the documentation is built: `sphinx-build -W -n -b html docs docs/_build/html`.

Laws
----
* A build needs no network: nothing is fetched from other sites.
* The breaker's diagram is drawn from the breaker's own table while the pages are built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import scrapy_adaptive

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "scrapy-adaptive"
author = "the authors of scrapy-adaptive"
project_copyright = author
release = version = scrapy_adaptive.__version__

extensions = [
    "matplotlib.sphinxext.plot_directive",
    "sphinx.ext.autodoc",
    "sphinx.ext.extlinks",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["_build"]
default_role = "literal"
highlight_language = "python"

extlinks = {"scrapy": ("https://docs.scrapy.org/en/latest/%s", None)}

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
nitpick_ignore_regex = [
    # Scrapy's classes: their pages are on another site.
    (r"py:.*", r"(scrapy\..*|BaseSettings|Crawler|Request|Response)"),
    (r"py:.*", r"(typing_extensions\.)?Self"),
    # What a class is composed of is no part of the public API.
    (
        r"py:.*",
        r"(.*\.)?(Any|AdaptiveThrottle|core\.governor\.Governor|Limiter|Quota|Readings|Timeline)",
    ),
    (r"py:.*", r"(collections\.abc|pathlib|random)\..*"),
]

plot_formats = ["svg"]
plot_html_show_formats = False
plot_html_show_source_link = False

html_theme = "furo"
html_title = f"scrapy-adaptive {release}"
html_static_path = ["_static"]
html_css_files = ["docs.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6e4f", "color-brand-content": "#0b6e4f"},
    "dark_css_variables": {"color-brand-primary": "#5fc9a2", "color-brand-content": "#5fc9a2"},
}


def setup(app: Sphinx) -> None:
    """Settings and meta keys are things of their own, which pages can point to."""
    app.add_crossref_type("setting", "setting", indextemplate="pair: %s; setting")
    app.add_crossref_type("metakey", "metakey", indextemplate="pair: %s; meta key")
