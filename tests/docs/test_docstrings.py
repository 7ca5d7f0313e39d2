"""What docstrings name in backticks exists: modules, classes, functions, parameters, fields."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import deltacli

ROOT = Path(deltacli.__file__).parent
OF_OTHERS = frozenset(
    (
        *("RowGroupMetaData.column", "availableNow", "concurrent.futures.CancelledError", "delta.columnMapping.mode"),
        *("jobVersion", "nohup", "protocol_rfcs", "pushFilters", "refreshByPath", "spark.read.format"),
        *("spark.readStream.format", "spark.sql.ansi.enabled", "spark.sql.python.filterPushdown.enabled"),
        *("straße", "strasse", "verison", "xs.element"),
    )
)
"""Names of Python, Spark, pyarrow, the protocol and the shell, and examples of values."""


@cache
def modules() -> dict[str, ast.Module]:
    """Return the modules by their dotted names below `deltacli`."""
    found = {}
    for path in ROOT.rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").rstrip(".")
        found[name] = ast.parse(path.read_bytes())
    return found


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Yield the texts that document something: strings that stand alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


@cache
def words() -> set[str]:
    """Return every word that code has: names, and those in its other strings."""
    found: set[str] = {part for name in modules() for part in name.split(".")}
    for tree in modules().values():
        documented = set(docstrings(tree))
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Attribute(attr=name):
                    found.add(name)
                case ast.Name(id=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                    found.add(name)
                case ast.alias(name=name):
                    found.update(name.split("."))
                case ast.Constant(value=str(text)) if text not in documented:
                    found.update(re.findall(r"[^\W\d]\w*", text))
    return found


@cache
def places() -> set[str]:
    """Return the modules, and what is defined in them, by every ending of their dotted names."""
    found = set()
    for module, tree in modules().items():
        defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        defined |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        parts = ["deltacli", *module.split(".")]
        endings = {".".join(parts[number:]) for number in range(len(parts))}
        found |= endings | {f"{ending}.{name}" for ending in endings for name in defined}
    return found


@cache
def files() -> frozenset[str]:
    """Return the paths of modules by every ending."""
    paths = [*ROOT.rglob("*.py"), *ROOT.parent.glob("*.py"), *(ROOT.parent / "tests").rglob("*.py")]
    parts = [path.relative_to(ROOT.parent).parts for path in paths]
    return frozenset("/".join(one[number:]) for one in parts for number in range(len(one)))


def exists(name: str) -> bool:
    """Return True if a name in backticks is that of something; other texts there are not judged."""
    plain = re.sub(r"\(…?\)$", "", name)
    if plain in OF_OTHERS:
        return True
    if re.fullmatch(r"[\w/]+\.py", plain):
        return plain in files()
    if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", plain):
        return True
    first, *rest = plain.split(".")
    is_of_ours = len(rest) > 1 and (ROOT / first).is_dir()
    return plain in places() if is_of_ours else {first, *rest} <= words()


def test_names_in_docstrings_exist() -> None:
    missing = {
        f"{module}: {name}"
        for module, tree in modules().items()
        for text in docstrings(tree)
        for name in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)
        if not exists(name)
    }

    assert set() == missing


def test_no_docstring_was_damaged_by_wrapping() -> None:
    damaged = {module for module, tree in modules().items() for text in docstrings(tree) if '" "' in text}

    assert set() == damaged


def test_names_that_are_gone_are_found() -> None:
    gone = ["operations.commit.commit", "delta.rules.file_views.py", "rules/file_views.py", "unheard_of", "UnheardOf()"]

    assert [] == [name for name in gone if exists(name)]
    assert exists("operations.change.commit.commit")
    assert exists("Snapshot.scan")
    assert exists("widen-type")
