"""Python's own HTML documentation, rendered to a folder of pages that link to each other.

Laws
----
* Importing a module runs it, so rendering happens in a process of its own,
  ``python -m docsite.render OUT``; what the imports print is kept off the terminal, and
  the environment's variables are kept off the pages (pydoc prints ``os.environ``).
* A module that cannot be imported or documented is left out and counted, never a crash.
* A link inside the folder leads to a page of the folder; ``file:`` links are dropped,
  links to other sites are kept.
* The folder is used again while the interpreter, the installed packages and the choice
  of modules stay the same.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.util
import json
import os
import pkgutil
import pydoc
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from importlib.metadata import distributions
from pathlib import Path

from docsite.arguments import OneLineParser, count
from docsite.pages import Manifest, RenderError, ensure_replaceable, publish, read_manifest

LAYOUT = 1
"""Raised when the pages of one environment begin to look different."""

PACKAGES = (
    "aiohttp",
    "itemadapter",
    "itemloaders",
    "parsel",
    "protego",
    "queuelib",
    "scrapy",
    "twisted",
    "w3lib",
)
"""Third-party packages whose modules follow those of the standard library."""

LEFT_OUT = (
    "_*",  # private, and every package's __main__
    "antigravity",  # opens a browser
    "conftest",
    "idlelib",  # opens windows
    "lib2to3",  # writes grammar caches; gone in Python 3.13
    "pytest_plugin",
    "reactor",  # twisted.internet.reactor installs one
    "test*",
    "this",  # prints
    "turtledemo",  # opens windows
)
"""Patterns of name parts: a module with such a part does things when it is imported."""

_FILE_LINK = re.compile(r'<a href="file:[^"]*">.*?</a>', re.DOTALL)
_PAGE_LINK = re.compile(r'<a href="([\w.]+)\.html(?:#[^"]*)?"[^>]*>(.*?)</a>', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which modules are wanted: `modules` where any are named, else the standard library
    and then `packages`, at most `limit` pages (None: all)."""

    limit: int | None = None
    packages: tuple[str, ...] = PACKAGES
    modules: tuple[str, ...] = ()

    def key(self) -> str:
        """Equal for equal interpreters, installed packages and choices."""
        installed = sorted({f"{dist.name} {dist.version}" for dist in distributions()})
        facts = [LAYOUT, sys.version, sys.prefix, installed, asdict(self)]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def names(self) -> Iterator[str]:
        """The modules to try, in order, each once. Imports none of them."""
        if self.modules:
            yield from dict.fromkeys(self.modules)
            return
        standard = sorted(filter(_is_wanted, sys.stdlib_module_names))
        yield from standard
        for package in (*standard, *self.packages):
            spec = importlib.util.find_spec(package)
            if spec is None:
                continue
            if package not in standard:
                yield package
            yield from submodules(package, spec.submodule_search_locations or ())


def submodules(package: str, folders: Iterable[str]) -> Iterator[str]:
    """The modules below a package, found on disk without importing them."""
    folders = list(folders)
    for module in sorted(pkgutil.iter_modules(folders), key=lambda found: found.name):
        if _is_wanted(module.name):
            name = f"{package}.{module.name}"
            yield name
            if module.ispkg:
                yield from submodules(name, [str(Path(top, module.name)) for top in folders])


def _is_wanted(part: str) -> bool:
    return not any(fnmatchcase(part, pattern) for pattern in LEFT_OUT)


def document(name: str) -> str | None:
    """The page of one module without its ``file:`` links, or None where there is none."""
    try:
        module = importlib.import_module(name)
        page = pydoc.html.page(pydoc.describe(module), pydoc.html.document(module, name))
    except KeyboardInterrupt:
        raise
    except BaseException:  # a module may raise SystemExit, or worse
        return None
    return _FILE_LINK.sub("", page)


def unlink_strangers(page: str, known: Set[str]) -> str:
    """Links to pages that are not in `known` become plain text.

    >>> unlink_strangers('<a href="os.html#walk">os</a> and <a href="nt.html">nt</a>', {"os"})
    '<a href="os.html#walk">os</a> and nt'
    """
    return _PAGE_LINK.sub(lambda link: link[0] if link[1] in known else link[2], page)


def render(out: Path, choice: Choice) -> Manifest:
    """Fills `out` with the chosen pages, unless it holds them already.

    Raises RenderError where `out` holds something else than pages, or none can be made.
    """
    key = choice.key()
    present = read_manifest(out)
    if present is not None and present.key == key:
        return present
    ensure_replaceable(out)
    pages: dict[str, str] = {}
    skipped_count = 0
    for name in choice.names():
        if len(pages) == choice.limit:
            break
        page = document(name)
        if page is None:
            skipped_count += 1
        else:
            pages[name] = page
    if not pages:
        raise RenderError(f"none of {skipped_count} modules could be documented")
    manifest = Manifest(key, tuple(pages), skipped_count)
    linked = {name: unlink_strangers(page, pages.keys()) for name, page in pages.items()}
    publish(out, linked, manifest)
    return manifest


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = OneLineParser(prog="docsite.render", description="Render Python's documentation.")
    parser.add_argument("out", type=Path, help="folder to fill")
    parser.add_argument("--limit", type=count, help="most pages to render (default: all)")
    parser.add_argument(
        "--package", action="append", help="third-party package to add (default: Scrapy's world)"
    )
    parser.add_argument("--module", action="append", default=[], help="render only these modules")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Renders with the terminal and the environment out of the imports' reach."""
    arguments = parse(argv)
    packages = PACKAGES if arguments.package is None else tuple(arguments.package)
    choice = Choice(arguments.limit, packages, tuple(arguments.module))
    with os.fdopen(os.dup(1), "w") as answers, os.fdopen(os.dup(2), "w") as complaints:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        warnings.simplefilter("ignore")
        os.environ.clear()
        try:
            manifest = render(arguments.out, choice)
        except (RenderError, OSError) as error:
            complaints.write(f"docsite.render: {error}\n")
            return 1
        except KeyboardInterrupt:
            return 130
        answers.write(
            f"{len(manifest.modules)} pages in {arguments.out}, "
            f"{manifest.skipped_count} modules skipped\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
