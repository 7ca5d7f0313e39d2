"""Scans of Spark over exactly the files of a plan: by their paths, or by the table's directory without other files.

A setting that a read option overrides is overridden. For any other, rows are read by our own scan.

Values come from the log alone. Directories are used only where each of them names exactly what the log has, in the way
that Spark reads it.

Spark lists more than 32 paths in a job with a task for each, which takes seconds per hundred. So many files are read
as a directory, after its listing was compared with the plan: a live file that it lacks is an error, and any other file
is excluded by a filter on its path, so that Spark never opens it.

Spark compares two scans by the paths that they were given, and not by the files that it listed below them. An option
with another value for each scan keeps it from replacing one scan by another, or by the cached rows of another.

Spec: Add File and Remove File; Per-file Statistics; Partition Value Serialization; Data Files; Deletion Vectors.
"""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core import errors
from deltacli.core.machine import system_clock
from deltacli.core.typing import ArrowArray, ArrowScalar, SparkFrame, SparkSession
from deltacli.delta.paths.spelling import canonicalize_path, canonicalize_root, decode, schemes_of_store
from deltacli.delta.schema.types import StructField, simple_name
from deltacli.engine.spark.jobs import make_local_frame
from deltacli.storage.secrets import mask_secrets
from deltacli.table.data_files import build_live_data_files
from deltacli.table.selection import Selection
from deltacli.work.rows.data_files import DataFile
from deltacli.work.rows.deletion_vectors import read_vector
from deltacli.work.rows.files_once import FilesOnce
from deltacli.work.table_files import TableFiles

if TYPE_CHECKING:
    from deltacli.storage import ReadStorage
    from deltacli.table.version import Snapshot

# -- settings of a session that change what Spark's Parquet scan returns -----------------------------------------------

READ_OPTIONS: Mapping[str, str] = {
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "mergeSchema": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "timeZone": "UTC",
}
"""Options of every scan."""


@dataclass(frozen=True, slots=True)
class Hazard:
    """A setting that no read option overrides, with the values that are harmless."""

    name: str
    default: str
    is_harmless: Callable[[str], bool]


HAZARDS = (
    Hazard("spark.sql.parquet.int96TimestampConversion", "false", lambda value: value == "false"),
    Hazard("spark.sql.sources.useV1SourceList", "parquet", lambda value: "parquet" in re.split(r"[\s,]+", value)),
    Hazard("spark.sql.parquet.int96AsTimestamp", "true", lambda value: value == "true"),
    Hazard("spark.sql.variant.allowReadingShredded", "true", lambda value: value == "true"),
    Hazard("spark.sql.parquet.ignoreVariantAnnotation", "false", lambda value: value == "false"),
)


def hazard_of(session: SparkSession) -> str | None:
    """Return the first setting of a session that forbids Spark's own scan, with its value; None for none."""
    for hazard in HAZARDS:
        value = _value(session, hazard.name, hazard.default)
        if not hazard.is_harmless(value):
            return f"{hazard.name} is {value}"
    return None


_LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_counting = Lock()
_listings: dict[Any, tuple[int, str | None]] = {}  # Any: a session, or that of the JVM
"""The sessions that list paths, with how many threads do, and the setting from before."""


@contextmanager
def few_listing_tasks(session: SparkSession) -> Iterator[None]:
    """Let Spark list paths in 64 tasks instead of one for each path, which takes 10 times longer."""
    key = getattr(session, "_jsparkSession", session)
    with _counting:
        others, before = _listings.get(key) or (0, session.conf.get(_LISTING_TASKS, None))
        _listings[key] = others + 1, before
        session.conf.set(_LISTING_TASKS, "64")
    try:
        yield
    finally:
        with _counting:
            threads, before = _listings.pop(key)
            if threads > 1:
                _listings[key] = threads - 1, before
            elif before is None:
                session.conf.unset(_LISTING_TASKS)
            else:
                session.conf.set(_LISTING_TASKS, before)


def is_case_sensitive(session: SparkSession) -> bool:
    """Return whether the session tells `a` from `A`."""
    return _value(session, "spark.sql.caseSensitive", "false") == "true"


