"""What the spider brings home."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class ModulePage:
    """The documentation of one module."""

    url: str
    module: str
    summary: str = ""
    class_count: int = 0
    function_count: int = 0
    links: list[str] = field(default_factory=list)
    """Modules that this one's page links to."""
