"""Writing symlink manifests: comparing those in the directory with a version, and replacing what differs.

Each manifest is replaced atomically. Of several, readers see old and new ones until the last is written.
`manifest_contents.py` says what a manifest should name. `update_manifests` is called after the commits of other
changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from deltacli.changing.basis import Basis, build_basis
from deltacli.changing.manifest_contents import MANIFEST_NAME, LiveManifests, build_live_manifests
from deltacli.changing.outcome import DeletionFailures, OutcomeProblem
from deltacli.core.errors import DeltacliError, FileMissing, Refusal, Refused, command
from deltacli.core.typing import Json
from deltacli.core.units import count_with_verb, plural
from deltacli.delta.data_files import MANIFESTS, located_by
from deltacli.storage import Failed, ReadStorage, Storage
from deltacli.table.find_log import list_log
from deltacli.table.handle import TableHandle
from deltacli.table.rebuild import read_snapshot
from deltacli.table.version import Snapshot

_MAX_UPDATES = 3


class ManifestProblem(NamedTuple):
    """A difference between a manifest in the directory and the live files.

    Attributes:
        path: The path of the manifest.
        problem: `missing`, `differs`, or `extra` if its partition has no live files.
        lacks: The number of live files that it does not name.
        stale: The number of its lines that name no live file of its partition, or one that another line names.
    """

    path: str
    problem: str
    lacks: int
    stale: int


@dataclass(frozen=True, slots=True)
class ManifestsPlan:
    """The manifests of a version that are to be written, and those to be deleted.

    Attributes:
        basis: The version.
        live: The manifests that it should have; None if it cannot have any.
        differences: The manifests that are different.
        unchanged: The number of manifests that are as they should be.
        refusals: The reasons why the version cannot have manifests.
    """

    basis: Basis = field(repr=False)
    live: LiveManifests | None = field(repr=False)
    differences: tuple[ManifestProblem, ...] = ()
    unchanged: int = 0
    refusals: tuple[Refusal, ...] = ()

    @property
    def is_noop(self) -> bool:
        """Return True if all manifests are as they should be."""
        return not self.differences

    @property
    def notes(self) -> Iterator[str]:
        """Yield what a reader of the lists has to know about the files that they name."""
        if self.live is not None and self.live.external_file_count:
            count = count_with_verb(self.live.external_file_count, "file", "are")
            yield (
                f"{count} outside of the table, such as {self.live.first_external_uri}: readers of the lists need "
                "access to that place, and what deletes files there does not look for these lists"
            )

    def build_refusal(self) -> Refused | None:
        """Return the error for the reasons why the version cannot have manifests; None if it can."""
        return Refused.by(self.refusals) if self.refusals else None

    def effects(self) -> Iterator[str]:
        """Return a line per manifest that is written or deleted."""
        return (f"{difference.problem} {difference.path}" for difference in self.differences)

    @property
    def paths_to_write(self) -> list[str]:
        """The paths of the manifests that are to be written."""
        return [difference.path for difference in self.differences if difference.problem != "extra"]

    @property
    def paths_to_delete(self) -> list[str]:
        """The paths of the manifests that are to be deleted."""
        return [difference.path for difference in self.differences if difference.problem == "extra"]

    def as_json(self, *, dry_run: bool) -> dict[str, Json]:
        """Return the content of the document `deltacli.manifest`."""
        files = None if self.live is None else self.live.file_count
        files_outside = None if self.live is None else self.live.external_file_count
        return {
            "version": self.basis.version,
            "files": files,
            "filesOutside": files_outside,
            "manifests": {
                "written": len(self.paths_to_write),
                "deleted": len(self.paths_to_delete),
                "unchanged": self.unchanged,
            },
            "differences": [difference._asdict() for difference in self.differences],
            "refusals": [refusal.as_json("wayOut") for refusal in self.refusals],
            "dryRun": dry_run,
        }


@dataclass(eq=False)
class ManifestsOutcome:
    """The result of writing manifests, also of a part of them.

    Attributes:
        plan: The plan.
        written: The number of manifests that were written.
        deleted: The number of manifests that were deleted.
        failures: The manifests that could not be deleted.
    """

    plan: ManifestsPlan
    written: int = 0
    deleted: int = 0
    failures: DeletionFailures = field(default_factory=DeletionFailures)

    def describe_progress(self) -> str:
        """Return how many manifests were written."""
        return f"{self.written:,} of {plural(len(self.plan.paths_to_write), 'manifest')} written"

    def build_partial_failure(self) -> OutcomeProblem:
        """Return the manifests that could not be deleted as a problem; None without any."""
        return self.failures.build_partial_failure(
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
    """Compare the manifests in the directory with a version.

    Args:
        table: The table.
        now: The version, if it was rebuilt already; None for the newest one.

    Returns:
        The plan. If the version cannot have manifests, the reasons are in it.
    """
    snapshot = now or read_snapshot(table)
    live = build_live_manifests(snapshot)
    if isinstance(live, Refusal):
        return ManifestsPlan(build_basis(snapshot), None, refusals=(live,))

    storage = table.storage
    existing_paths = _list_manifests(storage)
    compare = partial(_compare_manifest, storage, live, (storage.uri, *storage.aliases), existing_paths)
    results = list(table.engine.run(compare, live.paths, at_once=storage.capabilities.parallel_reads))
    differences = [problem for problem in results if problem is not None]
    unchanged = len(results) - len(differences)
    extra_paths = sorted(existing_paths.difference(live.paths))
    differences += [ManifestProblem(path, "extra", 0, 0) for path in extra_paths]
    return ManifestsPlan(build_basis(snapshot), live, tuple(differences), unchanged)


def _list_manifests(storage: ReadStorage) -> set[str]:
    """Return the paths of the manifests in the directory; empty if there is no directory."""
    paths = set[str]()
    try:
        for walked in storage.walk(MANIFESTS, lambda _, names: names):
            if MANIFEST_NAME in walked.names:
                paths.add(f"{walked.directory}/{MANIFEST_NAME}")
    except FileMissing:
        pass
    return paths


def _compare_manifest(
    storage: ReadStorage, live: LiveManifests, uris: tuple[str, ...], existing_paths: set[str], path: str
) -> ManifestProblem | None:
    """Compare a manifest with the live files of its partition.

    Other engines spell the same URI in other ways. A line counts as right if it names a live file in any spelling, and
    no other line names that file.

    Args:
        storage: The store of the table.
        live: What the manifests should name.
        uris: All URIs of the table.
        existing_paths: The manifests that are in the directory.
        path: The manifest.

    Returns:
        The difference; None if the manifest names each live file once.
    """
    if path not in existing_paths:
        return ManifestProblem(path, "missing", live.count_files(path), 0)
    lines = live.list_lines(path)
    try:
        content = storage.read(path)
    except FileMissing:
        return ManifestProblem(path, "missing", len(lines), 0)
    if content == _encode_manifest(lines):
        return None

    named_lines = list(filter(None, content.splitlines()))
    missing_lines = set(lines).difference(named_lines)
    unknown_lines = set(named_lines).difference(lines)
    repeated_count = len(named_lines) - len(set(named_lines))
    line_by_path = {path: line for line, paths in _locate_lines(missing_lines, uris) for path in paths}
    stale_count = repeated_count
    for _, paths in _locate_lines(unknown_lines, uris):
        candidates = missing_lines.intersection(line_by_path[path] for path in paths if path in line_by_path)
        if candidates:
            # A line that may mean several files counts for one of them.
            missing_lines.remove(min(candidates))
        else:
            stale_count += 1
    if not missing_lines and not stale_count:
        return None
    return ManifestProblem(path, "differs", len(missing_lines), stale_count)


def _locate_lines(lines: Iterable[bytes], uris: tuple[str, ...]) -> Iterator[tuple[bytes, set[str]]]:
    """Yield the lines in order, each with the paths below the table that it may mean."""
    ordered_lines = sorted(lines)
    return zip(ordered_lines, located_by(b"\n".join(ordered_lines), uris), strict=True)


def _encode_manifest(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def write_manifests(store: Storage, outcome: ManifestsOutcome) -> None:
    """Write the manifests that differ, then delete those of partitions without files.

    Args:
        store: The store to write to.
        outcome: The outcome of the plan. It is filled, also if an error ends the writing.

    Raises:
        StorageFailed: If a manifest cannot be written. Those that cannot be deleted are noted in the outcome.
    """
    plan = outcome.plan
    assert plan.live is not None
    live = plan.live

    def write_manifest(path: str) -> None:
        store.put(path, _encode_manifest(live.list_lines(path)))

    table = plan.basis.table
    for _ in table.engine.run(write_manifest, plan.paths_to_write, at_once=store.capabilities.parallel_reads):
        outcome.written += 1

    for path, answer in store.delete_many(plan.paths_to_delete):
        if isinstance(answer, Failed):
            outcome.failures.note(path, answer)
        else:
            outcome.deleted += 1
    if store.capabilities.has_directories:
        _remove_empty_directories(store, plan.paths_to_delete)


def _remove_empty_directories(store: Storage, manifest_paths: Iterable[str]) -> None:
    """Remove the directories of deleted manifests, from the inside to the outside, as far as they are empty."""
    for path in manifest_paths:
        directory = path.rpartition("/")[0]
        while directory != MANIFESTS and not isinstance(store.remove_directory(directory), Failed):
            directory = directory.rpartition("/")[0]


def update_manifests(table: TableHandle) -> Iterator[str]:
    """Write the manifests of the newest version of a table, after a commit of another change.

    The commit stands, whatever happens here, so an error becomes a warning. If other writers commit meanwhile, the
    manifests are written again for their version.

    Yields:
        The reason why the manifests could not be written.
    """
    fix = command("manifest", table=table.address)
    try:
        for _ in range(_MAX_UPDATES):
            plan = plan_manifests(table)
            if plan.refusals:
                refusal = plan.refusals[0]
                yield _describe_stale_manifests(refusal.message, refusal.hint or "")
                return

            outcome = ManifestsOutcome(plan)
            write_manifests(table.writable(), outcome)
            problem = outcome.build_partial_failure()
            if problem is not None:
                yield _describe_stale_manifests(problem.message, fix)
                return

            listing = list_log(table.storage, start_version=plan.basis.version)
            if listing.newest_version == plan.basis.version:
                return
    except DeltacliError as error:
        yield _describe_stale_manifests(error.message, fix)
    else:
        yield _describe_stale_manifests("other writers committed meanwhile", fix)


def _describe_stale_manifests(reason: str, fix: str) -> str:
    message = f"the version is committed, but the manifests in {MANIFESTS} name the files of an earlier one: {reason}"
    return f"{message}; {fix}" if fix else message
