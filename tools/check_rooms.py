"""`python -m tools.check_rooms`: what import-linter cannot say about the modules of deltacli.

- no circle of imports, those inside functions and for type checkers included;
- no folder with more than 20 modules;
- private modules of pyarrow and `pyarrow.compute` in `deltacli.arrow` only; `sys.modules` also in the stand-in for
  orjson.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST_MODULES = 20
ARROW = "deltacli.arrow"
_STAND_IN = "deltacli.engine.spark.orjson_stand_in"
_PRIVATE = ("pyarrow._", "pyarrow.lib", "pyarrow.compute")


def main() -> int:
    """Print what is wrong; the exit code is 1 where anything is."""
    trees = parse_package(ROOT, "deltacli")
    faults = [*circles(imports_of(trees)), *crowded(trees), *outside_arrow(trees)]
    for fault in faults:
        sys.stderr.write(f"{fault}\n")
    return 1 if faults else 0


def parse_package(root: Path, package: str) -> dict[str, ast.Module]:
    """Return the syntax tree of every module of a package, by dotted name; packages are named without `__init__`."""
    found = {}
    for path in sorted((root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text("utf-8"))
    return found


def imports_of(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Return which modules of the package each module imports, wherever the import stands."""
    edges = {}
    for module, tree in trees.items():
        names = (name if name in trees else name.rpartition(".")[0] for name in imported_names(tree))
        edges[module] = {name for name in names if name in trees and name != module}
    return edges


def imported_names(tree: ast.Module) -> Iterator[str]:
    """Yield the dotted name of everything that is imported; `from a import b` is `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def circles(edges: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield one circle of imports, where there is any."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as circle:
        yield f"circle of imports: {' <- '.join(circle.args[1])}"


def crowded(modules: Iterable[str]) -> Iterator[str]:
    """Yield the folders that hold more modules than a reader can survey; `__init__` does not count."""
    names = set(modules)
    folders: dict[str, int] = {}
    for name in names:
        folder = name.rpartition(".")[0]
        is_package = any(other.startswith(f"{name}.") for other in names)
        folders[folder] = folders.get(folder, 0) + (not is_package)
    yield from (f"{folder} holds {count} modules" for folder, count in folders.items() if count > MOST_MODULES)


def outside_arrow(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """Yield the modules outside `deltacli.arrow` that use pyarrow's internals or change `sys.modules`."""
    for module, tree in trees.items():
        if module == ARROW or module.startswith(f"{ARROW}."):
            continue
        yield from (f"{module} imports {name}" for name in imported_names(tree) if name.startswith(_PRIVATE))
        if module != _STAND_IN and any(_is_sys_modules(node) for node in ast.walk(tree)):
            yield f"{module} uses sys.modules"


def _is_sys_modules(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="sys"), attr="modules"):
            return True
    return False


if __name__ == "__main__":
    sys.exit(main())
