"""The content of a new commit: its lines, no file twice, and the live files that it depends on.

Paths of files are compared in the spelling of replay, without vectors: a new vector of a file changes it for everybody
who read or removes the file.

Spec: Delta Log Entries; Commit Provenance Information; In-Commit Timestamps; Row Tracking; Add File and Remove File.
"""

from __future__ import annotations

import json
import typing
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import NOTHING_CHANGED, DoubleQuoted, Refused, command
from deltacli.core.typing import ArrowArray
from deltacli.delta.data_files import unique_id, unique_id_column
from deltacli.delta.log import state
from deltacli.delta.log.actions import NO_METADATA, Action, too_deep
from deltacli.delta.log.file_actions import compute_file_keys, extract_num_records_column, parse_num_records
from deltacli.delta.log.row_ids import DOMAIN, ENABLED, FEATURE, MAX_ROW_ID, NO_MARK, assigns_row_ids, mark_action
from deltacli.delta.log.segment import MAX_TIME_MS, MAX_VERSION
from deltacli.delta.paths.spelling import canonicalize_path
from deltacli.delta.paths.spelling_columns import canonicalize_paths
from deltacli.delta.protocol.features import Protocol, require_commits_supported, require_readable

_OURS = "the new commit"
_ROWS_KEPT = {"delta.rowTracking.preserved": "true"}


class NextVersion(NamedTuple):
    """The place of a commit in the log, which the lines of its adds depend on. Their rows get ids from `first_row_id`
    on where they have none, `new_rows` of them, and `version` as their `defaultRowCommitVersion`; if it is None, adds
    have neither.
    """

    version: int
    first_row_id: int | None = None
    new_rows: int = 0


class OnConflict(Enum):
    """What to do with a request when another writer has changed what it was made from."""

    PLAN_AGAIN = "make it again from the newest version"
    DROP = "drop it where its files have changed; otherwise make it again"


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """The content of a new commit: at most one protocol and one metaData, transactions, domains, and a body of any
    size, each action as in the log. `operation_parameters`: texts, numbers and booleans are written unchanged, objects
    and arrays as JSON text. `tags` are added to the commitInfo, which always records that row ids are preserved. The
    high-water mark of row ids is not a domain of the request: it follows from `new_rows`.
    """

    operation: str
    operation_parameters: Mapping[str, object] = field(default_factory=dict)
    operation_metrics: Mapping[str, int | str] = field(default_factory=dict)
    protocol: Action | None = None
    metadata: Action | None = None
    transactions: tuple[Action, ...] = ()
    domains: tuple[Action, ...] = ()
    body: Callable[[NextVersion], Iterable[bytes]] | None = None
    """Yields the lines of its files, `{"add": …}` and `{"remove": …}`, in pieces of whole lines. It is called once per
    version that is tried, and what it yields is not kept."""
    new_rows: int = 0
    """The number of rows in adds without `baseRowId`. Deleted rows count."""
    tags: Mapping[str, str] = field(default_factory=dict)
    reads: FilesRead | None = None
    "The live files that it depends on, including those that it removes. A commit that changes them makes it stale."
    on_conflict: OnConflict = OnConflict.PLAN_AGAIN
    domains_read: tuple[str, ...] = ()
    "The domains that it depends on without writing them."
    drops: tuple[str, ...] = ()
    "The features that its protocol no longer has."
    is_blind_append: bool = False
    "It only adds files, and depends on none."
    adds_existing_files: bool = False
    "Its adds name files that were there before and that no live version needs to have: a vacuum may delete them."
    contains_own_version: bool = False
    "Its actions contain the version of the commit, as `tableVersion` in a schema does."
    assigns_table_id: bool = False
    "Its metaData gives the table an id of its own, as the last commit of a copy does."

    @property
    def domain_names(self) -> tuple[str, ...]:
        """Return the domains that it writes, and therefore has read."""
        return tuple(str(action["domain"]) for action in self.domains)

    @property
    def app_ids(self) -> tuple[str, ...]:
        """Return the applications whose transactions it writes, and therefore has read."""
        return tuple(str(action["appId"]) for action in self.transactions)


