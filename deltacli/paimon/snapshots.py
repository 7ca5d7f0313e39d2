"""The files of a Paimon table: their names, and the content of snapshots, changelogs, tags and manifests.

Manifests are written as Avro, ORC or Parquet.

Avro needs the package fastavro, the other two pyarrow. Both are imported only when such a file is read.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from deltacli.core.errors import Unreadable, UsageError, command, install_command
from deltacli.core.typing import ArrowTable, JsonObject
from deltacli.paimon.numbers import parse_whole_number
from deltacli.paimon.schema import BadJson, read_object

MAIN_BRANCH = "main"
SCHEMA_DIRECTORY = "schema"
SNAPSHOT_DIRECTORY = "snapshot"
CHANGELOG_DIRECTORY = "changelog"
TAG_DIRECTORY = "tag"
MANIFEST_DIRECTORY = "manifest"
BRANCH_DIRECTORY = "branch"

SCHEMA_PREFIX = "schema-"
SNAPSHOT_PREFIX = "snapshot-"
CHANGELOG_PREFIX = "changelog-"
TAG_PREFIX = "tag-"
BRANCH_PREFIX = "branch-"

MAX_NUMBER = (1 << 63) - 1
"""The greatest number of a schema or snapshot."""

_NUMBER = re.compile(r"[0-9]{1,19}")


def branch_root(branch: str) -> str:
    """Return the directory of a branch, with a slash at its end; '' for the main branch."""
    return "" if branch == MAIN_BRANCH else f"{BRANCH_DIRECTORY}/{BRANCH_PREFIX}{branch}/"


def schema_path(schema_id: int, branch: str = MAIN_BRANCH) -> str:
    return f"{branch_root(branch)}{SCHEMA_DIRECTORY}/{SCHEMA_PREFIX}{schema_id}"


def number_of(name: str, prefix: str) -> int | None:
    """Return the number in a file name, such as 3 in `schema-3`; None for another name, also `schema-03`."""
    digits = name.removeprefix(prefix)
    if digits == name or not _NUMBER.fullmatch(digits) or digits != str(int(digits)):
        return None
    return int(digits) if int(digits) <= MAX_NUMBER else None


# -- snapshots, changelogs and tags ------------------------------------------------------------------------------------

MAX_SNAPSHOT_BYTES = 64 << 20

_LISTS = ("baseManifestList", "deltaManifestList", "changelogManifestList")


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """One snapshot, changelog or tag. `content` is the whole file, without the text that may follow the object."""

    id: int
    schema_id: int
    commit_kind: str
    time_ms: int
    content: JsonObject = field(compare=False)
    has_trailing_text: bool = field(default=False, compare=False)

    @property
    def has_numbers_as_text(self) -> bool:
        """True if a number from which pypaimon calculates that of the next snapshot is text.

        Measured with pypaimon 2.1.0: it reads such tables, and fails to write to them.
        """
        return any(isinstance(self.content.get(key), str) for key in ("id", "totalRecordCount"))

    @property
    def manifest_lists(self) -> tuple[str, ...]:
        return tuple(name for key in _LISTS if (name := _name_of(self.content.get(key))) is not None)

    @property
    def state_lists(self) -> tuple[str, ...]:
        """The names of the manifest lists from which its live files follow, oldest first."""
        return tuple(name for key in _LISTS[:2] if (name := _name_of(self.content.get(key))) is not None)


def read_snapshot(data: bytes) -> SnapshotFile:
    """Return a snapshot. Raises Unreadable (`paimon.bad-snapshot`)."""
    try:
        text = read_object(data)
    except BadJson as fault:
        raise _bad_snapshot(str(fault)) from None
    content = text.value
    return SnapshotFile(
        _number_of(content, "id"),
        _number_of(content, "schemaId"),
        str(content.get("commitKind") or ""),
        _number_of(content, "timeMillis", 0),
        content,
        text.trailing > 0,
    )


def _number_of(content: JsonObject, key: str, default: int | None = None) -> int:
    value = content.get(key, default)
    number = parse_whole_number(value)
    if number is None:
        raise _bad_snapshot(f"{key} is missing" if value is None else f"{key} is not a whole number")
    return number


def _name_of(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _bad_snapshot(reason: str) -> Unreadable:
    return Unreadable(reason, code="paimon.bad-snapshot")


_AVRO, _ORC, _PARQUET = b"Obj\x01", b"ORC", b"PAR1"
_LIST_COLUMNS = ("_FILE_NAME", "_SCHEMA_ID")
_ENTRY_COLUMNS = ("_KIND", "_PARTITION", "_BUCKET", "_FILE")
_FILE_COLUMNS = ("_FILE_NAME", "_SCHEMA_ID", "_LEVEL")
_ROWS_AT_ONCE = 65_536
_NO_PARTS: Mapping[str, Sequence[str]] = MappingProxyType({})


class ManifestFile(NamedTuple):
    """One manifest of a list, and the schema of its statistics."""

    name: str
    schema_id: int


def read_manifest_list(data: bytes) -> tuple[ManifestFile, ...]:
    """Return the manifests of a list. Raises Unreadable (`paimon.bad-manifest`), and UsageError without fastavro."""
    rows = _rows(data, _LIST_COLUMNS)
    return tuple(ManifestFile(_text(row["_FILE_NAME"]), _number(row["_SCHEMA_ID"])) for row in rows)


class ManifestState(NamedTuple):
    """Hashes of the files that a manifest adds, by their schemas, and of those that it deletes. A table has millions of
    files, so they take 8 bytes each; hashes are compared within one process only.
    """

    added: Mapping[int, array[int]]
    deleted: array[int]


def read_state(data: bytes) -> tuple[ManifestState, frozenset[int]]:
    """Return what a manifest adds and deletes, and its schemas. Raises what `read_manifest_list` raises."""
    added: dict[int, array[int]] = {}
    deleted = array("q")
    named = set()
    for row in _rows(data, _ENTRY_COLUMNS, {"_FILE": _FILE_COLUMNS}):
        file, partition = row["_FILE"], row["_PARTITION"]
        if not isinstance(file, Mapping):
            raise _bad_manifest("an entry has no file")
        is_added, schema_id = _number(row["_KIND"]) == 0, _number(file.get("_SCHEMA_ID"))
        key = partition if isinstance(partition, bytes) else b"", _number(row["_BUCKET"])
        named.add(schema_id)
        place = added.setdefault(schema_id, array("q")) if is_added else deleted
        place.append(hash((*key, _text(file.get("_FILE_NAME")), _number(file.get("_LEVEL")))))
    return ManifestState(added, deleted), frozenset(named)


def count_live(states: Sequence[ManifestState]) -> Counter[int]:
    """Return how many files remain of each schema."""
    deleted = {number for state in states for number in state.deleted}
    counts: Counter[int] = Counter()
    for state in states:
        for schema_id, numbers in state.added.items():
            counts[schema_id] += len(numbers) if not deleted else sum(number not in deleted for number in numbers)
    return +counts


Row = Mapping[str, Any]  # Any: values of a file


def _rows(data: bytes, columns: Sequence[str], parts: Mapping[str, Sequence[str]] = _NO_PARTS) -> Iterator[Row]:
    if data.startswith(_AVRO):
        yield from _avro_rows(data, columns)
    elif data.startswith((_ORC, _PARQUET)):
        import pyarrow

        try:
            table = _arrow_table(data, columns)
            values = {name: _python_values(table.column(name), parts.get(name)) for name in columns}
        except pyarrow.ArrowMemoryError:
            raise
        except (pyarrow.ArrowException, ValueError, LookupError, TypeError, AttributeError, OSError) as fault:
            reason = (str(fault).splitlines() or [type(fault).__name__])[0]
            raise _bad_manifest(f"it cannot be read: {reason[:200]}") from fault
        for place in range(table.num_rows):
            yield {name: column[place] for name, column in values.items()}
    else:
        raise _bad_manifest("it is neither Avro, ORC nor Parquet")


def _avro_rows(data: bytes, columns: Sequence[str]) -> Iterator[Row]:
    try:
        import fastavro
    except ImportError:
        raise UsageError(
            "the manifests of this table are Avro files, which need the package fastavro",
            code="usage.missing-extra",
            facts={"works without it": shown} if (shown := command("snapshot")) else {},
            hint=install_command("paimon"),
        ) from None
    from io import BytesIO

    try:
        for row in fastavro.reader(BytesIO(data)):
            if not isinstance(row, dict) or any(column not in row for column in columns):
                raise _bad_manifest("a column is missing")
            yield row
    except Unreadable:
        raise
    except _faults_of_avro() as fault:
        raise _bad_manifest(f"it cannot be read: {str(fault)[:200] or type(fault).__name__}") from fault


def _faults_of_avro() -> tuple[type[Exception], ...]:
    """Return what fastavro and its decompressors raise for damaged files."""
    import zlib
    from importlib import import_module

    from fastavro.schema import SchemaParseException, UnknownType

    own: list[type[Exception]] = [SchemaParseException, UnknownType]
    for name in ("compression.zstd", "backports.zstd", "zstandard"):
        with suppress(ImportError, AttributeError):
            own.append(import_module(name).ZstdError)
    general = (ValueError, LookupError, TypeError, AttributeError, AssertionError, ArithmeticError)
    return (*general, EOFError, OSError, RuntimeError, zlib.error, *own)


def _arrow_table(data: bytes, columns: Sequence[str]) -> ArrowTable:
    import pyarrow

    from deltacli.arrow.parquet import ParquetReader

    if data.startswith(_ORC):
        import pyarrow.orc

        return pyarrow.orc.ORCFile(pyarrow.BufferReader(data)).read(columns=list(columns))
    reader = ParquetReader(pyarrow.BufferReader(data))
    groups = range(reader.metadata.num_row_groups)
    batches = [batch for group in groups for batch in reader.read_columns(_ROWS_AT_ONCE, group, columns)]
    return pyarrow.Table.from_batches(batches) if batches else reader.schema_arrow.empty_table()


def _python_values(column: Any, parts: Sequence[str] | None) -> list[Any]:  # Any: values of a column
    if parts is None:
        return list(column.to_pylist())
    found = []
    for chunk in column.chunks:
        values = [chunk.field(part).to_pylist() for part in parts]
        found += [dict(zip(parts, row, strict=True)) for row in zip(*values, strict=True)]
    return found


def _number(value: object) -> int:
    if type(value) is not int:
        raise _bad_manifest("a number is missing")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _bad_manifest("a file name is missing")
    return value


def _bad_manifest(reason: str) -> Unreadable:
    return Unreadable(reason, code="paimon.bad-manifest")
