"""Rules about the columns of a checkpoint: their types, and the parsed columns of partition values and statistics."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple

from deltacli.core.errors import LazyText, command
from deltacli.core.typing import ArrowType
from deltacli.delta.log.actions import FIELDS, PARTS, FieldType
from deltacli.delta.log.state import STATS_AS_JSON, STATS_AS_STRUCT, TableConfiguration
from deltacli.delta.schema.types import PrimitiveType, StructField, StructType
from deltacli.rules.checkpoints.contents import is_sidecar
from deltacli.rules.framework.base import Area, Finding
from deltacli.rules.framework.views import CheckpointView

AREA = Area("checkpoints", spec="Checkpoint Schema")


SCHEMA_TYPE = AREA.error(
    "checkpoint.schema-type",
    "A column of a checkpoint has a type that differs from the protocol.",
    broken="readers that request the right type fail or read nulls",
    repair="rewrite the checkpoint",
    example="add.size is int32 in 00000000000000000010.checkpoint.parquet",
)

ADD_COLUMN_MISSING = AREA.error(
    "checkpoint.add-column-missing",
    "The main file of a V2 checkpoint in Parquet has no column `add`, not even one that is null in every row.",
    spec="V2 Spec",
    broken="Delta for Spark cannot open the table (FIELD_NOT_FOUND), although the sidecars have all files",
    repair=LazyText("write the checkpoint again: {}", partial(command, "repair")),
    example="a main file with the columns txn, metaData, protocol, domainMetadata, checkpointMetadata and sidecar",
)

STATS_POLICY = AREA.info(
    "checkpoint.stats-policy",
    "A checkpoint has, or lacks, `stats` or `stats_parsed` contrary to the table's properties.",
    spec="Checkpoints",
    broken="nothing is read wrongly; engines that need the other form skip fewer files",
    repair="rewrite the checkpoint with a writer that follows the properties, or change the properties",
    example='"delta.checkpoint.writeStatsAsJson":"false" and a column add.stats in the checkpoint',
)

PARSED_PARTITION_MISSING = AREA.warning(
    "checkpoint.parsed-partition-missing",
    "The properties request parsed values and the table is partitioned, but the checkpoint has no "
    "`partitionValues_parsed`.",
    spec="Checkpoints",
    broken="engines that prune partitions by this column have to read the maps of all files",
    repair="rewrite the checkpoint with a writer that follows the property",
    example='"delta.checkpoint.writeStatsAsStruct":"true" and no add.partitionValues_parsed',
)

PARSED_NAMES = AREA.warning(
    "checkpoint.parsed-names",
    "A parsed column of a checkpoint has the logical name of a table column instead of its physical name.",
    broken="engines search for the physical name, do not find the column and skip no files",
    repair="rewrite the checkpoint",
    example="add.stats_parsed.minValues.id where the physical name is col-1f2e",
)

PARSED_TYPES_OLD = AREA.info(
    "checkpoint.parsed-types-old",
    "A parsed column of a checkpoint has a narrower type than the table column, which was widened later.",
    spec="Type Widening",
    broken="engines must widen the values on read, or ignore them",
    repair="no repair needed; the next checkpoint has the new type",
    example="add.stats_parsed.minValues.id is int32 and the column id is a long",
)


class _Known(NamedTuple):
    """A column of the checkpoint schema: a description of its type, and a test for Arrow types."""

    words: str
    fits: Callable[[ArrowType], bool]


class Parsed(NamedTuple):
    """A parsed column of a checkpoint, by its full path and its own name."""

    file: str
    path: str
    name: str
    arrow_type: Any  # Any: pyarrow has no types; None where the column counts nulls
    siblings: tuple[StructField, ...]
    "The table columns it may correspond to."


@AREA.check(CheckpointView, SCHEMA_TYPE)
def columns_have_their_types(view: CheckpointView) -> Iterator[Finding]:
    """Missing columns, all-null columns and unknown columns have no wrong type."""
    from pyarrow import types

    for file, schema in view.schemas.items():
        fields = {field.name: field.type for field in schema}
        for kind, columns in _known_columns().items():
            group = fields.get(kind)
            if group is None or types.is_null(group):
                continue
            if not types.is_struct(group):
                yield _wrong_type(view, file, kind, group, "a struct")
                continue
            inner = {field.name: field.type for field in group}
            for name, known in columns.items():
                yield from _judge_type(view, file, f"{kind}.{name}", inner, known)


@AREA.check(CheckpointView, ADD_COLUMN_MISSING)
def main_file_has_the_column_of_adds(view: CheckpointView) -> Iterator[Finding]:
    """Delta for Spark takes the columns of statistics from this column, wherever the adds are.

    Of the other columns of file actions, `remove` may be missing, and in a sidecar each of them.
    """
    main_file = view.schemas.get(view.path)
    if main_file is None or not view.is_v2 or "add" in main_file.names:
        return
    if "contentRoot" in main_file.names:
        return  # of an adaptive metadata tree, which has other files than sidecars
    message = f"the main file of the checkpoint of version {view.version} has no column add"
    yield ADD_COLUMN_MISSING.at(view.place(), message, seen=", ".join(main_file.names), expected="also add")


@AREA.check(CheckpointView, STATS_POLICY)
def statistics_follow_the_properties(view: CheckpointView) -> Iterator[Finding]:
    """Only an explicit property counts, because writers disagree about the default of `writeStatsAsStruct`."""
    columns = _add_columns(view)
    if not columns or not view.counts.get("add") or view.config.metadata is None:
        return
    as_json = _switch(view.config, STATS_AS_JSON)
    as_struct = _switch(view.config, STATS_AS_STRUCT)
    for name, key, asked in (("stats", STATS_AS_JSON, as_json), ("stats_parsed", STATS_AS_STRUCT, as_struct)):
        holders = [file for file, fields in columns.items() if name in fields]
        if asked is False and holders:
            message = f"the checkpoint of version {view.version} has the column add.{name} although {key} is false"
            yield STATS_POLICY.at(view.place(holders[0], key), message, seen=f"add.{name}", expected="no such column")
        elif (asked or (asked is None and key == STATS_AS_JSON)) and not holders and _has_statistics(view, columns):
            yield STATS_POLICY.at(
                view.place(next(iter(columns)), key),
                f"the checkpoint of version {view.version} lacks the column add.{name} although {key} is true"
                f"{'' if asked else ' by default'}",
                seen="no such column",
                expected=f"add.{name}",
            )


@AREA.check(CheckpointView, PARSED_PARTITION_MISSING)
def partitions_are_parsed_where_asked_for(view: CheckpointView) -> Iterator[Finding]:
    """Required if a table is partitioned and the property is true. Spec: Checkpoint Schema."""
    columns = _add_columns(view)
    metadata = view.config.metadata
    if not columns or metadata is None or not metadata.partition_columns or not view.counts.get("add"):
        return
    if _switch(view.config, STATS_AS_STRUCT) and not any(
        "partitionValues_parsed" in names for names in columns.values()
    ):
        yield PARSED_PARTITION_MISSING.at(
            view.place(next(iter(columns)), STATS_AS_STRUCT),
            f"the checkpoint of version {view.version} lacks add.partitionValues_parsed although "
            f"{STATS_AS_STRUCT} is true",
            seen="no such column",
            expected=f"parsed values of {', '.join(metadata.partition_columns)}",
        )


@AREA.check(CheckpointView, PARSED_NAMES)
def parsed_columns_have_physical_names(view: CheckpointView) -> Iterator[Finding]:
    """A name that equals the physical name of a sibling column is correct."""
    config = view.config
    if config.mapping_mode == "none":
        return
    for column in parsed_columns(view):
        if column.name in {config.physical_name(field) for field in column.siblings}:
            continue
        for field in column.siblings:
            if field.name == column.name:
                yield PARSED_NAMES.at(
                    view.place(column.file, column.path),
                    f"{column.path} in the checkpoint has the logical name of the column instead of its physical name",
                    seen=column.name,
                    expected=config.physical_name(field),
                )


@AREA.check(CheckpointView, PARSED_TYPES_OLD)
def parsed_columns_have_current_types(view: CheckpointView) -> Iterator[Finding]:
    """A type that can be widened to the column's type is an older type. Any other type is left to other rules."""
    for column in parsed_columns(view):
        for field in column.siblings:
            if view.config.physical_name(field) != column.name or not isinstance(field.data_type, PrimitiveType):
                continue
            if is_older(column.arrow_type, field.data_type.name):
                message = f"{column.path} in the checkpoint has a narrower type than the column {field.name}"
                place = view.place(column.file, column.path)
                yield PARSED_TYPES_OLD.at(place, message, seen=column.arrow_type, expected=field.data_type.name)


