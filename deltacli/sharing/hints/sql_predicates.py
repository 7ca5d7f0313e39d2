"""SQL hints as conditions. Spec: SQL Expressions for Filtering.

The language is that of `read --where` without what SQL dialects read differently: text in double quotes, escapes,
comments, casts that round, LIKE, and inexact numbers next to exact columns. Such a hint is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from deltacli.delta.predicate import parse_predicate
from deltacli.delta.predicate.conditions import Condition
from deltacli.delta.schema.allowed_widenings import canonical_name
from deltacli.delta.schema.kinds import WHOLE_BITS, Kind
from deltacli.delta.schema.types import StructType
from deltacli.delta.sql.nodes import Form, Node
from deltacli.delta.sql.parser import parse_expression
from deltacli.errors import UsageError
from deltacli.sharing.hints.client_dialects import Reading, for_any_client, named_columns

LONGEST = 16 << 10
"Characters of one hint."

_LITERAL = re.compile(r"'[^'\\]*'")
_STAND_IN = "\x00"
_DIALECTS = re.compile(rf"""["'\\;]|--|/\*|!(?!=)|{_STAND_IN}\s*{_STAND_IN}""")
"""What dialects read differently outside of plain literals: names or strings in double quotes, escapes, comments, the
strength of `!`, and two strings in a row.
"""
_INEXACT = re.compile(r"\b(?:float|double|real)\b|(?<![\w.])(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d|[df]\b)", re.IGNORECASE)
_EXACT_CASTS = frozenset({*WHOLE_BITS, "date", "timestamp", "timestamp_ltz", "timestamp_ntz", "string", "boolean"})
_ZONED_WORDS = ("timestamp", "timestamp_ltz")


def read_sql(text: str, schema: StructType) -> Reading:
    """Return one SQL hint as a condition on the rows of a table."""
    if _STAND_IN in text or len(text) > LONGEST:
        return Reading(None, (f"it is longer than {LONGEST >> 10} KiB, or has a NUL character",))
    bare = _LITERAL.sub(_STAND_IN, text)
    if match := _DIALECTS.search(bare):
        return Reading(None, (f"SQL dialects read {_described(match[0])} differently",))
    try:
        condition = parse_predicate(text, schema).condition
    except UsageError as fault:
        return Reading(None, (fault.message.partition(": ")[2] or fault.message,))
    parse = parse_expression.__wrapped__  # without the cache: strangers would fill it with large trees
    nodes = list(_nodes(parse(text).root))
    if problem := _ambiguity(nodes, condition, bare):
        return Reading(None, (problem,))
    zoneless = {Kind.TIMESTAMP, Kind.NTZ, *((Kind.DATE,) if any(map(_is_zoned, nodes)) else ())}
    return Reading(for_any_client(condition, zoneless))


def _described(found: str) -> str:
    return {_STAND_IN: "two strings in a row", "'": "a quote in a string", '"': "double quotes"}.get(found[0], found)


def _nodes(root: Node | None) -> Iterator[Node]:
    """Return all nodes of a tree."""
    waiting = [root] if root else []
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.parts


def _ambiguity(nodes: list[Node], condition: Condition, bare: str) -> str | None:
    """Return why clients may understand a hint in different ways, None if they do not."""
    kinds = {column.kind for column in named_columns(condition)}
    if not kinds:
        return "it names no column"
    if any(node.form is Form.CONDITION and node.name == "like" for node in nodes):
        return "LIKE is not supported in a hint"
    if not all(_is_exact_cast(node) for node in nodes if node.form is Form.CAST):
        return "casts round differently"
    if kinds & {Kind.WHOLE, Kind.DECIMAL} and _INEXACT.search(bare):
        return "an inexact number is next to a column of exact numbers"
    if Kind.DECIMAL in kinds and _STAND_IN in bare:
        return "a string is next to a column of decimals"
    return None


def _is_exact_cast(node: Node) -> bool:
    """Return True for a cast of a text, or of an integer to an integer type, that has one meaning."""
    name, inner = canonical_name(node.name), node.parts[0]
    if node.word == "try_cast" or name not in _EXACT_CASTS:
        return False
    return inner.form is Form.TEXT or (inner.form is Form.NUMBER and inner.name.isdigit() and name in WHOLE_BITS)


def _is_zoned(node: Node) -> bool:
    return node.form in (Form.CAST, Form.VALUE) and node.name in _ZONED_WORDS