class PreviousVersion(NamedTuple):
    """The version that a commit follows: -1 with the configuration of the new table before version 0. `committed_ms`:
    its commit time in epoch milliseconds; None if the commit has no in-commit timestamp, which alone depends on it.
    `row_id_mark`: the highest row id that was ever assigned.
    """

    version: int
    protocol: Protocol
    metadata: state.Metadata
    committed_ms: int | None = None
    row_id_mark: int = NO_MARK

    @property
    def has_in_commit_timestamps(self) -> bool:
        """Return True if this version has in-commit timestamps."""
        return state.has_in_commit_timestamps(self.protocol, self.metadata)


def needs_in_commit_timestamp(request: CommitRequest, base: PreviousVersion) -> bool:
    """Return True if the version made by the request has in-commit timestamps."""
    return state.has_in_commit_timestamps(*_after(request, base))


def encode_commit_head(
    request: CommitRequest,
    base: PreviousVersion,
    *,
    txn_id: str,
    now_ms: int,
    engine_info: str,
    commit_metadata: Mapping[str, str] = NO_METADATA,
) -> bytes:
    """Return the commit file that makes `base.version + 1` from the request, up to its body: commitInfo, protocol,
    metaData, transactions, domains.

    `commit_metadata` are further keys of the commitInfo, none of which is reserved. A request that enables in-commit
    timestamps also gets the two properties that record since when. Spec: Commit Provenance Information; In-Commit
    Timestamps (writer requirements).
    """
    protocol, metadata = _after(request, base)
    stamp = _stamp(request, base, now_ms)
    tags = dict(request.tags)
    if FEATURE in protocol.supported_features and state.is_true(metadata.configuration, ENABLED):
        tags |= _ROWS_KEPT
    info: Action = {
        **({} if stamp is None else {"inCommitTimestamp": stamp}),
        "timestamp": now_ms,
        "operation": request.operation,
        "operationParameters": {key: _parameter(value) for key, value in request.operation_parameters.items()},
        **({} if base.version < 0 else {"readVersion": base.version}),
        "isolationLevel": "Serializable",
        "isBlindAppend": request.is_blind_append,
        "operationMetrics": {key: str(value) for key, value in request.operation_metrics.items()},
        **({"tags": tags} if tags else {}),
        "engineInfo": engine_info,
        "txnId": txn_id,
        **commit_metadata,
    }
    lines: list[Action] = [{"commitInfo": info}]
    if request.protocol is not None:
        lines.append({"protocol": request.protocol})
    if request.metadata is not None:
        lines.append({"metaData": _dated(state.complete_metadata(request.metadata), base, stamp)})
    lines += [{"txn": action} for action in request.transactions]
    lines += [{"domainMetadata": action} for action in request.domains]
    if request.new_rows and assigns_row_ids(protocol, metadata):
        lines.append({"domainMetadata": mark_action(base.row_id_mark + request.new_rows)})
    return b"".join(encode_line(line) for line in lines)


def compute_resulting_version(request: CommitRequest, base: PreviousVersion, now_ms: int) -> PreviousVersion:
    """Return the version that the commit makes which `encode` returns for the same arguments."""
    protocol, metadata = _after(request, base)
    new_rows = request.new_rows if assigns_row_ids(protocol, metadata) else 0
    return PreviousVersion(
        base.version + 1, protocol, metadata, _stamp(request, base, now_ms), base.row_id_mark + new_rows
    )


def _stamp(request: CommitRequest, base: PreviousVersion, now_ms: int) -> int | None:
    """Return the in-commit timestamp of a commit, None if it has none."""
    if not needs_in_commit_timestamp(request, base):
        return None
    if base.committed_ms is None:
        raise ValueError("an in-commit timestamp requires the time of the previous version")
    return max(now_ms, base.committed_ms + 1)


