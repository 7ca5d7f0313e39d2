"""A table of either format for a command: the same operations on each.

`ask` refuses the options of the other format. An operation that a format lacks is a method that raises `only_for`.
A command that Paimon tables lack opens its table by `CommandContext.open_table`; `cli/errors.py` says what does its
work there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from deltacli.cli.invocation import invocation
from deltacli.cli.options.given import OF_DELTA, OF_PAIMON
from deltacli.cli.output.results import Result
from deltacli.cli.shared_options import TableFormat
from deltacli.core.errors import PaimonTable, UsageError, command

if TYPE_CHECKING:
    from deltacli.api.paimon import Paimon
    from deltacli.api.table import Table
    from deltacli.cli.render.history import HistoryResult
    from deltacli.cli.render.paimon import PaimonHistoryResult
    from deltacli.cli.running.changing import Mode
    from deltacli.cli.running.run import CommandContext
    from deltacli.cli.running.vacuum import VacuumOptions
    from deltacli.core.alter_verbs import Details, Verb
    from deltacli.operations.change.widen_type import WidenRequest
    from deltacli.operations.explain import ExplainRequest, Explanation
    from deltacli.operations.paimon.facts import PaimonSnapshot
    from deltacli.operations.schemas.described import DescribedSchema
    from deltacli.operations.streams.streams import StreamsReport
    from deltacli.operations.vacuum.plan import VacuumRequest
    from deltacli.operations.validate.findings import ValidateRequest
    from deltacli.operations.validate.validate import Validation
    from deltacli.paimon.evolution.requests import SchemaChange
    from deltacli.rules.framework.base import Finding, Rule
    from deltacli.storage import Storage
    from deltacli.table.api_arguments import VersionTime
    from deltacli.table.discover import Target
    from deltacli.table.version import Snapshot

    End: TypeAlias = int | VersionTime
    """The end of a range of versions."""
    Shown: TypeAlias = tuple[Result, str | None]
    """What a command writes, and the command that it names next."""

Answer = TypeVar("Answer")

PROFILE_OF_DELTA = "current"

_OF_PROPERTIES = {"set": "KEY=VALUE", "unset": "KEY"}
"""Changes of `alter` that `properties` does on a Delta table, and the word that they need."""


class _Handle:
    """A table; `name` is the table as the user wrote it."""

    def __init__(self, run: CommandContext, name: str, storage: Storage) -> None:
        self.run, self.name, self.storage = run, name, storage

    @property
    def table(self) -> Table:
        return self.run.table_of(self.storage)


class DeltaHandle(_Handle):
    """A Delta table."""

    def history(
        self, *, limit: int, columns: str | None, counts: bool, first: End | None, last: End | None, **_: object
    ) -> HistoryResult:
        """Return the newest `limit` commits of a range. Raises UsageError for columns."""
        from deltacli.cli.render.history import shown_commits
        from deltacli.operations.read.history import read_history

        run = self.run
        read = partial(read_history, self.storage, run.engine, limit=limit, counts=counts, progress=run.progress)
        if first is not None or last is not None:
            from deltacli.table.time_travel import find_commit_range

            read = partial(read, between=partial(find_commit_range, self.table, first=first, last=last))
        result = shown_commits(read, columns, run.clock, counts=counts)
        if any("inCommitTimestamp" in (item.commit_info or ()) for item in result.found.items[:1]):
            from deltacli.cli.running.run import note_staged

            note_staged(run, self.table)
        return result

    def snapshot(self, *, version: int | None, timestamp: str | None, **_: object) -> Snapshot:
        """Return the table at a version or a time."""
        from deltacli.cli.options.moments import parse_moment_of
        from deltacli.cli.running.run import note_findings

        at_ms = parse_moment_of(version, timestamp)
        found = self.table.snapshot(version=version, timestamp_ms=at_ms)
        note_findings(self.run, found, at_ms)
        return found

    def schema(self, *, mapping: bool = False, **point: Any) -> Result:
        from deltacli.cli.render.schemas.tree import SchemaResult

        return SchemaResult(self.snapshot(**point), with_mapping=mapping)

    def state(self, *, schema: bool, counts: bool, digest: bool, from_checksum: bool, **point: Any) -> Shown:
        """Return what is shown of a version, and the next command."""
        if schema:
            return self.schema(**point), None
        from deltacli.cli.options.moments import parse_moment_of
        from deltacli.cli.render.snapshot import SnapshotResult
        from deltacli.cli.running.run import note_findings
        from deltacli.operations.read.snapshot import summarize

        version, at_ms = point["version"], parse_moment_of(point["version"], point["timestamp"])
        following = "deltacli snapshot {table} --schema"
        if from_checksum:
            from deltacli.table.handle import TableHandle
            from deltacli.table.version_from_checksum import ReplayNeeded, read_version_from_checksum

            handle = self.run.handle_of(self.storage, TableHandle)
            stated = read_version_from_checksum(handle, version=version, timestamp_ms=at_ms)
            if not isinstance(stated, ReplayNeeded):
                note_findings(self.run, stated, at_ms)
                return SnapshotResult(stated, self.name, only_counts=counts, source="checksum"), following
            self.run.note(f"note: the log was replayed: {stated.reason}")
        found = summarize(self.table, version=version, timestamp_ms=at_ms, digest=digest)
        note_findings(self.run, found.snapshot, at_ms)
        if found.snapshot.problems:
            following = "deltacli validate {table}"
        source = "replay" if from_checksum else None
        return SnapshotResult(found, self.name, only_counts=counts, source=source), following

    def described(self, **point: Any) -> DescribedSchema:
        from deltacli.operations.schemas.described import describe_delta

        return describe_delta(self.snapshot(**point))

    def alter(
        self,
        change: Verb | None,
        words: Sequence[str],
        details: Details,
        options: Mapping[str, Any],  # Any: fields of AlterationRequest
        *,
        mode: Mode,
        read: Callable[[], bytes],
        streams: StreamsReport | None = None,
        **_: object,
    ) -> None:
        """Change the table; notes name the queries that stop. Raises UsageError, also for another command's task."""
        from deltacli.cli.render.schemas.altering import wording_of_alteration
        from deltacli.cli.running.changing import run_change
        from deltacli.delta.evolution.requests import changes_of, read_changes
        from deltacli.operations.change.alter import Alteration, AlterationRequest
        from deltacli.table.find_log import list_log

        list_log(self.storage)  # PaimonTable, or NotATable: the words mean something else in the other format
        if change in _OF_PROPERTIES:
            are_whole = bool(words) and (change == "unset" or all("=" in word for word in words))
            hint = command("properties", change, *(words if are_whole else [_OF_PROPERTIES[change]]))
            facts = {"path": self.storage.uri, "instead": "deltacli properties"}
            raise only_for(OF_PAIMON, f"alter {change}", facts, hint)
        changes = read_changes(read()) if change is None else changes_of(change, words, details)
        request = AlterationRequest(changes, **options)
        run_change(self.run, self.table, Alteration(request), wording_of_alteration(self.name, streams), mode)

    def widen_type(
        self,
        words: Sequence[str],
        request: WidenRequest,
        *,
        mode: Mode,
        streams: StreamsReport | None = None,
        **_: object,
    ) -> None:
        """Give columns wider types; notes name the queries that stop. Raises UsageError."""
        from deltacli.cli.render.schemas.altering import wording_of_widening
        from deltacli.cli.running.changing import run_change
        from deltacli.operations.change.widen_type import Widening

        is_shown = not mode.check and (mode.dry_run or not mode.yes)
        change = Widening(request.of(words), with_impact=is_shown)
        run_change(self.run, self.table, change, wording_of_widening(self.name, streams), mode)

    def more_rules(self) -> Iterable[Rule]:
        return ()

    def validate(
        self, request: ValidateRequest, *, profile: str | None, on_finding: Callable[[Finding], None], **_: object
    ) -> Validation:
        """Check the table. Raises UsageError for a profile of Paimon."""
        from deltacli.operations.validate.validate import validate_table
        from deltacli.table.handle import TableHandle

        if profile not in (None, PROFILE_OF_DELTA):
            raise only_for(OF_PAIMON, f"--profile {profile}", {"expected": PROFILE_OF_DELTA})
        return validate_table(self.run.handle_of(self.storage, TableHandle), request, on_finding=on_finding)

    def explain(self, request: ExplainRequest) -> Explanation:
        """Return which clients read and write the table."""
        from deltacli.cli.running.run import note_staged
        from deltacli.operations.explain import explain

        note_staged(self.run, self.table)
        return explain(self.table, request)

    def vacuum(self, request: VacuumRequest, how: VacuumOptions) -> None:
        from deltacli.cli.running.vacuum import VacuumCommand

        VacuumCommand(self.run, self.name, self.table, request, how).carry_out()


