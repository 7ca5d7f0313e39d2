"""`deltacli repair TABLE`."""

from __future__ import annotations

from deltacli.cli.options.asked import Asked
from deltacli.cli.options.common_options import TableArgument
from deltacli.cli.options.run import Run
from deltacli.cli.repair_runner import RepairCommand, RepairOptions
from deltacli.errors import UsageError
from deltacli.operations.repair.request import RepairRequest

EXIT_CODES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 70)


def repair(run: Run, table: TableArgument, *, asked: Asked[RepairRequest], how: RepairOptions) -> None:
    """Repair what validate finds: recover first, rebuild next, remove last.

    \b
    Missing and damaged files come back from --from, each verified by size, footer,
    checksum and the history of its log. Checkpoints, checksums and _last_checkpoint
    are written anew from the commits. What no source has is given up in one commit,
    only with --accept-loss, and every file with its rows is named before. Replaced
    files are kept in a backup; --undo puts them back. A run ends with another look
    at the table, and a second run has nothing to do. It exits with 1 if errors are
    left that nothing can be done about here; each is listed with the reason. A dry
    run lists them, too, and never exits with 1.

    \b
    Examples:
      deltacli repair ./tbl --dry-run
      deltacli repair ./tbl --yes
      deltacli repair ./tbl --from /backups/tbl --yes  # lost files and commits
      deltacli repair s3://lake/events --from versions --level footers
      deltacli repair ./tbl --accept-loss --quarantine /backups/damaged
      deltacli repair ./tbl --save-plan plan.json  # then --apply plan.json
    """
    modes = {"--save-plan": how.save_plan, "--apply": how.apply, "--undo": how.undo}
    chosen = [name for name, value in modes.items() if value is not None]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)} exclude each other")
    if (how.apply is not None or how.undo is not None) and (given := asked.given()):
        raise UsageError(f"{chosen[0]} takes no options for planning: {', '.join(given)}")
    if select := asked.request().select:
        from deltacli.cli.finding_filter import require_known
        from deltacli.delta.rules.framework.catalogue import CATALOGUE

        require_known(run, "validate", list(CATALOGUE.rules), select, ())
    opened = run.open_table(table, writes=not (how.dry_run or how.save_plan is not None))
    RepairCommand(run, table, opened, how).carry_out(asked)
