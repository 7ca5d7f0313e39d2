"""Rules about the field ids of data files. Spec: Reader and Writer Requirements for Column Mapping."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.delta.schema.names import NESTED_IDS
from deltacli.rules.files.data_types import REWRITE_BY_ENGINE, match_of
from deltacli.rules.files.file_match import MatchedPart, OtherId, id_of
from deltacli.rules.framework.base import Area, Finding, Level
from deltacli.rules.framework.data_file_views import FileSchemaView

AREA = Area("mapping", Level.FOOTERS)


FILE_WITHOUT_FIELD_IDS = AREA.error(
    "mapping.file-without-field-ids",
    "Column mapping uses ids, but a data file has columns without ids.",
    spec="Reader Requirements for Column Mapping",
    broken="readers refuse the file, or read null for its columns",
    repair=REWRITE_BY_ENGINE,
    example="a file written before delta.columnMapping.mode became id",
)
FILE_WITH_LOGICAL_NAMES = AREA.error(
    "mapping.file-with-logical-names",
    "A data file has columns under their logical names, where column mapping demands the physical ones.",
    spec="Writer Requirements for Column Mapping",
    broken="readers that map columns read null for all of them; the file has the only copy of the values",
    repair="write its rows again under the physical names, with the writer that made it",
    example="a column name in a file, where the column name has the physicalName col-2b",
)
FIELD_ID_MISMATCH = AREA.error(
    "mapping.field-id-mismatch",
    "The field id of a column in a data file differs from the id of the table's column with that name.",
    spec="Writer Requirements for Column Mapping",
    broken="readers that use ids and readers that use names read different columns",
    repair=REWRITE_BY_ENGINE,
    example="the column col-3 has field_id 5 in a file, and the id 3 in the table",
)
FILE_WITH_OTHER_NAMES = AREA.warning(
    "mapping.file-with-other-names",
    "Column mapping uses ids, and a data file has a column under another name than its physical one.",
    spec="Writer Requirements for Column Mapping",
    broken="readers that use names although the mode is id read null, or another column whose name it is",
    repair=REWRITE_BY_ENGINE,
    example="a column old with the field_id 1 in a file, where the column with the id 1 has the physicalName col-1a",
)


@AREA.check(FileSchemaView, FILE_WITH_LOGICAL_NAMES)
def names_of_files(view: FileSchemaView) -> Iterator[Finding]:
    """Report files none of whose columns is found, although they have columns of the table."""
    for one in match_of(view).logical:
        wanted = view.config.physical_name(one.field)
        message = (
            f"column {one.path} is called {one.field.name} in {view.shown_files}, but column mapping calls it {wanted}"
        )
        yield FILE_WITH_LOGICAL_NAMES.at(
            view.place._replace(key=one.path), message, seen=one.field.name, expected=wanted
        )


@AREA.check(FileSchemaView, FILE_WITH_OTHER_NAMES)
def names_beside_ids(view: FileSchemaView) -> Iterator[Finding]:
    """Report columns that are found by their ids alone."""
    if view.config.mapping_mode != "id":
        return
    for part in match_of(view).parts:
        wanted, seen = view.config.physical_name(part.field), part.file.name
        if part.field_path is None and seen != wanted and part.file.file_id == id_of(part.field):
            message = f"column {part.path} is called {seen} in {view.shown_files}, and found by its id alone"
            place = view.place._replace(key=part.path)
            yield FILE_WITH_OTHER_NAMES.at(place, message, seen=seen, expected=wanted)


@AREA.check(FileSchemaView, FILE_WITHOUT_FIELD_IDS, FIELD_ID_MISMATCH)
def field_ids_of_files(view: FileSchemaView) -> Iterator[Finding]:
    """Compare ids and names at every depth."""
    mode = view.config.mapping_mode
    if mode == "none":
        return
    file_match = match_of(view)
    parts = [(part, wanted_id(part, view.config.physical_name(part.field))) for part in file_match.parts]
    if mode == "id":
        without = [part for part, wanted in parts if wanted is not None and _lacks_id(part)]
        has_any = any(part.file.file_id is not None for part in file_match.parts)
        yield from _without_ids(view, without, has_any=has_any)
        if file_match.logical and not file_match.parts:
            yield _without_any(view)
    for part, wanted in parts:
        if wanted is not None and part.file.file_id not in (None, wanted):
            message = f"column {part.path} has the field id {part.file.file_id} in {view.shown_files}"
            place = view.place._replace(key=part.path)
            yield FIELD_ID_MISMATCH.at(place, message, seen=part.file.file_id, expected=wanted)
    for other in file_match.other_ids:
        place = view.place._replace(key=other.path)
        yield FIELD_ID_MISMATCH.at(place, _other_id(view, other), seen=_seen(other), expected=other.expected)


def wanted_id(part: MatchedPart, physical_name: str) -> int | None:
    """Return the field id that a file must have for a part. For elements, keys and values, only if the table defines
    one.
    """
    if part.field_path is None:
        return id_of(part.field)
    nested = part.field.metadata.get(NESTED_IDS)
    number = nested.get(f"{physical_name}.{part.field_path}") if isinstance(nested, dict) else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _lacks_id(part: MatchedPart) -> bool:
    return part.field_path is None and part.file.file_id is None


def _without_ids(view: FileSchemaView, without: list[MatchedPart], *, has_any: bool) -> Iterator[Finding]:
    if without and not has_any:
        yield _without_any(view)
        return
    for part in without:
        message = f"column {part.path} has no field id in {view.shown_files}, but column mapping uses ids"
        place = view.place._replace(key=part.path)
        yield FILE_WITHOUT_FIELD_IDS.at(place, message, seen="no field id", expected=id_of(part.field))


def _without_any(view: FileSchemaView) -> Finding:
    message = f"no column has a field id in {view.shown_files}, but column mapping uses ids"
    return FILE_WITHOUT_FIELD_IDS.at(view.place, message, seen="no field ids", expected="field ids")


def _other_id(view: FileSchemaView, other: OtherId) -> str:
    if other.seen is not None:
        return f"column {other.path} is not found in {view.shown_files}: {other.name} has the field id {other.seen}"
    return (
        f"column {other.path} is not found in {view.shown_files}: its field id {other.expected} is that of "
        f"{other.seen_name}, not of {other.name}"
    )


def _seen(other: OtherId) -> object:
    return other.seen if other.seen is not None else other.seen_name
