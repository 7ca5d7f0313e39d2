"""Scans of Spark over exactly the files of a plan: by their paths, or by the table's directory without other files.

Spark lists more than 32 paths in a job with a task for each, which takes seconds per hundred. So many files are read
as a directory, after its listing was compared with the plan: a live file that it lacks is an error, and any other file
is excluded by a filter on its path, so that Spark never opens it. Spec: Data Files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from deltacli.delta.paths.path_decoding import canonical
from deltacli.errors import DataUnreadable, DeltacliError, Refused
from deltacli.spark.live_files import Locations, SparkFile, missing_file
from deltacli.spark.session_settings import READ_OPTIONS, is_connect

MOST_PATHS = 32
"""Paths that Spark lists without a job."""
PATH, ROW = "__deltacli_path", "__deltacli_row"
"""Columns of a scan: the path of the file in Spark's spelling, and the number of the row in its file."""
_LONG, _SHORT = "file:///", "file:/"


class Listing(NamedTuple):
    """A frame of Spark, and the files that it has listed for it: place -> Spark's spelling in `inputFiles`."""

    frame: Any  # Any: a DataFrame
    spelled: Mapping[str, str]


@dataclass(frozen=True)
class Scanner:
    """Makes scans of the files of one table in one session.

    `hive_columns` are partition columns (fields of Spark) that the directories of the table name, in their order.
    """

    session: Any  # Any: a SparkSession
    locations: Locations
    hive_columns: tuple[Any, ...] = ()

    def scan(self, files: Sequence[SparkFile], schema: Any, *, with_path: bool = False, with_rows: bool = False) -> Any:
        """Return a frame over exactly these files; on request with `PATH`, and with `ROW`.

        `schema` is what is read of each file. Raises DataUnreadable (`data.file-missing`) where Spark does not find
        one of them, and Refused (`spark.listing`) where it lists another than asked for.
        """
        wanted = {file.place for file in files}
        is_directory = len(files) > MOST_PATHS and all(file.inner is not None for file in files)
        listing = self._directory(schema) if is_directory else None
        if listing is None or not wanted <= listing.spelled.keys():
            is_directory = False
            listing = self._list([file.location for file in files], schema, files)
        missing = next((file for file in files if file.place not in listing.spelled), None)
        if missing is not None:
            raise missing_file(missing)
        others = [spelled for place, spelled in listing.spelled.items() if place not in wanted]
        frame = self._with_places(listing.frame, with_path=with_path or bool(others), with_rows=with_rows)
        if others:
            self._require_known_spelling(files[0], schema, listing.spelled[files[0].place])
            frame = _without(frame, others)
            frame = frame if with_path else frame.drop(PATH)
        return self._pinned(frame) if is_directory else frame

    def _directory(self, schema: Any) -> Listing | None:
        """Return the whole directory; None where Spark cannot make sense of its partition directories."""
        try:
            return self._list([self.locations.root], schema, ())
        except Refused:
            return None

    def _list(self, paths: Sequence[str], schema: Any, files: Sequence[SparkFile]) -> Listing:
        from pyspark.sql import types

        fields = types.StructType([*schema.fields, *self.hive_columns])
        place = {"basePath": self.locations.root} if self.hive_columns else {"recursiveFileLookup": "true"}
        try:
            reader = self.session.read.schema(fields).options(**self._glob_options(), **READ_OPTIONS, **place)
            frame = reader.parquet(*(self._literal(path) for path in paths))
            listed = _input_files(self.session, frame)
        except Exception as fault:
            raise _explained(fault, files) from fault
        return Listing(frame, {canonical(each): each for each in listed})

    def _glob_options(self) -> dict[str, str]:
        """Return the option that makes `[1]` and `{1}` in paths text. A Connect server does not get it."""
        return {} if is_connect(self.session) else {"__globPaths__": "false"}

    def _literal(self, path: str) -> str:
        """Return a path as Spark is given it: on Connect, with escapes of what would be a glob."""
        return re.sub(r"[][{}*?\\]", r"\\\g<0>", path) if is_connect(self.session) else path

    def _with_places(self, frame: Any, *, with_path: bool, with_rows: bool) -> Any:
        """Return a frame with columns that tell where a row is from."""
        if not (with_path or with_rows):
            return frame
        metadata = frame.metadataColumn("_metadata")  # even where a column of the table has this name
        more = [metadata.getField("file_path").alias(PATH)] if with_path else []
        more += [metadata.getField("row_index").alias(ROW)] if with_rows else []
        return frame.select("*", *more)

    def _require_known_spelling(self, file: SparkFile, schema: Any, spelled: str) -> None:
        """Raise Refused unless the path of a row is one of the spellings that a filter excludes.

        `inputFiles` and `_metadata.file_path` spell local paths differently. A filter by a wrong spelling excludes
        nothing, and the rows of removed files would be back.
        """
        frame = self._list([file.location], schema, [file]).frame
        found = self._with_places(frame, with_path=True, with_rows=False).select(PATH).first()
        if found is not None and found[0] not in _spellings(spelled):
            raise _unknown_spelling(found[0], spelled)

    def _pinned(self, frame: Any) -> Any:
        """Return a frame whose listing no later action repeats.

        A Connect server analyzes a plan for each action, and would list the directory again, with files that have
        arrived since. A temporary view keeps what was listed.
        """
        if not is_connect(self.session):
            return frame
        name = f"deltacli_{os.urandom(8).hex()}"
        frame.createOrReplaceTempView(name)
        return self.session.table(name)


