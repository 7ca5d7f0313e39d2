"""Steps for commits of 0 bytes that are accepted as versions which changed nothing.

Writers create a commit in one piece, except on file systems and in copies that lose its content. Engines read an empty
commit as a version without actions, so rows that it deleted are back and rows that it added are gone. deltacli refuses
it. If no copy, checkpoint or log compaction has the commit, only a user can know that it changed nothing, and has to
name the version. The commit that is written then has a commitInfo alone, so that later engines read what they read
before. It is refused if the rest of the log shows that the commit did change something:

* a later commit removes a file that no commit has added,
* the checksum file of the version, or of a later one, has other numbers of files and bytes, or another metadata,
* a log compaction or a checkpoint has the changes of the version.

It is refused, too, if the newest version cannot be read even then, because the rest of the log cannot be searched.

Spec: Delta Log Entries; Version Checksum File.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from deltacli.core.errors import CommitCorrupt, FileMissing, Refused, Unreadable, parameter
from deltacli.core.typing import BinaryFile
from deltacli.delta.log.segment import commit_name
from deltacli.operations.log.log_copy import StoredFile, log_location, versioned
from deltacli.operations.repair.plan import Planned, RepairRequest, Step, Unrepaired, Work
from deltacli.operations.repair.rebuilt_commits import (
    RebuildCommit,
    UnknownError,
    find_sources,
    unchanged_commit,
    version_at,
)
from deltacli.operations.validate.findings import LevelChoice, ValidateRequest
from deltacli.operations.validate.validate import validate_table
from deltacli.rules.actions.commit_contents import REMOVE_DV_MISMATCH, REMOVE_OF_UNKNOWN
from deltacli.rules.checkpoints.contents import EXTRA_ADD, METADATA_DIFFERS
from deltacli.rules.framework.base import Severity
from deltacli.rules.framework.repairs import StepKind
from deltacli.storage import FileStat, ReadStorage, Storage
from deltacli.table.rebuild import read_snapshot

if TYPE_CHECKING:
    from deltacli.table.handle import TableHandle

_EMPTY = "commit.empty"
_EVIDENCE = (
    REMOVE_OF_UNKNOWN.id,
    REMOVE_DV_MISMATCH.id,
    EXTRA_ADD.id,
    METADATA_DIFFERS.id,
    "checkpoint.missing-*",
    "compaction.*",
    "crc.*",
)
"""Rules, also globs, that the log breaks if a commit changed something which it is said not to have changed."""


class StoreWithCommits:
    """A store in which some commits have other contents, as if they had been written."""

    def __init__(self, storage: ReadStorage, contents: Mapping[str, bytes]) -> None:
        self._storage = storage
        self._contents = contents

    def __getattr__(self, name: str) -> Any:  # Any: a member of the port
        return getattr(self._storage, name)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        prefix = f"{directory}/" if directory else ""
        for stat in self._storage.list_from(directory, start):
            yield self._with_size(f"{prefix}{stat.name}", stat)

    def stat(self, path: str) -> FileStat:
        return self._with_size(path, self._storage.stat(path))

    def read(self, path: str) -> bytes:
        content = self._contents.get(path)
        return self._storage.read(path) if content is None else content

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        content = self._contents.get(path)
        return self._storage.read_range(path, offset, length) if content is None else content[offset : offset + length]

    def open(self, path: str) -> BinaryFile:
        content = self._contents.get(path)
        return self._storage.open(path) if content is None else io.BytesIO(content)

    def _with_size(self, path: str, stat: FileStat) -> FileStat:
        content = self._contents.get(path)
        return stat if content is None else stat._replace(size_bytes=len(content))


def plan_empty_commits(
    table: TableHandle, request: RepairRequest, log: Planned, files: Mapping[str, StoredFile], damaged: frozenset[str]
) -> Planned:
    """Return what is planned for the log, with a step for each empty commit that is accepted as one without changes.

    Args:
        table: The table.
        request: Which versions are accepted.
        log: What is planned so far. Commits that a source or the rest of the log determines have their steps there.
        files: The files of the log by their names, as they were validated.
        damaged: The names of those from which nothing is taken.

    Returns:
        The steps, and what is left: an empty commit that is not accepted says how it would be.
    """
    accepted = frozenset(request.accept_empty_commits)
    candidates = [left for left in log.unrepaired if left.rule == _EMPTY and left.place.version]
    if log.work or not candidates:
        return log

    filled = _FilledLog(table, {name: file for name, file in files.items() if name not in damaged})
    reasons: dict[int, str] = {}
    works: dict[int, RebuildCommit] = {}
    for version in sorted({left.place.version for left in candidates if left.place.version is not None}):
        if version not in accepted:
            way_out = parameter("repair.accept_empty_commits", [version])
            reasons[version] = f"to accept that it changed nothing, if no copy has it: {way_out}"
            continue
        try:
            works[version] = filled.fill(files[commit_name(version)])
        except (UnknownError, Unreadable, CommitCorrupt, Refused, FileMissing) as fault:
            reasons[version] = f"it is not accepted as a version without changes: {fault}"

    if works and (evidence := filled.find_evidence(min(works))) is not None:
        reasons |= dict.fromkeys(works, f"it is not accepted as a version without changes: {evidence}")
        works.clear()
    return _join(log, works, reasons)


def _join(log: Planned, works: Mapping[int, RebuildCommit], reasons: Mapping[int, str]) -> Planned:
    """Return a plan of the log with further steps, and with further reasons for what is left."""
    steps: list[Step] = list(log.steps)
    work: list[Work] = list(log.work)
    unrepaired: list[Unrepaired] = []
    for left in log.unrepaired:
        version = left.place.version if left.rule == _EMPTY else None
        if version is None:
            unrepaired.append(left)
        elif version in works:
            steps.append(Step(left.rule, left.place, StepKind.REBUILD, len(work), works[version].name))
            work.append(works[version])
        elif version in reasons:
            # The class of a reason says what would repair the finding.
            reason = type(left.reason)(f"{left.reason}; {reasons[version]}")
            unrepaired.append(left._replace(reason=reason))
        else:
            unrepaired.append(left)
    return log._replace(steps=steps, work=work, unrepaired=unrepaired)


class _FilledLog:
    """The log with those empty commits filled that are accepted so far, oldest first."""

    def __init__(self, table: TableHandle, sound: Mapping[str, StoredFile]) -> None:
        self._table = table
        self._sound = dict(sound)
        self._contents: dict[str, bytes] = {}

    @property
    def _filled_table(self) -> TableHandle:
        return self._table.replace_storage(cast("Storage", StoreWithCommits(self._table.storage, self._contents)))

    def fill(self, file: StoredFile) -> RebuildCommit:
        """Return the change that writes a commit as a version without changes, and regard it as made.

        Raises:
            UnknownError: If something else in the log has what the commit changed.
            Unreadable: If the version before cannot be rebuilt. CommitCorrupt and FileMissing mean the same.
            Refused: If deltacli may not commit to the table, as where a catalog manages it.
        """
        version = file.path.version
        listing = versioned(self._sound.values())
        source = next((name for name, _ in find_sources(version, self._sound, listing)), None)
        if source is not None:
            raise UnknownError(f"{source} has what it changed")

        table = self._filled_table
        before = version_at(table, listing, version - 1)
        work = unchanged_commit(table, file, listing, before)
        self._sound[file.name] = file._replace(size_bytes=len(work.data))
        self._contents[log_location(file.name)] = work.data
        return work

    def find_evidence(self, first: int) -> str | None:
        """Return what speaks against the accepted commits from a version on, in words; None if nothing does.

        It is that they did change something, or that the log cannot be searched for such evidence.
        """
        table = self._filled_table
        try:
            read_snapshot(table)
        except (Unreadable, CommitCorrupt) as fault:
            return f"the newest version could not be read even then: {fault.message}"

        request = ValidateRequest(level=LevelChoice.LOG, select=_EVIDENCE, max_findings=0)
        for finding in validate_table(table, request).findings:
            version = finding.place.version
            # A remove without effect is no error, but it shows that somebody has seen the file.
            counts = finding.severity is not Severity.INFO or finding.rule is REMOVE_OF_UNKNOWN
            if counts and version is not None and version >= first:
                return f"{finding.message} (version {version}, {finding.rule.id})"
        return None