def parsed_columns(view: CheckpointView) -> Iterator[Parsed]:
    """Yield the columns of `partitionValues_parsed` and of the bounds and null counts of `stats_parsed`, with the table
    columns they may correspond to. Each name comes once, without a type if it only counts nulls.
    """
    if view.config.schema is None:
        return
    top = view.config.schema.fields
    for file, columns in _add_columns(view).items():
        seen: set[str] = set()
        partitions = columns.get("partitionValues_parsed")
        yield from _parsed_fields(view.config, file, "add.partitionValues_parsed", partitions, top, seen)
        parts = _inner_fields(columns.get("stats_parsed"))
        for name in ("minValues", "maxValues"):
            path = f"add.stats_parsed.{name}"
            yield from _parsed_fields(view.config, file, path, parts.get(name), top, seen)
        for parsed_field in _parsed_fields(
            view.config, file, "add.stats_parsed.nullCount", parts.get("nullCount"), top, seen
        ):
            yield parsed_field._replace(arrow_type=None)


def _parsed_fields(
    config: TableConfiguration,
    file: str,
    path: str,
    struct: ArrowType,
    siblings: tuple[StructField, ...],
    seen: set[str],
    below: str = "",
) -> Iterator[Parsed]:
    """The fields of a struct, each before those within it. `seen`: names below the root that were already yielded."""
    for name, arrow_type in _inner_fields(struct).items():
        key = f"{below}.{name}"
        if key not in seen:
            seen.add(key)
            yield Parsed(file, f"{path}.{name}", name, arrow_type, siblings)
        for field in siblings:
            if name in (config.physical_name(field), field.name) and isinstance(field.data_type, StructType):
                nested = field.data_type.fields
                yield from _parsed_fields(config, file, f"{path}.{name}", arrow_type, nested, seen, key)
                break


