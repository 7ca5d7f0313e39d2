"""`repair`: a validation, then a step for each finding that something can be done about, change by change.

What readers need to open the table comes first: files of the log, then data files, then what the commits determine. A
plan whose log is incomplete ends there; what follows is planned once it is back.

A run ends with the plan that is made afterwards: nothing it acted on is found again, or it is said to have failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from deltacli.changing.base_commit_errors import BASE_COMMIT_REPLACED
from deltacli.changing.base_version import BaseVersion, build_base_version
from deltacli.changing.change_kind import ChangeKind
from deltacli.changing.file_totals import FileTotals
from deltacli.changing.rechecks import recheck_base_commit
from deltacli.core.errors import (
    NOTHING_CHANGED,
    ConflictLost,
    DeltacliError,
    NotATable,
    OutcomeUnknown,
    PartlyDone,
    Refusal,
    Refused,
    Unreadable,
    command,
    parameter,
)
from deltacli.core.short_repr import short_repr
from deltacli.core.units import format_size, plural
from deltacli.delta.log.segment import LOG_DIRECTORY, LogFileKind, LogListing, Place, parse_log_path
from deltacli.delta.protocol.features import require_commits_supported
from deltacli.operations.log.log_copy import StoredFile, find_table_id, list_whole_log, versioned
from deltacli.operations.recover.log_files import DivergedError, open_sources
from deltacli.operations.recover.sources import Journal
from deltacli.operations.repair.backup import Backup, open_backup
from deltacli.operations.repair.hadoop_checksums import plan_hadoop_checksums
from deltacli.operations.repair.live_files import ORPHANS, plan_statistics
from deltacli.operations.repair.log_files import (
    AHEAD,
    CHECKPOINTS,
    DOUBTS,
    NEWER,
    find_unreadable,
    has_log,
    last_version,
    plan_checkpoints,
    plan_checksums,
    plan_compactions,
    plan_hint,
    plan_log_files,
)
from deltacli.operations.repair.lost_files import FilesPlan, plan_doubled, plan_files
from deltacli.operations.repair.path_forms import plan_path_forms
from deltacli.operations.repair.plan import (
    IN_USE_MS,
    NotNeededError,
    Planned,
    RepairPlan,
    RepairRequest,
    Run,
    SavedPlan,
    Step,
    StepState,
    Unrepaired,
    join_plans,
    left,
)
from deltacli.operations.repair.rebuilt_commits import plan_rebuilt
from deltacli.operations.validate.findings import LevelChoice, ValidateRequest
from deltacli.operations.validate.validate import Validation, validate_table
from deltacli.rules.framework.base import CATALOGUE, Finding, Severity
from deltacli.rules.framework.choice import RuleChoice
from deltacli.rules.framework.repairs import Family, get_repair_row, reason_without_steps
from deltacli.storage.optional_interfaces import require_writable
from deltacli.table.find_log import list_log
from deltacli.table.handle import managed_store
from deltacli.table.missing_log import build_missing_log_error
from deltacli.table.rebuild import read_snapshot
from deltacli.table.table_directories import require_no_paimon_table
from deltacli.work.commits.provenance import read_provenance

if TYPE_CHECKING:
    from deltacli.changing.execution import ChangeExecution
    from deltacli.core.typing import Json
    from deltacli.table.handle import TableHandle
    from deltacli.table.version import Snapshot

# -- planning a repair -------------------------------------------------------------------------------------------------

Findings = Mapping[Family, Sequence["Finding"]]
_OWN_OPERATION = "FSCK"
_MOST_LOOKS = 3
_STOPS_ALL = ("repair.too-much-missing", "repair.listing-differs")


def plan_repair(table: TableHandle, request: RepairRequest) -> RepairPlan:
    """Validate a table and return what would be done about the findings.

    Raises PaimonTable, NotATable where neither the table nor a source has a log, Refused for a source that is not one
    of this table, UsageError and StorageFailed.
    """
    require_writable(table.storage)
    table = table.bind_to_directory()
    if not has_log(table):
        require_no_paimon_table(table.storage)
        if not request.sources:
            raise build_missing_log_error(table.storage)
    validation, files = _judged(table, request)
    sources, diverged = request.sources, list[DivergedError]()
    while True:
        try:
            return _planned(table, request, sources, validation, files, diverged)
        except DivergedError as fault:
            if fault.source not in sources:
                raise
            diverged.append(fault)
            sources = tuple(one for one in sources if one != fault.source)


def _planned(
    table: TableHandle,
    request: RepairRequest,
    sources: Sequence[str],
    validation: Validation | None,
    files: Mapping[str, StoredFile],
    diverged: Sequence[DivergedError],
) -> RepairPlan:
    """Return the plan with some of the sources. What depends on a commit that differs in `diverged` logs is refused."""
    asked = replace(request, sources=sources)
    choice = RuleChoice(request.level, request.select)
    findings = () if validation is None else validation.findings
    by_family, others = _sorted(findings, choice)
    orphans = tuple(one.place.path for one in others if one.rule.id in ORPHANS)
    now = _snapshot(table) if validation is not None and validation.is_readable else None
    obstacle = _obstacle(now, findings)
    checkpoints, stuck = plan_checkpoints(table, by_family[Family.CHECKPOINT], files, obstacle, others)
    hint = plan_hint(by_family[Family.HINT], files, obstacle, find_unreadable(by_family[Family.CHECKPOINT], stuck))
    ahead = _ahead(by_family, now) if sources else []
    damaged = (_no_log(), frozenset()) if validation is None else ([*by_family[Family.LOG], *ahead], stuck)
    log = plan_log_files(table, asked, *damaged, files, is_readable=now is not None)
    log = log._replace(unrepaired=[one for one in log.unrepaired if one.rule not in AHEAD])
    if log.unrepaired and not log.work:
        damaged_names = frozenset(_damaged_names(by_family, files))
        log = plan_rebuilt(table, log, files, damaged_names)
        log = _empty_commits(table, asked, log, files, damaged_names)
    if sources and not log.work and (by_family[Family.CHECKPOINT] or by_family[Family.CHECKSUM]):
        wrong = {one.place.path.removeprefix(f"{LOG_DIRECTORY}/") for one in by_family[Family.LOG]}
        sound = {name: file for name, file in files.items() if name not in wrong}
        open_sources(table, sources, sound, None if now is None else now.metadata.id)
    data = FilesPlan(Planned())
    # First of all: what another step replaces loses its checksum file anyway.
    unfit_checksums = plan_hadoop_checksums(table, by_family[Family.HADOOP_CHECKSUM])
    if log.work:
        parts = [log]
    elif now is None:
        parts = [unfit_checksums, log, checkpoints, hint]
    else:
        data = plan_files(table, asked, by_family[Family.FILES], now, obstacle, orphans)
        listing = versioned(files.values())
        parts = [
            unfit_checksums,
            log,
            data.planned,
            _doubled(table, by_family[Family.DOUBLED], now, listing, obstacle),
            plan_statistics(table, by_family[Family.STATISTICS], now, listing, obstacle),
            _partition_values(table, request, by_family[Family.PARTITIONS], now, obstacle),
            plan_path_forms(table, by_family[Family.PATHS], now, obstacle),
            plan_compactions(by_family[Family.COMPACTION], files, listing),
            checkpoints,
            plan_checksums(by_family[Family.CHECKSUM], files, listing, obstacle),
            hint,
        ]
    found = join_plans(parts)
    base_version = (
        BaseVersion(table, -1, table.clock()) if now is None else replace(build_base_version(now), snapshot=None)
    )
    without_steps = [left(one, reason_without_steps(one)) for one in others if choice.names(one.rule.id)]
    left_out = [*found.unrepaired, *without_steps]
    left_out += _waiting(by_family, found, left_out, is_readable=now is not None)
    plan = RepairPlan(
        base_version,
        request,
        None if validation is None else validation.version,
        now.metadata.id if now is not None else find_table_id(table.storage, table.engine) if files else None,
        tuple(found.steps),
        tuple(found.work),
        tuple(one for one in left_out if one.severity is not Severity.INFO),
        refusals=tuple(found.refusals),
        notes=tuple(found.notes),
        is_partial=bool(found.work) and (bool(log.work) or now is None),
        newest=versioned(files.values()).newest_version,
    )
    return refuse_guarded_steps(_without(plan, diverged), data, table)


def _ahead(findings: Findings, now: Snapshot | None) -> list[Finding]:
    """Return the findings about a hint or a checksum of a version above the newest one: its commit comes back first. A
    commit that no source has may never have been made: then the hint is rewritten, and the checksum goes to the backup.
    """
    newest = -1 if now is None else now.version
    found = [*findings[Family.CHECKSUM], *findings[Family.HINT]]
    return [one for one in found if one.rule.id in AHEAD and last_version(one) > newest]


def _damaged_names(findings: Findings, files: Mapping[str, StoredFile]) -> set[str]:
    """Return the names of damaged commits, and of all checkpoints of the versions of which one is damaged."""
    damaged = (one.place.path for one in findings[Family.LOG] if one.rule.id.startswith("commit."))
    named = {path.removeprefix(f"{LOG_DIRECTORY}/") for path in damaged}
    versions = {one.place.version for one in findings[Family.CHECKPOINT]}
    paths = {name: file.path for name, file in files.items()}
    return named | {name for name, path in paths.items() if path.kind in CHECKPOINTS and path.version in versions}


def _without(plan: RepairPlan, diverged: Sequence[DivergedError]) -> RepairPlan:
    """Return a plan without what depends on sources that have other commits: what they may have is not given up, and
    nothing is written from commits of which there are two contents.
    """
    if not diverged:
        return plan
    first = min(version for one in diverged for version in one.versions)
    reason = diverged[0].message

    def judged(step: Step) -> Step:
        version = getattr(plan.work[step.work], "version", None)
        is_written = isinstance(version, int) and version >= first
        if step.loses is None and not is_written and not step.rule.startswith("compaction."):
            return step
        return step._replace(state=StepState.REFUSED, reason=reason)

    refusals = tuple(Refusal(str(one.code), one.message, one.hint, facts=one.facts) for one in diverged)
    unrepaired = tuple(
        one._replace(reason=reason) if get_repair_row(one.rule).family is Family.LOG else one for one in plan.unrepaired
    )
    return replace(
        plan, steps=tuple(map(judged, plan.steps)), unrepaired=unrepaired, refusals=(*plan.refusals, *refusals)
    )


def _no_log() -> Sequence[Finding]:
    return [CATALOGUE.rules["log.not-a-table"].at(Place(LOG_DIRECTORY), "the directory has no log")]


def _judged(table: TableHandle, request: RepairRequest) -> tuple[Validation | None, Mapping[str, StoredFile]]:
    """Return the validation, and the files of the log, of which none was judged by what it had before. Raises Refused
    where writers replace such files each time.
    """
    for _ in range(_MOST_LOOKS):
        before = list_whole_log(table.storage) or {}
        validation = _validated(table, request)
        files = list_whole_log(table.storage) or {}
        findings = () if validation is None else validation.findings
        names = {one.place.path.removeprefix(f"{LOG_DIRECTORY}/") for one in findings}
        if not (moved := sorted(name for name in names if before.get(name) != files.get(name))):
            return validation, files
    raise Refused(
        "files of the log are replaced while they are validated",
        preamble=NOTHING_CHANGED,
        code=BASE_COMMIT_REPLACED,
        facts={"file": f"{LOG_DIRECTORY}/{moved[0]}"},
        hint=command("repair", dry_run=True),
    )


def _validated(table: TableHandle, request: RepairRequest) -> Validation | None:
    """Return the validation, None where there is nothing. Findings that raise doubts are in each selection."""
    orphans = () if request.level == LevelChoice.LOG else ORPHANS
    select = (*request.select, *NEWER, *DOUBTS, *orphans) if request.select else ()
    asked = ValidateRequest(level=request.level, select=select, max_findings=0)
    try:
        return validate_table(table, asked)
    except NotATable:
        return None


def _sorted(findings: Sequence[Finding], choice: RuleChoice) -> tuple[Findings, list[Finding]]:
    """Return the findings by what plans their steps, and those that have none."""
    by_family: dict[Family, list[Finding]] = {family: [] for family in Family}
    others: list[Finding] = []
    for finding in findings:
        if finding.rule.id in NEWER and not choice.names(finding.rule.id):
            continue
        family = _family_of(finding)
        (others if family is None else by_family[family]).append(finding)
    return by_family, others


def _family_of(finding: Finding) -> Family | None:
    """Return what plans the steps for a finding. Rules of commits judge lines of compactions and checkpoints, too."""
    family = get_repair_row(finding.rule.id).family
    if family is not Family.LOG or not finding.rule.id.startswith("commit."):
        return family
    if _is_read_by_all(finding):
        return None
    kind = parse_log_path(finding.place.path.rpartition("/")[2]).kind
    if kind is LogFileKind.COMPACTED_COMMIT:
        return Family.COMPACTION
    return Family.CHECKPOINT if kind in CHECKPOINTS else family


def _is_read_by_all(finding: Finding) -> bool:
    """Return whether a finding is about a commit that every measured engine reads, so that no copy may replace it."""
    effect = finding.effect
    return finding.severity is not Severity.ERROR and effect is not None and not effect.stops_readers


def _snapshot(table: TableHandle) -> Snapshot | None:
    try:
        return read_snapshot(table)
    except Unreadable:
        return None


def _obstacle(now: Snapshot | None, findings: Sequence[Finding]) -> str | None:
    """Return why nothing may be committed or written for a version, None where it may."""
    if now is None:
        return None
    for finding in findings:
        if finding.rule.id in NEWER and last_version(finding) > now.version:
            return f"{finding.place.path} covers a later version, which the next commit would replace"
    try:
        require_commits_supported(now.protocol, now.properties, now.version)
    except Refused as fault:
        return fault.message
    return None


def _empty_commits(
    table: TableHandle, request: RepairRequest, log: Planned, files: Mapping[str, StoredFile], damaged: frozenset[str]
) -> Planned:
    if all(left.rule != "commit.empty" for left in log.unrepaired):
        return log
    from deltacli.operations.repair.empty_commits import plan_empty_commits  # nearly no table needs it

    return plan_empty_commits(table, request, log, files, damaged)


def _doubled(
    table: TableHandle, findings: Sequence[Finding], now: Snapshot, listing: LogListing, obstacle: str | None
) -> Planned:
    return plan_doubled(table, findings, now, listing, obstacle) if findings else Planned()


def _partition_values(
    table: TableHandle, request: RepairRequest, findings: Sequence[Finding], now: Snapshot, obstacle: str | None
) -> Planned:
    if not findings and not request.partition_values:
        return Planned()
    from deltacli.operations.repair.partition_values import plan_partition_values  # nearly no table needs it

    return plan_partition_values(table, request.partition_values, findings, now, obstacle)


def _waiting(
    findings: Findings, found: Planned, unrepaired: Sequence[Unrepaired], *, is_readable: bool
) -> Iterator[Unrepaired]:
    """Yield the findings that can be judged only once the log is back."""
    known = {(one.rule, one.place) for one in found.steps} | {(one.rule, one.place) for one in unrepaired}
    if is_readable and not any(get_repair_row(step.rule).family is Family.LOG for step in found.steps):
        return
    for finding in (one for group in findings.values() for one in group):
        if (finding.rule.id, finding.place) not in known:
            yield left(finding, "it can be judged only once the newest version can be rebuilt")


def refuse_guarded_steps(plan: RepairPlan, data: FilesPlan, table: TableHandle) -> RepairPlan:
    """Return a plan with the steps refused that a guard objects to."""
    refusals = [*plan.refusals, *_refusals(plan, data)]
    in_use = _in_use(plan, table)
    if in_use is not None:
        refusals.append(in_use)
    stop = next((one for one in refusals if one.code in _STOPS_ALL), None)
    codes = {one.code: one.message for one in refusals}

    def judged(step: Step) -> Step:
        reason = None
        if step.state is not StepState.PLANNED:
            return step
        if stop is not None:
            reason = stop.message
        elif step.loses is not None and "repair.loss-not-accepted" in codes:
            reason = codes["repair.loss-not-accepted"]
        elif in_use is not None and plan.work[step.work].is_sensitive:
            reason = in_use.message
        return step if reason is None else step._replace(state=StepState.REFUSED, reason=reason)

    return replace(plan, steps=tuple(map(judged, plan.steps)), refusals=tuple(refusals))


def _refusals(plan: RepairPlan, data: FilesPlan) -> Iterator[Refusal]:
    if data.returned and data.lost:
        yield Refusal(
            "repair.listing-differs",
            f"{plural(len(data.returned), 'file')} that the listing lacks are there when they are asked for",
            facts={"first": data.returned[0], "why": "what else is missing may be there, too"},
        )
    if data.renamed:
        (path, names), *more = data.renamed.items()
        facts = names.facts(path)
        if more:
            facts["others"] = f"{plural(len(more), 'more file')}; the steps of the plan name them"
        yield Refusal("repair.file-renamed", names.describe(path), facts=facts)
    if not data.lost:
        return
    loss = plan.loss
    limit = plan.request.max_missing
    if data.lost > limit * data.live or (data.whole_directories and limit < 1):
        whole_ones = f", all of {data.whole_directories[0] or 'the table'}" if data.whole_directories else ""
        yield Refusal(
            "repair.too-much-missing",
            f"{data.lost:,} of {plural(data.live, 'live file')} cannot be read{whole_ones}: the wrong directory may be "
            f"mounted, or a prefix be missing",
            facts={
                "limit": f"{limit:.0%}",
                "first": "look whether the right directory is mounted",
                "to list what is missing": command("validate", level="storage"),
                "to give them up nevertheless": parameter("repair.max_missing", "100%"),
            },
        )
    if loss.files and not plan.request.accept_loss:
        rows = "an unknown number of rows" if loss.rows is None else plural(loss.rows, "row")
        what = f"{plural(loss.files, 'file')} with {rows} ({format_size(loss.size_bytes)})"
        yield Refusal(
            "repair.loss-not-accepted",
            f"{what} would be given up, because no source has {'it' if loss.files == 1 else 'them'}",
            facts={
                "to look elsewhere": parameter("repair.sources", "COPY"),
                "to give them up": parameter("repair.accept_loss", True),
            },
        )


def _in_use(plan: RepairPlan, table: TableHandle) -> Refusal | None:
    """Return the refusal for a table to which others committed a short time ago."""
    if plan.request.allow_in_use or not any(plan.work[step.work].is_sensitive for step in plan.planned):
        return None
    try:
        listing = list_log(table.storage)
    except NotATable:
        return None
    newest = _newest_of_others(table, listing)
    if newest is None:
        return None
    return Refusal(
        "repair.table-in-use",
        f"version {newest} was committed within the last hour, so a writer may be active",
        facts={"to repair nevertheless": parameter("repair.allow_in_use", True)},
    )


def _newest_of_others(table: TableHandle, listing: LogListing) -> int | None:
    """Return the newest version of that time that no repair made."""
    since = table.clock() - IN_USE_MS
    for version in sorted(listing.commits, reverse=True):
        file = listing.commits[version]
        if file.modified_ms < since:
            return None
        try:
            info = read_provenance(table.storage, file).commit_info or {}
        except DeltacliError:
            info = {}
        is_own = info.get("operation") == _OWN_OPERATION and str(info.get("engineInfo")).startswith("deltacli/")
        if not is_own:
            return version
    return None


# -- executing a repair ------------------------------------------------------------------------------------------------

_MOST_PASSES = 6
"""A log that is brought back shows damages of data files, and their repair those of checkpoints."""


@short_repr("plan", "done", "failed", "committed_version", "backup=backup_uri")
@dataclass(eq=False, repr=False)
class RepairOutcome:
    """What was done so far: the steps of all plans that were executed, and the plan that remains."""

    plan: RepairPlan
    steps: list[Step] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    backup: Backup | None = None
    put: Journal = field(default_factory=Journal)
    """The files that came from sources."""

    @property
    def committed_version(self) -> int | None:
        return self.versions[-1] if self.versions else None

    @property
    def has_errors(self) -> bool:
        """Whether errors are left that a repair cannot fix."""
        return self.plan.has_errors

    @property
    def done(self) -> list[Step]:
        return [step for step in self.steps if step.state is StepState.DONE]

    @property
    def failed(self) -> list[Step]:
        return [step for step in self.steps if step.state is StepState.FAILED]

    @property
    def backup_uri(self) -> str | None:
        """Return where replaced files were kept, None where none was replaced."""
        return self.backup.uri if self.backup is not None and self.backup.kept else None

    @property
    def loss(self) -> FileTotals:
        given = {(step.committed_version, step.place.key): step.loses for step in self.done if step.loses is not None}
        return sum(given.values(), FileTotals(0, 0, 0))

    def as_json(self) -> dict[str, Json]:
        """Return the content of the document `deltacli.repair`."""
        made = {(step.rule, step.place) for step in self.steps}
        left = [
            step
            for step in self.plan.steps
            if step.state is StepState.REFUSED
            or (step.state is StepState.SKIPPED and (step.rule, step.place) not in made)
        ]
        content = self.plan.as_json(dry_run=self.plan.request.dry_run)
        return content | {
            "steps": [step.as_json() for step in (*self.steps, *left)],
            "committedVersions": list(self.versions),
            "backup": self.backup_uri,
        }

    @property
    def summary(self) -> str:
        return self.describe_progress() if self.done or self.put.files else "nothing was changed"

    def describe_progress(self) -> str:
        put = f", {plural(self.put.files, 'file')} put back" if self.put.files else ""
        kept = "" if self.backup_uri is None else f"; replaced files are kept in {self.backup_uri}"
        return f"{plural(len(self.done), 'step')} done{put}{kept}"

    def build_incomplete_error(self) -> PartlyDone | None:
        plan = self.plan
        left = [*self.failed, *(step for step in plan.steps if step.state is not StepState.DONE)]
        if not left and not plan.refusals:
            return None
        return PartlyDone(
            f"{plural(len(left), 'step')} could not be made: {left[0].reason or left[0].what}"
            if left
            else f"what is left could not be planned: {plan.refusals[0].message}",
            code=plan.refusals[0].code if plan.refusals else "repair.step-failed",
            facts={
                **({"first": left[0].what} if left else {}),
                "so far": self.describe_progress(),
                **(dict(plan.refusals[0].facts) if plan.refusals else {}),
            },
            hint=command("validate", level=plan.request.level),
        )


@dataclass(frozen=True)
class Repair:
    """A repair of what a validation finds; with `saved`, as far as that plan covers it."""

    kind: ClassVar[ChangeKind] = ChangeKind.RECOVER_FILES

    request: RepairRequest
    saved: SavedPlan | None = None

    def plan(self, table: TableHandle, now: Snapshot | None = None) -> RepairPlan:  # noqa: ARG002  (validates anew)
        """Plan it. Raises as `plan_repair`, and Refused where the saved plan does not cover it."""
        if (managed := managed_store(table.storage)) is not None:
            managed.refuse("repair")
        plan = plan_repair(table, self.request)
        if self.saved is not None:
            self.saved.require_covers(plan)
        return plan

    def outcome(self, plan: RepairPlan) -> RepairOutcome:
        return RepairOutcome(plan)

    def execute(self, execution: ChangeExecution[RepairPlan, RepairOutcome]) -> None:
        """Make the changes of the plan, then those of the plans that follow and that somebody agrees to. Planning and
        running it again continues.

        Raises what the only change raises, what planning again raises, and OutcomeUnknown.
        """
        plan, outcome = execution.plan, execution.outcome
        backup = open_backup(execution.table, plan.version, plan.newest, plan.table_id, self.request.quarantine)
        outcome.backup = backup
        run = Run(execution, self.request, backup, outcome.put)
        tried: set[str] = set()
        try:
            for _ in range(_MOST_PASSES):
                fresh = {plan.work[step.work].name for step in plan.planned} - tried
                if not fresh:
                    break
                tried |= fresh
                recheck_base_commit(plan.base_version)
                is_whole = _execute(plan, run, outcome, fresh)
                backup.note_left()
                outcome.plan = replace(plan, steps=(), unrepaired=(), refusals=(), is_partial=False)
                plan = outcome.plan = plan_repair(execution.table, self.request)
                if not is_whole or not plan.planned or not self._may_follow(execution, plan):
                    break
        except Refused as fault:
            if not execution.has_begun:
                backup.discard(fault)
            raise
        found = {(step.rule, step.place) for step in outcome.plan.steps}
        for position, step in enumerate(outcome.steps):
            if step.state is StepState.DONE and (step.rule, step.place) in found:
                outcome.steps[position] = step._replace(state=StepState.FAILED, reason="it is found again")
        # Mark the planned steps that were not made, because their findings came up while the others were.
        why = "it was found while the repair ran; run the same command again"
        steps = (
            step._replace(state=StepState.SKIPPED, reason=why) if step.state is StepState.PLANNED else step
            for step in outcome.plan.steps
        )
        outcome.plan = replace(outcome.plan, steps=tuple(steps))
        backup.note_end()

    def _may_follow(self, execution: ChangeExecution[RepairPlan, RepairOutcome], plan: RepairPlan) -> bool:
        return execution.ask_to_continue(plan) if self.saved is None else self.saved.is_partial


def _execute(plan: RepairPlan, run: Run, outcome: RepairOutcome, names: set[str]) -> bool:
    """Make the planned changes of these names, in their order; return False after one that failed."""
    execution, begin = run.execution, len(outcome.steps)
    mine = [step for step in plan.planned if plan.work[step.work].name in names]
    outcome.steps += mine
    by_work: dict[int, list[int]] = {}
    for position, step in enumerate(mine, begin):
        by_work.setdefault(step.work, []).append(position)
    is_whole = True
    for number, positions in sorted(by_work.items()):
        state, reason, version = StepState.DONE, None, None
        run.committed.clear()
        try:
            version = plan.work[number].run(run)
            execution.has_begun = True
        except NotNeededError as why:
            state, reason = StepState.SKIPPED, str(why)
        except OutcomeUnknown:
            raise
        except DeltacliError as fault:
            is_whole = False
            state, reason = StepState.FAILED, fault.message
            if isinstance(fault, ConflictLost | Refused) and not outcome.done and len(by_work) == 1:
                raise
        except BaseException:  # nobody knows whether a file was put
            execution.has_begun = True
            raise
        finally:
            execution.has_begun = execution.has_begun or run.put.files > 0
            # A change may have committed one version, and failed at the next one.
            versions = [*dict.fromkeys([*run.committed, *([] if version is None else [version])])]
            outcome.versions += versions
        if versions:
            run.backup.note_versions(versions)
        for position in positions:
            step = outcome.steps[position]
            unneeded = run.unneeded.get(step.place.key or "") if state is StepState.DONE else None
            outcome.steps[position] = (
                step._replace(state=state, reason=reason, committed_version=version)
                if unneeded is None
                else step._replace(state=StepState.SKIPPED, reason=unneeded)
            )
        run.unneeded.clear()
    return is_whole