class PaimonHandle(_Handle):
    """A Paimon table."""

    def at(self, branch: str | None) -> Paimon:
        """Return the table with the operations of the Python API, on a branch."""
        from deltacli.api.paimon import Paimon

        return self.run.handle_of(self.storage, Paimon, branch=branch or "main")

    def history(
        self, *, limit: int, columns: str | None, branch: str | None, refs: bool, **_: object
    ) -> PaimonHistoryResult:
        """Return the newest `limit` schemas and snapshots. Raises UsageError for columns."""
        from deltacli.cli.output.columns import choose_columns
        from deltacli.cli.render.paimon import PaimonHistoryResult, paimon_history_columns

        if columns is not None and self.run.format.errors_are_json:
            raise UsageError("--columns is not available for JSON of a Paimon table", hint="omit --columns")
        chosen = choose_columns(paimon_history_columns(self.run.clock()), columns)
        found = self.at(branch).history(limit=limit, with_manifests=refs)
        for note in found.notes:
            self.run.note(f"note: {note}")
        return PaimonHistoryResult(found, chosen, is_chosen=bool(columns))

    def snapshot(
        self, *, schema_id: int | None, snapshot_id: int | None, tag: str | None, branch: str | None, **_: object
    ) -> PaimonSnapshot:
        return self.at(branch).snapshot(schema_id=schema_id, snapshot_id=snapshot_id, tag=tag)

    def schema(self, *, ddl: bool = False, **point: Any) -> Result:
        from deltacli.cli.render.paimon import PaimonSchemaResult

        return PaimonSchemaResult(self.snapshot(**point), as_ddl=ddl)

    def state(self, *, schema: bool, ddl: bool, **point: Any) -> Shown:
        """Return what is shown of a point, and the next command."""
        from deltacli.cli.render.paimon import PaimonSnapshotResult

        shows_schema = schema or ddl
        result = self.schema(ddl=ddl, **point) if shows_schema else PaimonSnapshotResult(self.snapshot(**point))
        return result, "deltacli history {table}"

    def described(self, **point: Any) -> DescribedSchema:
        from deltacli.operations.schemas.described import describe_paimon

        return describe_paimon(self.snapshot(**point))

    def alter(
        self,
        change: Verb | None,
        words: Sequence[str],
        details: Details,
        _options: Mapping[str, Any],
        *,
        read: Callable[[], bytes],
        **how: Any,
    ) -> None:
        """Change the schema. Raises UsageError."""
        from deltacli.core.alter_verbs import VERBS_OF_DELTA
        from deltacli.paimon.evolution.requests import changes_of, read_changes

        if change in VERBS_OF_DELTA:
            raise only_for(OF_DELTA, f"alter {change}", {"path": self.storage.uri})
        changes = read_changes(read()) if change is None else changes_of(change, words, details)
        self._alter(changes, **how)

    def _alter(
        self,
        changes: tuple[SchemaChange, ...],
        *,
        mode: Mode,
        branch: str | None,
        allow_lossy: bool,
        with_options: bool = False,
        min_paimon: int | None = None,
        command: str = "alter",
    ) -> None:
        from deltacli.cli.render.paimon import wording_of_schema
        from deltacli.cli.running.changing import run_change
        from deltacli.operations.paimon.alter import AlterRequest, SchemaAlteration

        request = AlterRequest(changes, branch or "main", allow_lossy, with_options, min_paimon)
        change = SchemaAlteration(request)
        run_change(self.run, self.at(branch), change, wording_of_schema(self.name, command), mode)

    def widen_type(self, words: Sequence[str], _request: WidenRequest, **how: Any) -> None:
        """Give columns wider types. Raises UsageError."""
        from deltacli.paimon.evolution.requests import widening

        self._alter(widening(words), command="widen-type", **how)

    def more_rules(self) -> Iterable[Rule]:
        from deltacli.rules.paimon.catalogue import PAIMON_CATALOGUE

        return PAIMON_CATALOGUE.rules.values()

    def validate(
        self, request: ValidateRequest, *, profile: str | None, refs: bool, on_finding: Callable[[Finding], None]
    ) -> Validation:
        """Check all branches of the table. Raises UsageError for a profile of Delta."""
        from deltacli.operations.paimon.validate import validate_paimon_table
        from deltacli.rules.paimon.catalogue import Profile

        if profile == PROFILE_OF_DELTA:
            raise only_for(OF_DELTA, f"--profile {profile}", {"expected": ", ".join(Profile)})
        reader = Profile(profile or Profile.JAVA)
        return validate_paimon_table(self.at(None), request, profile=reader, with_manifests=refs, on_finding=on_finding)

    def explain(self, request: ExplainRequest) -> Explanation:
        """Return which clients read and write the table. Raises UsageError for supposed changes."""
        from deltacli.operations.paimon.facts import explain_paimon

        return explain_paimon(self.at(None), request)

    def vacuum(self, request: VacuumRequest, how: VacuumOptions) -> None:
        from deltacli.cli.running.vacuum import vacuum_schemas

        vacuum_schemas(self.run, self.name, self.at(how.branch), request, how)


