"""Commits made after the plan: files that are needed again are spared. Spec: Delta Log Entries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.changing.basis import CLOCK, NEWER, OTHER_PAST, TOO_OLD, past_of, require_clock, require_same
from deltacli.delta.log.log_path import LOG_DIRECTORY, LogFileKind
from deltacli.delta.log.segment import LogFile, make_log_file
from deltacli.delta.protocol.property_values import deleted_file_retention_ms
from deltacli.delta.protocol.protocol_action import require_committable
from deltacli.delta.vacuum.keys import PathKeys, binary_paths
from deltacli.errors import Refused
from deltacli.hints import command
from deltacli.operations.table.find_log import list_log
from deltacli.operations.table.rebuild import read_snapshot
from deltacli.operations.vacuum.plan import VacuumPlan
from deltacli.operations.vacuum.protected_tables import made_absolute, of_protected, open_kept
from deltacli.storage import link_targets
from deltacli.typing import ArrowArray
from deltacli.units import format_duration
from deltacli.work.commits.file_references import FileReferences, NamedFiles, commit_actions

if TYPE_CHECKING:
    from deltacli.operations.table.handle import TableHandle
    from deltacli.operations.table.version import Snapshot


_HARMLESS = frozenset({"add", "remove", "cdc", "txn", "commitInfo", "domainMetadata"})
"""Actions that do not change the protocol and the properties."""


_CHECKPOINTS = frozenset(
    {LogFileKind.CLASSIC_CHECKPOINT, LogFileKind.MULTI_PART_CHECKPOINT, LogFileKind.UUID_CHECKPOINT}
)


_CODES = {
    OTHER_PAST: "vacuum.plan-other-past",
    TOO_OLD: "vacuum.plan-too-old",
    NEWER: "vacuum.plan-newer",
    CLOCK: "vacuum.clock-skew",
}


@contextmanager
def with_codes_of_vacuum() -> Iterator[None]:
    """Give refusals of `changing.basis` the codes and the hint that a vacuum has."""
    try:
        yield
    except Refused as refused:
        if (code := _CODES.get(refused.code)) is not None:
            refused.code = code
            if code != _CODES[CLOCK]:
                refused.hint = command("vacuum", dry_run=True)
        raise


class NewerCommits:
    """Reads new commits, each once, of the table and of the protected tables, and collects the files that they name.
    Raises what `open_kept` raises.
    """

    def __init__(self, table: TableHandle, keys: PathKeys, plan: VacuumPlan) -> None:
        self._table, self._keys, self._plan = table, keys, plan
        past = None if plan.made_from is None else plan.made_from.past
        self._own = _LogTail(table, plan.snapshot_version, past)
        self._others = [_LogTail(open_kept(table, kept), kept.version) for kept in plan.protected]
        self._needed: ArrowArray = None

    def require_same(self, snapshot: Snapshot) -> None:
        """Raise Refused where a newer version is of another table or has another past, where the clock is wrong, and
        where removed files are kept longer than in the plan.
        """
        plan = self._plan
        if snapshot.metadata.id != plan.table_id:
            raise Refused(
                "the table was replaced after the plan was made",
                code="vacuum.plan-other-table",
                facts={"plan": f"{plan.table_id}, version {plan.snapshot_version}"},
                hint=command("vacuum", dry_run=True),
            )
        listing = snapshot.listing
        if plan.made_from is not None:
            if listing.start_version > plan.snapshot_version:
                listing = list_log(self._table.storage, start_version=plan.snapshot_version)
            with with_codes_of_vacuum():
                require_same(plan.made_from, listing)
                require_clock(self._table, plan.now_ms, past_of(listing, snapshot.version))
        require_committable(snapshot.protocol, snapshot.properties, snapshot.version)
        own_ms = deleted_file_retention_ms(snapshot.properties)
        if own_ms > plan.own_retention_ms and plan.cutoff_ms > self._table.clock() - own_ms:
            raise Refused(
                f"the table now keeps removed files for {format_duration(own_ms)}, longer than the plan",
                code="vacuum.plan-retention",
                hint=command("vacuum", dry_run=True),
            )

    def needed(self, paths: ArrowArray) -> ArrowArray:
        """Return which paths newer commits name in any action. Raises CommitCorrupt, FileMissing and other errors of
        reading, so that nothing is deleted then.
        """
        import pyarrow as pa

        self._read_on()
        with with_codes_of_vacuum():
            require_clock(self._table, self._plan.now_ms, self._own.last)
        if self._needed is None:
            return pa.repeat(pa.scalar(False), len(paths))
        return pc.is_in(self._keys.of_listing(paths), value_set=self._needed)

    def _read_on(self) -> None:
        references, is_other = self._own.read_on()
        if is_other:
            self.require_same(read_snapshot(self._table))
        self._take(references)
        for tail in self._others:
            with of_protected(tail.table.uri):
                references, is_other = tail.read_on()
                if is_other:
                    snapshot = read_snapshot(tail.table)
                    require_committable(snapshot.protocol, snapshot.properties, snapshot.version)
                self._take([rows._replace(path=made_absolute(rows.path, tail.table.uri)) for rows in references])

    def _take(self, references: list[FileReferences]) -> None:
        import pyarrow as pa

        parts = [] if self._needed is None else [self._needed]
        for rows in references:
            of_paths, of_vectors = self._keys.of_log(rows.path), self._keys.of_vectors(rows.vector)
            _require_places(of_paths.escaping, of_vectors.unknown)
            parts += [pc.drop_null(of_paths.hashes), of_paths.spare, pc.drop_null(of_vectors.hashes), of_vectors.spare]
            parts += [self._behind_links(names) for names in (of_paths.keys, of_paths.written, of_vectors.keys)]
        if parts:
            self._needed = pa.concat_arrays(parts)

    def _behind_links(self, names: ArrowArray) -> ArrowArray:
        """Return the targets of paths through links, because a file named through a link is needed by its other
        name.
        """
        texts = (name.decode("utf-8", "surrogateescape") for name in pc.unique(pc.drop_null(names)).to_pylist())
        targets = link_targets(self._table.storage, (name for name in texts if "\0" not in name))
        return self._keys.of_listing(binary_paths([target for target, name in targets if target != name]))


class _LogTail:
    """The commits of a log that come after a version, each read once. `past` is the file of that version, which has to
    stay; None where it is not known.
    """

    def __init__(self, table: TableHandle, version: int, past: LogFile | None = None) -> None:
        self.table = table
        self._seen = version
        self.last = past
        """The last commit that was read."""

    def read_on(self) -> tuple[list[FileReferences], bool]:
        """Return the files named by unread commits, and whether the commits change more than files."""
        new = self._listed()
        named = NamedFiles()
        references: list[FileReferences] = []
        is_other = False
        for file in new:
            actions = list(commit_actions(self.table.storage, file, None))
            is_other = is_other or any(kind not in _HARMLESS for kind, _ in actions)
            references += named.take(actions, file)
        references += named.flush()
        if new:
            self._seen, self.last = new[-1].version, new[-1]
        return references, is_other

    def _listed(self) -> list[LogFile]:
        """Return the unread commits, in order. Raises Refused where one in between is missing, or the last one read has
        changed, so that the log is another one.
        """
        # All names of a version begin with its digits, also that of a checkpoint, which comes before the commit.
        start = f"{self._seen + 1 if self.last is None else self._seen:020d}"
        for _ in range(2):  # a listing may miss a concurrently created file but contain the next one
            listed = [
                make_log_file(stat.name, stat.size_bytes, stat.modified_ms)
                for stat in self.table.storage.list_from(LOG_DIRECTORY, start)
            ]
            commits = [file for file in listed if file.path.kind is LogFileKind.COMMIT]
            self._require_last(listed)
            files = [file for file in commits if file.version > self._seen]
            # A checkpoint proves that commits existed; it may be all that is left of them.
            told = [file.version for file in listed if file.path.kind in _CHECKPOINTS]
            newest = max([self._seen, *told, *(file.version for file in files)])
            expected = range(self._seen + 1, newest + 1)
            # Count first: a version may be 2^60, and a list of all versions below would not fit into memory.
            if len(files) == newest - self._seen and [file.version for file in files] == list(expected):
                return files
        raise Refused(
            f"commits after version {self._seen} are no longer in the log, so the files they need are unknown",
            code="vacuum.plan-too-old",
            hint=command("vacuum", dry_run=True),
        )

    def _require_last(self, listed: list[LogFile]) -> None:
        if self.last is not None and self.last not in listed:
            raise Refused(
                f"commit {self._seen} was deleted or replaced, so the files the table needs are unknown",
                code="vacuum.plan-other-past",
                hint=command("vacuum", dry_run=True),
            )


def _require_places(escaping: str | None, unknown_vector: str | None) -> None:
    """Raise Refused where a newer version names a file that cannot be resolved unambiguously."""
    if escaping is None and unknown_vector is None:
        return
    what = f"{escaping}, which leads outside the table" if escaping else f"the deletion vector {unknown_vector}"
    raise Refused(
        f"a newer version names {what}: the file that it means is ambiguous",
        code="path.escapes-root" if escaping else "vacuum.plan-too-old",
        hint=command("vacuum", dry_run=True),
    )