def build_next_version(request: CommitRequest, base: PreviousVersion) -> NextVersion:
    """Return the place of the commit that makes `base.version + 1`."""
    assigns = assigns_row_ids(*_after(request, base))
    return NextVersion(base.version + 1, base.row_id_mark + 1 if assigns else None, request.new_rows)


def build_version_before_first(request: CommitRequest) -> PreviousVersion:
    """Return what version 0 follows. Raises ValueError for a request without a protocol or a metaData."""
    if request.protocol is None or request.metadata is None:
        raise ValueError("version 0 needs a protocol and a metaData")
    return PreviousVersion(
        -1, state.read_protocol(request.protocol, _OURS), state.read_metadata(request.metadata, _OURS), committed_ms=-1
    )


def require_supported_request(request: CommitRequest, base: PreviousVersion, *, by_catalog: bool = False) -> None:
    """Raise Refused if the base's protocol, or the requested one, prevents deltacli from making this commit, or if no
    version or no in-commit timestamp can follow those of the base. A catalog may manage the table where it ratifies the
    commit. Raises ValueError for an invalid request. Spec: Protocol Evolution; Domain Metadata.
    """
    require_commits_supported(base.protocol, base.metadata.configuration, base.version, by_catalog=by_catalog)
    _require_room(request, base)
    protocol, metadata = _after(request, base)
    if request.protocol is not None:
        require_readable(protocol, base.version + 1)
        require_commits_supported(protocol, metadata.configuration, base.version + 1, by_catalog=by_catalog)
        lost = sorted(base.protocol.supported_features - protocol.supported_features - {*request.drops})
        if lost:
            raise ValueError(f"a commit must not remove features without naming them: {', '.join(lost)}")
    if metadata.id != base.metadata.id and not request.assigns_table_id:
        raise ValueError("a commit must not change the table id")
    if request.metadata is None and needs_in_commit_timestamp(request, base) and not base.has_in_commit_timestamps:
        raise ValueError("a commit that enables in-commit timestamps must do so in a metaData action")
    names = request.domain_names
    if len(set(names)) != len(names):
        raise ValueError("a commit must have at most one action per domain")
    if len(set(request.app_ids)) != len(request.app_ids):
        raise ValueError("a commit must have at most one transaction per application")
    if DOMAIN in names and FEATURE not in request.drops:
        raise ValueError("the high-water mark of row ids is not set by a request")
    marked = (DOMAIN,) if request.new_rows and assigns_row_ids(protocol, metadata) else ()
    if (names or marked) and "domainMetadata" not in protocol.supported_features:
        raise Refused(
            f"version {base.version} does not support domains" + (", which the ids of new rows need" if marked else ""),
            code="domain.without-feature",
            facts={
                "needed": "the writer feature domainMetadata",
                "to be written": ", ".join(sorted({*names, *marked})),
            },
            hint=command("features add", "domainMetadata"),
        )


def _require_room(request: CommitRequest, base: PreviousVersion) -> None:
    """Raise Refused if the next version, or its in-commit timestamp, does not fit 64 bits. Other engines could not read
    the commit, or would not see it if its file name has a larger number.
    """
    if base.version >= MAX_VERSION:
        raise Refused(
            f"no version can follow version {base.version}: version numbers in file names are at most 2^63 - 1",
            code="log.version-too-large",
            facts={"largest version": str(MAX_VERSION)},
            hint=command("validate", select=[DoubleQuoted("log.*")]),
        )
    if base.committed_ms is not None and needs_in_commit_timestamp(request, base) and base.committed_ms >= MAX_TIME_MS:
        raise Refused(
            f"no in-commit timestamp can follow that of version {base.version}",
            code="ict.future",
            facts={"found": str(base.committed_ms), "largest timestamp": f"{MAX_TIME_MS} (epoch milliseconds)"},
            hint=command("validate", select=[DoubleQuoted("ict.*")]),
        )
    if request.new_rows > MAX_ROW_ID - max(base.row_id_mark, 0) and assigns_row_ids(*_after(request, base)):
        raise Refused(
            f"no row ids are left after those of version {base.version}",
            code="rowtracking.high-water-mark",
            facts={"high-water mark": str(base.row_id_mark), "new rows": str(request.new_rows)},
            hint=command("validate", select=[DoubleQuoted("rowtracking.*")]),
        )


