"""`deltacli catalog ls`, and `catalog status`, `staged` and `publish` for tables that a catalog manages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import Exit
from deltacli.cli.options.tables import DryRunOption, TableArgument, YesOption
from deltacli.cli.output.columns import Column
from deltacli.cli.output.grids import WriteItems, write_lines
from deltacli.cli.output.results import ListResult, SingleResult
from deltacli.cli.output.sections import Section, make_refusal_section
from deltacli.cli.running.context import CommandContext
from deltacli.cli.terminal.capabilities import Style
from deltacli.core.documents import SCHEMA_VERSION, envelope
from deltacli.core.errors import EXIT_FINDINGS, command
from deltacli.core.ranges import name_ranges
from deltacli.core.times import format_age
from deltacli.core.typing import Json
from deltacli.core.units import format_size, plural

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.catalogs.base import Listed
    from deltacli.operations.catalog import (
        CatalogStatus,
        Divergence,
        PublishOutcome,
        PublishPlan,
        StagedFile,
        StagedFiles,
    )

app = typer.Typer(add_completion=False)


@app.command(
    "status",
    cls=SharedOptionsCommand,
    epilog=exit_codes(findings="the log and the catalog differ", unreadable=True, storage=True),
)
def catalog_status(
    context: typer.Context,
    table: TableArgument,
) -> None:
    """Show the newest versions in catalog and log, and what differs.

    \b
    The newest version that the catalog ratified, the newest that is published in
    the log, the versions between them, and which maintenance the catalog permits
    its clients. Schema, protocol, properties, domains, location and versions are
    compared. Nothing is changed.

    \b
    Examples:
      deltacli catalog status uc://prod.sales.orders
      deltacli catalog status uc://prod.sales.orders --json
    """
    run: CommandContext = context.obj
    status = _open_managed_table(run, table).status_catalog()
    for note in status.notes:
        run.note(f"note: {note}")
    run.write(status_result(status))
    if status.proposable or (status.agrees and status.unpublished):
        run.suggest_command(command("catalog publish", table=table))
    if not status.agrees:
        raise Exit(EXIT_FINDINGS)


@app.command("staged", cls=SharedOptionsCommand, epilog=exit_codes(unreadable=True, storage=True))
def catalog_staged(
    context: typer.Context,
    table: TableArgument,
) -> None:
    """List the staged commits of a table, and the outcome of each.

    \b
    ratified: it is the version; lost: another commit is; unknown: it may still be
    on its way, or was left behind. None is ever deleted by this command.

    \b
    Examples:
      deltacli catalog staged uc://prod.sales.orders
      deltacli catalog staged uc://prod.sales.orders --format csv
    """
    run: CommandContext = context.obj
    run.write(staged_result(_open_managed_table(run, table).staged_catalog()))


@app.command(
    "publish",
    cls=SharedOptionsCommand,
    epilog=exit_codes(
        unreadable=True, refused=True, partly="some commits are copied, or not reported; run it again", storage=True
    ),
)
def catalog_publish(
    context: typer.Context,
    table: TableArgument,
    *,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Copy ratified commits into the log, in order, and report them.

    \b
    Each copy is read back and compared before it is reported. Anyone who may change
    the table may publish the commits of others. Commands that change a table do
    this themselves; run it where another client stopped.

    \b
    Examples:
      deltacli catalog publish uc://prod.sales.orders --dry-run
      deltacli catalog publish uc://prod.sales.orders --yes
    """
    from deltacli.cli.running.changing import ChangePresentation, Mode, run_change

    run: CommandContext = context.obj
    change = _open_managed_table(run, table, writes=not dry_run).prepare_publish_catalog()

    def build_plan_result(plan: PublishPlan, is_dry_run: bool) -> SingleResult:
        return publish_result(table, change.outcome_before_execution(plan), dry_run=is_dry_run)

    presentation: ChangePresentation[PublishPlan, PublishOutcome] = ChangePresentation(
        build_question=lambda plan: _build_publish_question(plan, table),
        build_plan_result=build_plan_result,
        build_outcome_result=lambda outcome: publish_result(table, outcome, dry_run=False),
        suggest_after_change=lambda _: command("catalog status", table=table),
        can_be_resumed=True,
    )
    run_change(run, change, presentation, Mode(dry_run, yes))


