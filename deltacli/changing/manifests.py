"""Writing symlink manifests: finding the manifests that differ from a version, and replacing them.

`manifest_contents.py` computes the lines that each manifest should contain. The command `manifest` plans and writes
explicitly. `write_manifests_of_newest_version` is called after the commits of other changes, if the table property for
it is set.

Each manifest is replaced atomically, but not all together: until the last one is written, readers of a partitioned
table see old and new partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from deltacli.changing.base_version import BaseVersion, build_base_version
from deltacli.changing.manifest_contents import MANIFEST_NAME, LiveManifests, build_live_manifests
from deltacli.changing.outcome import DeletionFailures
from deltacli.changing.views import enter_all_subdirectories
from deltacli.core.errors import DeltacliError, FileMissing, Refusal, Refused, command
from deltacli.core.typing import Json
from deltacli.core.units import count_with_verb, plural
from deltacli.delta.data_files import MANIFESTS, locate_manifest_lines
from deltacli.storage import Failed, ReadStorage, Storage
from deltacli.table.find_log import list_log
from deltacli.table.handle import TableHandle
from deltacli.table.rebuild import read_snapshot
from deltacli.table.version import Snapshot

_MAX_UPDATES = 3


class ManifestProblem(NamedTuple):
    """A manifest that differs from the live files of its partition. The field names are those of the JSON document.

    Attributes:
        path: The path of the manifest, relative to the table directory.
        problem: `missing`; `differs`; or `extra` if the partition has no live files.
        lacks: The number of live files that are not listed.
        stale: The number of lines that are no live file of the partition, or that repeat another line.
    """

    path: str
    problem: str
    lacks: int
    stale: int


@dataclass(frozen=True, slots=True)
class ManifestsPlan:
    """The manifests that must be written or deleted so that the manifests match a version.

    Attributes:
        base_version: The version.
        live: The manifests that the version should have; None if it cannot have any.
        differences: The manifests to write or to delete.
        unchanged: The number of manifests that are up to date.
        refusals: The reasons why the version cannot have manifests.
    """

    base_version: BaseVersion = field(repr=False)
    live: LiveManifests | None = field(repr=False)
    differences: tuple[ManifestProblem, ...] = ()
    unchanged: int = 0
    refusals: tuple[Refusal, ...] = ()

    @property
    def is_noop(self) -> bool:
        """Return True if all manifests are up to date."""
        return not self.differences

    @property
    def notes(self) -> Iterator[str]:
        """Yield a note for readers of the manifests if live files are outside the table directory."""
        if self.live is not None and self.live.external_file_count:
            count = count_with_verb(self.live.external_file_count, "file", "are")
            yield (
                f"{count} outside of the table, such as {self.live.first_external_uri}: readers of the lists need "
                "access to that place, and what deletes files there does not look for these lists"
            )

    def build_refusal(self) -> Refused | None:
        """Return the error if the version cannot have manifests; None if it can."""
        return Refused.from_refusals(self.refusals) if self.refusals else None

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
        """Return the content of the JSON document `deltacli.manifest`.

        Args:
            dry_run: Whether the plan is the result of the command, so that nothing was written.
        """
        files = None if self.live is None else self.live.file_count
        files_outside = None if self.live is None else self.live.external_file_count
        return {
            "version": self.base_version.version,
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
    """The manifests that were written and deleted so far.

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
        """Return a phrase that says how many manifests were written."""
        return f"{self.written:,} of {plural(len(self.plan.paths_to_write), 'manifest')} written"

    def build_incomplete_error(self) -> DeltacliError | None:
        """Return the error if manifests could not be deleted; None if all were deleted."""
        return self.failures.build_error(
            f"{plural(self.failures.count, 'manifest')} could not be deleted",
            code="manifests.not-deleted",
            has_deleted=bool(self.written + self.deleted),
            hint=command("manifest"),
        )

    def as_json(self) -> dict[str, Json]:
        """Return the content of the JSON document `deltacli.manifest`."""
        content = self.plan.as_json(dry_run=False)
        done = {"written": self.written, "deleted": self.deleted, "unchanged": self.plan.unchanged}
        return content | {"manifests": done}