def is_older(arrow_type: ArrowType, name: str) -> bool:
    """Return True if an Arrow type is narrower than a type of a schema and may widen to it. Spec: Type Widening."""
    from pyarrow import types

    if arrow_type is None:
        return False
    integers = {"short": 16, "integer": 32, "long": 64, "double": 64}
    if types.is_signed_integer(arrow_type):
        if name == "double":
            return bool(arrow_type.bit_width <= 32)
        if (digits := _DECIMAL.fullmatch(name)) is not None:
            return bool(int(digits[1]) - int(digits[2]) >= (10 if arrow_type.bit_width <= 32 else 20))
        return bool(arrow_type.bit_width < integers.get(name, 0))
    if types.is_float32(arrow_type):
        return name == "double"
    if types.is_decimal(arrow_type) and (digits := _DECIMAL.fullmatch(name)) is not None:
        precision, scale = int(digits[1]), int(digits[2])
        more = scale - arrow_type.scale
        return bool((precision, scale) != (arrow_type.precision, arrow_type.scale)) and (
            0 <= more <= precision - arrow_type.precision
        )
    return bool(types.is_date(arrow_type)) and name == "timestamp_ntz"


_DECIMAL = re.compile(r"decimal\(\s*(\d{1,4})\s*,\s*(\d{1,4})\s*\)")


