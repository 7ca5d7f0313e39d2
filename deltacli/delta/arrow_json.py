"""Arrow columns as JSON text, a column at a time: for listing millions of files, and for statistics that a checkpoint
holds as structs.

Null fields of a struct are left out, as writers of the log do. Strings are escaped as RFC 8259 asks; text that is not
ASCII stays as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from deltacli import arrow_compute as pc

if TYPE_CHECKING:
    import pyarrow

_SEPARATOR = "\x7f"
"""The one ASCII character that is neither printed nor escaped in JSON."""


def json_column(column: pyarrow.Array) -> pyarrow.Array:
    """Return each value as JSON text: any array in, string array out, null where the value is null."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_struct(kind):
        return _json_struct(column)
    if pa.types.is_map(kind):
        return _json_map(column)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _join_items(json_column(column.flatten()), column, "[", "]", null_item="null")
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _quoted(_escaped(pc.cast(column, pa.string())))
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return pc.cast(column, pa.string())
    if pa.types.is_floating(kind):
        return _json_floats(column)
    if pa.types.is_timestamp(kind):
        text = pc.replace_substring(pc.cast(column, pa.string()), " ", "T")
        is_int96 = kind.unit == "ns" and kind.tz is None  # INT96 holds instants, but says so nowhere
        return _quoted(pc.binary_join_element_wise(text, "Z", "") if is_int96 else text)
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.string())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array(
            [None if value is None else orjson.dumps(value.decode("latin-1")).decode() for value in column.to_pylist()],
            pa.string(),
        )
    return _quoted(pc.cast(column, pa.string()))  # dates and times


def json_lines(batch: pyarrow.RecordBatch, head: str, end: str) -> pyarrow.Array:
    """Return each row as `head`, its non-null fields as `,"name":value`, and `end`: record batch in, string array out.

    `head` opens the object and holds at least one field: `{"type":"add"`.
    """

    parts = _field_parts([(field.name, column) for field, column in zip(batch.schema, batch.columns, strict=True)])
    return pc.binary_join_element_wise(*_with_literals([head, *parts, end], len(batch)), "")


def _json_struct(column: pyarrow.StructArray) -> pyarrow.Array:
    """`{"a":1,"c":2}`: each field brings its own leading comma, so that absent ones leave no trace."""
    import pyarrow as pa

    names = [column.type.field(index).name for index in range(column.type.num_fields)]
    parts = _field_parts(list(zip(names, column.flatten(), strict=True)))
    body = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*_with_literals(parts, len(column)), ""), 1)
    text = pc.binary_join_element_wise("{", body, "}", "")
    return text if column.null_count == 0 else pc.if_else(pc.is_valid(column), text, pa.scalar(None, pa.string()))


def _field_parts(fields: list[tuple[str, pyarrow.Array]]) -> list[str | pyarrow.Array]:
    """The pieces of an object's fields in order: literals and columns; a column with nulls carries its own name."""
    import pyarrow as pa

    parts: list[str | pyarrow.Array] = []
    for name, column in fields:
        if column.null_count == len(column):
            continue
        lead = f",{orjson.dumps(name).decode()}:"
        is_text = pa.types.is_string(column.type)
        text = _escaped(column) if is_text else json_column(column)
        quote = '"' if is_text else ""
        if text.null_count == 0:
            parts += [lead + quote, text, quote]
        else:
            parts.append(pc.coalesce(pc.binary_join_element_wise(lead + quote, text, quote, ""), pa.scalar("")))
    return parts


def _with_literals(parts: list[str | pyarrow.Array], rows: int) -> list[str | pyarrow.Array]:
    """Merge literals that follow each other; at least one part is a column, so that there are `rows` results."""
    import pyarrow as pa

    merged: list[str | pyarrow.Array] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        elif not isinstance(part, str) or part:
            merged.append(part)
    if all(isinstance(part, str) for part in merged):
        merged.append(pa.repeat("", rows))
    return merged