def is_before_4_1(session: SparkSession) -> bool:
    return str(session.version).startswith("4.0.")


def is_connect(session: SparkSession) -> bool:
    """Return True for a session of Spark Connect, which analyzes a plan again for each action."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def require_session(session: Any) -> None:  # Any: as the caller gave it
    """Raise UsageError unless this is a session of Spark 4."""
    version = str(getattr(session, "version", ""))
    if not re.match(r"[4-9]\.", version) or not hasattr(session, "createDataFrame"):
        raise errors.UsageError(
            f"Spark {version} is too old" if version else f"{session!r} is not a Spark session",
            code="cluster.pyspark",
            facts={"supported": "4.0 to 4.3"},
            hint=errors.install_command("spark-local"),
        )


def _value(session: Any, name: str, default: str) -> str:
    return str(session.conf.get(name, default)).lower()


# -- the files of a version that a plan reads --------------------------------------------------------------------------

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


class SparkFile(NamedTuple):
    """A live file. `location` is how Spark is given it, not encoded; `place` is how its own spelling is compared."""

    file: DataFile
    location: str
    place: str
    inner: str | None
    """The path below the table's directory; None for a file elsewhere."""

    @property
    def name(self) -> str:
        return self.place.rpartition("/")[2]


@dataclass
class LiveFiles:
    """The files of a version that may have matching rows, and how many were pruned."""

    files: list[DataFile]
    by_partition: int = 0
    by_statistics: int = 0


def find_live_files(snapshot: Snapshot, selection: Selection) -> LiveFiles:
    """Return the live files, without those that the condition excludes. Raises DataUnreadable (`partition.*`)."""

    def judged(adds: pa.RecordBatch) -> LiveFiles:
        if selection.predicate is None:
            return LiveFiles(build_live_data_files(adds, snapshot.config, selection))
        from deltacli.delta.predicate.prune import prune_files

        pruned = prune_files(adds, selection.predicate, snapshot.config)
        kept = build_live_data_files(pc.filter(adds, pruned.kept), snapshot.config, selection)
        by_partition = pruned.by_partition.true_count
        return LiveFiles(kept, by_partition, adds.num_rows - len(kept) - by_partition)

    found = LiveFiles([])
    for part in snapshot.file_actions.map_actions("add", judged, fields=_FIELDS):
        found.files += part.files
        found.by_partition += part.by_partition
        found.by_statistics += part.by_statistics
    found.files = list(FilesOnce().keep_first(found.files))
    return found


_FIELDS = ("path", "size", "partitionValues", "stats", "deletionVector", "baseRowId", "defaultRowCommitVersion")


class Locations:
    """Where Spark finds files of a table. `uri` is the table as the caller wrote it."""

    def __init__(self, files: TableFiles, storage: ReadStorage, uri: str) -> None:
        self._files, self._storage = files, storage
        scheme = _SCHEME.match(uri)
        self._scheme = scheme[1] if scheme else None
        self.root_place = canonicalize_root(storage.uri)
        self.root = self._spelled(self.root_place)

    def locate(self, file: DataFile) -> SparkFile:
        """Return the place of a file. Raises PathExternal and UsageError as `TableFiles.locate` does."""
        storage, inner = self._files.locate(file.path)
        if decode(file.path) != file.path and (other := self._files.locate_undecoded(file.path)) is not None:
            storage, inner = self._existing((storage, inner), other)
        root = self.root_place if storage is self._storage else canonicalize_root(storage.uri)
        place = f"{root}/{inner}"
        return SparkFile(file, self._spelled(place), place, inner if storage is self._storage else None)

    def _existing(self, decoded: tuple[ReadStorage, str], written: tuple[ReadStorage, str]) -> tuple[ReadStorage, str]:
        """Return which of two spellings exists: some writers do not encode paths."""
        for storage, path in (decoded, written):
            try:
                storage.stat(path)
            except errors.FileMissing:
                continue
            return storage, path
        return decoded

    def _spelled(self, place: str) -> str:
        if place.startswith("/"):
            return f"file:{place}"
        scheme = _SCHEME.match(place)
        # Spark is given the scheme that the caller wrote, for which it has a file system.
        if scheme and self._scheme in schemes_of_store(scheme[1]):
            return f"{self._scheme}://{place[scheme.end() :]}"
        return place