def _open_managed_table(run: CommandContext, table: str, *, writes: bool = False) -> Table:
    """Open a table that a catalog manages. Raises UsageError for other tables."""
    delta_table = run.open_table(table, writes=writes)
    delta_table.require_managed(table)
    return delta_table


def _build_publish_question(plan: PublishPlan, name: str) -> str:
    """Return the question. Commits that the catalog has forgotten are named, because it has to ratify them again."""
    forgotten_versions = [item.version for item in plan.items if item.is_forgotten]
    other_commits = len(plan.items) - len(forgotten_versions)
    actions = []
    if other_commits:
        actions.append(f"publish {plural(other_commits, 'commit')}")
    if forgotten_versions:
        versions = name_ranges("version", forgotten_versions)
        actions.append(f"propose {versions} to the catalog again, which has forgotten it")
    return f"{' and '.join(actions)} of {name}"


@app.command("ls", cls=SharedOptionsCommand, epilog=exit_codes(unreadable=True, storage=True))
def catalog_ls(
    context: typer.Context,
    catalog: Annotated[
        str,
        typer.Argument(
            metavar="CATALOG", help="Catalog or schema: uc://CATALOG or uc://CATALOG.SCHEMA; uc:// for all catalogs."
        ),
    ],
) -> None:
    """List the tables of a catalog or of a schema, or the catalogs.

    \b
    Needs no access to the files of the tables. The endpoint is that of
    --catalog-profile, of DATABRICKS_HOST, or of UC_ENDPOINT.

    \b
    Examples:
      deltacli catalog ls uc://
      deltacli catalog ls uc://prod
      deltacli catalog ls uc://prod.sales --format csv
    """
    from deltacli.catalogs.unity.addresses import SCHEME, is_root, parse_container

    run: CommandContext = context.obj
    if is_root(catalog):
        catalog_names = run.open_catalog().list_catalogs()
        run.write(catalogs_result(SCHEME, catalog_names))
        if catalog_names:
            run.suggest_command(command("catalog ls", table=f"{SCHEME}{catalog_names[0]}"))
        return

    container = parse_container(catalog)
    tables = run.open_catalog().tables_of(container.catalog, container.schema)
    run.write(listing_result(str(container), tables))
    delta_tables = [table for table in tables if table.data_format == "DELTA"]
    if delta_tables:
        run.suggest_command(command("snapshot", table=str(delta_tables[0].name)))


# -- what is shown -----------------------------------------------------------------------------------------------------


def listing_result(address: str, tables: Sequence[Listed]) -> ListResult[Listed]:
    """Return the tables of a catalog or a schema, with their whole names."""
    items: list[dict[str, Json]] = [
        {"name": _short_name(one), "type": one.table_type, "format": one.data_format, "managed": one.is_managed}
        for one in tables
    ]
    columns: list[Column[Listed]] = [
        Column("name", _short_name, priority=1),
        Column("type", lambda one: one.table_type, priority=2),
        Column("format", lambda one: one.data_format, priority=3),
        Column("managed", lambda one: one.is_managed, on_screen=False),
    ]
    fields = {"kind": "deltacli.catalog-ls", "schemaVersion": SCHEMA_VERSION, "complete": True, "address": address}
    said = [] if items else [Section("tables", ["none"])]
    return _Entries(fields, "catalog-table", items, columns, tables, make_sections=lambda _: said)


def catalogs_result(address: str, names: Sequence[str]) -> ListResult[str]:
    """Return the names of catalogs, in the form of a listing of tables: their type is CATALOG."""
    items: list[dict[str, Json]] = [{"name": name, "type": _CATALOG, "format": "", "managed": False} for name in names]
    columns: list[Column[str]] = [
        Column("name", lambda name: name, priority=1),
        Column("type", lambda _: _CATALOG, priority=2),
        Column("format", lambda _: "", on_screen=False),
        Column("managed", lambda _: False, on_screen=False),
    ]
    fields = {"kind": "deltacli.catalog-ls", "schemaVersion": SCHEMA_VERSION, "complete": True, "address": address}
    said = [] if items else [Section("catalogs", ["none"])]
    return _Entries(fields, "catalog-table", items, columns, names, make_sections=lambda _: said)


