"""What the pipeline lets pass, and how it leaves it."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy.exceptions import DropItem

from pydocs.items import ModulePage
from pydocs.pipelines import CleanPage


def page(**fields: Any) -> ModulePage:
    return ModulePage(**{"url": "http://127.0.0.1/os.html", "module": "os", **fields})


def test_white_space_becomes_single_spaces() -> None:
    """pydoc's no-break spaces and line ends included."""
    item = page(module=" os\n", summary="OS\xa0routines\n  for\tNT  or Posix. ")
    assert CleanPage().process_item(item) == page(summary="OS routines for NT or Posix.")


@pytest.mark.parametrize("module", ["", " \xa0\n", None])
def test_an_item_without_a_module_name_is_dropped_and_says_so(module: str | None) -> None:
    """The reason names the page."""
    with pytest.raises(DropItem, match=r"^no module name on http://127\.0\.0\.1/os\.html$"):
        CleanPage().process_item(page(module=module))


@pytest.mark.parametrize("value", [-1, "-1", "many", [2], float("inf")])
def test_an_item_with_an_impossible_count_is_dropped_and_says_so(value: Any) -> None:
    """The reason names field, module and value."""
    with pytest.raises(DropItem, match=r"^class_count of os must be an integer ≥ 0, not "):
        CleanPage().process_item(page(class_count=value))


def test_counts_become_integers() -> None:
    """Text that says a number, and nothing at all."""
    item = CleanPage().process_item(page(class_count="3", function_count=None))
    assert (item.class_count, item.function_count) == (3, 0)


def test_links_are_sorted_once_each_and_never_to_the_page_itself() -> None:
    """A page that links to itself says nothing new."""
    item = CleanPage().process_item(page(links=["sys", "os", "abc", "sys"]))
    assert item.links == ["abc", "sys"]


def test_a_plain_dict_is_cleaned_as_well() -> None:
    """itemadapter makes no difference between kinds of items."""
    item = {"url": "u", "module": " os ", "summary": None, "class_count": "1", "links": None}
    assert CleanPage().process_item(item) == {
        "url": "u",
        "module": "os",
        "summary": "",
        "class_count": 1,
        "function_count": 0,
        "links": [],
    }
