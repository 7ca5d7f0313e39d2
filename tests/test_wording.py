"""No decision below the command line depends on the wording of our own messages: errors have codes and facts.

Where a text is only laid out (shortened, or not repeated), the line says so in a comment that begins with `layout:`.
What libraries and servers report has often no other value than its text, so texts of other exceptions may be read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import deltacli

ROOT = Path(deltacli.__file__).parent
BELOW_THE_COMMAND_LINE = sorted(
    path.name for path in ROOT.iterdir() if path.is_dir() and path.name not in ("cli", "core", "__pycache__")
)
"""The packages to check: `core` defines the errors and their texts, and the command line writes them."""
TEXTS = {"hint", "message"}
CUTTING = {"endswith", "find", "index", "partition", "removeprefix", "removesuffix", "rpartition", "startswith"}
PATTERNS = {"findall", "fullmatch", "match", "search"}
LAYOUT = "# layout: "


def decisions(text: str) -> Iterator[int]:
    """Yield the lines where a message is searched, cut, or compared with a sentence, unless they are layout."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call | ast.Compare) and depends_on_wording(node):
            written = lines[node.lineno - 1]
            if LAYOUT not in written:
                yield node.lineno


def depends_on_wording(node: ast.Call | ast.Compare) -> bool:
    """Return True if a call or a comparison looks into a message."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name, value=text)) if name in CUTTING:
            return is_message(text)
        case ast.Call(func=ast.Attribute(attr=name), args=[*_, text]) if name in PATTERNS:
            return is_message(text)
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[text]):
            return is_message(text)
        case ast.Compare(left=text, ops=[ast.Eq() | ast.NotEq()], comparators=[ast.Constant(value=str(words))]):
            return " " in words and is_message(text)
    return False


def is_message(node: ast.expr) -> bool:
    """Return True if an expression is the message or the hint of an error, in any case of its letters."""
    match node:
        case ast.Attribute(attr=name):
            return name in TEXTS
        case ast.Call(func=ast.Attribute(attr="lower" | "casefold", value=text)):
            return is_message(text)
    return False


@pytest.mark.halved
def test_no_decision_depends_on_the_wording_of_a_message() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for package in BELOW_THE_COMMAND_LINE
        for path in sorted((ROOT / package).rglob("*.py"))
        for line in decisions(path.read_text("utf-8"))
    ]

    assert [] == found


@pytest.mark.parametrize(
    "line",
    [
        'fault.message.startswith("the log")',
        're.search(r"--version (.*)", error.hint)',
        '"missing" in fault.message.lower()',
        'refusal.message == "no source was named"',
    ],
)
def test_a_decision_by_wording_is_seen_unless_it_is_layout(line: str) -> None:
    body = f"def chosen():\n    return {line}"

    assert [2] == [*decisions(body)]
    assert [] == [*decisions(f"{body}  # layout: the name is not repeated")]
