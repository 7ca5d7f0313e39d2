"""A Parquet file of any writer: its columns as a table would have them, its rows, and statistics from its footer."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.arrow.parquet import ParquetReader
from deltacli.core.documents import dumps
from deltacli.core.errors import DataUnreadable
from deltacli.delta.footers.parse import FooterReader
from deltacli.delta.log.state import Metadata, TableConfiguration
from deltacli.delta.protocol.features import Protocol
from deltacli.delta.schema.to_arrow import table_schema
from deltacli.delta.schema.types import parse_schema
from deltacli.delta.stats.schema import indexed_columns
from deltacli.work.facts.footer_files import read_footer
from deltacli.work.rows.data_files import DataFile, data_faults
from deltacli.work.statistics.file_statistics import WantedStatistics
from deltacli.work.statistics.from_footers import compute_footer_statistics

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

    from deltacli.core.typing import Json
    from deltacli.storage import ReadStorage

_LEAST = Protocol(1, 2)
_SPARK_ROWS = b"org.apache.spark.sql.parquet.row.metadata"
_FIELD_ID = b"PARQUET:field_id"
_VARIANT = re.compile(r"(\S+) \(Variant")
PARTS = (("elementType", "element"), ("keyType", "key"), ("valueType", "value"))
_MICROSECONDS = {"milliseconds": 1_000, "seconds": 1_000_000, "days": 86_400_000_000}
_ROWS_AT_ONCE = 65_536


class StoredPartition(NamedTuple):
    """A column of a file that its directories name, too, and that is not read.

    Attributes:
        column: Its name in the file.
        type_name: Its type in Arrow.
        low, high: Its bounds as texts of partition values; None if the footer does not tell.
        nulls: The number of its nulls; None if the footer does not tell.
    """

    column: str
    type_name: str
    low: str | None
    high: str | None
    nulls: int | None


class ForeignFile(NamedTuple):
    """`schema` is the text of a schemaString; empty where the file cannot be read, and `fault` says why. `mark` is the
    writer, if it is one of Delta tables, `variant` the name of a column of this type, which is a struct otherwise.
    """

    schema: str = ""
    rows: int = 0
    stats: str = ""
    fault: str = ""
    mark: str = ""
    variant: str = ""
    ids: tuple[tuple[str, int | None], ...] = ()
    """The ids of fields, by their place, as `a.element.b`."""
    beyond: tuple[tuple[str, str], ...] = ()
    """Columns, by their place, with a time whose microseconds do not fit into 64 bits, and that time."""
    stored_partitions: tuple[StoredPartition, ...] = ()


def read_foreign_file(
    storage: ReadStorage,
    path: str,
    size_bytes: int,
    apart: Collection[str] = (),
    wanted: Mapping[str, str] | None = None,
) -> ForeignFile:
    """Return what the footer of a file says, but for the columns `apart`. `wanted` are the places to be read and their
    types in the table, None if all are. Raises FileMissing and StorageFailed.
    """
    if not size_bytes:
        return ForeignFile(fault="it has 0 bytes")
    try:
        with storage.open(path) as source, data_faults(DataFile(path, size_bytes)):
            reader = ParquetReader(source, int96_unit="s")
            stored = reader.schema_arrow
            metadata = reader.metadata
            leaves = [metadata.schema.column(leaf).physical_type for leaf in range(metadata.num_columns)]
            described = _describe_schema(stored, leaves)
            places = [
                column_path
                for column in described["fields"]
                for column_path, _ in list_leaf_types(column["name"], column["type"])
            ]
            described["fields"] = [column for column in described["fields"] if column["name"] not in apart]
            text = dumps(described).decode()
            footer, _ = read_footer(source, FooterReader())
            file_statistics = (
                ()
                if footer is None
                else compute_footer_statistics(_make_wanted_statistics(text), footer.schema, [footer], [None])
            )
            statistics = next(
                (statistics_of_file.text for statistics_of_file in file_statistics if statistics_of_file.text),
                dumps({"numRecords": metadata.num_rows}).decode(),
            )
            return ForeignFile(
                text,
                metadata.num_rows,
                statistics,
                mark=_find_delta_writer(metadata),
                variant=_find_variant(metadata),
                ids=tuple(_list_field_ids(stored)),
                beyond=tuple(_find_times_beyond(reader, places, frozenset(apart), wanted)),
                stored_partitions=tuple(_stored_partitions(stored, metadata, apart)),
            )
    except DataUnreadable as fault:
        return ForeignFile(fault=fault.facts.get("reason", fault.message))


def _stored_partitions(
    stored: pyarrow.Schema, metadata: pyarrow.parquet.FileMetaData, apart: Collection[str]
) -> Iterator[StoredPartition]:
    """Yield the columns `apart` that a file has, with what its footer tells of their values."""
    leaves = {metadata.schema.column(leaf).path: leaf for leaf in range(metadata.num_columns)}
    for field in stored:
        if field.name not in apart:
            continue
        low = high = nulls = None
        if field.name in leaves:
            groups = (metadata.row_group(group).column(leaves[field.name]) for group in range(metadata.num_row_groups))
            chunk_statistics = [group.statistics for group in groups]
            if chunk_statistics and all(
                statistics is not None and statistics.has_null_count for statistics in chunk_statistics
            ):
                nulls = sum(statistics.null_count for statistics in chunk_statistics)
            bounds = [
                statistics for statistics in chunk_statistics if statistics is not None and statistics.has_min_max
            ]
            if bounds and len(bounds) == len(chunk_statistics):
                with suppress(ValueError, OverflowError, NotImplementedError):  # a date that Python does not have
                    low = _format_partition_value(min(statistics.min for statistics in bounds))
                    high = _format_partition_value(max(statistics.max for statistics in bounds))
        yield StoredPartition(field.name, str(field.type), low, high, nulls)


def _format_partition_value(value: object) -> str | None:
    """Return a bound in a footer as a partition value is written; None for types whose texts may differ."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | date) and not isinstance(value, datetime):
        return str(value)
    return None


