"""Rules about the column names in adds, which are physical names under column mapping."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.delta.rules.framework.base import Area, Finding
from deltacli.delta.rules.framework.view_stats import stats_of
from deltacli.delta.rules.framework.views import FilesView
from deltacli.delta.rules.mapping.fields import physical_name_of
from deltacli.delta.schema.types import StructField, StructType

if TYPE_CHECKING:
    import pyarrow

AREA = Area("mapping")

PARTITION_KEY_LOGICAL = AREA.error(
    "mapping.partition-key-logical",
    "The partition values of a file have logical names although column mapping is on.",
    spec="Writer Requirements for Column Mapping",
    broken="readers search for the value under the physical name and do not find it",
    repair="commit the add again with physical names in partitionValues and dataChange=false",
    example='"partitionValues":{"country":"de"} for a column with the physical name "col-3"',
)
STATS_KEY_LOGICAL = AREA.warning(
    "mapping.stats-key-logical",
    "The statistics of a file have logical names although column mapping is on.",
    spec="Writer Requirements for Column Mapping",
    broken="the statistics are not found, so no query can skip the file",
    repair="commit the add again with physical names in stats and dataChange=false",
    example='"stats":"{\\"minValues\\":{\\"price\\":1}}" for a column with the physical name "col-2"',
)


@AREA.check(FilesView, PARTITION_KEY_LOGICAL)
def partition_values_have_physical_names(view: FilesView) -> Iterator[Finding]:
    """Search for the logical names of partition columns in the keys of partition values."""
    physical = view.config.partition_columns
    renamed = {
        column.name: name
        for name, column in physical.items()
        if column is not None and column.name != name and column.name not in physical
    }
    if view.config.mapping_mode == "none" or not renamed:
        return
    values = view.adds.column("partitionValues")
    for row, key in _rows_with_keys(values, list(renamed)):
        message = f"the partition value of {key} has its logical name instead of the physical one"
        yield PARTITION_KEY_LOGICAL.at(view.place(row), message, seen=key, expected=renamed[key])


def _rows_with_keys(maps: pyarrow.Array, wanted: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Return the rows of a map column that have one of some keys, with the key."""
    import pyarrow as pa

    text = pa.string()
    chosen = pa.array(wanted, text)
    if not pc.any(pc.is_in(maps.keys, value_set=chosen)).as_py():
        return
    entries = pc.cast(maps, pa.list_(pa.struct([("key", text), ("value", text)])))
    keys = pc.struct_field(entries.flatten(), ["key"])
    mask = pc.is_in(keys, value_set=chosen)
    rows = pc.filter(pc.list_parent_indices(entries), mask)
    yield from zip(rows.to_pylist(), pc.filter(keys, mask).to_pylist(), strict=True)


@AREA.check(FilesView, STATS_KEY_LOGICAL)
def statistics_have_physical_names(view: FilesView) -> Iterator[Finding]:
    """Search for logical names in statistics columns that are not in the schema. Each name is reported once for files
    that share a configuration.
    """
    if view.config.mapping_mode == "none" or view.config.schema is None:
        return
    stats = stats_of(view)
    for path, unknown in stats.unknown.items():
        if stats.schema.is_logical(path):
            logical, physical = _names_of(path, view.config.schema)
            where = f" in {unknown.files:,} files" if unknown.files > 1 else ""
            message = f"the statistics of {logical} have its logical name instead of the physical one{where}"
            yield STATS_KEY_LOGICAL.at(view.place(unknown.row), message, seen=".".join(path), expected=physical)


def _names_of(path: Sequence[str], schema: StructType) -> tuple[str, str | None]:
    """Return the logical path of a column that ends with its logical name, and its physical name."""
    names: list[str] = []
    fields: Sequence[StructField] = schema.fields
    for part in path:
        for field in fields:
            if part == (physical_name_of(field) or field.name):
                names.append(field.name)
                fields = field.data_type.fields if isinstance(field.data_type, StructType) else ()
                break
        else:
            owner = next((field for field in fields if field.name == part), None)
            return ".".join((*names, part)), physical_name_of(owner) if owner else None
    return ".".join(names), None