def _json_map(column: pyarrow.MapArray) -> pyarrow.Array:
    """`{"k":"v"}`; a null value is written, because it means something (a null partition value)."""
    import pyarrow as pa

    if len(column) == 0:
        return pa.array([], pa.string())
    offsets = column.offsets
    first, last = offsets[0].as_py(), offsets[len(column)].as_py()
    keys = json_column(column.keys.slice(first, last - first))
    values = pc.coalesce(json_column(column.items.slice(first, last - first)), pa.scalar("null"))
    entries = pc.binary_join_element_wise(keys, values, ":")
    relative = pc.subtract(offsets, pa.scalar(first, offsets.type))
    text = pc.binary_join_element_wise("{", pc.binary_join(pa.ListArray.from_arrays(relative, entries), ","), "}", "")
    return text if column.null_count == 0 else pc.if_else(pc.is_valid(column), text, pa.scalar(None, pa.string()))


def _join_items(
    items: pyarrow.Array, column: pyarrow.ListArray, start: str, end: str, *, null_item: str
) -> pyarrow.Array:
    import pyarrow as pa

    lengths = pc.cast(pc.fill_null(pc.list_value_length(column), 0), pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cast(pc.cumulative_sum(lengths), pa.int32())])
    filled = pc.coalesce(items, pa.scalar(null_item))
    text = pc.binary_join_element_wise(start, pc.binary_join(pa.ListArray.from_arrays(offsets, filled), ","), end, "")
    return text if column.null_count == 0 else pc.if_else(pc.is_valid(column), text, pa.scalar(None, pa.string()))


def _json_floats(column: pyarrow.Array) -> pyarrow.Array:
    """NaN and the infinities as strings, the way statistics spell them."""
    import pyarrow as pa

    text = pc.cast(column, pa.string())
    finite = pc.is_finite(column)
    if pc.all(pc.fill_null(finite, True)).as_py():
        return text
    infinite = pc.if_else(pc.greater(column, 0), '"Infinity"', '"-Infinity"')
    return pc.if_else(finite, text, pc.if_else(pc.is_nan(column), '"NaN"', infinite))


def _quoted(text: pyarrow.Array) -> pyarrow.Array:

    return pc.binary_join_element_wise('"', text, '"', "")


def _escaped(text: pyarrow.Array) -> pyarrow.Array:
    """Escape quotes, backslashes and control characters; a column without any is handed back as it is.

    The column is escaped as one string, which orjson does at the speed of memory, with a separator that JSON leaves as
    it is between the values: half the time of replacing value by value in Arrow.
    """
    import pyarrow as pa

    raw = _characters(text)
    if '"' not in raw and len(orjson.dumps(raw)) == len(raw.encode()) + 2:
        return text
    if _SEPARATOR in raw:
        return pa.array(
            [None if value is None else orjson.dumps(value).decode()[1:-1] for value in text.to_pylist()], pa.string()
        )
    whole = pa.ListArray.from_arrays(pa.array([0, len(text)], pa.int32()), pc.fill_null(text, ""))
    joined = pc.binary_join(whole, _SEPARATOR)
    escaped = orjson.dumps(_characters(joined))
    ends = pa.array([1, len(escaped) - 1], pa.int32()).buffers()[1]
    one = pa.StringArray.from_buffers(1, ends, pa.py_buffer(escaped))
    values = pc.split_pattern(one, _SEPARATOR).flatten()
    return values if text.null_count == 0 else pc.if_else(pc.is_valid(text), values, pa.scalar(None, pa.string()))


def _characters(text: pyarrow.Array) -> str:
    """The values of a string column end to end."""
    data = text.buffers()[2]
    if data is None or len(text) == 0:
        return ""
    ends = memoryview(text.buffers()[1]).cast("i")
    first, last = ends[text.offset], ends[text.offset + len(text)]
    return str(memoryview(data)[first:last], "utf-8")