def plan_manifests(table: TableHandle, now: Snapshot | None = None) -> ManifestsPlan:
    """Compare the manifests in the table directory with a version.

    Args:
        table: The table.
        now: The version, if it was read already; None for the newest version.

    Returns:
        The plan. If the version cannot have manifests, the plan contains the reason.
    """
    snapshot = now or read_snapshot(table)
    live = build_live_manifests(snapshot)
    if isinstance(live, Refusal):
        return ManifestsPlan(build_base_version(snapshot), None, refusals=(live,))

    storage = table.storage
    existing_paths = _list_manifests(storage)
    comparison = _ManifestComparison(storage, live, existing_paths)
    results = list(table.engine.run(comparison.compare, live.paths, at_once=storage.capabilities.parallel_reads))
    differences = [difference for difference in results if difference is not None]
    unchanged = len(results) - len(differences)
    extra_paths = sorted(existing_paths.difference(live.paths))
    differences += [ManifestProblem(path, "extra", 0, 0) for path in extra_paths]
    return ManifestsPlan(build_base_version(snapshot), live, tuple(differences), unchanged)


def _list_manifests(storage: ReadStorage) -> set[str]:
    """Return the paths of the manifests in the table directory."""
    paths = set[str]()
    try:
        for entry in storage.walk(MANIFESTS, enter_all_subdirectories):
            if MANIFEST_NAME in entry.names:
                paths.add(f"{entry.directory}/{MANIFEST_NAME}")
    except FileMissing:
        # The table has never had manifests.
        pass
    return paths


@dataclass(frozen=True, slots=True)
class _ManifestComparison:
    """Compares manifests with the live files of their partitions.

    Attributes:
        storage: The store of the table.
        live: The manifests that the version should have.
        existing_paths: The paths of the manifests in the table directory.
    """

    storage: ReadStorage
    live: LiveManifests
    existing_paths: set[str]

    def compare(self, path: str) -> ManifestProblem | None:
        """Compare one manifest. Several threads call this.

        Args:
            path: The path of the manifest.

        Returns:
            The difference; None if the manifest lists each live file once.
        """
        if path not in self.existing_paths:
            return ManifestProblem(path, "missing", self.live.count_files(path), 0)
        live_lines = self.live.list_lines(path)
        try:
            content = self.storage.read(path)
        except FileMissing:
            return ManifestProblem(path, "missing", len(live_lines), 0)
        if content == _encode_manifest(live_lines):
            return None

        stored_lines = list(filter(None, content.splitlines()))
        repeated_count = len(stored_lines) - len(set(stored_lines))
        missing_lines = set(live_lines).difference(stored_lines)
        unknown_lines = set(stored_lines).difference(live_lines)
        respelled_count = self._count_respelled_lines(missing_lines, unknown_lines)

        missing_count = len(missing_lines) - respelled_count
        stale_count = repeated_count + len(unknown_lines) - respelled_count
        if not missing_count and not stale_count:
            return None
        return ManifestProblem(path, "differs", missing_count, stale_count)

    def _count_respelled_lines(self, missing_lines: set[bytes], unknown_lines: set[bytes]) -> int:
        """Return how many unknown lines are missing files in the spelling of another engine.

        Engines write the same URI in several ways: `s3://bucket/a b.parquet`, `s3a://bucket/a%20b.parquet`. Each
        missing file is counted once, even if two lines could refer to it.

        Args:
            missing_lines: The lines of live files that the manifest does not contain.
            unknown_lines: The lines of the manifest that are no live files in the spelling of this process.
        """
        uris = (self.storage.uri, *self.storage.aliases)
        line_by_path = dict[str, bytes]()
        for line, paths in _locate_lines(missing_lines, uris):
            line_by_path |= dict.fromkeys(paths, line)

        unmatched_lines = set(missing_lines)
        for _, paths in _locate_lines(unknown_lines, uris):
            possible_lines = {line_by_path[path] for path in paths if path in line_by_path}
            candidates = unmatched_lines & possible_lines
            if candidates:
                # A line whose `%20` may be an escape or a part of the name can refer to two files. Take the first one.
                unmatched_lines.remove(min(candidates))
        return len(missing_lines) - len(unmatched_lines)