def _find_delta_writer(metadata: pyarrow.parquet.FileMetaData) -> str:
    """Return the writer of a file, if it writes Delta tables and says so; '' if it may be any."""
    writer = metadata.created_by or ""
    if writer.startswith("delta-rs"):
        return str(writer)
    for key, value in (metadata.metadata or {}).items():
        if key.startswith((b"io.delta", b"delta.")) or (key == _SPARK_ROWS and b'"delta.' in value):
            return f"a writer of Delta tables ({key.decode(errors='replace')})"
    return ""


def _find_variant(metadata: pyarrow.parquet.FileMetaData) -> str:
    """Return a column that is a variant, '' without one: Arrow says only that it is a struct."""
    leaves = (metadata.schema.column(leaf).path for leaf in range(metadata.num_columns))
    groups = [path.removesuffix(".metadata") for path in leaves if path.endswith(".metadata")]
    if not groups:
        return ""
    if match := _VARIANT.search(str(metadata.schema)):
        return match[1]
    spark = (metadata.metadata or {}).get(_SPARK_ROWS, b"")
    return groups[0] if b'"variant"' in spark else ""


def _list_field_ids(
    fields: Any, prefix: str = ""
) -> Iterator[tuple[str, int | None]]:  # Any: a schema, or a type of structs
    for field in fields:
        field_id = (field.metadata or {}).get(_FIELD_ID)
        yield f"{prefix}{field.name}", None if field_id is None else int(field_id)
        yield from _list_field_ids_of_type(field.type, f"{prefix}{field.name}")


def _list_field_ids_of_type(kind: Any, path: str) -> Iterator[tuple[str, int | None]]:
    if pa.types.is_struct(kind):
        yield from _list_field_ids(kind, f"{path}.")
    elif pa.types.is_map(kind):
        yield from _list_field_ids_of_type(kind.key_type, f"{path}.key")
        yield from _list_field_ids_of_type(kind.item_type, f"{path}.value")
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _list_field_ids_of_type(kind.value_type, f"{path}.element")


