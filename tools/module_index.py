"""The page that lists every module of deltacli with the first line of its docstring."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

_HEAD = """# Modules

Each module of deltacli, with the first line of its docstring.
[Architecture](architecture.md) says how they go together.
"""


def render_module_index(package: Path) -> str:
    """Return the page: a section for each folder, in the order of their names, with its modules."""
    return "\n".join([_HEAD, *(line for folder in _folders(package) for line in _section(folder, package))])


def _folders(package: Path) -> Iterator[Path]:
    yield package
    yield from (path.parent for path in sorted(package.rglob("__init__.py")) if path.parent != package)


def _section(folder: Path, package: Path) -> Iterator[str]:
    yield f"## `{folder.relative_to(package.parent)}/`\n"
    if said := _first_line(folder / "__init__.py"):
        yield f"{said}\n"
    modules = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
    yield from (f"- `{path.name}`: {_first_line(path)}" for path in modules)
    if modules:
        yield ""


def _first_line(module: Path) -> str:
    said = ast.get_docstring(ast.parse(module.read_text("utf-8"))) or ""
    return " ".join(said.partition("\n\n")[0].split())
