"""What the benchmarks of the simulation share: a table that is printed as it grows, and kept."""

from __future__ import annotations

import sys
from pathlib import Path


class Table:
    """Lines of text under the command that makes them.

    Args:
        name: of the benchmark: its file, without the suffix.
    """

    def __init__(self, name: str) -> None:
        self.command = f"python benchmarks/{name}.py {' '.join(sys.argv[1:])}".rstrip()
        self._name = name
        self._lines = [self.command, ""]

    def add(self, *lines: str) -> None:
        """Print lines, and remember them."""
        for line in lines:
            print(line.rstrip(), flush=True)
            self._lines.append(line.rstrip())

    def keep(self, folder: Path | None) -> None:
        """Write the table into a folder, if there is one."""
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            text = "\n".join(self._lines) + "\n"
            (folder / f"{self._name}.txt").write_text(text, encoding="utf-8")
