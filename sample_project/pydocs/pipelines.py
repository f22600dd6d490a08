"""What becomes of an item before it is stored.

Laws
----
* An item that passes has a module name, single spaces in its texts, and counts ≥ 0.
* An item that cannot be brought there is dropped, with the reason in the log.
"""

from __future__ import annotations

from typing import Any

from itemadapter import ItemAdapter
from scrapy.exceptions import DropItem

TEXTS = ("module", "summary")
COUNTS = ("class_count", "function_count")


class CleanPage:
    """Cleans and checks any item that has the fields of a ModulePage."""

    def process_item(self, item: Any) -> Any:
        adapter = ItemAdapter(item)
        for name in TEXTS:
            adapter[name] = " ".join(str(adapter.get(name) or "").split())
        if not adapter["module"]:
            raise DropItem(f"no module name on {adapter.get('url')}")
        for name in COUNTS:
            adapter[name] = self._count(adapter, name)
        adapter["links"] = sorted({*(adapter.get("links") or ())} - {adapter["module"]})
        return item

    def _count(self, adapter: ItemAdapter, name: str) -> int:
        value = adapter.get(name)
        try:
            count = int(value or 0)
        except (TypeError, ValueError, OverflowError):
            count = -1
        if count < 0:
            raise DropItem(f"{name} of {adapter['module']} must be an integer ≥ 0, not {value!r}")
        return count
