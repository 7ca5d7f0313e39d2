"""The protocol, the metadata and the domains that a restore commits: those of the target, but for what never goes back.

Counters and names that later commits rely on stay as they are, a protocol only grows, and of two retentions the longer
one stays. What belongs to applications is left alone. Spec: Protocol Evolution; Column Mapping; Identity Columns; Row
Tracking; In-Commit Timestamps; Clustered Table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.file_totals import FileTotals
from deltacli.core.errors import Refusal, command
from deltacli.core.times import format_duration
from deltacli.core.typing import ArrowArray, Json, RecordBatch
from deltacli.core.units import plural
from deltacli.delta.log.actions import Action
from deltacli.delta.log.file_actions import extract_num_records_column
from deltacli.delta.log.row_ids import DOMAIN as ROW_TRACKING
from deltacli.delta.log.row_ids import ENABLED, MATERIALIZED_NAMES, NO_MARK, assigns_row_ids, mark_of
from deltacli.delta.log.row_ids import FEATURE as ROW_IDS
from deltacli.delta.log.state import (
    CHECKPOINT_PROTECTION,
    DELETED_FILE_RETENTION,
    IN_COMMIT_KEYS,
    LOG_RETENTION,
    TRANSACTION_RETENTION,
    DomainMetadata,
    SetTransaction,
    TableConfiguration,
    complete_metadata,
    deleted_file_retention_ms,
    is_true,
    log_retention_ms,
    parse_integer_property,
    parse_interval,
)
from deltacli.delta.paths.spelling_columns import canonicalize_paths
from deltacli.delta.protocol.feature_changes import REMOVALS
from deltacli.delta.protocol.feature_use import upgraded
from deltacli.delta.protocol.features import FEATURES
from deltacli.delta.schema import types
from deltacli.delta.schema.widened_schema import read_exactly, write_exactly
from deltacli.table.file_keys import read_adds_with_mask, read_selected_adds
from deltacli.table.partition_condition import Mask

if TYPE_CHECKING:
    from deltacli.operations.restore.difference import Difference
    from deltacli.table.version import Snapshot

VECTORS_ENABLED = "delta.enableDeletionVectors"
CLUSTERING = "delta.clustering"
_MARK, _STEP = "delta.identity.highWaterMark", "delta.identity.step"


class SmallState(NamedTuple):
    """The small actions of a version: the configuration with the raw actions, the domains and the transactions."""

    version: int
    config: TableConfiguration
    domains: Sequence[DomainMetadata]
    transactions: Sequence[SetTransaction]

    @property
    def protocol(self) -> Action:
        return self.config.raw_protocol or {}

    @property
    def metadata(self) -> Action:
        return self.config.raw_metadata or {}


class SmallActions(NamedTuple):
    """What a restore commits beside files; None: as it is now. `notes` say what stays although the target differs."""

    protocol: Action | None = None
    metadata: Action | None = None
    domains: tuple[Action, ...] = ()
    notes: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()


def settle(now: SmallState, target: SmallState, *, brings_vectors: bool, has_files: bool) -> SmallActions:
    """Return what is committed to get from now to the target.

    Args:
        now: The newest version.
        target: The version to restore.
        brings_vectors: True if a file with a deletion vector comes back.
        has_files: True if the target has live files.
    """
    return _Settlement(now, target, brings_vectors, has_files).actions()


class _Settlement:
    def __init__(self, now: SmallState, target: SmallState, brings_vectors: bool, has_files: bool) -> None:
        self._now, self._target = now, target
        self._brings_vectors = brings_vectors
        self._has_files = has_files
        self._notes: list[str] = []
        self._refusals: list[Refusal] = []

    def actions(self) -> SmallActions:
        protocol = self._protocol()
        self._require_mapping()
        metadata = self._changed_metadata()
        domains = tuple(self._domains())
        return SmallActions(protocol, metadata, domains, tuple(self._notes), tuple(self._refusals))

    # -- protocol -----------------------------------------------------------------------------------------------------

    def _protocol(self) -> Action | None:
        """Return the union of both protocols; None where that of now has everything."""
        now, target = self._now.config.features, self._target.config.features
        missing = [name for name in FEATURES if name in target - now]
        missing += sorted(target - now - {*missing})
        for name in missing:
            self._require_together(name, now)
        found = upgraded(self._now.protocol, missing)
        if found is not None:
            self._notes.append(f"the table gets back {', '.join(missing)}, which version {self._target.version} needs")
        return found

    def _require_together(self, name: str, now: frozenset[str]) -> None:
        excluded = {*(FEATURES[name].excludes if name in FEATURES else ())}
        excluded |= {other for other in now if other in FEATURES and name in FEATURES[other].excludes}
        for other in sorted(excluded & now):
            self._refuse(
                "restore.features",
                f"version {self._target.version} needs the feature {name}, which excludes {other}, and the table "
                f"now has {other}",
                command("features drop", other) if other in REMOVALS else f"write the rows to a table without {other}",
            )

    def _require_mapping(self) -> None:
        """Refuse changes of the mapping mode after which files would be read by other names."""
        now, target = self._now.config.mapping_mode, self._target.config.mapping_mode
        if target in ("none", now) or (now, target) == ("none", "name"):
            return
        self._refuse(
            "restore.mapping-mode",
            f"column mapping is {now} and was {target} at version {self._target.version}; no table can change from "
            f"{now} to {target}",
            "write the rows of that version to a new table with an engine",
        )

    # -- metadata -----------------------------------------------------------------------------------------------------

    def _changed_metadata(self) -> Action | None:
        """Return the metaData to commit, with every field that readers require; None if nothing changes.

        Fields that only one of the two versions lacks are no change if the other one has what readers assume. But a
        complete metaData is committed over an incomplete one: that is how strict readers can open the table again.
        """
        now, metadata = self._now.metadata, self._metadata()
        if metadata == now:
            return None
        if not metadata.get("schemaString") and not self._has_files:
            # Readers assume a schema without columns. There is no file whose columns they would miss.
            metadata["schemaString"] = types.NO_COLUMNS
        if not metadata.get("schemaString"):
            self._refuse(
                "action.missing-required",
                f"version {self._target.version} has no schema: its metaData lacks schemaString, and without it no "
                "column of the restored files could be read",
                command("history"),
            )
            return None
        complete = complete_metadata(metadata)
        return None if complete == now else complete

    def _metadata(self) -> Action:
        now, target = self._now.metadata, self._target.metadata
        metadata = dict(target)
        configuration = self._configuration()
        if configuration or "configuration" in target:
            metadata["configuration"] = configuration
        if not now.get("id"):
            if target.get("id"):
                self._notes.append(f"the table, which has no id now, gets back the id {target['id']}")
        elif now["id"] != target.get("id"):
            metadata["id"] = now["id"]
            self._notes.append(f"the table keeps its id, {now['id']}, which differs from that of the version")
        schema = self._schema_with_marks()
        return metadata if schema is None else metadata | {"schemaString": schema}

    def _configuration(self) -> dict[str, str]:
        found = dict(self._target.config.properties)
        self._keep_counters(found)
        self._keep_row_columns(found)
        self._keep_in_commit_timestamps(found)
        self._keep_longer(found, DELETED_FILE_RETENTION, deleted_file_retention_ms)
        self._keep_longer(found, LOG_RETENTION, log_retention_ms)
        self._keep_transactions(found)
        if self._brings_vectors:
            self._keep_vectors(found)
        return found

    def _keep_counters(self, found: dict[str, str]) -> None:
        """Keep the highest column id that was ever given, and the larger boundary of protected checkpoints."""
        now = self._now.config.properties
        both = (now, self._target.config.properties)
        ids = [
            one for properties in both if (one := parse_integer_property(properties, types.MAX_COLUMN_ID)) is not None
        ]
        if ids or self._target.config.mapping_mode != "none":
            ids += _ids_in(self._target.config.schema)
            if ids:
                found[types.MAX_COLUMN_ID] = str(max(ids))
        limits = [
            one for properties in both if (one := parse_integer_property(properties, CHECKPOINT_PROTECTION)) is not None
        ]
        if limits:
            found[CHECKPOINT_PROTECTION] = str(max(limits))

    def _keep_row_columns(self, found: dict[str, str]) -> None:
        """Keep the names under which files store row ids, which later writers were told once."""
        now = self._now.config
        if ROW_IDS not in now.features:
            return
        for key in MATERIALIZED_NAMES:
            name = now.properties.get(key)
            if name is None:
                continue
            if found.get(key, name) != name:
                self._notes.append(f"{key} stays {name}: the rows that come back get new ids")
            found[key] = name

    def _keep_in_commit_timestamps(self, found: dict[str, str]) -> None:
        """Leave in-commit timestamps on, with the version and the time from which they apply."""
        now = self._now.config
        if now.in_commit_timestamp_keys is None:
            for keys in IN_COMMIT_KEYS.values():  # if they come back, they apply from the new commit on
                found.pop(keys.version, None)
                found.pop(keys.timestamp, None)
            return
        if not is_true(found, now.in_commit_timestamp_keys.switch):
            self._notes.append(f"{now.in_commit_timestamp_keys.switch} stays true: commit times must not go back")
        for key in now.in_commit_timestamp_keys:
            if key in now.properties:
                found[key] = now.properties[key]
            else:
                found.pop(key, None)

    def _keep_longer(self, found: dict[str, str], key: str, length: Callable[[Mapping[str, str]], int]) -> None:
        """Keep the retention of now where it is longer, so that the next vacuum does not take the undo away."""
        now = self._now.config.properties
        ours, theirs = length(now), length(found)
        if ours <= theirs:
            return
        self._notes.append(
            f"{key} stays {format_duration(ours)}; it was {format_duration(theirs)} at version {self._target.version}, "
            "and a vacuum with that retention could delete files that undo this restore"
        )
        if key in now:
            found[key] = now[key]
        else:
            found.pop(key, None)

    def _keep_transactions(self, found: dict[str, str]) -> None:
        """Keep the retention of transactions of now where it is longer; without one they stay for ever."""
        now = self._now.config.properties
        texts = [properties.get(TRANSACTION_RETENTION) for properties in (now, found)]
        ours, theirs = (parse_interval(text) if text else None for text in texts)
        if theirs is None or (ours is not None and ours <= theirs):
            return
        self._notes.append(
            f"{TRANSACTION_RETENTION} stays {texts[0] or 'unset'}; it was {texts[1]} at version "
            f"{self._target.version}, and an application whose transaction is forgotten sends its rows again"
        )
        if TRANSACTION_RETENTION in now:
            found[TRANSACTION_RETENTION] = now[TRANSACTION_RETENTION]
        else:
            found.pop(TRANSACTION_RETENTION, None)

    def _keep_vectors(self, found: dict[str, str]) -> None:
        """Leave deletion vectors enabled where files with vectors come back."""
        if is_true(found, VECTORS_ENABLED):
            return
        if is_true(self._now.config.properties, VECTORS_ENABLED):
            found[VECTORS_ENABLED] = "true"
            self._notes.append(f"{VECTORS_ENABLED} stays true: files with deletion vectors come back")
        else:
            self._refusals.append(_vectors_refusal())

    def _schema_with_marks(self) -> str | None:
        """Return the schema of the target with the farther mark of each identity column; None: as it is."""
        now, then, text = self._now.config.schema, self._target.config.schema, self._target.metadata.get("schemaString")
        if now is None or then is None or not isinstance(text, str):
            return None
        marks = {
            types.get_recorded_physical_name(field): field.metadata[_MARK]
            for field in now.fields
            if _has_whole(field, _MARK)
        }
        if not marks:
            return None
        known = {types.get_recorded_physical_name(field): field for field in then.fields}
        schema: Json = read_exactly(text)
        changed = False
        for field in schema.get("fields", ()):
            metadata = field.get("metadata")
            if not isinstance(metadata, dict) or _STEP not in metadata:
                continue
            name = str(metadata.get(types.PHYSICAL_NAME) or field.get("name"))
            if name not in marks or name not in known:
                continue
            was, wanted = known[name], marks[name]
            if _has_whole(was, _MARK) and _has_whole(was, _STEP):
                farther = max if was.metadata[_STEP] > 0 else min
                wanted = farther(was.metadata[_MARK], wanted)
            if was.metadata.get(_MARK) != wanted:
                metadata[_MARK], changed = wanted, True
        if not changed:
            return None
        self._notes.append("identity columns continue after the highest value ever assigned")
        return write_exactly(schema)

    # -- domains ------------------------------------------------------------------------------------------------------

    def _domains(self) -> Iterator[Action]:
        """Yield the domains of the table itself; those of others stay, with a note."""
        now = {domain.domain: domain.configuration for domain in self._now.domains}
        target = {domain.domain: domain.configuration for domain in self._target.domains}
        theirs = sorted(
            name for name in {*now, *target} - {CLUSTERING, ROW_TRACKING} if now.get(name) != target.get(name)
        )
        if theirs:
            self._notes.append(f"the domains of other programs are kept: {', '.join(theirs)}")
        columns = now.get(CLUSTERING), target.get(CLUSTERING)
        if columns[0] == columns[1]:
            return
        wanted = columns[1] if columns[1] is not None else _without_columns(columns[0])
        if wanted != columns[0]:
            yield {"domain": CLUSTERING, "configuration": wanted, "removed": False}

    def _refuse(self, code: str, message: str, way_out: str) -> None:
        self._refusals.append(Refusal(code, message, way_out))


def refusal_of_partitioning(now: SmallState, target: SmallState, stay: int) -> Iterator[Refusal]:
    """Refuse a partitioning that files of now which stay do not fit."""
    columns = [list(state.config.partition_columns) for state in (target, now)]
    if stay and {*columns[0]} != {*columns[1]}:
        then, ours = (", ".join(names) or "nothing" for names in columns)
        yield Refusal(
            "restore.partitioning",
            f"version {target.version} was partitioned by {then} and the table is now by {ours}; files remain "
            f"({stay:,}) that have the current partition values",
            "write the rows of that version to a new table with an engine",
        )


def vector_refusals(now: SmallState, *, brings_vectors: bool) -> Iterator[Refusal]:
    """Refuse vectors in some partitions of a table that has them switched off, or does not support them."""
    has_feature = "deletionVectors" in now.config.features
    if brings_vectors and not (has_feature and is_true(now.config.properties, VECTORS_ENABLED)):
        yield _vectors_refusal(has_feature=has_feature)


def _vectors_refusal(*, has_feature: bool = True) -> Refusal:
    """Return the refusal of files with vectors where the table has vectors switched off, or does not support them."""
    return Refusal(
        "restore.vectors-off",
        "files with deletion vectors would come back, and "
        + (f"{VECTORS_ENABLED} is not true" if has_feature else "the current protocol has no deletionVectors"),
        command("properties set", {VECTORS_ENABLED: "true"}) or f"set {VECTORS_ENABLED} to true",
    )


def skipped_applications(now: SmallState, target: SmallState) -> Iterator[tuple[SetTransaction, int | None]]:
    """Yield the applications that have committed since the target, with the version of theirs that it has: they do not
    send again what they sent since.
    """
    then = {one.app_id: one.version for one in target.transactions}
    return ((one, then.get(one.app_id)) for one in now.transactions if then.get(one.app_id) != one.version)


def _has_whole(field: types.StructField, key: str) -> bool:
    value = field.metadata.get(key)
    return isinstance(value, int) and not isinstance(value, bool)


def _ids_in(data_type: types.DataType | None) -> Iterator[int]:
    match data_type:
        case types.StructType(fields):
            for field in fields:
                number = field.metadata.get(types.ID)
                if isinstance(number, int):
                    yield number
                yield from _ids_in(field.data_type)
        case types.ArrayType(element, _):
            yield from _ids_in(element)
        case types.MapType(key, value, _):
            yield from _ids_in(key)
            yield from _ids_in(value)


def _without_columns(configuration: str | None) -> str:
    """Return the configuration of a clustered table without columns."""
    try:
        found = json.loads(configuration or "{}")
    except ValueError:
        found = {}
    return json.dumps({**found, "clusteringColumns": []}, separators=(",", ":"))


# -- row ids of files --------------------------------------------------------------------------------------------------

_NEW_TABLE = "write the rows of that version to a new table with an engine"
_RANGE = ("baseRowId", "stats")
_IDS = ("baseRowId", "defaultRowCommitVersion")


def begins_again(now: SmallState, target: SmallState) -> bool:
    """Return True where the ids of the target mean nothing by now: it has none that count, or row tracking was dropped
    and added again since, and each time it gets other names for stored ids. Ids begin with 0 again then, and those that
    files store are no longer read.
    """
    names = [state.config.properties.get(MATERIALIZED_NAMES[0]) for state in (now, target)]
    is_other = None not in names and names[0] != names[1]
    return ROW_IDS in now.config.features and (is_other or mark_of(target.domains) is None)


def refusals_of_marks(now: SmallState, target: SmallState) -> Iterator[Refusal]:
    """Refuse rows whose ids will be given again: row tracking was dropped, and its mark with it."""
    ours, theirs = mark_of(now.domains), mark_of(target.domains)
    if theirs is None or theirs <= (NO_MARK if ours is None else ours) or begins_again(now, target):
        return
    yield Refusal(
        "restore.row-ids",
        f"rows of version {target.version} have ids up to {theirs}, and row tracking was dropped since: the "
        f"high-water mark of row ids is {'gone' if ours is None else ours}",
        _NEW_TABLE,
    )


def refusal_of_files_that_stay(now: SmallState, target: SmallState, without_row_id: int) -> Iterator[Refusal]:
    """Refuse to enable row ids over files of now that have none."""
    comes_back = is_true(target.config.properties, ENABLED) and not is_true(now.config.properties, ENABLED)
    if without_row_id and comes_back:
        yield Refusal(
            "restore.row-ids",
            f"{ENABLED} was true at version {target.version} and is not now, and files without row ids stay "
            f"({without_row_id:,})",
            _NEW_TABLE,
        )


class ReturningIds(NamedTuple):
    """The row ids with which files come back: those that the same files have now, with another deletion vector, else
    those of the target; without any, or where these mean nothing by now (`begins_again`), new ones.
    """

    begins_again: bool
    known: RecordBatch | None = None
    """Canonical paths and ids of files that go, where some may come back with another vector."""

    def of(self, adds: RecordBatch) -> tuple[ArrowArray, ArrowArray]:
        """Return the ids and the commit versions of files of the target; null where they are to be given."""
        found = [pa.nulls(adds.num_rows, pa.int64()) if self.begins_again else adds.column(name) for name in _IDS]
        if (known := self.known) is not None:
            places = pc.index_in(canonicalize_paths(adds.column("path")), value_set=known.column("path"))
            found = [
                pc.coalesce(pc.take(known.column(name), places), one) for name, one in zip(_IDS, found, strict=True)
            ]
        return found[0], found[1]


def returning_ids(now: Snapshot, found: Difference, where: Mask | None, *, begins_again: bool) -> ReturningIds:
    """Return the row ids with which files come back."""
    # Without a vector then or now, a path that goes does not come back.
    vectors = (pc.and_(found.removed, found.now.has_vector), pc.and_(found.added, found.target.has_vector))
    if ROW_IDS not in now.protocol.supported_features or not any(pc.any(mask).as_py() for mask in vectors):
        return ReturningIds(begins_again)
    goes = pc.and_(found.removed, found.now.has_row_id)
    parts = [
        pa.record_batch([canonicalize_paths(adds.column("path")), *map(adds.column, _IDS)], names=["path", *_IDS])
        for adds in read_selected_adds(now, found.now.keys, goes, where, ("path", *_IDS))
    ]
    known = pa.Table.from_batches(parts).combine_chunks().to_batches() if parts else ()
    return ReturningIds(begins_again, next(iter(known), None))


def files_to_number(
    target: Snapshot, after: Snapshot, found: Difference, where: Mask | None, ids: ReturningIds
) -> FileTotals:
    """Return the files that come back and get new ids, with their physical rows."""
    if not assigns_row_ids(after.protocol, after.metadata):
        return FileTotals(0, 0, 0)
    fresh = found.added if ids.begins_again else found.without_row_id
    if ids.known is not None:
        adds = read_adds_with_mask(target, found.target.keys, fresh, where, ("path", *_IDS))
        masks = [pc.and_(mask, pc.is_null(ids.of(batch)[0])) for batch, mask in adds]
        fresh = pa.concat_arrays(masks) if masks else fresh
    return found.physical(fresh)


def refusals_of_files(
    now: Snapshot, target: Snapshot, found: Difference, where: Mask | None, ids: ReturningIds, fresh: FileTotals
) -> Iterator[Refusal]:
    """Refuse files that need ids (`fresh`) and whose rows are unknown, and ids that files which stay have as well."""
    if fresh.files and fresh.rows is None:
        yield Refusal(
            "restore.rows-unknown",
            f"row ids cannot be assigned: the log has no number of rows for some of {plural(fresh.files, 'file')} that "
            "come back and need new ones",
            "write the rows of that version to the table with an engine",
        )
    keeps = ROW_IDS in now.protocol.supported_features and found.added_amount.files and not ids.begins_again
    if keeps and _overlap(now, target, found, where, ids):
        yield Refusal(
            "restore.row-ids",
            f"files of version {target.version} that come back have row ids of files that stay: row tracking was "
            "dropped and added again since",
            _NEW_TABLE,
        )


def _overlap(now: Snapshot, target: Snapshot, found: Difference, where: Mask | None, ids: ReturningIds) -> bool:
    """Return True if files that come back have ids of files that stay, or of others that come back."""
    back = read_selected_adds(target, found.target.keys, found.added, where, ("path", "stats", *_IDS))
    parts = [_ranges(adds, ids.of(adds)[0]) for adds in back]
    if not sum(part.num_rows for part in parts):
        return False
    goes = read_adds_with_mask(now, found.now.keys, found.removed, where, _RANGE)
    stays = (pc.filter(adds, pc.invert(mask)) for adds, mask in goes)
    parts += [_ranges(adds, adds.column("baseRowId")) for adds in stays]
    if where is not None:

        def others(adds: RecordBatch) -> RecordBatch:
            rest = pc.filter(adds, pc.invert(where(adds)))
            return _ranges(rest, rest.column("baseRowId"))

        parts += now.file_actions.map_actions("add", others, fields=(*_RANGE, "partitionValues"))
    found_ranges = pa.Table.from_batches(parts)
    ranges = pc.take(found_ranges, pc.sort_indices(found_ranges, [("begin", "ascending")]))
    ends = pc.cumulative_max(ranges["end"].combine_chunks())
    return bool(pc.any(pc.less(ranges["begin"].combine_chunks()[1:], ends[:-1])).as_py())


def _ranges(adds: RecordBatch, begin: ArrowArray) -> RecordBatch:
    """Return the ids of the files that have some: from `begin` to before `end`. Unknown rows count as one."""
    ends = pc.add(begin, pc.fill_null(extract_num_records_column(adds.column("stats")), 1))
    ranges = pa.RecordBatch.from_arrays([begin, ends], names=["begin", "end"])
    return ranges.filter(pc.greater(ends, begin))