def _after(request: CommitRequest, base: PreviousVersion) -> tuple[Protocol, state.Metadata]:
    """Return the configuration in effect after the request."""
    protocol = base.protocol if request.protocol is None else state.read_protocol(request.protocol, _OURS)
    metadata = base.metadata if request.metadata is None else state.read_metadata(request.metadata, _OURS)
    return protocol, metadata


def _dated(metadata: Action, base: PreviousVersion, stamp: int | None) -> Action:
    """Return the metaData with where in-commit timestamps begin, if it enables them. Spec: In-Commit Timestamps."""
    if stamp is None or base.has_in_commit_timestamps:
        return metadata
    since = {state.ICT_ENABLEMENT_VERSION: str(base.version + 1), state.ICT_ENABLEMENT_TIMESTAMP: str(stamp)}
    return metadata | {"configuration": {**(metadata.get("configuration") or {}), **since}}


def _parameter(value: object) -> object:
    """Return a parameter of an operation as the reference implementation writes it: non-scalars as JSON text. Half a
    surrogate pair of an old name is written as its escape, as no other engine reads it.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return value if value is None or isinstance(value, bool | int) else _json(value).decode()


def encode_line(line: Action) -> bytes:
    """Return an action as a line of the log."""
    return _json(line) + b"\n"


def _json(value: object) -> bytes:
    """Return compact JSON.

    Half a surrogate pair, read from the log of a lenient writer, is escaped as it was there. Raises CommitCorrupt for a
    field of the state that is nested too deeply to be written.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        try:
            return json.dumps(value, separators=(",", ":")).encode()
        except RecursionError:
            raise too_deep("a field", "the state") from None


PartitionValues = Mapping[str, str | None]
"""The values of a file by the physical names of the partition columns, as in the log."""


class FilesRead(typing.Protocol):
    """The files that a commit was made from, including those that it removes."""

    def change(self, kind: str, action: Action) -> str | None:
        """Return how an add or a remove (`kind`) of another writer changes them, or None."""


class EveryFile(NamedTuple):
    """The set of live files as a whole: no file may come or go."""

    def change(self, _kind: str, _action: Action) -> str | None:
        return "it adds or removes files"


class FilesOfPartitions(NamedTuple):
    """The files whose partition values are `chosen`. A remove need not have any values, so it may concern them."""

    chosen: Callable[[PartitionValues], bool]

    def change(self, kind: str, action: Action) -> str | None:
        values = action.get("partitionValues")
        if not isinstance(values, dict):
            return f"it {_DOES[kind]} a file without partition values"
        return f"it {_DOES[kind]} files of the same partitions" if self.chosen(values) else None


