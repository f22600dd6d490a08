"""The examples in the sample project's docstrings are true."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "name",
    [
        "docsite.agents",
        "docsite.load_control",
        "docsite.load_rules",
        "docsite.pages",
        "docsite.render",
    ],
)
def test_the_examples_hold(name: str) -> None:
    """Every module named here has some."""
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
