"""AutoThrottle's latency law.

Laws
----
1. The target is `latency / N`: N requests of a site are in flight on average.
2. The next delay is the mean of the old delay and the target.
3. A slower target applies at once.
4. An error never lowers the delay, as error pages are quick; by its own rule, only a 200 does.
5. The delay stays between its floor and its maximum.
"""

from __future__ import annotations


def next_delay(
    delay: float,
    latency: float,
    *,
    target_concurrency: float,
    floor: float,
    most: float,
    may_lower: bool,
) -> float:
    """The delay after one more response; all in seconds.

    >>> law = dict(target_concurrency=2.0, floor=0.0, most=60.0)
    >>> next_delay(1.0, 0.5, may_lower=True, **law)    # target 0.25, mean 0.625
    0.625
    >>> next_delay(1.0, 4.0, may_lower=True, **law)    # a slower target applies at once
    2.0
    >>> next_delay(1.0, 0.5, may_lower=False, **law)   # an error page lowers nothing
    1.0

    **Source**: `scrapy.extensions.throttle.AutoThrottle._adjust_delay`, to the last bit.
    """
    target = latency / target_concurrency
    smoothed = max(target, (delay + target) / 2.0)
    bounded = min(max(floor, smoothed), most)
    if not may_lower and bounded <= delay:
        return delay
    return bounded
