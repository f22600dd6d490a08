"""A constant that is scaled is another one in all modules of the law."""

from __future__ import annotations

import pytest

from benchmarks.sweep import CONSTANTS, Constant, importers
from scrapy_adaptive.core.ceiling.hold import ceiling, epoch, trial


@pytest.mark.parametrize("constant", CONSTANTS, ids=lambda constant: constant.title)
def test_a_constant_is_there_and_can_be_another_one(constant: Constant) -> None:
    value = getattr(constant.home, constant.name)
    assert constant.scaled(1.0) == value
    assert constant.scaled(2.0) != value


def test_all_who_import_it_are_found() -> None:
    assert set(importers(epoch, "MINUTE")) == {ceiling, trial}


def test_it_is_another_one_for_all_of_them() -> None:
    (constant,) = (each for each in CONSTANTS if each.title == "epoch.MINUTE")
    usual = epoch.MINUTE
    constant.set(7.0)
    try:
        found = [module.MINUTE for module in (epoch, ceiling, trial)]
    finally:
        constant.set(usual)
    assert found == [7.0] * 3
    assert getattr(constant.home, constant.name) == usual
