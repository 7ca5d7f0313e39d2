"""Rules about what data files are and how they lie: Parquet, readable, with rows; old forms of lists, codecs,
encryption. In `data_types` and `data_columns` what columns they have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from deltacli.arrow import compute as pc
from deltacli.core.units import plural
from deltacli.delta.log.log_path import Place
from deltacli.delta.schema.file_columns import is_list
from deltacli.delta.schema.types import ArrayType
from deltacli.rules.files.data_types import NESTED_LAYOUT, REWRITE_BY_ENGINE, match_of
from deltacli.rules.files.file_match import is_three_levels
from deltacli.rules.files.storage import FILE_MISSING, file_missing
from deltacli.rules.framework.base import Area, Finding, Level, ReadFault, by_repair
from deltacli.rules.framework.data_file_views import (
    VANISHED,
    AllFootersView,
    FileFaultView,
    FileSchemaView,
    FootersView,
)

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


@AREA.check_faults(FileFaultView, NOT_PARQUET)
def files_that_are_no_parquet(view: FileFaultView) -> Iterator[ReadFault]:
    """What kept a file from being read."""
    message = f"{view.place.key} is not a Parquet file: {view.fault.message}"
    yield ReadFault(view.fault.code, view.place, message, view.fault.seen)


@AREA.check(FileFaultView, FILE_MISSING)
def files_that_vanished(view: FileFaultView) -> Iterator[Finding]:
    """A file that was deleted after the listing: the comparison with the listing has seen it."""
    if view.fault.code == VANISHED:
        yield file_missing(view.place)


@AREA.check(FootersView, ROW_COUNT_ZERO)
def files_without_rows(view: FootersView) -> Iterator[Finding]:
    """Files that are read for nothing."""
    for row in pc.indices_nonzero(pc.equal(view.rows, 0)).to_pylist():
        place = view.place(row)
        yield ROW_COUNT_ZERO.at(place, f"{place.key} has no rows", seen=0)


CODEC_UNSUPPORTED = AREA.warning(
    "data.codec-unsupported",
    "A data file is compressed with a codec that readers need not know.",
    spec="Table Properties",
    broken="readers without the codec fail at the file",
    repair=REWRITE_BY_ENGINE,
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


@AREA.check(FileSchemaView, NESTED_LAYOUT)
def old_lists(view: FileSchemaView) -> Iterator[Finding]:
    """Lists without a group for each element; readers take them by the rules for old writers."""
    for part in match_of(view).parts:
        node = part.file.node
        if not isinstance(part.data_type, ArrayType) or not is_list(part.file.kind):
            continue
        if node is None or is_three_levels(node):
            continue
        levels = 1 if node.is_repeated else 2
        message = f"column {part.path} is a list of {plural(levels, 'level')} in {view.shown_files}"
        place = view.place._replace(key=part.path)
        yield NESTED_LAYOUT.at(place, message, seen=plural(levels, "level"), expected="3 levels")


@AREA.check(FootersView, CODEC_UNSUPPORTED)
def note_codecs(view: FootersView) -> Iterator[Finding]:
    """Count the files that use a codec not all readers have; told when all were seen."""
    yield from ()
    known: dict[int, _CodecUse] = view.run_memory.setdefault("codecs", {})
    for row, footer in enumerate(view.footers):
        for codec in footer.codecs - _SUPPORTED:
            if codec is None:
                continue
            use = known.get(codec) or _CodecUse(0, view.place(row))
            known[codec] = use._replace(files=use.files + 1)


@AREA.check(AllFootersView, CODEC_UNSUPPORTED)
def codecs_of_files(view: AllFootersView) -> Iterator[Finding]:
    """Each such codec once."""
    known: dict[int, _CodecUse] = view.run_memory.get("codecs", {})
    for codec, use in sorted(known.items()):
        name = _CODEC_NAMES[codec] if 0 <= codec < len(_CODEC_NAMES) else f"codec {codec}"
        files = f"{plural(use.files, 'file')}, such as {use.place.key}," if use.files > 1 else use.place.key
        message = f"{files} {'are' if use.files > 1 else 'is'} compressed with {name}, which readers need not know"
        yield CODEC_UNSUPPORTED.at(use.place, message, seen=name, expected=_EXPECTED)


@AREA.check_faults(FileFaultView, ENCRYPTED)
def encrypted_files(view: FileFaultView) -> Iterator[ReadFault]:
    """Files of which nothing more, or not all, can be checked."""
    message = f"{view.place.key} is encrypted: {view.fault.message}"
    yield ReadFault(view.fault.code, view.place, message, view.fault.seen)
