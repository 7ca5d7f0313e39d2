"""Read the files named by commits: adds, removes, change data and their deletion vectors, in columns.

Spec: Add File and Remove File; Add CDC File; Deletion Vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from deltacli.core.errors import CommitCorrupt, command
from deltacli.core.typing import Json
from deltacli.delta.data_files import fault_of, unique_id
from deltacli.delta.log.actions import Action, read_actions
from deltacli.delta.log.segment import LogFile
from deltacli.storage import ReadStorage
from deltacli.work.commits.reading import is_large, read_commit, stream_commit

if TYPE_CHECKING:
    import pyarrow

_ROWS_A_BATCH = 65_536
_KINDS = ("add", "remove", "cdc")


class FileReferences(NamedTuple):
    """Files that commits name, one row each.

    `path` and `vector` (the unique id of the deletion vector, `""` without one) are strings as in the log. `version` is
    the version of the commit. `size` (bytes) and `deletion_timestamp` (epoch milliseconds) are null if the action has
    none.
    """

    kind: str
    path: pyarrow.Array
    vector: pyarrow.Array
    version: pyarrow.Array
    size: pyarrow.Array
    deletion_timestamp: pyarrow.Array


class NamedFiles:
    """Collects the files that commits name, in the order in which they are added."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[Any, ...]]] = {kind: [] for kind in _KINDS}  # Any: JSON values, checked
        self.metadata: list[Action] = []
        """The metaData actions of the commits."""

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))

    def take(self, actions: Iterable[tuple[str, Action]], file: LogFile) -> Iterator[FileReferences]:
        """Append the actions of a commit, and yield each batch that is full.

        Raises CommitCorrupt for an action whose file cannot be determined.
        """
        for count, (kind, action) in enumerate(actions, 1):
            if kind == "metaData":
                self.metadata.append(action)
            if count % _ROWS_A_BATCH == 0:
                yield from self.flush()
            if kind not in _KINDS:
                continue
            path, vector = action.get("path"), action.get("deletionVector")
            if not isinstance(path, str):
                raise _unnamed(file, f"{kind}.path is missing or not a string", "action.missing-required")
            if vector is not None and (fault := fault_of(vector)):
                raise _unnamed(file, f"{kind}: {fault.text}", fault.code)
            self._rows[kind].append(
                (
                    path,
                    unique_id(vector),
                    file.version,
                    _long(action.get("size")),
                    _long(action.get("deletionTimestamp")),
                )
            )

    def flush(self) -> Iterator[FileReferences]:
        """Yield the collected rows, one batch per kind, and clear them."""
        import pyarrow as pa

        whole = pa.int64()
        types = (pa.string(), pa.string(), whole, whole, whole)
        for kind, rows in self._rows.items():
            if rows:
                columns = zip(*rows, strict=True)
                arrays = [_column(values, one) for values, one in zip(columns, types, strict=True)]
                yield FileReferences(kind, *arrays)
        self._rows = {kind: [] for kind in _KINDS}


def commit_actions(storage: ReadStorage, file: LogFile, content: bytes | None) -> Iterator[tuple[str, Action]]:
    """Yield the actions of a commit from the given bytes, or read it. Raises CommitCorrupt."""
    data = read_commit(storage, file) if content is None and not is_large(file) else content
    yield from stream_commit(storage, file) if data is None else read_actions(data, file.name)


def _column(values: tuple[Any, ...], data_type: Any) -> Any:  # Any: JSON values; pyarrow has no types
    import pyarrow as pa

    try:
        return pa.array(values, data_type)
    except UnicodeEncodeError:  # an unpaired surrogate: no file has such a name
        return pa.array([text.encode("utf-8", "replace").decode() for text in values], data_type)


def _long(value: Json) -> int | None:
    return value if type(value) is int and -(1 << 63) <= value < 1 << 63 else None


def _unnamed(file: LogFile, what: str, code: str) -> CommitCorrupt:
    return CommitCorrupt(
        f"{file.name}: {what}",
        file=file.name,
        code=code,
        facts={"version": str(file.version)},
        hint=command("validate"),
    )