Handle: TypeAlias = DeltaHandle | PaimonHandle


def handle_of(run: CommandContext, target: Target) -> Handle:
    """Return a table whose format was found out before."""
    return (PaimonHandle if target.is_paimon else DeltaHandle)(run, target.name, target.storage)


def ask(
    run: CommandContext,
    table: str,
    use: Callable[[Handle], Answer],
    *,
    given: Mapping[str, str] = MappingProxyType({}),
    writes: bool = False,
) -> Answer:
    """Return what `use` makes of the table. `writes`: it changes the table.

    A table is taken for a Delta table first, which costs no request; so `use` is called again for a Paimon table.
    Raises UsageError for an option of the other format. `given` are the given options of one format, with the format.
    """
    storage = run.open_either(table, writes=writes)
    may_be_delta = run.table_format is not TableFormat.PAIMON
    if may_be_delta and run.table_format is None and OF_PAIMON in given.values():
        from deltacli.operations.paimon.table_files import is_paimon
        from deltacli.storage import PathKind
        from deltacli.table.missing_log import missing_log_error

        kind = storage.kind_of("")
        if kind is PathKind.MISSING:
            raise missing_log_error(storage)
        may_be_delta = not (kind is PathKind.DIRECTORY and is_paimon(storage))
    if may_be_delta:
        _refuse(given, OF_PAIMON)
        try:
            return use(DeltaHandle(run, table, storage))
        except PaimonTable as other:
            if run.table_format is not None:
                from deltacli.cli.terminal.suggested_commands import remove_option, repeat_command

                raise UsageError(
                    f"--table-format {run.table_format}: this is a Paimon table, without a _delta_log",
                    code="usage.table-format",
                    hint=repeat_command(remove_option(invocation.arguments, "--table-format")),
                ) from other
    _refuse(given, OF_DELTA)
    return use(PaimonHandle(run, table, storage))


