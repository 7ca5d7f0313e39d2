"""Rules about data files: what they are, which columns and field ids they have, and recorded wider types.

Spec: Consistency Between Table Metadata and Data Files; Reader and Writer Requirements for Column Mapping; Type
Widening.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import LazyText, command
from deltacli.core.units import count_with_verb, plural
from deltacli.delta.log.segment import Place
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema.file_columns import is_list
from deltacli.delta.schema.type_changes import changed_fields
from deltacli.delta.schema.types import NESTED_IDS, ArrayType, PrimitiveType, StructType, simple_name
from deltacli.rules.actions.row_tracking import COLUMN_PROPERTIES
from deltacli.rules.files import data_types
from deltacli.rules.files.storage import FILE_MISSING, file_missing
from deltacli.rules.framework import data_file_views
from deltacli.rules.framework.base import LOST_BY_DROPPING, Area, Finding, Level, ReadFault, Severity, by_repair
from deltacli.rules.protocol.iceberg import active
from deltacli.rules.widening import changes_of

AREA = Area("data_files", Level.FOOTERS, spec="Format Specification")

NOT_PARQUET = AREA.error(
    "data.not-parquet",
    "A data file is not a Parquet file, or cannot be read to its end.",
    broken="readers of the newest version fail at this file",
    repair=by_repair("it", level="footers"),
    loss="the rows of the file, if there is no backup",
    example="a file of 1,000 zeros, named part-00001.parquet",
)
ROW_COUNT_ZERO = AREA.info(
    "data.row-count-zero",
    "A live file has no rows.",
    spec="Data Files",
    broken="nothing: readers open one file more than necessary",
    repair="compact the table",
    example="a Parquet file of 0 rows, added by a writer that had none for a partition",
)


@AREA.check_faults(data_file_views.FileFaultView, NOT_PARQUET)
def files_that_are_no_parquet(view: data_file_views.FileFaultView) -> Iterator[ReadFault]:
    """What kept a file from being read."""
    message = f"{view.place.key} is not a Parquet file: {view.fault.message}"
    yield ReadFault(view.fault.code, view.place, message, view.fault.seen)


@AREA.check(data_file_views.FileFaultView, FILE_MISSING)
def files_that_vanished(view: data_file_views.FileFaultView) -> Iterator[Finding]:
    """A file that was deleted after the listing: the comparison with the listing has seen it."""
    if view.fault.code == data_file_views.VANISHED:
        yield file_missing(view.place)


@AREA.check(data_file_views.FootersView, ROW_COUNT_ZERO)
def files_without_rows(view: data_file_views.FootersView) -> Iterator[Finding]:
    """Files that are read for nothing."""
    for row in pc.indices_nonzero(pc.equal(view.rows, 0)).to_pylist():
        place = view.place(row)
        yield ROW_COUNT_ZERO.at(place, f"{place.key} has no rows", seen=0)


CODEC_UNSUPPORTED = AREA.warning(
    "data.codec-unsupported",
    "A data file is compressed with a codec that readers need not know.",
    spec="Table Properties",
    broken="readers without the codec fail at the file",
    repair=data_types.REWRITE_BY_ENGINE,
    example="a column chunk with the codec BROTLI",
)
ENCRYPTED = AREA.warning(
    "data.encrypted",
    "A data file is encrypted.",
    broken="readers without the keys fail at the file; nothing more is checked of it",
    repair="no repair needed, if readers have the keys; else rewrite the file with an engine that has them",
    example="a file that ends with PARE",
)


_CODEC_NAMES = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")
"""By their numbers in parquet.thrift."""
_WIDELY_SUPPORTED = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "LZ4", "ZSTD", "LZ4_RAW"})
_SUPPORTED = frozenset({number for number, name in enumerate(_CODEC_NAMES) if name in _WIDELY_SUPPORTED})
_EXPECTED = "uncompressed, snappy, gzip, lz4, lz4_raw or zstd"


class _CodecUse(NamedTuple):
    """In how many files a codec is used, and the place of the first."""

    files: int
    place: Place


@AREA.check(data_file_views.FileSchemaView, data_types.NESTED_LAYOUT)
def old_lists(view: data_file_views.FileSchemaView) -> Iterator[Finding]:
    """Lists without a group for each element; readers take them by the rules for old writers."""
    for part in data_types.match_of(view).parts:
        node = part.file.node
        if not isinstance(part.data_type, ArrayType) or not is_list(part.file.kind):
            continue
        if node is None or data_types.is_three_levels(node):
            continue
        levels = 1 if node.is_repeated else 2
        message = f"column {part.path} is a list of {plural(levels, 'level')} in {view.shown_files}"
        place = view.place._replace(key=part.path)
        yield data_types.NESTED_LAYOUT.at(place, message, seen=plural(levels, "level"), expected="3 levels")


@AREA.check(data_file_views.FootersView, CODEC_UNSUPPORTED)
def note_codecs(view: data_file_views.FootersView) -> Iterator[Finding]:
    """Count the files that use a codec not all readers have; told when all were seen."""
    yield from ()
    known: dict[int, _CodecUse] = view.run_memory.setdefault("codecs", {})
    for row, footer in enumerate(view.footers):
        for codec in footer.codecs - _SUPPORTED:
            if codec is None:
                continue
            use = known.get(codec) or _CodecUse(0, view.place(row))
            known[codec] = use._replace(files=use.files + 1)


@AREA.check(data_file_views.AllFootersView, CODEC_UNSUPPORTED)
def codecs_of_files(view: data_file_views.AllFootersView) -> Iterator[Finding]:
    """Each such codec once."""
    known: dict[int, _CodecUse] = view.run_memory.get("codecs", {})
    for codec, use in sorted(known.items()):
        name = _CODEC_NAMES[codec] if 0 <= codec < len(_CODEC_NAMES) else f"codec {codec}"
        files = f"{plural(use.files, 'file')}, such as {use.place.key}," if use.files > 1 else use.place.key
        message = f"{files} {'are' if use.files > 1 else 'is'} compressed with {name}, which readers need not know"
        yield CODEC_UNSUPPORTED.at(use.place, message, seen=name, expected=_EXPECTED)


@AREA.check_faults(data_file_views.FileFaultView, ENCRYPTED)
def encrypted_files(view: data_file_views.FileFaultView) -> Iterator[ReadFault]:
    """Files of which nothing more, or not all, can be checked."""
    message = f"{view.place.key} is encrypted: {view.fault.message}"
    yield ReadFault(view.fault.code, view.place, message, view.fault.seen)


# -- rules about which columns data files have -------------------------------------------------------------------------

COLUMN_AREA = Area("data_files", Level.FOOTERS, spec="Consistency Between Table Metadata and Data Files")

COLUMN_MISSING = COLUMN_AREA.info(
    "data.column-missing",
    "A column of the table is absent from a data file.",
    broken="nothing: it is read as null, which a NOT NULL column must not be",
    repair=data_types.REWRITE_BY_ENGINE,
    example="a file from before ALTER TABLE … ADD COLUMN",
)
COLUMN_UNKNOWN = COLUMN_AREA.info(
    "data.column-unknown",
    "A data file has a column that the table does not have.",
    broken="nothing: no reader uses it",
    repair=data_types.REWRITE_BY_ENGINE,
    loss="the values of the column",
    example="a column __index_level_0__ that a data frame brought along",
)
REQUIRED_MISMATCH = COLUMN_AREA.warning(
    "data.required-mismatch",
    "A column that must not be null has nulls, as the footer of a data file counts them.",
    spec="Struct Field",
    broken="readers that rely on it fail at the file, or read wrong values",
    repair="update the rows with an engine, or let the column be null",
    example="null_count 3 of a column with nullable=false",
)
PARTITION_COLUMN_MISSING = COLUMN_AREA.error(
    "data.partition-column-missing",
    "A partition column is absent from a data file, and the table requires files to have it.",
    spec="Iceberg Compatibility V1; Iceberg Compatibility V2",
    broken="Iceberg readers, which know no partition values of Delta, find none",
    repair=data_types.REWRITE_BY_ENGINE,
    example="a file without the column p in a table partitioned by p, with delta.enableIcebergCompatV2",
)
CASE_MISMATCH = COLUMN_AREA.warning(
    "data.case-mismatch",
    "A column of a data file has the name of the table's column in another case.",
    spec="Schema Serialization Format",
    broken="readers that compare names exactly read null",
    repair=data_types.REWRITE_BY_ENGINE,
    example="a column ID in a file, id in the table",
)


_MATERIALISE = "materializePartitionColumns"
_MATERIALISE_ENABLED = "delta.enableMaterializePartitionColumnsFeature"
_OF_ENGINES = ("_change_type", "_commit_version", "_commit_timestamp", "_metadata")
_ROW_TRACKING = ("_row-id-col-", "_row-commit-version-col-")
"""How the columns of row tracking are called that an earlier run of it left behind."""


@COLUMN_AREA.check(data_file_views.FileSchemaView, COLUMN_MISSING, COLUMN_UNKNOWN, CASE_MISMATCH)
def columns_of_files(view: data_file_views.FileSchemaView) -> Iterator[Finding]:
    """Columns on one side only, and those that are found by luck."""
    file_match = data_types.match_of(view)
    for missing in file_match.missing:
        is_fault = not missing.field.nullable and missing.is_sure and view.rows > 0
        what = "must not be null, and is absent from" if is_fault else "is absent from"
        message = f"column {missing.path} {what} {view.shown_files}"
        place, expected = view.place._replace(key=missing.path), simple_name(missing.field.data_type)
        severity = Severity.ERROR if is_fault else None
        yield COLUMN_MISSING.at(place, message, seen="absent", expected=expected, severity=severity)
    for unknown in file_match.unknown:
        if not _is_expected(unknown, view.config):
            has = "have" if view.files > 1 else "has"
            message = f"the table has no column {unknown.path}, and {view.shown_files} {has} it"
            yield COLUMN_UNKNOWN.at(view.place, message, key=unknown.path, seen=unknown.name)
    for alike in file_match.alike:
        names = ", ".join(alike.names)
        message = f"column {alike.path} cannot be told from others in {view.shown_files}: {names}"
        place = view.place._replace(key=alike.path)
        yield CASE_MISMATCH.at(place, message, seen=names, expected="one column", severity=Severity.ERROR)
    for part in file_match.parts:
        wanted = view.config.physical_name(part.field)
        seen = part.file.name
        if part.field_path is None and seen != wanted and seen.lower() == wanted.lower():
            message = f"column {part.path} is called {seen} in {view.shown_files}"
            yield CASE_MISMATCH.at(view.place, message, key=part.path, seen=seen, expected=wanted)


def _is_expected(unknown: data_types.UnknownField, config: TableConfiguration) -> bool:
    """True for columns that files have beside those of the table."""
    if not unknown.is_top:
        return False
    materialised = {config.properties.get(key) for key in COLUMN_PROPERTIES}
    return unknown.name in materialised or unknown.name.startswith((*_OF_ENGINES, *_ROW_TRACKING))


@COLUMN_AREA.check(data_file_views.FileSchemaView, PARTITION_COLUMN_MISSING)
def partition_columns_of_files(view: data_file_views.FileSchemaView) -> Iterator[Finding]:
    """Partition columns, where files must have them."""
    config = view.config
    demanded_by, severity = _who_demands_partitions(config)
    if demanded_by is None:
        return
    for name, is_there in data_types.match_of(view).partitions.items():
        if not is_there:
            message = f"partition column {name} is absent from {view.shown_files}; {demanded_by} requires it"
            yield PARTITION_COLUMN_MISSING.at(view.place, message, key=name, seen="absent", severity=severity)


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


@COLUMN_AREA.check(data_file_views.FootersView, REQUIRED_MISMATCH)
def nulls_in_required_columns(view: data_file_views.FootersView) -> Iterator[Finding]:
    """Nulls that footers count, in rows that are not deleted."""
    for path, number in _required_leaves(view).items():
        leaf = view.leaf(number)
        counted = Counter[int]()
        with_nulls = pc.filter(leaf.files, pc.fill_null(pc.greater(leaf.nulls, 0), False))
        if not len(with_nulls):
            continue
        rows = set(with_nulls.to_pylist())
        for row, nulls in zip(leaf.files.to_pylist(), leaf.nulls.to_pylist(), strict=True):
            if row in rows:
                counted[row] += nulls or 0
        for row in sorted(rows):
            # Those with nulls are among the deleted rows as far as anybody knows.
            vector = view.adds.column("deletionVector")[row].as_py()
            if counted[row] > (int(vector["cardinality"] or 0) if vector else 0):
                place = view.place(row)
                message = f"column {path} must not be null, and has {plural(counted[row], 'null')} in {place.key}"
                yield REQUIRED_MISMATCH.at(place, message, seen=counted[row], expected=0)


def _required_leaves(view: data_file_views.FootersView) -> Mapping[str, int]:
    """Return path -> leaf of the columns of the file in which every null breaks a column of the table."""
    known: dict[int, tuple[Any, dict[str, int]]] = view.run_memory.setdefault("required", {})
    key = id(view.schema)
    if key not in known:
        has_required = view.config.schema is not None and _has_required(view.config.schema)
        parts = data_types.match_file(view.schema, view.config).parts if has_required else []
        required = [column for column in map(_required, parts) if column is not None]
        known[key] = view.schema, dict(reversed(required))
    return known[key][1]


def _required(part: data_types.MatchedPart) -> tuple[str, int] | None:
    """The part as a column of the file in which nobody may be null: neither it nor what is around it."""
    if not part.nullable or not isinstance(part.data_type, PrimitiveType) or pa.types.is_nested(part.file.kind):
        return None
    if any(nullable.field.nullable for nullable in part.nullable):
        return None
    return part.nullable[-1].path, part.file.leaf


def _has_required(schema: StructType) -> bool:
    return any(
        not field.nullable or (isinstance(field.data_type, StructType) and _has_required(field.data_type))
        for field in schema.fields
    )


# -- rules about the field ids of data files ---------------------------------------------------------------------------

FIELD_ID_AREA = Area("mapping", Level.FOOTERS)


FILE_WITHOUT_FIELD_IDS = FIELD_ID_AREA.error(
    "mapping.file-without-field-ids",
    "Column mapping uses ids, but a data file has columns without ids.",
    spec="Reader Requirements for Column Mapping",
    broken="readers refuse the file, or read null for its columns",
    repair=data_types.REWRITE_BY_ENGINE,
    example="a file written before delta.columnMapping.mode became id",
)
FILE_WITH_LOGICAL_NAMES = FIELD_ID_AREA.error(
    "mapping.file-with-logical-names",
    "A data file has columns or nested fields under their logical names, where column mapping demands the physical "
    "ones.",
    spec="Writer Requirements for Column Mapping",
    broken="readers that map columns read null for them; the file has the only copy of the values",
    repair="write its rows again under the physical names, with the writer that made it",
    example="a column name in a file, where the column name has the physicalName col-2b",
)
FIELD_ID_MISMATCH = FIELD_ID_AREA.error(
    "mapping.field-id-mismatch",
    "The field id of a column in a data file differs from the id of the table's column with that name.",
    spec="Writer Requirements for Column Mapping",
    broken="readers that use ids and readers that use names read different columns",
    repair=data_types.REWRITE_BY_ENGINE,
    example="the column col-3 has field_id 5 in a file, and the id 3 in the table",
)
FILE_WITH_OTHER_NAMES = FIELD_ID_AREA.warning(
    "mapping.file-with-other-names",
    "Column mapping uses ids, and a data file has a column under another name than its physical one.",
    spec="Writer Requirements for Column Mapping",
    broken="readers that use names although the mode is id read null, or another column whose name it is",
    repair=data_types.REWRITE_BY_ENGINE,
    example="a column old with the field_id 1 in a file, where the column with the id 1 has the physicalName col-1a",
)


@FIELD_ID_AREA.check(data_file_views.FileSchemaView, FILE_WITH_LOGICAL_NAMES)
def names_of_files(view: data_file_views.FileSchemaView) -> Iterator[Finding]:
    """Report fields that files have under logical names.

    It is a warning where such a name may as well be that of a column that was dropped: columns were dropped, and the
    log has no metadata with them any more.
    """
    for misnamed in data_types.match_of(view).misnamed:
        seen, wanted = misnamed.name_in_file, misnamed.physical_name
        message = f"column {misnamed.path} is called {seen} in {view.shown_files}, but column mapping calls it {wanted}"
        severity = None
        if not misnamed.is_certain:
            message += ", unless it is a dropped column, whose metadata the log does not have any more"
            severity = Severity.WARNING
        yield FILE_WITH_LOGICAL_NAMES.at(
            view.place, message, key=misnamed.path, seen=seen, expected=wanted, severity=severity
        )


@FIELD_ID_AREA.check(data_file_views.FileSchemaView, FILE_WITH_OTHER_NAMES)
def names_beside_ids(view: data_file_views.FileSchemaView) -> Iterator[Finding]:
    """Report columns that are found by their ids alone."""
    if view.config.mapping_mode != "id":
        return
    for part in data_types.match_of(view).parts:
        wanted, seen = view.config.physical_name(part.field), part.file.name
        if part.field_path is None and seen != wanted and part.file.file_id == data_types.id_of(part.field):
            message = f"column {part.path} is called {seen} in {view.shown_files}, and found by its id alone"
            yield FILE_WITH_OTHER_NAMES.at(view.place, message, key=part.path, seen=seen, expected=wanted)


@FIELD_ID_AREA.check(data_file_views.FileSchemaView, FILE_WITHOUT_FIELD_IDS, FIELD_ID_MISMATCH)
def field_ids_of_files(view: data_file_views.FileSchemaView) -> Iterator[Finding]:
    """Compare ids and names at every depth."""
    mode = view.config.mapping_mode
    if mode == "none":
        return
    file_match = data_types.match_of(view)
    parts = [(part, wanted_id(part, view.config.physical_name(part.field))) for part in file_match.parts]
    if mode == "id":
        without = [part for part, wanted in parts if wanted is not None and _lacks_id(part)]
        has_any = any(part.file.file_id is not None for part in file_match.parts)
        yield from _without_ids(view, without, has_any=has_any)
        if file_match.misnamed and not file_match.parts:
            yield _without_any(view)
    for part, wanted in parts:
        if wanted is not None and part.file.file_id not in (None, wanted):
            message = f"column {part.path} has the field id {part.file.file_id} in {view.shown_files}"
            yield FIELD_ID_MISMATCH.at(view.place, message, key=part.path, seen=part.file.file_id, expected=wanted)
    for other in file_match.other_ids:
        place = view.place._replace(key=other.path)
        seen = other.seen_name if other.seen is None else other.seen
        yield FIELD_ID_MISMATCH.at(place, _other_id(view, other), seen=seen, expected=other.expected)


def wanted_id(part: data_types.MatchedPart, physical_name: str) -> int | None:
    """Return the field id that a file must have for a part; for elements, keys and values only if the table has one."""
    if part.field_path is None:
        return data_types.id_of(part.field)
    nested = part.field.metadata.get(NESTED_IDS)
    number = nested.get(f"{physical_name}.{part.field_path}") if isinstance(nested, dict) else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _lacks_id(part: data_types.MatchedPart) -> bool:
    return part.field_path is None and part.file.file_id is None


def _without_ids(
    view: data_file_views.FileSchemaView, without: list[data_types.MatchedPart], *, has_any: bool
) -> Iterator[Finding]:
    if without and not has_any:
        yield _without_any(view)
        return
    for part in without:
        message = f"column {part.path} has no field id in {view.shown_files}, but column mapping uses ids"
        place = view.place._replace(key=part.path)
        yield FILE_WITHOUT_FIELD_IDS.at(place, message, seen="no field id", expected=data_types.id_of(part.field))


def _without_any(view: data_file_views.FileSchemaView) -> Finding:
    message = f"no column has a field id in {view.shown_files}, but column mapping uses ids"
    return FILE_WITHOUT_FIELD_IDS.at(view.place, message, seen="no field ids", expected="field ids")


def _other_id(view: data_file_views.FileSchemaView, other: data_types.OtherId) -> str:
    if other.seen is not None:
        return f"column {other.path} is not found in {view.shown_files}: {other.name} has the field id {other.seen}"
    return (
        f"column {other.path} is not found in {view.shown_files}: its field id {other.expected} is that of "
        f"{other.seen_name}, not of {other.name}"
    )


# -- rules about type widening -----------------------------------------------------------------------------------------

WIDENING_AREA = Area("widening", Level.FOOTERS)

REMOVABLE = WIDENING_AREA.info(
    "typewidening.removable",
    "Type changes are recorded, but no data file needs them any more.",
    spec="Type Widening: Writer Requirements for Type Widening",
    broken="nothing: the table requires a feature from its readers that it does not need",
    repair=LazyText("drop the feature: {}", partial(command, "features drop", "typeWidening")),
    loss=LOST_BY_DROPPING,
    example="delta.typeChanges of a column whose files were all rewritten since",
)
_SPELLED_ANEW = frozenset({"date", "float"})
"Types whose partition values, which are unchanged in the log, have another spelling than those of the wider type."


@WIDENING_AREA.check(data_file_views.AllFootersView, REMOVABLE)
def changes_that_nobody_needs(view: data_file_views.AllFootersView) -> Iterator[Finding]:
    """Report if every column with changes has its present type in all files."""
    changed = changed_fields(view.config)
    if not changed or not view.complete or not view.schemas or _keeps_old_values(view.config):
        return
    if all(_is_final(schema) for schema in view.schemas):
        files_have = count_with_verb(sum(schema.files for schema in view.schemas), "data file", "have")
        names = ", ".join(named.path for named in changed)
        message = f"no type change needs to be recorded, because {files_have} the present types of {names}"
        yield REMOVABLE.at(view.place, message, key=changed[0].path, seen=names)


def _is_final(view: data_file_views.FileSchemaView) -> bool:
    return all(
        data_types.is_final(part)
        for part in data_types.match_of(view).parts
        if part.field.metadata.get("delta.typeChanges")
    )


def _keeps_old_values(config: TableConfiguration) -> bool:
    """Return True if a partition column has changes that its values in the log may need."""
    partitions = {column.name for column in config.partition_columns.values() if column is not None}
    return any(
        named.path in partitions and any(entry.from_type in _SPELLED_ANEW for entry in changes_of(named))
        for named in changed_fields(config)
    )
