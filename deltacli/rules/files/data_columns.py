"""Rules about which columns data files have: missing and unknown ones, names in another case, nulls where none may be.

Spec: Consistency Between Table Metadata and Data Files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from deltacli.arrow import compute as pc
from deltacli.core.typing import ArrowType
from deltacli.core.units import plural
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.types import PrimitiveType, StructType, simple_name
from deltacli.rules.actions.row_tracking import COLUMN_PROPERTIES
from deltacli.rules.files.data_types import REWRITE_BY_ENGINE, match_of
from deltacli.rules.files.file_match import FileMatch, MatchedPart, UnknownField, match_file
from deltacli.rules.framework.base import Area, Finding, Level, Severity
from deltacli.rules.framework.data_file_views import FileSchemaView, FootersView
from deltacli.rules.protocol.iceberg import active

AREA = Area("data_files", Level.FOOTERS, spec="Consistency Between Table Metadata and Data Files")

COLUMN_MISSING = AREA.info(
    "data.column-missing",
    "A column of the table is absent from a data file.",
    broken="nothing: it is read as null, which a NOT NULL column must not be",
    repair=REWRITE_BY_ENGINE,
    example="a file from before ALTER TABLE … ADD COLUMN",
)
COLUMN_UNKNOWN = AREA.info(
    "data.column-unknown",
    "A data file has a column that the table does not have.",
    broken="nothing: no reader uses it",
    repair=REWRITE_BY_ENGINE,
    loss="the values of the column",
    example="a column __index_level_0__ that a data frame brought along",
)
REQUIRED_MISMATCH = AREA.warning(
    "data.required-mismatch",
    "A column that must not be null has nulls, as the footer of a data file counts them.",
    spec="Struct Field",
    broken="readers that rely on it fail at the file, or read wrong values",
    repair="update the rows with an engine, or let the column be null",
    example="null_count 3 of a column with nullable=false",
)
PARTITION_COLUMN_MISSING = AREA.error(
    "data.partition-column-missing",
    "A partition column is absent from a data file, and the table requires files to have it.",
    spec="Iceberg Compatibility V1; Iceberg Compatibility V2",
    broken="Iceberg readers, which know no partition values of Delta, find none",
    repair=REWRITE_BY_ENGINE,
    example="a file without the column p in a table partitioned by p, with delta.enableIcebergCompatV2",
)
CASE_MISMATCH = AREA.warning(
    "data.case-mismatch",
    "A column of a data file has the name of the table's column in another case.",
    spec="Schema Serialization Format",
    broken="readers that compare names exactly read null",
    repair=REWRITE_BY_ENGINE,
    example="a column ID in a file, id in the table",
)


_MATERIALISE = "materializePartitionColumns"
_MATERIALISE_ENABLED = "delta.enableMaterializePartitionColumnsFeature"
_OF_ENGINES = ("_change_type", "_commit_version", "_commit_timestamp", "_metadata")
_ROW_TRACKING = ("_row-id-col-", "_row-commit-version-col-")
"""How the columns of row tracking are called that an earlier run of it left behind."""


@AREA.check(FileSchemaView, COLUMN_MISSING, COLUMN_UNKNOWN, CASE_MISMATCH)
def columns_of_files(view: FileSchemaView) -> Iterator[Finding]:
    """Columns on one side only, and those that are found by luck."""
    file_match = match_of(view)
    for missing in file_match.missing:
        is_fault = not missing.field.nullable and missing.is_sure and view.rows > 0
        what = "must not be null, and is absent from" if is_fault else "is absent from"
        message = f"column {missing.path} {what} {view.shown_files}"
        place, expected = view.place._replace(key=missing.path), simple_name(missing.field.data_type)
        severity = Severity.ERROR if is_fault else None
        yield COLUMN_MISSING.at(place, message, seen="absent", expected=expected, severity=severity)
    for unknown in file_match.unknown:
        if not _is_expected(unknown, view.config):
            message = f"the table has no column {unknown.path}, and {view.shown_files} {_has(view)} it"
            place = view.place._replace(key=unknown.path)
            yield COLUMN_UNKNOWN.at(place, message, seen=unknown.name)
    for alike in file_match.alike:
        names = ", ".join(alike.names)
        message = f"column {alike.path} cannot be told from others in {view.shown_files}: {names}"
        place = view.place._replace(key=alike.path)
        yield CASE_MISMATCH.at(place, message, seen=names, expected="one column", severity=Severity.ERROR)
    yield from _other_cases(view, file_match)


def _other_cases(view: FileSchemaView, file_match: FileMatch) -> Iterator[Finding]:
    for part in file_match.parts:
        wanted = view.config.physical_name(part.field)
        seen = part.file.name
        if part.field_path is None and seen != wanted and seen.lower() == wanted.lower():
            message = f"column {part.path} is called {seen} in {view.shown_files}"
            place = view.place._replace(key=part.path)
            yield CASE_MISMATCH.at(place, message, seen=seen, expected=wanted)


def _has(view: FileSchemaView) -> str:
    return "have" if view.files > 1 else "has"


def _is_expected(unknown: UnknownField, config: TableConfiguration) -> bool:
    """True for columns that files have beside those of the table."""
    if not unknown.is_top:
        return False
    materialised = {config.properties.get(key) for key in COLUMN_PROPERTIES}
    return unknown.name in materialised or unknown.name.startswith((*_OF_ENGINES, *_ROW_TRACKING))


@AREA.check(FileSchemaView, PARTITION_COLUMN_MISSING)
def partition_columns_of_files(view: FileSchemaView) -> Iterator[Finding]:
    """Partition columns, where files must have them."""
    config = view.config
    demanded_by, severity = _who_demands_partitions(config)
    if demanded_by is None:
        return
    for name, is_there in match_of(view).partitions.items():
        if not is_there:
            message = f"partition column {name} is absent from {view.shown_files}; {demanded_by} requires it"
            place = view.place._replace(key=name)
            yield PARTITION_COLUMN_MISSING.at(place, message, seen="absent", severity=severity)


def _who_demands_partitions(config: TableConfiguration) -> tuple[str | None, Severity | None]:
    """The feature that asks for partition columns in files. Files from before `materializePartitionColumns` was on need
    none, and cannot be told from later ones.
    """
    on = active(config)
    if on:
        return on[0].feature, None
    if _MATERIALISE in config.features and config.is_on(_MATERIALISE_ENABLED):
        return _MATERIALISE, Severity.WARNING
    return None, None


# -- nulls -----------------------------------------------------------------------------------------------------------


class _Required(NamedTuple):
    """A column of a file in which every null breaks a column of the table."""

    path: str
    leaf: int


@AREA.check(FootersView, REQUIRED_MISMATCH)
def nulls_in_required_columns(view: FootersView) -> Iterator[Finding]:
    """Nulls that footers count, in rows that are not deleted."""
    for required in _required_leaves(view):
        leaf = view.leaf(required.leaf)
        counted = Counter[int]()
        with_nulls = pc.filter(leaf.files, pc.fill_null(pc.greater(leaf.nulls, 0), False))
        if not len(with_nulls):
            continue
        rows = set(with_nulls.to_pylist())
        for row, nulls in zip(leaf.files.to_pylist(), leaf.nulls.to_pylist(), strict=True):
            if row in rows:
                counted[row] += nulls or 0
        for row in sorted(rows):
            if counted[row] > _deleted(view, row):
                place = view.place(row)
                message = (
                    f"column {required.path} must not be null, and has {plural(counted[row], 'null')} in {place.key}"
                )
                yield REQUIRED_MISMATCH.at(place, message, seen=counted[row], expected=0)


def _deleted(view: FootersView, row: int) -> int:
    """How many rows of a file are deleted, those with nulls among them as far as anybody knows."""
    vector = view.adds.column("deletionVector")[row].as_py()
    return int(vector["cardinality"] or 0) if vector else 0


def _required_leaves(view: FootersView) -> Sequence[_Required]:
    known: dict[int, tuple[Any, list[_Required]]] = view.run_memory.setdefault("required", {})
    key = id(view.schema)
    if key not in known:
        parts = match_file(view.schema, view.config).parts if _demands_anything(view.config) else []
        required = [column for column in map(_required, parts) if column is not None]
        known[key] = view.schema, list({column.path: column for column in reversed(required)}.values())
    return known[key][1]


def _required(part: MatchedPart) -> _Required | None:
    """The part as a column of the file in which nobody may be null: neither it nor what is around it."""
    if not part.nullable or not isinstance(part.data_type, PrimitiveType) or _is_nested(part.file.kind):
        return None
    if any(nullable.field.nullable for nullable in part.nullable):
        return None
    return _Required(part.nullable[-1].path, part.file.leaf)


def _is_nested(kind: ArrowType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_nested(kind))


def _demands_anything(config: TableConfiguration) -> bool:
    return config.schema is not None and _has_required(config.schema)


def _has_required(schema: StructType) -> bool:
    return any(
        not field.nullable or (isinstance(field.data_type, StructType) and _has_required(field.data_type))
        for field in schema.fields
    )