@lru_cache(maxsize=64)
def _make_wanted_statistics(schema: str) -> WantedStatistics:
    metadata = Metadata("", None, None, "parquet", {}, schema, (), {}, None)
    config = TableConfiguration(_LEAST, metadata, parse_schema(schema))
    return WantedStatistics(config, tuple(indexed_columns(config)))


def _find_times_beyond(
    reader: ParquetReader, places: Sequence[str], apart: frozenset[str], wanted: Mapping[str, str] | None
) -> Iterator[tuple[str, str]]:
    """Yield `ForeignFile.beyond`. Values are read only where the bounds of a row group do not show that they fit, of
    which INT96 has none. Those are read in seconds, of which the last one is taken not to fit.
    """
    footer = reader.metadata
    for leaf, (column_path, names) in enumerate(
        zip(places, reader.paths, strict=False)
    ):  # other types may have more leaves
        stored = str(footer.schema.column(leaf).logical_type)
        is_int96 = footer.schema.column(leaf).physical_type == "INT96"
        if is_int96:
            unit = "seconds"
        else:
            unit = "days" if stored == "Date" else "milliseconds"
        is_stored = unit != "milliseconds" or (stored.startswith("Timestamp") and unit in stored)
        if wanted is not None:
            name = wanted.get(column_path, "")
        else:
            name = "date" if unit == "days" else "timestamp"
        if names[0] in apart or not is_stored or not name.startswith("timestamp"):
            continue
        # Seconds are whole: the last one may have microseconds that do not fit.
        most = ((1 << 63) - 1) // _MICROSECONDS[unit] - is_int96
        for group in range(footer.num_row_groups):
            bounds = footer.row_group(group).column(leaf).statistics
            if (
                not is_int96
                and bounds is not None
                and bounds.has_min_max
                and -most <= bounds.min_raw <= bounds.max_raw <= most
            ):
                continue
            extremes = {0}
            for batch in reader.read_leaves(_ROWS_AT_ONCE, group, [leaf]):
                values = batch.column(0)
                while values.type.num_fields:
                    inside = values.flatten()
                    values = inside[0] if isinstance(inside, list) else inside
                numbers = values.view(pa.int32() if unit == "days" else pa.int64())
                extremes.update(number or 0 for number in pc.min_max(numbers).as_py().values())
            if abs(number := max(extremes, key=abs)) > most:
                yield column_path, f"a time {number:,} {unit} from 1970"
                break


def list_leaf_types(path: str, kind: Any) -> Iterator[tuple[str, str]]:  # Any: a type as in a schemaString
    """Yield the types without parts within a type, by place."""
    if isinstance(kind, str):
        yield path, kind
    elif kind["type"] == "struct":
        for part in kind["fields"]:
            yield from list_leaf_types(f"{path}.{part['name']}", part["type"])
    else:
        for key, name in PARTS:
            if key in kind:
                yield from list_leaf_types(f"{path}.{name}", kind[key])


def _describe_schema(stored: pyarrow.Schema, leaves: list[str]) -> Any:
    """Return the columns as a schemaString. INT96 are instants; nanoseconds keep their name in Arrow."""
    described: Any = table_schema(stored)
    physical = iter(leaves)
    for described_field, field in zip(described["fields"], stored, strict=True):
        described_field["type"] = _correct_type(field.type, described_field["type"], physical)
    return described


def _correct_type(kind: Any, described: Any, physical: Iterator[str]) -> Json:
    """Return the type with what only the file knows: which leaves are INT96."""
    if pa.types.is_struct(kind):
        for part, field in zip(described["fields"], kind, strict=True):
            part["type"] = _correct_type(field.type, part["type"], physical)
    elif pa.types.is_map(kind):
        described["keyType"] = _correct_type(kind.key_type, described["keyType"], physical)
        described["valueType"] = _correct_type(kind.item_type, described["valueType"], physical)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        described["elementType"] = _correct_type(kind.value_type, described["elementType"], physical)
    else:
        stored = next(physical)
        if pa.types.is_timestamp(kind):
            if stored == "INT96":
                return "timestamp"
            return str(kind) if kind.unit == "ns" else described
    corrected: Json = described
    return corrected
