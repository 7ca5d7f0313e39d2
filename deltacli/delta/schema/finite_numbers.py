"""NaN and Infinity in a schemaString, which JSON does not have.

Spark writes and reads them in the metadata of columns. Nearly every other engine refuses the whole commit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from deltacli.core.errors import Refused, command
from deltacli.core.typing import Json
from deltacli.delta.log.actions import find_constants


class ConstantInSchema(NamedTuple):
    """A value that is not JSON: the column that has it, the keys that lead to it from there, and NaN or Infinity."""

    column: str
    keys: tuple[str, ...]
    constant: str


class _Constant(str):
    """Stands for NaN or Infinity in a parsed schema."""

    __slots__ = ()


def find_constant_in_schema(schema_string: object) -> ConstantInSchema | None:
    """Return where a schemaString has NaN or Infinity, None where it has neither or cannot be read."""
    if not isinstance(schema_string, str) or not find_constants(schema_string):
        return None

    to_visit: list[tuple[Json, str, tuple[str, ...]]] = [(json.loads(schema_string, parse_constant=_Constant), "", ())]
    while to_visit:
        value, column, keys = to_visit.pop()
        if isinstance(value, _Constant):
            return ConstantInSchema(column, keys, value)
        if isinstance(value, Mapping):
            name = value.get("name")
            if isinstance(name, str) and "type" in value:
                column = f"{column}.{name}" if column else name
                keys = ()
            to_visit += [(item, column, (*keys, key)) for key, item in value.items()]
        elif isinstance(value, Sequence) and not isinstance(value, str):
            to_visit += [(item, column, keys) for item in value]
    return None


def require_finite_numbers(metadata: Mapping[str, object] | None) -> None:
    """Raise Refused for NaN or Infinity in the schema of a metaData action that is to be committed.

    `validate` calls such a commit an error, whoever made it. The value is not left out silently, because the
    application that wrote it may need it.
    """
    found = None if metadata is None else find_constant_in_schema(metadata.get("schemaString"))
    if found is None:
        return
    raise Refused(
        f"column {found.column} has {found.constant} as {'.'.join(found.keys)} in the schema, and nearly every engine "
        "but Spark refuses to read a commit with it",
        code="commit.number-not-finite",
        facts={"to change the table": "first replace the schema with the engine that wrote it, without this value"},
        hint=command("validate", select=["commit.number-not-finite"]),
    )
