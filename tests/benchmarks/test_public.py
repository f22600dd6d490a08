"""What is claimed of the law is measured by what anybody may import."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import scrapy_adaptive
from scrapy_adaptive import models, simulate

PUBLIC = {
    "scrapy_adaptive": scrapy_adaptive.__all__,
    "scrapy_adaptive.models": models.__all__,
    "scrapy_adaptive.simulate": simulate.__all__,
}

OF_THE_LAW = (
    "drawn_servers",
    "handing_over",
    "known_limits",
    "random_servers",
    "simulation",
    "worst_seed",
)
"""Those that put something else in the place of a part of the law, or of the governor, cannot."""

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize("name", OF_THE_LAW)
def test_a_benchmark_of_the_law_imports_nothing_private(name: str) -> None:
    tree = ast.parse((BENCHMARKS / f"{name}.py").read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scrapy_adaptive"):
            assert {alias.name for alias in node.names} <= {*PUBLIC.get(node.module or "", ())}
        elif isinstance(node, ast.Import):
            assert not any(alias.name.startswith("scrapy_adaptive") for alias in node.names)
