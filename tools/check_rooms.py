"""`python -m tools.check_rooms`: what import-linter cannot say about the modules of deltacli.

- no circle of imports, those inside functions and for type checkers included;
- options and commands of the command line in no text below it: `parameter` and `command` of `deltacli.core.errors`
  spell them, and not before a text is made;
- private modules of pyarrow in `deltacli.arrow` only; `sys.modules` only where optional packages are left out, and in
  the stand-in for orjson.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from deltacli.cli.command_table import COMMANDS

ROOT = Path(__file__).parent.parent
ARROW = "deltacli.arrow"
_OF_IMPORTS = ("deltacli.core.optional_packages", "deltacli.engine.spark.orjson_stand_in")
"""What may change `sys.modules`."""
_SPELLED = ("changing", "delta", "engine", "fleet", "operations", "paimon", "sharing", "storage", "work")
"""Layers whose texts do not know the command line."""
_OPTION = re.compile(r"(?<![\w-])--(?!py-files)[a-z]")
"""An option; `--py-files` is one of spark-submit."""
_OTHER_PROGRAM = re.compile(r"^(az|aws|eval|export| --profile) ?")
"""Beginnings of what is to be done with other programs, whose options are their own."""
_PRIVATE = ("pyarrow._", "pyarrow.lib")


def main() -> int:
    """Print what is wrong; the exit code is 1 where anything is."""
    trees = parse_package(ROOT, "deltacli")
    faults = [*circles(imports_of(trees)), *outside_arrow(trees), *spelled_out(trees)]
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


def outside_arrow(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """Yield the modules outside `deltacli.arrow` that use pyarrow's internals, and those that change `sys.modules`."""
    for module, tree in trees.items():
        if module != ARROW and not module.startswith(f"{ARROW}."):
            yield from (f"{module} imports {name}" for name in imported_names(tree) if name.startswith(_PRIVATE))
        if module not in _OF_IMPORTS and any(_is_sys_modules(node) for node in ast.walk(tree)):
            yield f"{module} uses sys.modules"


def spelled_out(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """Yield where texts of lower layers name options or commands, and where they would be spelled during an import."""
    command = re.compile(rf"\bdeltacli ({'|'.join({name.split()[0] for name in COMMANDS})})(?![\w-])")
    for module, tree in trees.items():
        if not module.startswith(tuple(f"deltacli.{layer}" for layer in _SPELLED)):
            continue
        yield from (f"{module}:{line} is spelled during the import" for line in _spelled_on_import(tree))
        for line, text in _texts(tree):
            if not _OTHER_PROGRAM.match(text) and (found := _OPTION.search(text) or command.search(text)):
                yield f"{module}:{line} names {found[0]} of the command line: use deltacli.core.errors"


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the literals of a module; of an f-string its fixed parts, joined. Docstrings are excepted, and `spelled`,
    by which a field of a request names an option that cannot be derived.
    """
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    skipped |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "spelled"}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part for part in node.values if isinstance(part, ast.Constant)]
            skipped.update(map(id, parts))
            yield node.lineno, "\0".join(str(part.value) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


def _spelled_on_import(tree: ast.Module) -> Iterator[int]:
    """Yield the lines that call `parameter` or `command` outside of functions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting.extend(node.args.defaults)
            continue
        if isinstance(node, ast.Call) and ast.unparse(node.func).removeprefix("errors.") in ("command", "parameter"):
            yield node.lineno
        waiting.extend(ast.iter_child_nodes(node))


def _is_sys_modules(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="sys"), attr="modules"):
            return True
    return False


if __name__ == "__main__":
    sys.exit(main())