def odd_name(file: SparkFile) -> str | None:
    """Return why Spark would skip a file without an error, or cannot open it; None where it reads the file."""
    name = file.name
    if name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_"):
        return "Spark skips files with such a name"
    if ":" in name:
        return "Spark cannot open a name with a colon"
    try:
        file.place.encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    return None


def repeated_places(files: list[SparkFile]) -> Iterator[SparkFile]:
    """Yield each file that has the place of an earlier one. A list of paths gives Spark such a file once or twice."""
    seen: set[str] = set()
    for file in files:
        if file.place in seen:
            yield file
        seen.add(file.place)


def missing_file(file: SparkFile) -> errors.DataUnreadable:
    """Return the error for a live file that Spark does not find."""
    return errors.DataUnreadable(
        f"{mask_secrets(decode(file.file.path))} does not exist",
        code="data.file-missing",
        facts={"file": mask_secrets(file.location)},
        hint=errors.command("validate", level="storage"),
    )


# -- how the partition values of files get into their rows -------------------------------------------------------------

MOST_BRANCHES = 32
"""Scans of one plan. More of them take longer to plan than a join takes to run."""
_MOST_FILES_OF_BRANCHES = 1_000
_NULL = "__HIVE_DEFAULT_PARTITION__"
_EXACT = frozenset({"string", "byte", "short", "integer", "long", "date", "boolean"})
"""Types that Spark reads out of a directory's name as the table means them, in any session."""


_FIRST_DAY, _LAST_DAY = -135_140, 2_932_896
"""1600-01-01 and 9999-12-31: dates with one spelling in every calendar."""


class Values(StrEnum):
    """Where a plan takes partition values from."""

    NONE = "no partition values needed"
    DIRECTORIES = "partition values from directories"
    LITERALS = "partition values as literals"
    JOIN = "partition values by a join"


def choose_values(
    files: Sequence[SparkFile], needed: Sequence[StructField], columns: Mapping[str, StructField | None], *, scans: int
) -> Values:
    """Return where the values of the needed partition columns come from.

    `columns` are all partition columns by physical name, in order. `scans` is how many scans the plan has anyway.
    """
    if not needed:
        return Values.NONE
    if agrees_with_directories(files, columns):
        return Values.DIRECTORIES
    names = [column.name for column in needed]
    keys = {key_of(file, names) for file in files}
    few = len(keys) * max(scans, 1) <= MOST_BRANCHES and len(files) <= _MOST_FILES_OF_BRANCHES
    return Values.LITERALS if few else Values.JOIN


def key_of(file: SparkFile, names: Sequence[str]) -> tuple[Any, ...]:  # Any: Arrow scalars, or texts
    """Return what is the same for two files with the same values: -0.0 is not 0.0, and NaN is NaN."""
    values = (file.file.constants[name] for name in names)
    return tuple(str(value) if pa.types.is_floating(value.type) else value for value in values)


def agrees_with_directories(files: Sequence[SparkFile], columns: Mapping[str, StructField | None]) -> bool:
    """Return whether the directories of all files name their partition values, as Spark reads them.

    Only values that a file has as constants are compared; the others are not needed.
    """
    if len({name.lower() for name in columns}) < len(columns):
        return False
    needed = {column.name: column for column in columns.values() if column and column.name in files[0].file.constants}
    if any(simple_name(column.data_type) not in _EXACT for column in needed.values()):
        return False
    checked: dict[tuple[str, tuple[Any, ...]], bool] = {}
    for file in files:
        if file.inner is None:
            return False
        key = file.inner.rpartition("/")[0], key_of(file, list(needed))
        if key not in checked:
            checked[key] = _agrees(key[0], columns, file.file.constants)
        if not checked[key]:
            return False
    return True


def _agrees(directory: str, columns: Mapping[str, StructField | None], values: Mapping[str, Any]) -> bool:
    segments = directory.split("/")
    if len(segments) != len(columns):
        return False
    for segment, (name, column) in zip(segments, columns.items(), strict=True):
        named, equals, text = segment.partition("=")
        if not equals or _unescaped(named) != name or not text:
            return False
        if column is not None and column.name in values and _unescaped(text) != _text(values[column.name]):
            return False
    return True


