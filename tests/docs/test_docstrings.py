"""Docstrings name things that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.cli.support import ROOT

FOREIGN = {
    *(
        "futures",
        "nohup",
        "jobVersion",
        "protocol_rfcs",
        "RowGroupMetaData",
        "pushFilters",
        "optimize",
        "refreshByPath",
    ),
    *("availableNow", "sql", "ansi", "enabled", "filterPushdown", "verison", "strasse", "straße", "xs"),
}
"""Names of other programs and of the protocol, and examples of names."""

MODULE, NAME = re.compile(r"[\w/]+\.py"), re.compile(r"[A-Za-z_][\w.]*(\(\))?")


def _docstrings(tree: list[ast.AST]) -> Iterator[tuple[ast.Constant, str]]:
    """Yield every text that stands as a statement of its own."""
    for node in tree:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value, node.value.value


def _names(tree: list[ast.AST]) -> Iterator[str]:
    """Yield the words of everything but docstrings: names, and those in texts, such as fields of documents."""
    described = {id(constant) for constant, _ in _docstrings(tree)}
    for node in tree:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.alias(name=name):
                yield from name.split(".")
            case ast.Constant(value=str(text)) if id(node) not in described:
                yield from re.findall(r"\w+", text)
            case ast.Constant(value=bytes(text)):
                yield from re.findall(r"\w+", text.decode("latin-1"))


def _unknown(quoted: str, names: set[str], modules: list[str]) -> bool:
    if MODULE.fullmatch(quoted):
        return not any(module.endswith(f"/{quoted}") for module in modules)
    return bool(NAME.fullmatch(quoted)) and not set(re.findall(r"\w+", quoted)) <= names


def test_what_is_quoted_in_a_docstring_exists_and_no_docstring_is_damaged() -> None:
    paths = sorted((ROOT / "deltacli").rglob("*.py"))
    trees = {path: list(ast.walk(ast.parse(path.read_bytes()))) for path in paths}
    names = FOREIGN.union(*map(_names, trees.values()), *(Path(path).with_suffix("").parts for path in paths))
    modules = [path.as_posix() for path in paths]

    found = [
        f"{path.relative_to(ROOT)}:{constant.lineno}: {quoted}"
        for path, tree in trees.items()
        for constant, text in _docstrings(tree)
        for quoted in re.findall(r"`([^`\n]+)`", text)
        if _unknown(quoted, names, modules)
    ]
    damaged = [
        f"{path}:{constant.lineno}"
        for path, tree in trees.items()
        for constant, text in _docstrings(tree)
        if '"\n' in text
    ]

    assert [] == found
    assert [] == damaged
