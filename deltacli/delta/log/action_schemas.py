"""The fields of actions as columns of Arrow.

A module of its own, because commands that read commits line by line, as `history` does, need no pyarrow.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from deltacli.core.typing import ArrowType
from deltacli.delta.log.actions import FIELDS, PARTS, FieldType


@lru_cache(maxsize=16)
def schema_of_action(action: str) -> pa.Schema:
    """Return the fields of an action, such as `add`, as columns."""
    return pa.schema([(name, _arrow_type(field.type)) for name, field in FIELDS[action].items()])


def _arrow_type(field_type: FieldType) -> ArrowType:
    text = pa.string()
    match field_type:
        case FieldType.TEXT:
            return text
        case FieldType.LONG:
            return pa.int64()
        case FieldType.INT:
            return pa.int32()
        case FieldType.BOOLEAN:
            return pa.bool_()
        case FieldType.TEXTS:
            return pa.list_(text)
        case FieldType.TEXT_MAP | FieldType.VALUES | FieldType.OBJECT:
            return pa.map_(text, text)
        case FieldType.FORMAT | FieldType.VECTOR:
            return pa.struct([(name, _arrow_type(part.type)) for name, part in PARTS[field_type].items()])
