"""Symlink manifests of a version: what they are to name, how those in the directory differ, and writing them.

Engines that read lists of files (Athena, Redshift, Presto) open what the lines name. Each manifest is replaced
atomically; of several, readers see old and new ones until the last is written.

Spec: Delta-Spark: GENERATE symlink_format_manifest.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.basis import Basis, basis_of
from deltacli.changing.plan import Failures, Undone
from deltacli.core.errors import DeltacliError, FileMissing, Refusal, Refused, command
from deltacli.core.typing import ArrowArray, Json
from deltacli.core.units import count_with_verb, plural
from deltacli.delta.data_files import MANIFESTS, located_by
from deltacli.delta.partitions.values import directory_of
from deltacli.delta.paths.hadoop import print_absolute, print_root
from deltacli.delta.paths.keys import PathKeys
from deltacli.delta.paths.spelling import are_absolute, decode_column
from deltacli.storage import Failed, ReadStorage, Storage, has_link
from deltacli.table.find_log import list_log
from deltacli.table.handle import TableHandle
from deltacli.table.missing_files import encode_undecoded_paths, find_undecoded_paths
from deltacli.table.rebuild import read_snapshot
from deltacli.table.version import Snapshot

_NAME = "manifest"
_FIELDS = ("path", "partitionValues", "deletionVector")
_TRIES = 3

# -- what the manifests of a version name ------------------------------------------------------------------------------


class LiveManifests:
    """The manifests of a version. `rows` are the places and lines of all of them, sorted by both."""

    def __init__(self, rows: pa.Table, *, is_partitioned: bool) -> None:
        self.files: int = rows.num_rows
        outside = rows.filter(rows.column("is_outside")).column("line")
        self.files_outside: int = len(outside)
        """How many of the files are not in the directory of the table."""
        self.first_outside = os.fsdecode(outside[0].as_py()) if len(outside) else None
        self._lines = rows.column("line")
        self._ranges = {} if is_partitioned else {f"{MANIFESTS}/{_NAME}": (0, 0)}
        counts, start = pc.value_counts(rows.column("place")), 0
        for place, count in zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True):
            self._ranges["/".join(filter(None, (MANIFESTS, place, _NAME)))] = (start, count)
            start += count

    @property
    def paths(self) -> Iterable[str]:
        return self._ranges.keys()

    def size(self, path: str) -> int:
        """Return the number of files that a manifest names."""
        return self._ranges[path][1]

    def lines(self, path: str) -> list[bytes]:
        """Return the URIs of the files that a manifest names."""
        found: list[bytes] = self._lines.slice(*self._ranges[path]).to_pylist()
        return found


def live_manifests(snapshot: Snapshot) -> tuple[LiveManifests | None, tuple[Refusal, ...]]:
    """Return the manifests of a version, or why it cannot have any: they say nothing of renames and deleted rows."""
    table = snapshot.table
    if snapshot.config.mapping_mode != "none":
        message = (
            "the files have other column names than the table (column mapping), which readers of lists do not know"
        )
        hint = command("features drop", "columnMapping", dry_run=True)
        return None, (Refusal("manifests.column-mapping", message, hint),)
    if has_link(table.storage, "", MANIFESTS):
        return None, (Refusal("manifests.link", f"{MANIFESTS} is a symbolic link, through which nothing is written"),)
    keys = PathKeys((table.storage.uri, *table.storage.aliases))
    columns = tuple(snapshot.metadata.partition_columns)
    work = partial(_rows_of, print_root(table.storage.uri), keys, columns, find_undecoded_paths(snapshot))
    found = list(snapshot.file_actions.map_actions("add", work, fields=_FIELDS))
    if with_vectors := sum(vectors for _, vectors in found):
        message = f"{plural(with_vectors, 'file')} with deleted rows, which readers of lists would show"
        hint = command("optimize", purge=True, dry_run=True)
        return None, (Refusal("manifests.vectors", message, hint),)
    kinds = pa.schema([("place", pa.string()), ("line", pa.large_binary()), ("is_outside", pa.bool_())])
    rows = pa.Table.from_batches([rows for rows, _ in found], kinds)
    if pc.any(pc.match_substring_regex(rows.column("line"), "[\r\n]")).as_py():
        message = "a path with a line break, which a list of lines cannot name"
        return None, (Refusal("manifests.line-break", message, command("validate", select=["path.*"])),)
    rows = rows.take(pc.sort_indices(rows, sort_keys=[("place", "ascending"), ("line", "ascending")]))
    return LiveManifests(rows, is_partitioned=bool(snapshot.metadata.partition_columns)), ()


def _rows_of(
    root: bytes, path_keys: PathKeys, columns: tuple[str, ...], undecoded: ArrowArray, adds: pa.RecordBatch
) -> tuple[pa.RecordBatch, int]:
    """Return the place and the line of each live file and whether it is outside of the table, and how many files have
    deleted rows.
    """
    vectors = adds.column("deletionVector")
    paths = encode_undecoded_paths(adds.column("path"), undecoded)
    keys = pc.cast(decode_column(paths), pa.large_binary())
    below = pc.binary_join_element_wise(pa.scalar(root + b"/", keys.type), keys, pa.scalar(b"", keys.type))
    # An absolute path is in the log as its writer spelled it, also with the empty authority that Hadoop does not print.
    elsewhere = print_absolute(keys)
    is_absolute = are_absolute(paths)
    lines = pc.if_else(is_absolute, elsewhere, below)
    is_outside = pc.and_(is_absolute, pc.is_null(path_keys.of_log(paths).keys))
    values = adds.column("partitionValues")
    parts = [
        _directories(name, pc.map_lookup(values, query_key=pa.scalar(name), occurrence="first")) for name in columns
    ]
    places = pc.binary_join_element_wise(*parts, "/") if parts else pa.repeat(pa.scalar(""), len(lines))
    rows = pa.record_batch([places, lines, is_outside], ["place", "line", "is_outside"])
    return rows, len(vectors) - vectors.null_count


def _directories(name: str, values: ArrowArray) -> ArrowArray:
    distinct = pc.dictionary_encode(values, null_encoding="encode")
    return pc.take(pa.array([directory_of({name: one}) for one in distinct.dictionary.to_pylist()]), distinct.indices)


# -- how those in the directory differ ---------------------------------------------------------------------------------


class ManifestProblem(NamedTuple):
    """A manifest that is `missing`, that `differs`, or that is `extra`: its partition has no files. `lacks` is the
    number of live files that it does not name, `stale` that of the lines that name no live file of its partition.
    """

    path: str
    problem: str
    lacks: int
    stale: int


@dataclass(frozen=True, slots=True)
class ManifestsPlan:
    """The manifests of a version that are to be written, and those to be deleted."""

    basis: Basis = field(repr=False)
    live: LiveManifests | None = field(repr=False)
    """None where the version cannot have manifests."""
    differences: tuple[ManifestProblem, ...] = ()
    unchanged: int = 0
    refusals: tuple[Refusal, ...] = ()

    @property
    def is_noop(self) -> bool:
        return not self.differences

    @property
    def notes(self) -> Iterator[str]:
        """Yield what a reader of the lists has to know about the files that they name."""
        if self.live is not None and self.live.files_outside:
            count = count_with_verb(self.live.files_outside, "file", "are")
            yield (
                f"{count} outside of the table, such as {self.live.first_outside}: readers of the lists need access to "
                "that place, and what deletes files there does not look for these lists"
            )

    def objection(self) -> Refused | None:
        return Refused.by(self.refusals) if self.refusals else None

    def effects(self) -> Iterator[str]:
        return (f"{one.problem} {one.path}" for one in self.differences)

    @property
    def to_write(self) -> list[str]:
        return [one.path for one in self.differences if one.problem != "extra"]

    @property
    def to_delete(self) -> list[str]:
        return [one.path for one in self.differences if one.problem == "extra"]

    def as_json(self, *, dry_run: bool) -> dict[str, Json]:
        """Return the content of the document `deltacli.manifest`."""
        return {
            "version": self.basis.version,
            "files": None if self.live is None else self.live.files,
            "filesOutside": None if self.live is None else self.live.files_outside,
            "manifests": {"written": len(self.to_write), "deleted": len(self.to_delete), "unchanged": self.unchanged},
            "differences": [one._asdict() for one in self.differences],
            "refusals": [one.as_json("wayOut") for one in self.refusals],
            "dryRun": dry_run,
        }


@dataclass(eq=False)
class ManifestsOutcome:
    """What became of a plan: how many manifests were written and deleted, and what could not be deleted."""

    plan: ManifestsPlan
    written: int = 0
    deleted: int = 0
    failures: Failures = field(default_factory=Failures)

    def so_far(self) -> str:
        return f"{self.written:,} of {plural(len(self.plan.to_write), 'manifest')} written"

    def shortfall(self) -> Undone:
        return self.failures.shortfall(
            "manifest",
            code="manifests.not-deleted",
            hint=command("manifest"),
            has_deleted=bool(self.written + self.deleted),
        )

    def as_json(self) -> dict[str, Json]:
        """Return the content of the document `deltacli.manifest`."""
        content = self.plan.as_json(dry_run=False)
        done = {"written": self.written, "deleted": self.deleted, "unchanged": self.plan.unchanged}
        return content | {"manifests": done}


def plan_manifests(table: TableHandle, now: Snapshot | None = None) -> ManifestsPlan:
    """Compare the manifests in the directory with the newest version, or with one that was rebuilt already. Refusals
    are part of the plan.

    Raises what `read_snapshot` and the storage raise.
    """
    snapshot = now or read_snapshot(table)
    live, refusals = live_manifests(snapshot)
    if live is None:
        return ManifestsPlan(basis_of(snapshot), None, refusals=refusals)
    storage = table.storage
    there = _list_manifests(storage)
    compare = partial(_compare, storage, live, (storage.uri, *storage.aliases), there)
    compared = list(table.engine.run(compare, live.paths, at_once=storage.capabilities.parallel_reads))
    extra = sorted(there.difference(live.paths))
    differences = [*filter(None, compared), *(ManifestProblem(path, "extra", 0, 0) for path in extra)]
    return ManifestsPlan(basis_of(snapshot), live, tuple(differences), compared.count(None))


def _list_manifests(storage: ReadStorage) -> set[str]:
    """Return the paths of the manifests in the directory, none if there is no directory."""
    paths = set[str]()
    try:
        for walked in storage.walk(MANIFESTS, lambda _, names: names):
            if _NAME in walked.names:
                paths.add(f"{walked.directory}/{_NAME}")
    except FileMissing:
        pass
    return paths


def _compare(
    storage: ReadStorage, live: LiveManifests, uris: tuple[str, ...], there: set[str], path: str
) -> ManifestProblem | None:
    """Compare a manifest with the live files, in whatever spelling it names them; None where it names each once."""
    if path not in there:
        return ManifestProblem(path, "missing", live.size(path), 0)
    lines = live.lines(path)
    try:
        content = storage.read(path)
    except FileMissing:
        return ManifestProblem(path, "missing", len(lines), 0)
    if content == _content(lines):
        return None
    named = list(filter(None, content.splitlines()))
    missing = set(lines).difference(named)
    others = set(named).difference(lines)
    spelled = {path: line for line, paths in _located(missing, uris) for path in paths}
    stale = len(named) - len(set(named))
    for _, paths in _located(others, uris):
        found = missing.intersection(spelled[path] for path in paths if path in spelled)
        missing -= {*sorted(found)[:1]}
        stale += not found
    return ManifestProblem(path, "differs", len(missing), stale) if missing or stale else None


def _located(lines: Iterable[bytes], uris: tuple[str, ...]) -> Iterator[tuple[bytes, set[str]]]:
    ordered = sorted(lines)
    return zip(ordered, located_by(b"\n".join(ordered), uris), strict=True)


def _content(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def write_manifests(store: Storage, outcome: ManifestsOutcome) -> None:
    """Write the manifests that differ, then delete those of partitions without files. Raises what storage raises."""
    plan = outcome.plan
    assert plan.live is not None
    live = plan.live

    def put(path: str) -> None:
        store.put(path, _content(live.lines(path)))

    table = plan.basis.table
    for _ in table.engine.run(put, plan.to_write, at_once=store.capabilities.parallel_reads):
        outcome.written += 1
    extras = plan.to_delete
    for path, answer in store.delete_many(extras):
        if isinstance(answer, Failed):
            outcome.failures.note(path, answer)
        else:
            outcome.deleted += 1
    if store.capabilities.has_directories:
        for path in extras:
            directory = path.rpartition("/")[0]
            while directory != MANIFESTS and not isinstance(store.remove_directory(directory), Failed):
                directory = directory.rpartition("/")[0]


# -- after a commit of a change ----------------------------------------------------------------------------------------


def write_again(table: TableHandle) -> Iterator[str]:
    """Write the manifests of the newest version. Yield why they could not be written: the commit before is made."""
    way_out = command("manifest", table=table.address)
    try:
        for _ in range(_TRIES):
            plan = plan_manifests(table)
            if plan.refusals:
                yield _not_written(plan.refusals[0].message, plan.refusals[0].hint or "")
                return
            outcome = ManifestsOutcome(plan)
            write_manifests(table.writable(), outcome)
            if (left := outcome.shortfall()) is not None:
                yield _not_written(left.message, way_out)
                return
            if list_log(table.storage, start_version=plan.basis.version).newest_version == plan.basis.version:
                return
    except DeltacliError as fault:
        yield _not_written(fault.message, way_out)
    else:
        yield _not_written("other writers committed meanwhile", way_out)


def _not_written(why: str, way_out: str) -> str:
    said = f"the version is committed, but the manifests in {MANIFESTS} name the files of an earlier one: {why}"
    return f"{said}; {way_out}" if way_out else said