def _locate_lines(lines: Iterable[bytes], uris: tuple[str, ...]) -> Iterator[tuple[bytes, set[str]]]:
    """Yield each line with the paths, relative to the table directory, that it may refer to. The lines are sorted.

    Args:
        lines: Lines of a manifest.
        uris: All URIs of the table directory.
    """
    sorted_lines = sorted(lines)
    return zip(sorted_lines, locate_manifest_lines(b"\n".join(sorted_lines), uris), strict=True)


def _encode_manifest(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def write_manifests(store: Storage, outcome: ManifestsOutcome) -> None:
    """Write the manifests that differ, then delete the manifests of partitions without live files.

    Args:
        store: The store to write to.
        outcome: The outcome of the plan. It is updated after each manifest, so it is also valid after an error.
            Manifests that cannot be deleted are recorded in it.

    Raises:
        StorageFailed: If a manifest cannot be written.
    """
    plan = outcome.plan
    assert plan.live is not None
    write_manifest = partial(_write_manifest, store, plan.live)
    engine = plan.base_version.table.engine
    for _ in engine.run(write_manifest, plan.paths_to_write, at_once=store.capabilities.parallel_reads):
        outcome.written += 1

    for path, answer in store.delete_many(plan.paths_to_delete):
        if isinstance(answer, Failed):
            outcome.failures.add(path, answer)
        else:
            outcome.deleted += 1
    if store.capabilities.has_directories:
        _remove_empty_directories(store, plan.paths_to_delete)


def _write_manifest(store: Storage, live: LiveManifests, path: str) -> None:
    """Write one manifest. Several threads call this."""
    store.put(path, _encode_manifest(live.list_lines(path)))


def _remove_empty_directories(store: Storage, manifest_paths: Iterable[str]) -> None:
    """Remove the directories of deleted manifests, and their parents, as far as they are empty."""
    for path in manifest_paths:
        directory = path.rpartition("/")[0]
        while directory != MANIFESTS and not isinstance(store.remove_directory(directory), Failed):
            directory = directory.rpartition("/")[0]


def write_manifests_of_newest_version(table: TableHandle) -> list[str]:
    """Write the manifests of the newest version of a table, after another change has committed it.

    If other writers commit at the same time, the manifests are written again for the newer version.

    Returns:
        A warning if the manifests could not be written; else an empty list. There is no error, because the version is
        committed already.
    """
    fix = command("manifest", table=table.address)
    try:
        for _ in range(_MAX_UPDATES):
            plan = plan_manifests(table)
            if plan.refusals:
                refusal = plan.refusals[0]
                return [_describe_stale_manifests(refusal.message, refusal.hint or "")]

            outcome = ManifestsOutcome(plan)
            write_manifests(table.writable(), outcome)
            error = outcome.build_incomplete_error()
            if error is not None:
                return [_describe_stale_manifests(error.message, fix)]

            listing = list_log(table.storage, start_version=plan.base_version.version)
            if listing.newest_version == plan.base_version.version:
                return []
    except DeltacliError as error:
        return [_describe_stale_manifests(error.message, fix)]
    return [_describe_stale_manifests("other writers committed meanwhile", fix)]


def _describe_stale_manifests(reason: str, fix: str) -> str:
    """Return the warning that the manifests are stale.

    Args:
        reason: The reason why they could not be written.
        fix: The command that writes them; "" if there is none.
    """
    message = f"the version is committed, but the manifests in {MANIFESTS} name the files of an earlier one: {reason}"
    return f"{message}; {fix}" if fix else message
