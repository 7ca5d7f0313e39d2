"""Rows that deletion vectors delete, as an anti-join of Spark on the file and the number of the row.

The join would keep deleted rows, without an error, if a file were spelled differently on its two sides. So the keys
are those that Spark itself returns for the files, and they have to be the planned ones. Spec: Deletion Vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deltacli.arrow import compute as pc
from deltacli.delta.paths.path_decoding import canonical
from deltacli.engine.spark.grouping import local_frame
from deltacli.errors import DataUnreadable, Refused
from deltacli.hints import command
from deltacli.spark.live_files import SparkFile
from deltacli.spark.parquet_scan import PATH, ROW
from deltacli.typing import ArrowArray
from deltacli.work.rows.deletion_vectors import read_vector
from deltacli.work.rows.table_files import TableFiles

MOST_DELETED_ROWS = 1_000_000
"""Deleted rows that a plan sends to Spark. The files of further ones are read by our own scan."""
_AT_ONCE = 1 << 20
_FILE, _DELETED = "__deltacli_file", "__deltacli_deleted"


def deleted_count(file: SparkFile) -> int:
    """Return how many rows of a file are deleted, as the log says."""
    count = (file.file.vector or {}).get("cardinality")
    return count if isinstance(count, int) else MOST_DELETED_ROWS + 1


def without_deleted(session: Any, frame: Any, files: Sequence[SparkFile], resolver: TableFiles) -> Any:
    """Return a frame with `PATH` and `ROW` without the rows that the vectors of its files delete.

    Runs a job that reads no column of the files. Raises DataUnreadable (`dv.*`), and Refused (`spark.spelling`) where
    the paths that Spark returns are not those of the files.
    """
    import pyarrow as pa
    from pyspark.sql import functions as fn

    keys = file_keys(frame, files)
    numbers: list[Any] = []
    rows: list[Any] = []
    for number, file in enumerate(files):
        deleted = _rows(resolver, file, keys[file.place][1])
        rows.append(deleted)
        numbers.append(pa.repeat(pa.scalar(number, pa.int32()), len(deleted)))
    known = [number for number, file in enumerate(files) if keys[file.place][0] is not None]
    spelled = pa.array([keys[files[number].place][0] for number in known], pa.string())
    paths = local_frame(session, {_FILE: (pa.array(known, pa.int32()), "int"), PATH: (spelled, "string")})
    positions = {_FILE: (pa.chunked_array(numbers), "int"), _DELETED: (pa.chunked_array(rows), "bigint")}
    deleted = local_frame(session, positions).join(fn.broadcast(paths), _FILE).drop(_FILE)
    deleted = deleted.withColumnRenamed(_DELETED, ROW)
    return frame.join(fn.broadcast(deleted), [PATH, ROW], "left_anti")


def file_keys(frame: Any, files: Sequence[SparkFile]) -> dict[str, tuple[str | None, int]]:
    """Return for the place of each file how Spark spells it in rows, and how many rows it has there.

    A file without rows has no spelling. Raises Refused (`spark.spelling`) where Spark returns another file, and where
    the rows of a file are not numbered from 0.
    """
    from pyspark.sql import functions as fn

    counted = frame.groupBy(PATH).agg(fn.count("*"), fn.max(ROW))
    found: dict[str, tuple[str | None, int]] = {file.place: (None, 0) for file in files}
    for path, count, last in counted.collect():
        place = canonical(path)
        if place not in found or found[place][0] is not None or last != count - 1:
            raise Refused(
                "Spark does not return the rows of the planned files",
                code="spark.spelling",
                facts={"in _metadata.file_path": path[:300], "rows": str(count), "last row": str(last)},
                hint=command("read"),
            )
        found[place] = (path, count)
    return found


def _rows(resolver: TableFiles, file: SparkFile, rows: int) -> ArrowArray:
    """Return the numbers of the deleted rows of a file. Each is a row of the file, so each deletes one row."""
    import pyarrow as pa

    assert file.file.vector is not None
    vector = read_vector(resolver, file.file.vector)
    if vector.last >= rows:
        raise DataUnreadable(
            f"{file.file.path}: its deletion vector deletes row {vector.last}, but it has {rows} rows",
            code="dv.row-out-of-range",
            facts={"file": file.file.path},
        )
    parts = [pa.nulls(0, pa.int64())]
    for start in range(0, vector.last + 1, _AT_ONCE):
        mask = vector.mask(start, min(_AT_ONCE, rows - start))
        if mask is not None:
            parts.append(pc.add(pc.cast(pc.indices_nonzero(mask), pa.int64()), start))
    return pa.concat_arrays(parts)
