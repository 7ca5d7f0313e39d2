"""Which columns of a new file are worth a dictionary: a sample of the rows decides.

A dictionary of values that hardly repeat is given up after its first megabyte, which takes twice the time of plain
encoding and makes the file larger.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from deltacli.arrow import compute as pc
from deltacli.typing import ArrowArray

if TYPE_CHECKING:
    import pyarrow

_ROWS = 16_384
_MOST_DISTINCT = 0.9
"""Of a sample in which more values are different, a row group has hundreds of thousands of different ones."""


def columns_with_dictionary(sample: pyarrow.RecordBatch) -> list[str]:
    """Return the paths of leaves, as Arrow's writer takes them. Those within lists, maps and structs are all there."""
    return [
        path
        for field, values in zip(sample.schema, sample.columns, strict=True)
        for path in _leaves(field.name, field.type)
        if path != field.name or _repeats(values.slice(0, _ROWS))
    ]


def _repeats(values: ArrowArray) -> bool:
    return bool(len(pc.unique(values)) <= max(len(values) - values.null_count, 1) * _MOST_DISTINCT)


def _leaves(path: str, kind: Any) -> Iterator[str]:
    """Yield the paths of the leaves of a column, as Parquet names their groups."""
    import pyarrow as pa

    if pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    else:
        yield path
