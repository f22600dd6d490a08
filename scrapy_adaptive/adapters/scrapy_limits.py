"""What Scrapy's own settings say of a slot's pace: its limits.

Laws
----
* They keep their meaning: DOWNLOAD_DELAY is a floor, scattered if somebody set its jitter,
  CONCURRENT_REQUESTS_PER_DOMAIN a cap, DOWNLOAD_SLOTS the same per slot.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scrapy_adaptive.core.slot_config import Limits

from .scrapy_internals import BRIDGES_ATTRIBUTES
from .setting_types import COUNT, SECONDS, SHARE, SWITCH, boolean, checked, mapping, number, whole

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import BaseSettings

UNSAID = Limits().jitter


def is_set(settings: BaseSettings, name: str) -> bool:
    """Whether somebody set this, beside Scrapy's defaults."""
    return (settings.getpriority(name) or 0) > 0


def limits_of(settings: BaseSettings, spider: Spider | None, values: Mapping[str, Any]) -> Limits:
    delay = checked("DOWNLOAD_DELAY", settings.get("DOWNLOAD_DELAY"), number(0), SECONDS)
    cap = checked(
        "CONCURRENT_REQUESTS_PER_DOMAIN",
        settings.get("CONCURRENT_REQUESTS_PER_DOMAIN"),
        whole(1),
        COUNT,
    )
    per_ip = settings.get("CONCURRENT_REQUESTS_PER_IP") or 0
    cap = checked("CONCURRENT_REQUESTS_PER_IP", per_ip, whole(0), COUNT) or cap
    if not BRIDGES_ATTRIBUTES:
        own_delay = getattr(spider, "download_delay", delay)
        delay = checked("download_delay of the spider", own_delay, number(0), SECONDS)
        own_cap = getattr(spider, "max_concurrent_requests", cap)
        cap = checked("max_concurrent_requests of the spider", own_cap, whole(1), COUNT)
    return Limits(
        start_delay=values["start_delay"],
        max_delay=values["max_delay"],
        target_concurrency=values["target_concurrency"],
        burst=values["burst"],
        backoff_ratio=values["backoff_ratio"],
        floor=delay,
        max_pause=values["max_pause"],
        jitter=_jitter(settings),
        only_200_lowers=settings.get("ADAPTIVE_TARGET_CONCURRENCY") is not None
        and values["target_concurrency"] < math.inf,
        concurrency=cap,
    )


def binding_of(settings: BaseSettings, limits: Limits) -> tuple[str, ...]:
    holds = {
        "DOWNLOAD_DELAY": limits.floor > 0,
        "CONCURRENT_REQUESTS_PER_DOMAIN": limits.concurrency < Limits().concurrency,
    }
    return tuple(name for name, does in holds.items() if does and is_set(settings, name))


def _jitter(settings: BaseSettings) -> float:
    """Share by which DOWNLOAD_DELAY is to be scattered; below 0 where nobody said so.

    Of the two names the one of higher priority counts, the newer one of equal ones, as in Scrapy.
    """
    new, old = "DOWNLOAD_DELAY_JITTER", "RANDOMIZE_DOWNLOAD_DELAY"
    if is_set(settings, old) and (settings.getpriority(old) or 0) > (
        settings.getpriority(new) or 0
    ):
        return _randomized(checked(old, settings.get(old), boolean, SWITCH))
    if not is_set(settings, new):
        return UNSAID
    return float(checked(new, settings.get(new), number(0), SHARE))


def _slot_jitter(own: Mapping[str, Any], where: str, default: float) -> float:
    if "jitter" in own:
        return float(checked(f"{where}['jitter']", own["jitter"], number(0), SHARE))
    if "randomize_delay" in own:
        return _randomized(bool(own["randomize_delay"]))
    return default


def _randomized(is_on: bool) -> float:
    """What Scrapy makes of a jitter that is only switched on or off."""
    return 0.5 if is_on else 0.0


def slot_limits_of(settings: BaseSettings, limits: Limits) -> dict[str, Limits]:
    slots: dict[str, Limits] = {}
    given = settings.get("DOWNLOAD_SLOTS")
    for key, value in checked("DOWNLOAD_SLOTS", given, mapping, "a dict of slots").items():
        where = f"DOWNLOAD_SLOTS[{key!r}]"
        own = checked(where, value, mapping, "a dict with a delay, a concurrency or both")
        floor = own.get("delay", limits.floor)
        concurrency = own.get("concurrency", limits.concurrency)
        slots[str(key)] = replace(
            limits,
            floor=checked(f"{where}['delay']", floor, number(0), SECONDS),
            jitter=_slot_jitter(own, where, limits.jitter),
            concurrency=checked(f"{where}['concurrency']", concurrency, whole(1), COUNT),
        )
    return slots