def _switch(config: TableConfiguration, key: str) -> bool | None:
    """Return a boolean property, or None if it is not set or is neither true nor false."""
    text = str(config.properties.get(key) or "").strip().lower()
    return {"true": True, "false": False}.get(text)


def _has_statistics(view: CheckpointView, columns: dict[str, dict[str, ArrowType]]) -> bool:
    """Return True if any live file has statistics, according to the other column or else to the commits."""
    if any("stats" in names or "stats_parsed" in names for names in columns.values()):
        return True
    if view.expected is None or view.expected.whole_adds is None:
        return False
    return any(adds.column("stats").null_count < adds.num_rows for adds in view.expected.whole_adds())


def _add_columns(view: CheckpointView) -> dict[str, dict[str, ArrowType]]:
    """Return Parquet file -> the fields of its `add`, for the files that may hold adds (the sidecars, if any)."""
    files = [file for file in view.schemas if is_sidecar(file)] if not view.inline_file_actions else list(view.schemas)
    columns = {}
    for file in files or view.schemas:
        schema = view.schemas[file]
        index = schema.get_field_index("add")
        if index >= 0 and (fields := _inner_fields(schema.field(index).type)):
            columns[file] = fields
    return columns


def _inner_fields(arrow_type: ArrowType) -> dict[str, ArrowType]:
    from pyarrow import types

    if arrow_type is None or not types.is_struct(arrow_type):
        return {}
    return {field.name: field.type for field in arrow_type}


def _judge_type(
    view: CheckpointView, file: str, path: str, fields: dict[str, ArrowType], known: _Known | dict[str, _Known]
) -> Iterator[Finding]:
    from pyarrow import types

    field = fields.get(path.rpartition(".")[2])
    if field is None or types.is_null(field):
        return
    if isinstance(known, _Known):
        if not known.fits(field):
            yield _wrong_type(view, file, path, field, known.words)
    elif not types.is_struct(field):
        yield _wrong_type(view, file, path, field, "a struct")
    else:
        inner = _inner_fields(field)
        for name, part in known.items():
            yield from _judge_type(view, file, f"{path}.{name}", inner, part)


def _wrong_type(view: CheckpointView, file: str, path: str, actual: object, expected: str) -> Finding:
    message = f"the column {path} of the checkpoint has the type {actual}"
    return SCHEMA_TYPE.at(view.place(file, path), message, seen=actual, expected=expected)


@lru_cache(maxsize=1)
def _known_columns() -> dict[str, dict[str, _Known | dict[str, _Known]]]:
    """Action -> field -> its type, as listed in the protocol. Spec: Checkpoint Schema."""
    from pyarrow import types

    text, long = _Known("string", _is_text), _Known("int64", types.is_int64)
    boolean, text_map = _Known("bool", types.is_boolean), _Known("map of string to string", _is_text_map)
    plain = {
        FieldType.TEXT: text,
        FieldType.LONG: long,
        FieldType.INT: _Known("int32", types.is_int32),
        FieldType.BOOLEAN: boolean,
        FieldType.TEXTS: _Known("list of string", _is_texts),
        FieldType.TEXT_MAP: text_map,
        FieldType.VALUES: text_map,
        FieldType.OBJECT: text_map,
    }
    structs = {kind: {name: plain[part.type] for name, part in parts.items()} for kind, parts in PARTS.items()}
    known: dict[str, dict[str, _Known | dict[str, _Known]]] = {
        action: {name: plain.get(field.type) or structs[field.type] for name, field in fields.items()}
        for action, fields in FIELDS.items()
        if action != "cdc"
    }
    known["add"]["stats_parsed"] = {"numRecords": long, "tightBounds": boolean}
    return known


def _is_text(kind: ArrowType) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(types.is_string(kind) or types.is_large_string(kind)) or str(kind) == "string_view"


def _is_texts(kind: ArrowType) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind)) and _is_text(kind.value_type)


def _is_text_map(kind: ArrowType) -> bool:
    from pyarrow import types

    return bool(types.is_map(kind)) and _is_text(kind.key_type) and _is_text(kind.item_type)
