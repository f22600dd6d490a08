"""Reads what `--server` is given: `name:number/number,modifier,modifier=value`.

Laws
----
* A bad spec is refused with one line that names the spec, the part and what is allowed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import NoReturn, cast

from .pages import pages
from .servers.base import Page, Server
from .servers.catalogue import MODELS, Model, Order
from .servers.faults import DeadPagesServer, NoisyServer
from .servers.limiter import Limiter
from .servers.ranges import EVERY, FACTOR, MOST, Number
from .servers.rates import Rate, constant, stepped, vanishing, waving
from .servers.telling import LIES, Telling, TellingServer, truth

MODIFIERS = (
    ("step=FACTOR@SECONDS", "the limit becomes FACTOR times itself"),
    ("sine=SHARE", "the limit goes up and down by that share within an hour"),
    ("vanish=START-END", "no limit between those seconds"),
    ("noise=SHARE", "503 for that share of the pages, whatever the rate"),
    ("dead=EVERY", "always 503 for each page of so many"),
    ("retry-after[=SECONDS]", "refusals tell Retry-After: the truth, or always so many seconds"),
    ("ratelimit", "answers tell what remains"),
    (f"lying={'|'.join(LIES)}", "what they tell of it is false"),
)
"""What may follow any model: usage and meaning."""


@dataclass(slots=True)
class _Changes:
    """What the modifiers of one spec ask for."""

    rates: list[Callable[[Rate], Rate]] = field(default_factory=list)
    noise: float = 0.0
    dead: int = 0
    retry_after: bool = False
    wait: float | None = None
    quota: Telling | None = None
    flags: set[str] = field(default_factory=set)

    def vary(self, limit: float) -> Rate:
        """That limit, changing with time as asked for."""
        return reduce(lambda rate, change: change(rate), self.rates, constant(limit))


@dataclass(frozen=True, slots=True)
class Site:
    """A simulated site, made by `read_spec`."""

    spec: str
    server: Server
    pages: Iterator[Page]
    kinds: tuple[str, ...]
    """The classes of its pages."""


def read_spec(spec: str, seed: int | str) -> Site:
    """The site that a spec describes; the same seed makes the same site.

    Raises:
        ValueError: the spec is not allowed; the message is one line.
    """
    return _Reader(spec).site(seed)


def describe() -> str:
    """All models and modifiers, for `--help`: a line each."""
    lines = ["models:"]
    for model in MODELS:
        lines.append(_line(model.usage, model.meaning))
        lines += [_line(f"  ,{flag}", meaning) for flag, meaning in model.flags.items()]
    lines += [
        "modifiers, after commas; the first three of models with a limit, the last three of those",
        "that refuse:",
    ]
    lines += [_line(usage, meaning) for usage, meaning in MODIFIERS]
    return "\n".join(lines)


def _line(usage: str, meaning: str) -> str:
    return f"  {usage:<32}{meaning}"


class _Reader:
    """Reads one spec."""

    def __init__(self, spec: str) -> None:
        self._spec = spec
        head, *modifiers = spec.split(",")
        name, colon, numbers = head.partition(":")
        self._model = self._named(name)
        self._numbers = self._read_numbers(head, numbers.split("/") if colon else [])
        self._changes = _Changes()
        self._steps = 1.0
        """The factor of all steps together."""
        for modifier in modifiers:
            self._read_modifier(modifier)
        if len(self._changes.flags) > 1:
            allowed = " or ".join(self._model.flags)
            self._refuse(",".join(sorted(self._changes.flags)), f"{allowed}, not both")

    def site(self, seed: int | str) -> Site:
        """The site: faults stand around the model, headers around both."""
        model, changes = self._model, self._changes
        chance = random.Random(f"{seed} server")
        order = Order(self._numbers, frozenset(changes.flags), changes.vary, chance)
        server = model.make(order)
        limiter = cast("Limiter", server)
        if changes.dead:
            server = DeadPagesServer(server, changes.dead)
        if changes.noise:
            server = NoisyServer(server, changes.noise, random.Random(f"{seed} noise"))
        if changes.retry_after or changes.quota:
            server = TellingServer(
                server,
                limiter,
                retry_after=changes.retry_after,
                wait=changes.wait,
                quota=changes.quota,
            )
        fetched = pages(model.shares, random.Random(f"{seed} pages"))
        return Site(self._spec, server, fetched, tuple(model.shares))

    def _refuse(self, part: str, allowed: str) -> NoReturn:
        raise ValueError(f"{self._spec!r}: {part!r}: allowed is {allowed}")

    def _named(self, name: str) -> Model:
        named = {model.name: model for model in MODELS}
        if name not in named:
            self._refuse(name, ", ".join(named))
        return named[name]

    def _read_numbers(self, head: str, given: list[str]) -> tuple[float, ...]:
        wanted = self._model.numbers
        if len(given) != len(wanted):
            self._refuse(head, self._model.usage)
        return tuple(self._number(*pair) for pair in zip(given, wanted, strict=True))

    def _number(self, given: str, wanted: Number) -> float:
        number = _finite(given)
        if not wanted.fits(number):
            self._refuse(given, f"{wanted.allowed}, as {wanted.name} of {self._model.usage}")
        return number

    def _read_modifier(self, modifier: str) -> None:
        name, _, value = modifier.partition("=")
        usages = {_name_of(usage): usage for usage, _ in MODIFIERS}
        if name not in usages:
            if modifier not in self._model.flags:
                known = [*self._model.flags, *(usage for usage, _ in MODIFIERS)]
                self._refuse(modifier, ", ".join(known))
            self._changes.flags.add(modifier)
        elif name in ("step", "sine", "vanish"):
            self._change_rate(modifier, name, value)
        elif name in ("noise", "dead"):
            self._add_fault(modifier, name, value)
        else:
            self._tell(modifier, name, value)

    def _change_rate(self, modifier: str, name: str, value: str) -> None:
        if not self._model.has_limit:
            self._refuse(modifier, f"a model with a limit, and {self._model.name} has none")
        if name == "step":
            factor, at = self._pair(modifier, value, "@")
            self._steps *= factor
            if not (FACTOR.fits(factor) and FACTOR.fits(self._steps)):
                allowed = "step=FACTOR@SECONDS with FACTOR, and all steps together,"
                self._refuse(modifier, f"{allowed} {FACTOR.allowed}")
            self._changes.rates.append(lambda rate: stepped(rate, factor, at))
        elif name == "sine":
            share = self._share(modifier, value)
            self._changes.rates.append(lambda rate: waving(rate, share))
        else:
            start, end = self._pair(modifier, value, "-")
            if not start < end:
                self._refuse(modifier, "vanish=START-END with START before END")
            self._changes.rates.append(lambda rate: vanishing(rate, start, end))

    def _add_fault(self, modifier: str, name: str, value: str) -> None:
        if name == "noise":
            self._changes.noise = self._share(modifier, value)
            return
        every = _finite(value)
        if not EVERY.fits(every):
            self._refuse(modifier, f"dead=EVERY with {EVERY.allowed}")
        self._changes.dead = int(every)

    def _tell(self, modifier: str, name: str, value: str) -> None:
        if not self._model.refuses:
            self._refuse(modifier, f"a model that refuses, and {self._model.name} does not")
        if name == "lying":
            if value not in LIES:
                self._refuse(modifier, f"lying={'|'.join(LIES)}")
            self._changes.quota = LIES[value]
        elif name == "retry-after":
            self._changes.retry_after = True
            self._changes.wait = self._seconds(modifier, value) if "=" in modifier else None
        elif "=" in modifier:
            self._refuse(modifier, "ratelimit without a value")
        else:
            self._changes.quota = self._changes.quota or truth

    def _seconds(self, modifier: str, value: str) -> float:
        seconds = _finite(value)
        if not (0 <= seconds <= MOST and seconds % 1 == 0):
            allowed = f"retry-after=SECONDS with a whole number from 0 to {MOST:g}"
            self._refuse(modifier, allowed)
        return seconds

    def _share(self, modifier: str, value: str) -> float:
        share = _finite(value)
        if not 0 < share < 1:
            name = modifier.partition("=")[0]
            self._refuse(modifier, f"{name}=SHARE with a number between 0 and 1, both excluded")
        return share

    def _pair(self, modifier: str, value: str, sign: str) -> tuple[float, float]:
        usage = next(u for u, _ in MODIFIERS if _name_of(u) == modifier.partition("=")[0])
        parts = [_finite(part) for part in value.split(sign)]
        if len(parts) != 2 or not all(part >= 0 for part in parts):
            self._refuse(modifier, f"{usage} with numbers, 0 or more")
        return parts[0], parts[1]


def _name_of(usage: str) -> str:
    return usage.partition("=")[0].partition("[")[0]


def _finite(text: str) -> float:
    """The number; NaN, which fits nothing, where it is none."""
    try:
        number = float(text)
    except ValueError:
        return math.nan
    return number if math.isfinite(number) else math.nan
