"""`deltacli vacuum TABLE...`."""

from __future__ import annotations

from deltacli.cli.invocation import invocation
from deltacli.cli.options.declared import Asked, TablesArgument, is_several
from deltacli.cli.running.changing import Mode
from deltacli.cli.running.run import Run
from deltacli.cli.running.table_formats import ask
from deltacli.cli.running.vacuum import VacuumOptions
from deltacli.cli.terminal.suggested_commands import repeat_command_with
from deltacli.core.errors import UsageError
from deltacli.core.request_fields import OF_DELTA
from deltacli.operations.vacuum.plan import EXECUTING, VacuumRequest

EXIT_CODES = (0, 2, 3, 4, 5, 6, 7, 8, 70)
RUNS_ON_CLUSTER = True


def vacuum(run: Run, tables: TablesArgument, *, asked: Asked[VacuumRequest], how: VacuumOptions) -> None:
    """Delete files that no retained version needs.

    \b
    A file is deleted if it is older than the retention and nothing references it:
    not the current version, no tombstone or commit within the retention, no kept
    version and no clone. A plan that looks like an accident (an empty listing, half
    of the table deleted) is refused. Older versions are no longer fully readable:
    the plan lists them.

    \b
    Examples:
      deltacli vacuum ./tbl --dry-run
      deltacli vacuum ./tbl --retention 14d --yes  # in cron
      deltacli vacuum './lake/**' --dry-run  # several tables
      deltacli vacuum ./tbl --save-plan plan.parquet  # to review, then
      deltacli vacuum ./tbl --apply plan.parquet --yes
      deltacli vacuum ./tbl --explain day=2026-01-01/part-0.parquet
      deltacli vacuum ./tbl --quarantine ./quarantine --purge-older 30d --yes

    \b
    Hidden files, links and files that are not part of a Delta table are kept. If a
    directory below is a table itself, the run is refused, or skips it with
    --skip-nested-tables. Of a Paimon table --schemas deletes schema files that nothing has
    needed since the retention began.
    """
    if is_several(tables):
        from deltacli.cli.running.many import require_tables, run_many

        require_tables(tables)
    _require_one_errand(asked, how)
    request = asked.request()
    if request.commit_metadata and not request.log_entries:
        raise UsageError("--commit-metadata and --no-log-entries exclude each other")

    of_delta = asked.given(but=("retention_ms", "allow_retention_below_ms"))
    given = {**dict.fromkeys(of_delta, OF_DELTA), **run.of_one_format}
    writes = not how.dry_run and how.save_plan is None and how.explain is None

    def use(run: Run, table: str) -> None:
        ask(run, table, lambda opened: opened.vacuum(request, how), given=given, writes=writes)

    if not is_several(tables):
        use(run, tables[0])
        return
    of_one = {
        "--save-plan": how.save_plan,
        "--apply": how.apply,
        "--explain": how.explain,
        "--purge-older": how.purge_older_ms,
    }
    run_many(run, tables, use, Mode(how.dry_run, how.yes), of_one, lists_files=how.files)


def _require_one_errand(asked: Asked[VacuumRequest], how: VacuumOptions) -> None:
    errands = {"--save-plan": how.save_plan, "--apply": how.apply, "--explain": how.explain}
    chosen = [name for name, value in errands.items() if value is not None]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)} exclude each other")
    for name in chosen:
        if not errands[name]:
            raise UsageError(f"{name} is empty")
    if how.purge_older_ms is not None:
        if "quarantine" not in asked.values:
            hint = repeat_command_with(invocation.arguments, "--quarantine", "URI")
            raise UsageError("--purge-older empties a quarantine and needs --quarantine URI", hint=hint)
        others = [*chosen, *asked.given(but={"quarantine"}), *(["--files"] if how.files else [])]
        if others:
            raise UsageError(f"--purge-older deletes no file of the table and excludes {', '.join(others)}")
    if how.accept_copy and how.apply is None:
        raise UsageError("--accept-copy is for a saved plan and needs --apply FILE")
    if how.apply is not None and (planning := asked.given(but=EXECUTING)):
        raise UsageError(
            f"--apply executes a saved plan and takes no options for planning: {', '.join(planning)}",
            facts={"instead": "make another plan with these options and --save-plan FILE"},
        )
