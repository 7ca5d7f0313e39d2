"""A table is changed in one way: stores that can write are handed out by `changing`, or used by an operation."""

from __future__ import annotations

import ast
from pathlib import Path

import deltacli
from tools.check_rooms import parse_package

ROOT = Path(deltacli.__file__).parent
WRITERS = ("deltacli.changing", "deltacli.operations", "deltacli.table.handle")
"""The packages that may ask a table for a store that can write, and the module that has it."""


def test_only_changes_and_operations_ask_a_table_for_a_store_that_can_write() -> None:
    trees = parse_package(ROOT.parent, "deltacli")

    askers = {name for name, tree in trees.items() for node in ast.walk(tree) if is_request_for_writing(node)}

    assert any(name.startswith("deltacli.changing") for name in askers)
    assert [] == sorted(name for name in askers if not name.startswith(WRITERS))


def is_request_for_writing(node: ast.AST) -> bool:
    """Return True for a call of `TableHandle.writable`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "writable"
