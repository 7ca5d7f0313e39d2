"""Docstrings name things that exist."""

from __future__ import annotations

import ast
import re

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


def _docstrings(source: str) -> list[ast.Constant]:
    """Return every text that stands as a statement of its own."""
    texts = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr))
    return [text for text in texts if isinstance(text, ast.Constant) and isinstance(text.value, str)]


def _names(source: str, docstrings: list[ast.Constant]) -> set[str]:
    """Return the words of everything but docstrings: names, and those in texts, such as fields of documents."""
    described = {number for text in docstrings for number in range(text.lineno - 1, text.end_lineno or text.lineno)}
    return set(re.findall(r"\w+", "\n".join(line for at, line in enumerate(source.split("\n")) if at not in described)))


def _unknown(quoted: str, names: set[str], modules: list[str]) -> bool:
    if MODULE.fullmatch(quoted):
        return not any(module.endswith(f"/{quoted}") for module in modules)
    return bool(NAME.fullmatch(quoted)) and not set(re.findall(r"\w+", quoted)) <= names


def test_what_is_quoted_in_a_docstring_exists_and_no_docstring_is_damaged() -> None:
    paths = sorted((ROOT / "deltacli").rglob("*.py"))
    sources = {path: path.read_text(encoding="utf-8") for path in paths}
    docstrings = {path: _docstrings(source) for path, source in sources.items()}
    names = FOREIGN.union(*(_names(source, docstrings[path]) for path, source in sources.items()))
    names.update(part for path in paths for part in path.with_suffix("").parts)
    modules = [path.as_posix() for path in paths]
    texts = [(f"{path}:{text.lineno}", str(text.value)) for path in paths for text in docstrings[path]]

    found = [
        (place, quoted)
        for place, text in texts
        for quoted in re.findall(r"`([^`\n]+)`", text)
        if _unknown(quoted, names, modules)
    ]
    damaged = [place for place, text in texts if re.search(r'"\n\s*"', text)]

    assert [] == found
    assert [] == damaged
