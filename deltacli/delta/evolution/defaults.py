"""What may be the default of a column: SQL that is a value of its type. Spec: Default Columns."""

from __future__ import annotations

from deltacli.delta.evolution.sql_types import sql_text
from deltacli.delta.schema.types import DataType, PrimitiveType
from deltacli.delta.schema.widening_guards import parses
from deltacli.delta.sql.nodes import Form, Node
from deltacli.delta.sql.parser import parse_expression
from deltacli.hints import command

_QUOTES = "quote texts twice: \"'unknown'\""
_NUMBERS = ("byte", "short", "integer", "long", "float", "double", "decimal")


def default_fault(name: str, data_type: DataType, text: str) -> tuple[str, str] | None:
    """Return why a text cannot be the default of a column of this type, with a way out or '', else None."""
    said = f"{text} cannot be the default of {name}"
    expression = parse_expression(text)
    if expression.fault is not None or expression.root is None:
        return f"{said}: {expression.fault or 'it is not understood'}", _QUOTES
    if expression.columns:
        column = ".".join(expression.columns[0])
        way_out = command("alter", "default", name, repr(column)) or _QUOTES
        return f"{said}: it refers to a column, {column}; a text has quotes of its own", way_out
    reason = _misfit(expression.root, data_type)
    return None if reason is None else (f"{said}, which is of type {sql_text(data_type)}: {reason}", "")


def _misfit(node: Node, data_type: DataType) -> str | None:
    """Return why a literal certainly is no value of a type; None where it may be one."""
    sign = ""
    if node.form is Form.VALUE and node.name in ("-", "+") and len(node.parts) == 1:
        sign, node = node.name, node.parts[0]
    if node.form in (Form.NULL, Form.CALL, Form.CAST, Form.OTHER):
        return None
    name = data_type.name if isinstance(data_type, PrimitiveType) else "struct"
    is_number = name.startswith(_NUMBERS)
    if node.form is Form.TEXT:
        return None if name in ("string", "variant") else "it is a text"
    if node.form is Form.NUMBER:
        if name == "string":
            return None
        if not is_number:
            return "it is a number"
        digits = node.name.rstrip("LlSsYyDdFf").removesuffix("B")
        return None if parses(name, sign + digits) else "it does not fit"
    if node.form is Form.CONDITION:
        return None if name in ("boolean", "string") else "it is true or false"
    if node.form is Form.VALUE and node.name in ("date", "timestamp", "timestamp_ntz") and is_number:
        return f"it is a {node.name}"
    return None
