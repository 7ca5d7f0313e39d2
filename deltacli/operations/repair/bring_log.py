"""Steps for files of the log that are gone or cannot be read: they come from a source, never from a guess.

What `undelete` does, with files that are damaged counted as gone, and kept before they are replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from deltacli.core.errors import FileMissing, NotATable, Unreadable
from deltacli.core.typing import BinaryFile
from deltacli.core.units import format_size, plural
from deltacli.delta.log.log_path import LOG_DIRECTORY, LogFileKind, Place, commit_name, parse_log_path
from deltacli.operations.recover.execute import bring_back
from deltacli.operations.recover.plan import PLANNED, UNPROVEN, UndeletePlan
from deltacli.operations.recover.request import UndeleteRequest
from deltacli.operations.recover.sources import tag_of
from deltacli.operations.recover.undelete import plan_undelete
from deltacli.operations.repair.plan import NoSource, Planned, Step, Unrepaired, left
from deltacli.rules.checkpoints.checkpoints import WITHOUT_COMMIT
from deltacli.rules.framework.repairs import StepKind
from deltacli.rules.log.compactions import BEYOND_LOG
from deltacli.table.needed import FileKind

if TYPE_CHECKING:
    from deltacli.operations.repair.plan import Run
    from deltacli.operations.repair.request import RepairRequest
    from deltacli.rules.framework.base import Finding
    from deltacli.storage import FileStat, PathKind, ReadStorage, Storage
    from deltacli.table.handle import TableHandle

_RULES = {FileKind.DATA.value: "data.file-missing", FileKind.VECTOR.value: "dv.file-missing"}
_OF_LOG = "log.gap"
_WHOLE = ("log.not-a-table", "log.start-missing")
"""Findings about a log as a whole: any file of it that comes back helps."""
NEWER = (WITHOUT_COMMIT.id, BEYOND_LOG.id)
"""Rules about files of the log whose version is above the newest commit."""


class WithoutFiles:
    """A store that hides some files, so that they count as missing."""

    def __init__(self, storage: ReadStorage, hidden: frozenset[str]) -> None:
        self._storage, self._hidden = storage, hidden

    def __getattr__(self, name: str) -> Any:  # Any: a member of the port
        return getattr(self._storage, name)

    def list_from(self, directory: str, start: str = "") -> Iterator[FileStat]:
        prefix = f"{directory}/" if directory else ""
        return (one for one in self._storage.list_from(directory, start) if f"{prefix}{one.name}" not in self._hidden)

    def read(self, path: str) -> bytes:
        return self._storage.read(self._there(path))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self._storage.read_range(self._there(path), offset, length)

    def open(self, path: str) -> BinaryFile:
        return self._storage.open(self._there(path))

    def stat(self, path: str) -> FileStat:
        return self._storage.stat(self._there(path))

    def kind_of(self, path: str) -> PathKind:
        from deltacli.storage import PathKind

        return PathKind.MISSING if path in self._hidden else self._storage.kind_of(path)

    def _there(self, path: str) -> str:
        if path in self._hidden:
            raise FileMissing(f"{path} is damaged", facts={"store": self._storage.uri})
        return path


@dataclass(frozen=True, eq=False)
class BringLog:
    """Puts files of the log back, and the data files that the version needs."""

    plan: UndeletePlan
    request: UndeleteRequest
    hidden: frozenset[str]
    is_sensitive: bool = False

    @property
    def name(self) -> str:
        found = self.plan.found
        return f"bring {plural(found.files, 'file')} back ({format_size(found.size_bytes)})"

    def run(self, run: Run) -> None:
        storage = run.table.storage
        replaced = sorted({*self.hidden, *self.plan.log_tags, *self.plan.replaced["path"].to_pylist()})
        run.backup.keep(replaced)
        tags = {path: tag for path in self.hidden if (tag := tag_of(storage, path)) is not None}
        plan = replace(self.plan, log_tags={**self.plan.log_tags, **tags})
        bring_back(run.table, plan, run.put)
        run.backup.note_versions(self._commits())

    def _commits(self) -> list[int]:
        names = (path.removeprefix(f"{LOG_DIRECTORY}/") for path in self.plan.items["path"].to_pylist())
        paths = (parse_log_path(name) for name in names)
        return sorted(path.version for path in paths if path.kind is LogFileKind.COMMIT)


def plan_log_files(
    table: TableHandle, request: RepairRequest, findings: Sequence[Finding], stuck: frozenset[str], *, is_readable: bool
) -> Planned:
    """Return the steps for findings about missing and damaged files of the log. `stuck` are the names of checkpoint
    files that only a source can replace.

    Raises Refused where a source is not one of this table.
    """
    if not findings and not stuck:
        return Planned()
    if not request.sources:
        reasons = (NoSource(f"no source was named; {_needed(one, is_readable)}") for one in findings)
        return Planned(unrepaired=list(map(left, findings, reasons)))
    hidden = frozenset(one.place.path for one in findings if one.rule.id.startswith("commit.")) | {
        f"{LOG_DIRECTORY}/{name}" for name in stuck
    }
    asked = UndeleteRequest(sources=request.sources, accept_commits=request.accept_commits)
    without = table.over(cast("Storage", WithoutFiles(table.storage, hidden)))
    try:
        plan = plan_undelete(without, asked, is_tip_judged=False)
    except Unreadable as fault:
        return Planned(
            unrepaired=[left(one, f"the sources do not complete the log: {fault.message}") for one in findings]
        )
    unproven = next((one for one in plan.refusals if one.code == UNPROVEN), None)
    if unproven is not None and len(plan.refusals) == 1:
        return Planned(unrepaired=[left(one, unproven.message) for one in findings], refusals=[unproven])
    if (refusal := plan.objection()) is not None:
        raise refusal
    found = {
        path: (kind, source, size)
        for path, kind, source, size, state in zip(
            *(plan.items[name].to_pylist() for name in ("path", "kind", "source", "sizeBytes", "state")), strict=True
        )
        if state == PLANNED
    }
    if not found:
        return Planned(unrepaired=[left(one, f"no source has it; {_needed(one, is_readable)}") for one in findings])
    work = BringLog(plan, asked, hidden)
    steps: list[Step] = []
    unrepaired: list[Unrepaired] = []
    for finding in findings:
        match = _file_for(finding, found)
        if match is None:
            unrepaired.append(left(finding, f"no source has it; {_needed(finding, is_readable)}"))
            continue
        what = f"bring {match} back"
        steps.append(Step(finding.rule.id, finding.place, StepKind.RECOVER, 0, what, found[match][1]))
    told = {step.what for step in steps}
    for path, (kind, source, _) in found.items():
        if (what := f"bring {path} back") not in told:
            steps.append(Step(_RULES.get(kind, _OF_LOG), Place(path), StepKind.RECOVER, 0, what, source))
    return Planned(steps, [work], unrepaired, plan.notes)


def last_version(finding: Finding) -> int:
    """Return the last version of the log file that a finding is about."""
    return parse_log_path(finding.place.path.removeprefix(f"{LOG_DIRECTORY}/")).newest


def _needed(finding: Finding, is_readable: bool) -> str:
    """Return what a file that a finding misses is needed for."""
    if finding.rule.id in NEWER:
        return "later commits may be lost; delete the file only if they were never made"
    if is_readable:
        return "it is needed for history only: the newest version can be read without it"
    return "the newest version cannot be rebuilt without it"


def _file_for(finding: Finding, found: Mapping[str, object]) -> str | None:
    """Return the file that repairs what a finding reports."""
    place = finding.place
    if finding.rule.id in _WHOLE:
        return next((path for path in found if path.startswith(f"{LOG_DIRECTORY}/")), None)
    version = last_version(finding) if finding.rule.id in NEWER else place.version
    commit = None if version is None else f"{LOG_DIRECTORY}/{commit_name(version)}"
    return next((path for path in (place.path, commit) if path in found), None)


def has_log(table: TableHandle) -> bool:
    """Return True where the table has a log, complete or not."""
    from deltacli.table.find_log import list_log

    try:
        list_log(table.storage)
    except NotATable:
        return False
    return True