def _text(value: ArrowScalar) -> str | None:
    """Return the only text of a value that is accepted, None where there is none."""
    if not value.is_valid:
        return _NULL
    if pa.types.is_date(value.type):
        days = value.cast(pa.int32()).as_py()
        return str(value.as_py().isoformat()) if _FIRST_DAY <= days <= _LAST_DAY else None
    plain = value.as_py()
    if pa.types.is_boolean(value.type):
        return "true" if plain else "false"
    return str(plain) if plain not in ("", _NULL) else None


def _unescaped(text: str) -> str:
    """Return a part of a directory's name as Spark reads it: each escape is a character, not a byte."""
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), text)


# -- scans of Spark over exactly the files of a plan -------------------------------------------------------------------

MOST_PATHS = 32
"""Paths that Spark lists without a job."""
PATH, ROW = "__deltacli_path", "__deltacli_row"
"""Columns of a scan: the path of the file in Spark's spelling, and the number of the row in its file."""
MOST_NAMED = 10_000
"""Files that a filter names, 10 bytes each: the other ones of a directory, or the live ones where these are fewer."""
_IDENTITY = "deltacliScan"
_process, _numbers = os.urandom(8).hex(), count()
_LONG, _SHORT = "file:///", "file:/"
MOST_DELETED_ROWS = 1_000_000
"""Deleted rows that a plan sends to Spark. The files of further ones are read by our own scan."""
_AT_ONCE = 1 << 20
_FILE, _DELETED = "__deltacli_file", "__deltacli_deleted"


class Listing(NamedTuple):
    """A frame of Spark, and the files that it has listed for it: place -> Spark's spelling in `inputFiles`."""

    frame: SparkFrame
    spelled: Mapping[str, str]


