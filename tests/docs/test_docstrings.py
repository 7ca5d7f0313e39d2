"""What docstrings name in backticks exists: modules, classes, functions, parameters, fields."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

import deltacli

ROOT = Path(deltacli.__file__).parent
OF_OTHERS = frozenset(
    (
        *("RowGroupMetaData.column", "availableNow", "concurrent.futures.CancelledError", "delta.columnMapping.mode"),
        *("functools.cached_property", "inspect.getattr_static", "delta.universalFormat.enabledFormats"),
        *("clusterId", "nohup", "protocol_rfcs", "pushFilters", "refreshByPath", "spark.read.format"),
        *("spark.readStream.format", "spark.sql.ansi.enabled", "spark.sql.python.filterPushdown.enabled"),
        *("straße", "strasse", "verison", "xs.element"),
    )
)
"""Names of Python, Spark, pyarrow, the protocol and the shell, and examples of values."""


FOLDERS = frozenset(path.name for path in ROOT.iterdir() if path.is_dir())

_NAMING = (
    ast.Expr,
    ast.FunctionDef,
    ast.ClassDef,
    ast.Name,
    ast.Attribute,
    ast.arg,
    ast.keyword,
    ast.alias,
    ast.Constant,
)


class Module(NamedTuple):
    """What the tests need of a module; its tree is too large to keep."""

    docstrings: list[str]
    """The texts that document something: strings that stand alone."""
    words: set[str]
    """Every word of its code: names, and those in its other strings."""
    defined: set[str]


@cache
def modules() -> dict[str, Module]:
    """Return the modules by their dotted names below `deltacli`."""
    found = {}
    for path in ROOT.rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").rstrip(".")
        found[name] = read(ast.parse(path.read_bytes()))
    return found


def read(tree: ast.Module) -> Module:
    found = Module([], set(), set())
    strings: list[str] = []
    for node in ast.walk(tree):
        if not isinstance(node, _NAMING):
            continue
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                found.docstrings.append(text)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name):
                found.words.add(name)
                found.defined.add(name)
            case ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                found.words.add(name)
            case ast.alias(name=name):
                found.words.update(name.split("."))
            case ast.Constant(value=str(text)):
                strings.append(text)
    documented = set(found.docstrings)
    for text in strings:
        if text not in documented:
            found.words.update(re.findall(r"[^\W\d]\w*", text))
    return found


@cache
def words() -> set[str]:
    """Return every word that code has."""
    return {part for name in modules() for part in name.split(".")}.union(*(one.words for one in modules().values()))


@cache
def places() -> set[str]:
    """Return the modules, and what is defined in them, by every ending of their dotted names."""
    found = set()
    for name, module in modules().items():
        parts = ["deltacli", *name.split(".")]
        endings = {".".join(parts[number:]) for number in range(len(parts))}
        found |= endings | {f"{ending}.{name}" for ending in endings for name in module.defined}
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
    # Single words, such as `difflib` or a misspelled example, are rarely names of ours.
    looks_like_name = re.search(r"[a-z]_[a-z]|^[A-Z][a-z]+[A-Z]", plain) and not plain.startswith(("pyarrow", "typer"))
    if not looks_like_name and "(" not in name and plain.partition(".")[0] not in FOLDERS:
        return True
    first, *rest = plain.split(".")
    is_of_ours = len(rest) > 1 and (ROOT / first).is_dir()
    return plain in places() if is_of_ours else {first, *rest} <= words()


@pytest.mark.halved
def test_names_in_docstrings_exist_and_none_was_damaged_by_wrapping() -> None:
    gone = ["operations.commit.commit", "delta.rules.file_views.py", "rules/file_views.py", "unheard_of", "UnheardOf()"]
    here = ["changing.commit.commit", "Snapshot.scan", "widen-type"]
    missing = {
        f"{place}: {name}"
        for place, module in modules().items()
        for text in module.docstrings
        for name in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)
        if not exists(name)
    }

    damaged = {place for place, module in modules().items() for text in module.docstrings if '" "' in text}

    assert here == [name for name in [*gone, *here] if exists(name)]
    assert (set(), set()) == (missing, damaged)
