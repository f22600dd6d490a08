"""The bracket: between which rates a site's limit lies, and what it costs to know it better.

Laws
----
* `lo` is the highest rate that passed a whole stage, `hi` the lowest that was refused since.
* A step goes a third of the way from `lo` to `hi`, in logarithms: with a belief that is uniform
  there, it is refused once in three times.
* A stage lasts until the expected loss of the step that follows is half its expected gain.
* A rate that passes above `hi` voids it; steps then double until one is refused.
"""

from __future__ import annotations

import math

PRICE = 9.5
"""Pages that one refusal costs: `stage` then has one request in 950 refused on a steady limit."""

STEP = 1.0 / 3.0
"""Share of the bracket that one step takes, in logarithms: bisection costs more for its gain."""

NARROW = 0.03
"""Width, in logarithms, at which a bracket counts as closed: the limit is known to 3 %."""

ABOVE = 1.005
"""Where a closed bracket is probed, as a multiple of `hi`."""

FAR = 8.0
"""A rate is doubled while this multiple of it is still under `hi`: stages are short then, and prove
nothing."""

FIRST_CLIMB = 0.06
"""First step beyond an upper bound that was lifted; each further one is twice as long, up to 1."""

RARER = 1.5
"""How much longer it takes until a rate that a limit may come back to is tried again, each time
that this was in vain. Of a limit that was lower for so long, so long again is expected."""


def step(x: float, hi: float) -> float:
    """The next rate to try above `x`, under a finite `hi`; above it once the bracket is closed.

    >>> round(step(1.0, 8.0), 3), round(step(1.0, 100.0), 3), round(step(1.0, 1.02), 4)
    (2.0, 2.0, 1.0251)
    """
    width = math.log(hi / x)
    return ABOVE * hi if is_closed(x, hi) else x * min(2.0, math.exp(STEP * width))


def stage(x: float, hi: float, price: float) -> float:
    """Requests that have to pass at `x` before the next step.

    Args:
        hi: the lowest refused rate, or what the next step aims at; 1/s.
        price: what a refused step costs, in pages.

    The step that follows is refused once in three times: an expected loss of a third of the
    price. It gains a third of the bracket's width, over as many pages as the stage has. The loss
    is half the gain at `n = 2 price / ln(hi/x)`. Above `hi` half of that is enough: upper bounds
    are rarely wrong.

    >>> round(stage(1.0, 2.0, 8.0)), round(stage(1.0, 1.03, 8.0)), round(stage(1.1, 1.0, 8.0))
    (23, 533, 267)
    """
    if x > hi:
        return price / NARROW
    return 2.0 * price / max(NARROW, math.log(hi / x))


def is_closed(x: float, hi: float) -> bool:
    """Whether no rate between the two is worth a step."""
    return math.log(hi / x) <= NARROW


def search(x: float, hi: float, price: float, before: int) -> float:
    """Requests that have to pass at `x` before the next step, where a long pause is the price.

    What a step finds is of use for the rest of the crawl, and a crawl of which nobody knows the
    length will last as long again, as likely as not. So the gain counts over all that was served,
    and the step is due once it is as large as the loss.

    Args:
        hi: the lowest refused rate, 1/s, above `x`: the bracket is open.
        price: what a refused step costs, in pages.
        before: requests that were served before this rate was tried.

    **Source**: Gott, Implications of the Copernican principle for our future prospects, 1993.

    >>> round(search(1.0, 2.0, 208.0, 0)), round(search(1.0, 2.0, 208.0, 250))
    (300, 50)
    """
    return price / math.log(hi / x) - before
