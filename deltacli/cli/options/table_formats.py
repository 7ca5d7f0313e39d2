"""A table of either format for a command: the same operations on each, and the options of Paimon tables.

`ask` refuses the options of the other format. An operation that a format lacks is a method that raises UsageError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeAlias, TypeVar

import typer

from deltacli.cli.options.common_options import OF_DELTA, OF_PAIMON
from deltacli.cli.options.global_options import TableFormat
from deltacli.errors import PaimonTable, UsageError

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.cli.apply_change import SchemaEdit
    from deltacli.cli.options.run import Run
    from deltacli.cli.results import Result
    from deltacli.operations.change.widen_type import WideningOutcome
    from deltacli.operations.paimon.alter import AlterOutcome
    from deltacli.operations.paimon.history import PaimonHistory
    from deltacli.operations.paimon.snapshot import PaimonSnapshot
    from deltacli.operations.read.history import History
    from deltacli.operations.schemas.described import DescribedSchema
    from deltacli.operations.table.version import Snapshot
    from deltacli.paimon.evolution.requests import SchemaChange
    from deltacli.storage import Storage

    Shown: TypeAlias = tuple[Result, str | None]
    """What a command writes, and the command that it names next."""

BranchOption = Annotated[
    str | None,
    typer.Option("--branch", metavar="B", help="Branch of a Paimon table.  [default: main]", show_default=False),
    OF_PAIMON,
]
SchemaIdOption = Annotated[
    int | None,
    typer.Option("--schema-id", metavar="N", help="Use this schema of a Paimon table.", show_default=False),
    OF_PAIMON,
]
SnapshotIdOption = Annotated[
    int | None,
    typer.Option(
        "--snapshot-id", metavar="N", help="Use this snapshot of a Paimon table and its schema.", show_default=False
    ),
    OF_PAIMON,
]
TagOption = Annotated[
    str | None,
    typer.Option("--tag", metavar="T", help="Use this tag of a Paimon table and its schema.", show_default=False),
    OF_PAIMON,
]
DdlOption = Annotated[
    bool,
    typer.Option("--ddl", help="Show the schema of a Paimon table as CREATE TABLE of Flink SQL instead."),
    OF_PAIMON,
]
RefsOption = Annotated[
    bool,
    typer.Option(
        "--refs/--no-refs",
        help="Read the manifests of a Paimon table to find the users of each schema.  [default: --refs]",
        show_default=False,
    ),
    OF_PAIMON,
]
AllowLossyOption = Annotated[
    bool,
    typer.Option("--allow-lossy", help="Accept changes of a Paimon table after which stored values are read changed."),
    OF_PAIMON,
]

Answer = TypeVar("Answer")

_ENGINE = "ALTER TABLE of an engine, such as Spark SQL"
_ALTERS: Mapping[str | None, tuple[str, str | None]] = {
    "type": ("deltacli widen-type", "deltacli widen-type {table} COLUMN TYPE"),
    "set": ("deltacli properties", "deltacli properties {table} set KEY=VALUE"),
    "unset": ("deltacli properties", "deltacli properties {table} unset KEY"),
}
"""What does a change of `alter` on a Delta table, and the command."""


class _Handle:
    """A table; `name` is the table as the user wrote it."""

    def __init__(self, run: Run, name: str, storage: Storage) -> None:
        self.run, self.name, self.storage = run, name, storage

    @property
    def table(self) -> Table:
        """The Delta table; its operations raise PaimonTable for the other format."""
        return self.run.table_of(self.storage)


class DeltaHandle(_Handle):
    """A Delta table."""

    def history(self, *, limit: int, counts: bool) -> History:
        """Return the newest `limit` commits."""
        from deltacli.operations.read.history import read_history

        return read_history(self.storage, self.run.engine, limit=limit, counts=counts, progress=self.run.progress)

    def snapshot(self, *, version: int | None, timestamp: str | None, **_: object) -> Snapshot:
        """Return the table at a version or a time."""
        from deltacli.cli.options.chosen_version import note_findings, parse_moment_of

        at_ms = parse_moment_of(version, timestamp)
        found = self.table.snapshot(version=version, timestamp_ms=at_ms)
        note_findings(self.run, found, at_ms)
        return found

    def schema(self, *, mapping: bool = False, **point: Any) -> Result:
        """Return the schema at a point."""
        from deltacli.cli.render.schemas.tree import SchemaResult

        return SchemaResult(self.snapshot(**point), with_mapping=mapping)

    def state(self, *, schema: bool, counts: bool, digest: bool, **point: Any) -> Shown:
        """Return what is shown of a version, and the next command."""
        if schema:
            return self.schema(**point), None
        from deltacli.cli.options.chosen_version import note_findings, parse_moment_of
        from deltacli.cli.render.snapshot import SnapshotResult
        from deltacli.operations.read.snapshot import summarize

        version, at_ms = point["version"], parse_moment_of(point["version"], point["timestamp"])
        found = summarize(self.table, version=version, timestamp_ms=at_ms, digest=digest)
        note_findings(self.run, found.snapshot, at_ms)
        return SnapshotResult(found, only_counts=counts), "deltacli snapshot {table} --schema"

    def described(self, **point: Any) -> DescribedSchema:
        """Return the schema at a point in the columns of Paimon."""
        from deltacli.operations.schemas.described import describe_delta

        return describe_delta(self.snapshot(**point))

    def alter(self, *, change: str | None, **_: object) -> NoReturn:
        """Raise UsageError that names what does the change; PaimonTable, or NotATable, for others."""
        from deltacli.errors import NotATable
        from deltacli.operations.paimon.table_files import require_paimon
        from deltacli.operations.table.find_log import list_log

        try:
            list_log(self.storage)
        except NotATable:
            require_paimon(self.storage)
            raise
        instead, hint = _ALTERS.get(change, (_ENGINE, None))
        raise UsageError(
            "alter works on Paimon tables, and this is a Delta table",
            code="usage.table-format",
            facts={"path": self.storage.uri, "instead": instead},
            hint=hint,
        )

    def widen_type(self, words: Sequence[str], **options: Any) -> SchemaEdit[WideningOutcome]:
        """Return the change that gives columns wider types. Raises UsageError."""
        from deltacli.cli.render.widening import widening
        from deltacli.delta.log.commit_metadata import parse_commit_metadata
        from deltacli.operations.change.widen_type import WidenRequest

        added_keys = parse_commit_metadata(options["commit_metadata"] or [])
        guards = {name: options[name] for name in ("enable", "upgrade_protocol", "check_files")}
        request = WidenRequest.parse(words, commit_metadata=added_keys, **guards)
        return widening(self.table, self.name, request)


class PaimonHandle(_Handle):
    """A Paimon table."""

    def history(self, *, limit: int, branch: str | None, refs: bool) -> PaimonHistory:
        """Return the newest `limit` schemas and snapshots."""
        from deltacli.operations.paimon.history import read_paimon_history

        store, engine, progress = self.storage, self.run.engine, self.run.progress
        at = branch or "main"
        return read_paimon_history(store, engine, branch=at, limit=limit, with_manifests=refs, progress=progress)

    def snapshot(
        self, *, schema_id: int | None, snapshot_id: int | None, tag: str | None, branch: str | None, **_: object
    ) -> PaimonSnapshot:
        """Return the table at a schema, a snapshot or a tag."""
        from deltacli.operations.paimon.snapshot import Point, read_paimon_snapshot

        at = Point(branch or "main", schema_id, snapshot_id, tag)
        return read_paimon_snapshot(self.storage, self.run.engine, at)

    def schema(self, *, ddl: bool = False, **point: Any) -> Result:
        """Return the schema at a point."""
        from deltacli.cli.render.paimon.snapshot import PaimonSchemaResult

        return PaimonSchemaResult(self.snapshot(**point), as_ddl=ddl)

    def state(self, *, schema: bool, ddl: bool, **point: Any) -> Shown:
        """Return what is shown of a point, and the next command."""
        from deltacli.cli.render.paimon.snapshot import PaimonSnapshotResult

        shows_schema = schema or ddl
        result = self.schema(ddl=ddl, **point) if shows_schema else PaimonSnapshotResult(self.snapshot(**point))
        return result, "deltacli history {table}"

    def described(self, **point: Any) -> DescribedSchema:
        """Return the schema at a point in the columns of Paimon."""
        from deltacli.operations.schemas.described import describe_paimon

        return describe_paimon(self.snapshot(**point))

    def alter(
        self,
        *,
        changes: Callable[[], tuple[SchemaChange, ...]],
        branch: str | None,
        allow_lossy: bool,
        with_options: bool = False,
        command: str = "alter",
        **_: object,
    ) -> SchemaEdit[AlterOutcome]:
        """Return the change of the schema. Raises UsageError."""
        from deltacli.cli.apply_alter import altering
        from deltacli.operations.paimon.alter import AlterRequest

        request = AlterRequest(changes(), branch or "main", allow_lossy, with_options)
        return altering(self.run, self.name, self.storage, request, command)

    def widen_type(
        self, words: Sequence[str], *, branch: str | None, allow_lossy: bool, **_: object
    ) -> SchemaEdit[AlterOutcome]:
        """Return the change that gives columns wider types. Raises UsageError."""
        from deltacli.paimon.evolution.command_words import widening

        return self.alter(changes=lambda: widening(words), branch=branch, allow_lossy=allow_lossy, command="widen-type")


def ask(
    run: Run,
    table: str,
    use: Callable[[DeltaHandle | PaimonHandle], Answer],
    *,
    given: Mapping[str, str] | None = None,
    writes: bool = False,
) -> Answer:
    """Return what `use` makes of the table. `writes`: it changes the table.

    A table is taken for a Delta table first, which costs no request; so `use` is called again for a Paimon table.
    Raises UsageError for an option of the other format. `given` are the given options of one format, with the format;
    None: those of the run.
    """
    options = run.of_one_format if given is None else given
    storage = run.open_either(table, writes=writes)
    may_be_delta = run.table_format is not TableFormat.PAIMON
    if may_be_delta and run.table_format is None and OF_PAIMON in options.values():
        from deltacli.operations.paimon.table_files import is_paimon
        from deltacli.storage import PathKind

        may_be_delta = not (storage.kind_of("") is PathKind.DIRECTORY and is_paimon(storage))
    if may_be_delta:
        _refuse(options, OF_PAIMON)
        try:
            return use(DeltaHandle(run, table, storage))
        except PaimonTable:
            if run.table_format is not None:
                raise
    _refuse(options, OF_DELTA)
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
            facts = {"instead": _POINTS[option]} if option in _POINTS else {}
            is_point = option.endswith(":")
            said = f"{option}N is a point of a" if is_point else f"{option} works on"
            raise UsageError(
                f"{said} {table_format} {'table' if is_point else 'tables only'}",
                code="usage.table-format",
                facts=facts,
            )