class FilesAt:
    """Files by their paths."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(map(canonicalize_path, paths))

    def change(self, kind: str, action: Action) -> str | None:
        path = action.get("path")
        if not isinstance(path, str):
            return f"it {_DOES[kind]} a file without a path"
        return f"it {_DOES[kind]} {path}" if canonicalize_path(path) in self._paths else None


class TouchedFiles:
    """Files in commits of other writers, by 64 bits of their paths: a collision leaves out a file without need."""

    def __init__(self) -> None:
        self._prints = set[int]()

    def __len__(self) -> int:
        return len(self._prints)

    def note(self, path: str) -> None:
        """Remember a file."""
        self._prints.add(hash(canonicalize_path(path)))

    def among(self, adds: pa.RecordBatch) -> ArrowArray:
        """Return which files they are."""
        if not self._prints:
            return pa.repeat(False, adds.num_rows)
        return pa.array(map(self.has, adds.column("path").to_pylist()), pa.bool_())

    def has(self, path: str) -> bool:
        """Return whether a file is one of them."""
        return hash(canonicalize_path(path)) in self._prints


class WatchedFiles(FilesAt):
    """The files that a commit depends on; what other writers touch, also beside them, is remembered for later ones."""

    def __init__(self, paths: Iterable[str], touched: TouchedFiles) -> None:
        super().__init__(paths)
        self._touched = touched

    def change(self, kind: str, action: Action) -> str | None:
        """Return how an action changes them."""
        if isinstance(path := action.get("path"), str):
            self._touched.note(path)
        return super().change(kind, action)


_DOES = {"add": "adds", "remove": "removes"}


# -- the lines of the files that a commit adds and removes -------------------------------------------------------------

Batches = Callable[[], Iterable[tuple[str, "pa.RecordBatch"]]]
"""Returns batches of whole adds or removes with their kind, `add` or `remove`; the same ones each time."""

_ID, _VERSION = "baseRowId", "defaultRowCommitVersion"


def body_lines(actions: Iterable[Action], slot: NextVersion) -> Iterator[bytes]:
    """Yield actions, `{"add": …}` and `{"remove": …}`, as lines; adds with row ids where the slot has any.

    Raises Refused for an add that needs ids and has no number of records, and for a file that comes twice.
    """
    ids, seen = _RowIds(slot), set[int]()
    for line in actions:
        for kind, action in line.items():
            path, vector = canonicalize_path(str(action.get("path"))), unique_id(action.get("deletionVector"))
            claims = {hash((kind, path)), hash((path, vector))}
            if not seen.isdisjoint(claims):
                raise _twice(str(action.get("path")))
            seen |= claims
            yield encode_line({kind: ids.in_action(action) if kind == "add" else action})
    ids.require_all()


def encoded_files(batches: Batches, slot: NextVersion) -> Iterator[bytes]:
    """Yield file actions in columns as lines, in pieces of bounded size; adds with row ids where the slot has any.

    Raises Refused as `body_lines` does, for a file that comes twice at the end.
    """
    from deltacli.arrow.batches import split_batches

    ids, once = _RowIds(slot), _OnlyOnce()
    for kind, batch in batches():
        once.take(kind, batch)
        for piece in split_batches([batch]):
            yield _encoded(kind, ids.in_columns(piece) if kind == "add" else piece)
    ids.require_all()
    once.require(batches)


def rows_of(add: Action) -> int:
    """Return the number of rows in a file, deleted ones included. Raises Refused where it is not known."""
    records = parse_num_records(add.get("stats") or "")
    if records is None or records < 0:
        raise rows_unknown(str(add.get("path")))
    return records


def rows_unknown(path: str) -> Refused:
    """Return the error for an add that needs row ids and has no number of records."""
    return Refused(
        f"{path} has no number of records, and the table gives ids to its rows",
        code="rowtracking.base-row-id-missing",
        facts={"file": path, "needed": "numRecords in its statistics, the number of ids to assign"},
    )


class _RowIds:
    """Assigns a slot's ids. Adds of a version without ids lose theirs: other rows could get these later."""

    def __init__(self, slot: NextVersion) -> None:
        self._slot, self._next = slot, slot.first_row_id

    def in_action(self, add: Action) -> Action:
        if self._next is None:
            return {name: value for name, value in add.items() if name not in (_ID, _VERSION)}
        fresh: Action = {}
        if add.get(_ID) is None:
            fresh[_ID] = self._next
            self._next += rows_of(add)
        if add.get(_VERSION) is None:
            fresh[_VERSION] = self._slot.version
        return add | fresh

    def in_columns(self, adds: pa.RecordBatch) -> pa.RecordBatch:
        if self._next is None:
            return adds.select([name for name in adds.schema.names if name not in (_ID, _VERSION)])
        ids = adds.column(_ID)
        if ids.null_count:
            needed = pc.is_null(ids)
            records = extract_num_records_column(adds.column("stats"))
            if unknown := pc.indices_nonzero(pc.and_(needed, pc.fill_null(pc.less(records, 0), True))).to_pylist():
                raise rows_unknown(adds.column("path")[unknown[0]].as_py())
            counted = pc.if_else(needed, records, pa.scalar(0, pa.int64()))
            ends = pc.cumulative_sum(counted)
            first = pc.add(pc.subtract(ends, counted), self._next)
            adds = _with(adds, _ID, pc.coalesce(ids, first))
            self._next += ends[len(ends) - 1].as_py()
        return _with(adds, _VERSION, pc.fill_null(adds.column(_VERSION), self._slot.version))

    def require_all(self) -> None:
        """Raise ValueError unless as many ids were assigned as the high-water mark was raised by."""
        first = self._slot.first_row_id
        if self._next is not None and first is not None and self._next - first != self._slot.new_rows:
            raise ValueError(f"{self._next - first} rows got ids, not {self._slot.new_rows}")


