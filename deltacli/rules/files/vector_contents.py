"""The deletion vectors of live files: their bytes, and the rows they delete. Spec: Deletion Vector Format."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.core.units import plural
from deltacli.delta.encoding.roaring import NATIVE, PORTABLE
from deltacli.delta.log.file_actions import extract_num_records_column
from deltacli.rules.files.deletion_vectors import CORRECT_DESCRIPTOR, VECTOR_FILE_MISSING, WITHOUT_VECTOR
from deltacli.rules.framework.base import Area, Finding, Fix, Level, ReadFault, Severity
from deltacli.rules.framework.data_file_views import VectorsView

AREA = Area("deletion_vectors", Level.FOOTERS, spec="Deletion Vector File Storage Format")

_FORMAT = "Deletion Vector Format"
_UNREADABLE = "the file cannot be read, or its deleted rows come back"
_DELETIONS = "the deletions"
_RESTORE = "restore the file of the vector from a backup, or restore the previous version of the table"
_LOST = Fix(_UNREADABLE, _RESTORE, _DELETIONS)
FILE_TOO_SHORT = AREA.error(
    "dv.file-too-short",
    "The file of a deletion vector ends before the vector does.",
    *_LOST,
    example='"offset":1,"sizeInBytes":40 and a file of 30 bytes',
)
FILE_VERSION = AREA.error(
    "dv.file-version",
    "A file of deletion vectors does not begin with version 1.",
    *_LOST,
    example="a deletion_vector_….bin whose first byte is 2",
)
SIZE_MISMATCH = AREA.error(
    "dv.size-mismatch",
    "The size of a deletion vector, in its file or in its text, differs from its descriptor.",
    *_LOST,
    example='"sizeInBytes":40 and the size 34 before the vector in the file',
)
CRC_MISMATCH = AREA.error(
    "dv.crc-mismatch",
    "The checksum of a deletion vector does not match its bytes.",
    *_LOST,
    example="a vector with one bit flipped",
)
MAGIC = AREA.error(
    "dv.magic",
    "A deletion vector does not begin with the number 1681511377. The number 1681511376, which Delta-Spark reads, is a "
    "warning.",
    spec=_FORMAT,
    broken=_UNREADABLE,
    repair=WITHOUT_VECTOR,
    loss=_DELETIONS,
    example="a vector whose first four bytes are zero",
)
BITMAP_CORRUPT = AREA.error(
    "dv.bitmap-corrupt",
    "A deletion vector is not a Roaring bitmap of 63-bit row numbers in ascending order.",
    spec=_FORMAT,
    broken=_UNREADABLE,
    repair=WITHOUT_VECTOR,
    loss=_DELETIONS,
    example="a vector of two bitmaps, the second of which has the lower key",
)
CARDINALITY_MISMATCH = AREA.error(
    "dv.cardinality-mismatch",
    "The number of rows that a deletion vector deletes differs from its descriptor.",
    spec="Deletion Vector Descriptor Schema",
    broken="readers refuse the file, or count its rows wrongly",
    repair=CORRECT_DESCRIPTOR,
    example='"cardinality":6 and a vector of five rows',
)
ROW_OUT_OF_RANGE = AREA.error(
    "dv.row-out-of-range",
    "A deletion vector deletes a row that is not in its file.",
    spec="Deletion Vectors",
    broken="deltacli leaves such rows out, other readers refuse the file; the vector may belong to another file",
    repair="rewrite the file without its vector (optimize)",
    example="a vector with row 12, of a file of ten rows",
)


@AREA.check_faults(
    VectorsView,
    VECTOR_FILE_MISSING,
    FILE_TOO_SHORT,
    FILE_VERSION,
    SIZE_MISMATCH,
    CRC_MISMATCH,
    MAGIC,
    BITMAP_CORRUPT,
    CARDINALITY_MISMATCH,
)
def bytes_of_vectors(view: VectorsView) -> Iterator[ReadFault]:
    """What keeps readers from using a vector. Faults of descriptors are reported from commits alone."""
    for facts in view.vectors:
        if facts.code is not None:
            place = view.place(facts.row)
            message = f"the deletion vector of {place.key} cannot be used: {facts.reason}"
            yield ReadFault(facts.code, place, message, facts.seen, facts.expected)


@AREA.check(VectorsView, MAGIC)
def vectors_in_the_older_layout(view: VectorsView) -> Iterator[Finding]:
    for facts in view.vectors:
        if facts.is_native:
            place = view.place(facts.row)
            message = f"the deletion vector of {place.key} has the older layout of Delta-Spark"
            yield MAGIC.at(place, message, seen=NATIVE, expected=PORTABLE, severity=Severity.WARNING)


@AREA.check(VectorsView, ROW_OUT_OF_RANGE)
def rows_that_are_none(view: VectorsView) -> Iterator[Finding]:
    """Check for rows beyond the last one of the file, by the count of its footer, or of the log without a footer."""
    told: list[int | None] = extract_num_records_column(view.live.adds.column("stats")).to_pylist()
    for facts in view.vectors:
        rows = view.file_rows[facts.row] if view.file_rows[facts.row] is not None else told[facts.row]
        if facts.last is None or rows is None or facts.last < rows or rows < 0:
            continue
        place = view.place(facts.row)
        message = f"the deletion vector of {place.key} deletes row {facts.last}, but the file has {plural(rows, 'row')}"
        yield ROW_OUT_OF_RANGE.at(place, message, seen=facts.last, expected=f"less than {rows}")
