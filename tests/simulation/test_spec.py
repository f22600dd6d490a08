"""What `--server` takes, and the one line that a bad spec gets."""

from __future__ import annotations

from itertools import islice

import pytest

from scrapy_adaptive.simulation.servers.catalogue import MODELS
from scrapy_adaptive.simulation.spec import MODIFIERS, describe, read_spec

GOOD = {
    "bucket:50/20": 50.0,
    "window:60/60,first-hit": 1.0,
    "log:300/60,counted": 5.0,
    "counter:300/10": 30.0,
    "cap:4/0.25": 16.0,
    "queue:4/0.25,random": 16.0,
    "ban:20/20/60,doubling": 20.0,
    "connotea": 0.5,
    "connotea,agent": 1 / 30,
    "connotea,visitor": 10 / 15,
    "endpoint:10/1": 10.0,
    "free:0.05,noise=0.5": float("inf"),
    "bucket:10/1,step=0.3@0,retry-after,ratelimit": 3.0,
    "bucket:10/1,noise=0.1,retry-after=30": 9.0,
}

BAD = {
    "": "allowed is bucket, window",
    "buckt:5/3": "'buckt': allowed is bucket, window",
    "bucket": "'bucket': allowed is bucket:RATE/BURST",
    "bucket:1/1/1": "allowed is bucket:RATE/BURST",
    "bucket:x/3": "'x': allowed is a number from 1e-06 to 1e+06, as RATE",
    "bucket:nan/3": "'nan': allowed is a number",
    "bucket:inf/3": "'inf': allowed is a number",
    "bucket:5/0.5": "'0.5': allowed is a number from 1 to 1e+06, as BURST",
    "window:1.5/60": "'1.5': allowed is a whole number from 1 to 1e+06, as COUNT",
    "queue:1e300/1": "'1e300': allowed is a whole number from 1 to 1e+06",
    "bucket:1e-320/1,retry-after": "'1e-320': allowed is a number from 1e-06",
    "bucket:5/3,": "'': allowed is step=",
    "bucket:5/3,foo": "'foo': allowed is step=",
    "bucket:5/3,counted": "'counted': allowed is step=",
    "bucket:5/3,noise=2": "allowed is noise=SHARE with a number between 0 and 1",
    "bucket:5/3,dead=1": "allowed is dead=EVERY",
    "bucket:5/3,step=3": "allowed is step=FACTOR@SECONDS",
    "bucket:5/3,vanish=5-2": "START before END",
    "bucket:5/3,lying": "allowed is lying=remaining|reset|absurd",
    "bucket:5/3,ratelimit=3": "ratelimit without a value",
    "bucket:5/3,retry-after=0.5": "retry-after=SECONDS with a whole number from 0 to 1e+06",
    "bucket:5/3,retry-after=": "retry-after=SECONDS with a whole number",
    "free:1,sine=0.5": "a model with a limit",
    "queue:1/1,retry-after": "a model that refuses",
    "ban:1/1/1,restarted,doubling": "restarted or doubling, not both",
    "connotea,agent,visitor": "agent or visitor, not both",
    "bucket:5/3\nnoise": "allowed is",
}


@pytest.mark.parametrize(("spec", "capacity"), GOOD.items())
def test_a_good_spec_makes_its_server(spec: str, capacity: float) -> None:
    assert read_spec(spec, seed=1).server.capacity(0.0) == pytest.approx(capacity)


@pytest.mark.parametrize(("spec", "told"), BAD.items())
def test_a_bad_spec_is_told_in_one_line_that_names_it(spec: str, told: str) -> None:
    with pytest.raises(ValueError, match="allowed is") as caught:
        read_spec(spec, seed=1)
    message = str(caught.value)
    assert told in message
    assert message.startswith(repr(spec))
    assert "\n" not in message


def test_a_fifth_of_the_endpoint_models_pages_are_searches() -> None:
    pages = list(islice(read_spec("endpoint:10/1", seed=1).pages, 10_000))
    assert [page.number for page in pages[:3]] == [1, 2, 3]
    assert sum(page.kind == "search" for page in pages) == pytest.approx(2000, abs=120)


def test_the_same_seed_makes_the_same_site() -> None:
    one, same, other = (read_spec("endpoint:10/1", seed=seed) for seed in (1, 1, 2))
    first = list(islice(one.pages, 50))
    assert first == list(islice(same.pages, 50))
    assert first != list(islice(other.pages, 50))


def test_the_help_names_every_model_flag_and_modifier() -> None:
    text = describe()
    for model in MODELS:
        assert all(word in text for word in (model.usage, model.meaning, *model.flags))
    assert all(usage in text for usage, _ in MODIFIERS)