_CATALOG = "CATALOG"
"""The type of a catalog in a listing, beside MANAGED, EXTERNAL and VIEW of tables."""


def _short_name(one: Listed) -> str:
    return str(one.name).removeprefix("uc://")


_Entry = TypeVar("_Entry")


class _Entries(ListResult[_Entry]):
    """Tables or catalogs, whose type is `tableType` in lines, which have a `type` of their own."""

    def lines(self, write_items: WriteItems) -> bool:
        write_lines(
            write_items, ({_OF_LINES.get(name, name): one[name] for name in one} for one in self.items), self.line_type
        )
        return True


_OF_LINES = {"type": "tableType"}


def status_result(status: CatalogStatus) -> SingleResult:
    """Return where a catalog and a log stand; its rows are what differs."""
    content = status.as_json()
    columns = ("kind", "name", "log", "catalog")
    return SingleResult(
        "catalog-status", status.table, content, lambda: list(_status(status)), content["divergence"], columns
    )


def _status(status: CatalogStatus) -> Iterator[Section]:
    yield Section("table", [status.table])
    yield Section("ratified", [f"version {status.latest_ratified}"])
    published = "no version is known to be" if status.latest_published is None else f"version {status.latest_published}"
    yield Section("published", [published])
    yield Section("unpublished", [f"version {one.version}, {_ago(one.age_ms)}" for one in status.unpublished])
    named = ["none: the catalog names none"] if status.permissions is None else [*status.permissions] or ["none"]
    yield Section("permitted", named)
    lines = [_difference(one) for one in status.divergence]
    yield Section("differs", lines, Style.PROBLEM) if lines else Section("differs", ["nothing"], Style.GOOD)


def _difference(one: Divergence) -> str:
    return f"{one.kind} {one.name}: log {_short(one.log)}, catalog {_short(one.catalog)}"


def _short(value: Json) -> str:
    if value is None:
        return "has none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def staged_result(staged: StagedFiles) -> ListResult[StagedFile]:
    """Return the staged commits of a table."""
    items = staged.as_json()["items"]
    columns: list[Column[StagedFile]] = [
        Column("path", lambda one: one.path, priority=3, wraps=True, min_width=20),
        Column("version", lambda one: one.version, align_right=True, priority=1),
        Column("class", lambda one: one.fate, priority=1),
        Column(
            "sizeBytes",
            lambda one: one.size_bytes,
            lambda one: format_size(one.size_bytes),
            align_right=True,
            title="size",
        ),
        Column("ageMs", lambda one: one.age_ms, lambda one: _ago(one.age_ms), align_right=True, title="age"),
    ]
    fields = envelope("deltacli.catalog-staged", staged.table, complete=True)
    said = [] if items else [Section("staged", ["none"])]
    return ListResult(fields, "staged-commit", items, columns, staged.items, make_sections=lambda _: said)


def publish_result(table: str, outcome: PublishOutcome, *, dry_run: bool) -> SingleResult:
    """Return which commits were published, or would be."""
    content = outcome.as_json(dry_run=dry_run)
    rows = [{"version": version} for version in content["published"]]
    return SingleResult(
        "catalog-publish", table, content, lambda: list(_published(table, outcome, dry_run=dry_run)), rows, ("version",)
    )


def _published(table: str, outcome: PublishOutcome, *, dry_run: bool) -> Iterator[Section]:
    plan = outcome.plan
    if plan.is_noop:
        yield Section("nothing to do", [f"{table}: every ratified version is published"])
        return
    yield Section("table", [table])
    shown = [one for one in plan.items if dry_run or one.version in outcome.published]
    lines = [
        f"version {one.version}, {format_size(one.size_bytes)}, {_ago(one.age_ms)}"
        + (", proposed to the catalog again" if one.is_forgotten else "")
        for one in shown
    ]
    yield Section("would publish" if dry_run else "published", lines, Style.PLAIN if dry_run else Style.GOOD)
    yield Section("reported", [] if dry_run or outcome.reported is None else [f"up to version {outcome.reported}"])
    yield make_refusal_section([] if plan.refusal is None else [f"{plan.refusal.reason} [{plan.refusal.code}]"])


def _ago(age_ms: int) -> str:
    return format_age(-age_ms, 0)
