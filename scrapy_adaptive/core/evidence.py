"""What is too unlikely to be chance.

Caps and page classes share one test: was a limiter blind to what is counted? A limiter that cannot
see a level or a class refuses each as often as it serves it. The chance of what was seen under such
a limiter is multiplied epoch by epoch.

**Source**: E. S. Page, Continuous Inspection Schemes, 1954.
"""

from __future__ import annotations

BLIND = 0.0001
"""Chance of calling a limiter that is blind one that is not: one in ten thousand."""

LEAST_SHARE = 0.01
"""No single epoch counts for more than this: three are needed."""

MEMORY = 64
"""Accepted requests whose levels, or classes, are remembered, the older ones fading. It is short:
a crawl that gets faster, or turns to other pages, must not be taken for a site that does. So many
visits to pages that were refused and served in the end are, too."""

UNLIKELY = 1e-5
"""Chance under which refusals in a row, of one page or of test requests, are no chance any more
where a known share of the requests is refused whatever the rate."""
