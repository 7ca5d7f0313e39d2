"""One row as text, for a finding."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from deltacli.typing import ArrowScalar

if TYPE_CHECKING:
    import pyarrow

_LONGEST = 80


def row_text(row: pyarrow.RecordBatch) -> str:
    """Return the columns of a batch of one row: `id=-1, name="x", day=null`; long values are shortened."""
    return ", ".join(f"{name}={_cut(_text(row.column(name)[0]))}" for name in row.schema.names)


def _text(scalar: ArrowScalar) -> str:
    try:
        value = scalar.as_py()
    except (ValueError, OverflowError):  # a time beyond Python's calendar
        return str(scalar)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    return json.dumps(value, default=str, ensure_ascii=False) if isinstance(value, str | list | dict) else str(value)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