def _input_files(session: Any, frame: Any) -> list[str]:
    """Return the files that Spark has listed for a frame."""
    if is_connect(session):
        return list(frame.inputFiles())
    # One call for all: each element of a Java array costs a call, 10 s for 100,000.
    joined = session._jvm.org.apache.hadoop.util.StringUtils.join("\n", frame._jdf.inputFiles())
    return str(joined).split("\n") if joined else []


def _spellings(spelled: str) -> tuple[str, ...]:
    """Return how Spark may spell a listed file in `_metadata.file_path`."""
    if spelled.startswith(_LONG):
        return spelled, _SHORT + spelled[len(_LONG) :]
    return (spelled,)


def _without(frame: Any, others: Iterable[str]) -> Any:
    """Return a frame without the rows of some files. The filter prunes at the listing: they are not opened."""
    from pyspark.sql import functions as fn

    spelled = [text for other in others for text in _spellings(other)]
    plain = [text for text in spelled if "'" not in text and "\\" not in text]
    odd = [text for text in spelled if "'" in text or "\\" in text]
    if plain:  # as one text: a column for each of many literals takes 0.3 ms
        texts = ", ".join(f"'{text}'" for text in plain)
        frame = frame.where(fn.expr(f"{PATH} NOT IN ({texts})"))
    return frame.where(~fn.col(PATH).isin(odd)) if odd else frame


def _explained(fault: Exception, files: Sequence[SparkFile]) -> DeltacliError:
    """Return the error for files that Spark could not list."""
    text = str(fault).splitlines()[0] if str(fault) else type(fault).__name__
    if "PATH_NOT_FOUND" in text:
        for file in files:
            if f"{file.location}." in text.replace("\\", ""):
                return missing_file(file)
        return DataUnreadable("a data file does not exist", code="data.file-missing", facts={"reason": text[:300]})
    return Refused(
        "Spark cannot list the files of the table",
        code="spark.listing",
        facts={"reason": text[:300]},
        hint="read_table(…) needs a session with a Hadoop file system for this store, such as s3a://",
    )


def _unknown_spelling(found: str, listed: str) -> Refused:
    return Refused(
        "Spark spells the paths of files in a way that deltacli does not know",
        code="spark.spelling",
        facts={"in _metadata.file_path": found[:300], "in inputFiles": listed[:300]},
        hint="deltacli read {table}",
    )
