"""The rule about live files in a storage class that no reader can open, as a lifecycle rule of a bucket leaves them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.units import format_count, format_size, plural
from deltacli.delta.data_files import vector_file
from deltacli.delta.log.segment import Place
from deltacli.delta.paths.spelling import decode_path_bytes, encode_path_bytes
from deltacli.rules.files.storage import Compared
from deltacli.rules.framework.base import Area, Finding, Level
from deltacli.rules.framework.views import StorageView, rows_where

AREA = Area("storage", Level.STORAGE, spec="Data Files")

ARCHIVED = AREA.error(
    "data.archived",
    "A live file is in an archive of its store, such as GLACIER or DEEP_ARCHIVE on S3 and Archive on Azure.",
    broken="every reader of the newest version fails until the store has restored the file; its rows are not lost",
    repair="restore the files with the tools of the store (aws s3api restore-object, az storage blob set-tier), copy "
    "them to a class that is read at once, and exclude the table from the lifecycle rule that archives its files",
    example="an add of part-00001.parquet, which the listing of the bucket shows in DEEP_ARCHIVE",
)

_MOST_NAMED = 3


@AREA.check(StorageView, ARCHIVED)
def archived_live_files(view: StorageView) -> Iterator[Finding]:
    """Report live files, and files of their deletion vectors, that are archived: one finding per table.

    An archived file that no live row needs disturbs no reader, and vacuum deletes it like any other file.
    """
    listed = {path: file.archive_class for path, file in view.files.items() if file.archive_class}
    if not listed:
        return

    compared = Compared(view)
    names = pa.array([encode_path_bytes(path) for path in listed], pa.binary())
    rows = rows_where(pc.is_in(compared.keys, value_set=names))
    data_paths = [decode_path_bytes(key) for key in pc.take(compared.keys, rows).to_pylist()] if rows else []
    vector_paths = sorted(_vector_files(compared) & listed.keys())

    needed = {path: listed[path] for path in (*data_paths, *vector_paths)}
    archived = view.find_archived(needed)
    if archived:
        first = next((row for row, path in zip(rows, data_paths, strict=True) if path in archived), None)
        place = Place("") if first is None else next(compared.at([first]))[0]
        data = [path for path in data_paths if path in archived]
        vectors = [path for path in vector_paths if path in archived]
        size_bytes = sum(view.files[path].size_bytes for path in archived)
        classes = ", ".join(sorted(set(archived.values())))
        files = "it" if len(archived) == 1 else "them"
        message = (
            f"{_counted(data, vectors)} in an archive of the store ({classes}, {format_size(size_bytes)}): no engine "
            f"can read {files} before the store has restored {files}: {_named([*data, *vectors])}"
        )
        yield ARCHIVED.at(place, message, seen=len(archived), expected="0")


def _vector_files(compared: Compared) -> set[str]:
    """Return the paths below the table of the files that live deletion vectors are in."""
    live = compared.view.live_adds
    is_relative = pc.fill_null(pc.equal(live.column("dv_storage"), "u"), False)
    texts = pc.unique(pc.filter(live.column("dv_path"), is_relative)).to_pylist()
    relative = {path for text in texts if (path := vector_file(text)) is not None}
    return relative | compared.vector_names


def _counted(data: Sequence[str], vectors: Sequence[str]) -> str:
    """Return how many files of each kind there are: `2 live files and 1 file of deletion vectors are`."""
    count = len(data) + len(vectors)
    kinds = [plural(len(data), "live file")] if data else []
    if vectors:
        kinds.append(f"{plural(len(vectors), 'file')} of deletion vectors")
    return f"{' and '.join(kinds)} {'is' if count == 1 else 'are'}"


def _named(paths: Sequence[str]) -> str:
    """Return the first paths, and how many more there are."""
    shown = ", ".join(paths[:_MOST_NAMED])
    more = len(paths) - _MOST_NAMED
    return f"{shown} and {format_count(more)} more" if more > 0 else shown