def _with(batch: pa.RecordBatch, name: str, column: ArrowArray) -> pa.RecordBatch:
    place = batch.schema.get_field_index(name)
    return batch.set_column(place, batch.schema.field(place), column)


def _encoded(kind: str, actions: pa.RecordBatch) -> bytes:
    from deltacli.delta.encoding.value_text import escaped, join_texts, json_lines

    others = actions.select([name for name in actions.schema.names if name != "path"])
    rest = json_lines(others, "", "}}\n")
    lines = pc.binary_join_element_wise(f'{{"{kind}":{{"path":"', escaped(actions.column("path")), '"', rest, "")
    return bytes(join_texts(lines))


class _OnlyOnce:
    """Finds files that come twice in millions, of each of which it keeps 16 bytes."""

    def __init__(self) -> None:
        self._prints: dict[str, list[ArrowArray]] = {"add": [], "remove": [], "": []}

    def take(self, kind: str, batch: pa.RecordBatch) -> None:
        paths, keys = _names(batch)
        prints = _hashes(paths)
        self._prints[kind].append(prints)
        self._prints[""].append(prints if keys is paths else _hashes(keys))

    def require(self, batches: Batches) -> None:
        """Raise Refused, naming it, where a path is added twice or removed twice, or a file is added and removed."""
        from deltacli.delta.encoding.many_values import find_repeated_hashes

        for claimed, prints in self._prints.items():
            suspects = find_repeated_hashes(pa.concat_arrays(prints)) if prints else ()
            if not len(suspects):
                continue
            seen = set[bytes]()
            for kind, batch in batches():
                if claimed not in ("", kind):
                    continue
                names = _names(batch)[0 if claimed else 1]
                for row in pc.indices_nonzero(pc.is_in(_hashes(names), value_set=suspects)).to_pylist():
                    if (name := names[row].as_py()) in seen:
                        raise _twice(batch.column("path")[row].as_py())
                    seen.add(name)


def _names(batch: pa.RecordBatch) -> tuple[ArrowArray, ArrowArray]:
    """Return the paths, and the paths with vectors, as replay compares them: one column if there are no vectors."""
    paths, vectors = canonicalize_paths(batch.column("path")), batch.column("deletionVector")
    if vectors.null_count == len(vectors):
        return paths, paths
    return paths, compute_file_keys(batch.column("path"), unique_id_column(vectors))


def _hashes(names: ArrowArray) -> ArrowArray:
    hashes = array("q", map(hash, names.to_pylist()))
    return pa.Array.from_buffers(pa.int64(), len(hashes), [None, pa.py_buffer(hashes)])


def _twice(path: str) -> Refused:
    """Return the error for a file that a commit would add or remove twice, or add and remove."""
    message = f"the commit would contain {path} twice, in an order that readers do not know"
    return Refused(message, preamble=NOTHING_CHANGED, code="action.duplicate-path", facts={"file": path})