@dataclass(frozen=True)
class Scanner:
    """Makes scans of the files of one table in one session.

    `hive_columns` are partition columns (fields of Spark) that the directories of the table name, in their order.
    """

    session: SparkSession
    locations: Locations
    hive_columns: tuple[Any, ...] = ()

    def scan(self, files: Sequence[SparkFile], schema: Any, *, with_path: bool = False, with_rows: bool = False) -> Any:
        """Return a frame over exactly these files; on request with `PATH`, and with `ROW`.

        `schema` is what is read of each file. Raises DataUnreadable (`data.file-missing`) where Spark does not find
        one of them, and Refused (`spark.listing`) where it lists another than asked for.
        """
        wanted = {file.place for file in files}
        is_directory = len(files) > MOST_PATHS and all(file.inner is not None for file in files)
        listing = self._directory(schema, wanted) if is_directory else None
        if listing is None:
            with few_listing_tasks(self.session) if len(files) > MOST_PATHS else nullcontext():
                listing = self._list([file.location for file in files], schema, files)
        missing = next((file for file in files if file.place not in listing.spelled), None)
        if missing is not None:
            raise missing_file(missing)
        frame = listing.frame
        if len(listing.spelled) > len(wanted):
            largest = max(files, key=lambda file: file.file.size_bytes or 0)
            self._require_known_spelling(largest, schema, listing.spelled[largest.place])
            frame = _only(frame, wanted, listing.spelled)
        unwanted = [name for name, is_wanted in ((PATH, with_path), (ROW, with_rows)) if not is_wanted]
        return frame.drop(*unwanted)

    def _directory(self, schema: Any, wanted: set[str]) -> Listing | None:
        """Return the whole directory; None where Spark cannot make sense of its partition directories, where it lacks
        a file, and where a filter had to name too many files.

        Spark lists a directory again for rows that are cached (`refreshByPath`). Files that are modified from now on
        are not listed then. A live file that is newer than the clock of the driver turns this off.
        """
        now = datetime.fromtimestamp((system_clock() + 1) / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
        for options in ({"modifiedBefore": now}, {}):
            try:
                listing = self._list([self.locations.root], schema, (), **options)
            except errors.Refused:
                return None
            if wanted <= listing.spelled.keys():
                return listing if min(len(wanted), len(listing.spelled) - len(wanted)) <= MOST_NAMED else None
        return None

    def _list(self, paths: Sequence[str], schema: Any, files: Sequence[SparkFile], **more: str) -> Listing:
        from pyspark.sql import types

        fields = types.StructType([*schema.fields, *self.hive_columns])
        place = {"basePath": self.locations.root} if self.hive_columns else {"recursiveFileLookup": "true"}
        more[_IDENTITY] = f"{_process}-{next(_numbers)}"
        try:
            reader = self.session.read.schema(fields).options(**self._glob_options(), **READ_OPTIONS, **place, **more)
            frame = _with_places(reader.parquet(*(self._literal(path) for path in paths)))
            if is_connect(self.session) and (not files or len(files) > MOST_PATHS):
                frame = _pinned(self.session, frame)
            listed = _input_files(self.session, frame.select(PATH))  # thousands of columns take seconds
        except Exception as fault:
            raise _explained(fault, files) from fault
        return Listing(frame, {canonicalize_path(each): each for each in listed})

    def _glob_options(self) -> dict[str, str]:
        """Return the option that makes `[1]` and `{1}` in paths text. A Connect server does not get it."""
        return {} if is_connect(self.session) else {"__globPaths__": "false"}

    def _literal(self, path: str) -> str:
        """Return a path as Spark is given it: on Connect, with escapes of what would be a glob."""
        return re.sub(r"[][{}*?\\]", r"\\\g<0>", path) if is_connect(self.session) else path

    def _require_known_spelling(self, file: SparkFile, schema: Any, spelled: str) -> None:
        """Raise Refused unless the path of a row is one of the spellings that a filter excludes.

        `inputFiles` and `_metadata.file_path` spell local paths differently. A filter by a wrong spelling excludes
        nothing, and the rows of removed files would be back.
        """
        found = self._list([file.location], schema, [file]).frame.select(PATH).first()
        if found is not None and found[0] not in _spellings(spelled):
            raise errors.Refused(
                "Spark spells the paths of files in a way that deltacli does not know",
                code="spark.spelling",
                facts={"in _metadata.file_path": found[0][:300], "in inputFiles": spelled[:300]},
                hint=errors.command("read"),
            )


def _with_places(frame: Any) -> Any:
    """Return a frame with `PATH` and `ROW`. Spark makes them only where they are used."""
    metadata = frame.metadataColumn("_metadata")  # even where a column of the table has this name
    return frame.select("*", metadata.getField("file_path").alias(PATH), metadata.getField("row_index").alias(ROW))


def _pinned(session: Any, frame: Any) -> Any:
    """Return a frame whose files are listed once, for as long as a frame is made of it.

    A Connect server analyzes a plan for each action, and would list the files again, with others that have arrived
    since. A temporary view keeps what was listed.
    """
    name = f"deltacli_{os.urandom(8).hex()}"
    frame.createOrReplaceTempView(name)
    view = session.table(name)
    ended = weakref.finalize(view._plan, _drop_later, session, name)  # frames made of this one refer to its plan
    ended.atexit = False
    return view


def _drop_later(session: Any, name: str) -> None:
    """Drop a view in a thread of its own: the garbage collector may have interrupted a request of this one."""

    def drop() -> None:
        with suppress(Exception):  # the session has ended, and its views with it
            session.catalog.dropTempView(name)

    with suppress(RuntimeError):  # the interpreter ends
        threading.Thread(target=drop, name="deltacli-drop-view", daemon=True).start()


def _input_files(session: Any, frame: Any) -> list[str]:
    if is_connect(session):
        ask = type(frame).inputFiles
        return list(getattr(ask, "__wrapped__", ask)(frame))  # its cache would keep the frame, and its view, for ever
    # One call for all: each element of a Java array costs a call, 10 s for 100,000.
    joined = session._jvm.org.apache.hadoop.util.StringUtils.join("\n", frame._jdf.inputFiles())
    return str(joined).split("\n") if joined else []


def _spellings(spelled: str) -> tuple[str, ...]:
    """Return how Spark may spell a listed file in `_metadata.file_path`."""
    if spelled.startswith(_LONG):
        return spelled, _SHORT + spelled[len(_LONG) :]
    return (spelled,)


def _only(frame: Any, wanted: set[str], spelled: Mapping[str, str]) -> Any:
    """Return the rows of the wanted files. The filter prunes at the listing: other files are not opened.

    It compares checksums of paths, which are a tenth of their size. Paths of other files with the checksum of a wanted
    one are excluded as texts.
    """
    from pyspark.sql import functions as fn

    live = {text for place in wanted for text in _spellings(spelled[place])}
    others = {text for place, each in spelled.items() if place not in wanted for text in _spellings(each)}
    kept, excluded = ({crc32(text.encode()) for text in texts} for texts in (live, others))
    alike = [text for text in others if crc32(text.encode()) in kept]
    is_shorter = len(kept) < len(excluded)
    sums = kept if is_shorter else excluded - kept
    if sums:  # as one text: a column for each of many literals takes 0.3 ms
        numbers = ", ".join(map(str, sorted(sums)))
        which = "IN" if is_shorter else "NOT IN"
        frame = frame.where(fn.expr(f"crc32(CAST({PATH} AS BINARY)) {which} ({numbers})"))
    return frame.where(~fn.col(PATH).isin(alike)) if alike else frame


def _explained(fault: Exception, files: Sequence[SparkFile]) -> errors.DeltacliError:
    """Return the error for files that Spark could not list."""
    text = str(fault).splitlines()[0] if str(fault) else type(fault).__name__
    if "PATH_NOT_FOUND" in text:
        for file in files:
            if f"{file.location}." in text.replace("\\", ""):
                return missing_file(file)
        return errors.DataUnreadable(
            "a data file does not exist", code="data.file-missing", facts={"reason": text[:300]}
        )
    return errors.Refused(
        "Spark cannot list the files of the table",
        code="spark.listing",
        facts={"reason": text[:300]},
        hint="read_table(…) needs a session with a Hadoop file system for this store, such as s3a://",
    )


def deleted_count(file: SparkFile) -> int:
    """Return how many rows of a file are deleted, as the log says."""
    count = (file.file.vector or {}).get("cardinality")
    return count if isinstance(count, int) else MOST_DELETED_ROWS + 1


def without_deleted(session: Any, frame: Any, files: Sequence[SparkFile], resolver: TableFiles) -> Any:
    """Return a frame with `PATH` and `ROW` without the rows that the vectors of its files delete, by an anti-join.

    The join would keep deleted rows, without an error, if a file were spelled differently on its two sides. So the keys
    are those that Spark itself returns for the files, and they have to be the planned ones.

    Runs a job that reads no column of the files. Raises DataUnreadable (`dv.*`), and Refused (`spark.spelling`) where
    the paths that Spark returns are not those of the files.
    """
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
    paths = make_local_frame(session, {_FILE: (pa.array(known, pa.int32()), "int"), PATH: (spelled, "string")})
    positions = {_FILE: (pa.chunked_array(numbers), "int"), _DELETED: (pa.chunked_array(rows), "bigint")}
    deleted = make_local_frame(session, positions).join(fn.broadcast(paths), _FILE).drop(_FILE)
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
    for path, rows, last in counted.collect():
        place = canonicalize_path(path)
        if place not in found or found[place][0] is not None or last != rows - 1:
            raise errors.Refused(
                "Spark does not return the rows of the planned files",
                code="spark.spelling",
                facts={"in _metadata.file_path": path[:300], "rows": str(rows), "last row": str(last)},
                hint=errors.command("read"),
            )
        found[place] = (path, rows)
    return found


def _rows(resolver: TableFiles, file: SparkFile, rows: int) -> ArrowArray:
    """Return the numbers of the deleted rows of a file. Others of the vector are not in the file and delete nothing."""
    assert file.file.vector is not None
    vector = read_vector(resolver, file.file.vector)
    parts = [pa.nulls(0, pa.int64())]
    for start in range(0, min(vector.last + 1, rows), _AT_ONCE):
        mask = vector.mask(start, min(_AT_ONCE, rows - start))
        if mask is not None:
            parts.append(pc.add(pc.cast(pc.indices_nonzero(mask), pa.int64()), start))
    return pa.concat_arrays(parts)