def require_one_point(*points: object) -> None:
    """Raise UsageError for points of a Paimon table that exclude each other."""
    if sum(one is not None for one in points) > 1:
        raise UsageError("--schema-id, --snapshot-id and --tag exclude each other")


_POINTS: Mapping[str, str] = {
    **dict.fromkeys(("--version", "--timestamp"), "--schema-id N, --snapshot-id N or --tag T on a Paimon table"),
    **dict.fromkeys(("--schema-id", "--snapshot-id", "--tag"), "--version N or --timestamp T on a Delta table"),
    "version:": "schema:N, snapshot:N or tag:T on a Paimon table",
    **dict.fromkeys(("schema:", "snapshot:", "tag:"), "version:N on a Delta table"),
}
"""How a point of a table is named, and how in the other format."""


def _refuse(given: Mapping[str, str], table_format: str) -> None:
    """Raise UsageError for an option of a format that is not that of the table."""
    for option, needed in given.items():
        if needed == table_format:
            raise only_for(needed, option, {"instead": _POINTS[option]} if option in _POINTS else {})


def only_for(needed: str, what: str, facts: Mapping[str, str], hint: str | None = None) -> UsageError:
    """Return the error for an operation, an option, a value of one, or a point (`tag:`) that only one format has."""
    if not what.startswith("--") and not what.endswith(":"):
        said = f"{what} works on {needed} tables, and this is a {OF_DELTA if needed == OF_PAIMON else OF_PAIMON} table"
    elif " " in what:
        said = f"{what} is for {needed} tables"
    else:
        said = (
            f"{what}N is a point of a {needed} table" if what.endswith(":") else f"{what} works on {needed} tables only"
        )
    return UsageError(said, code="usage.table-format", facts=facts, hint=hint)
