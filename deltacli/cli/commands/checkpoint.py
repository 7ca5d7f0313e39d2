"""`deltacli checkpoint TABLE`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.invocation import invocation
from deltacli.cli.options.chosen_version import chosen_version, parse_moment_of
from deltacli.cli.options.common_options import TableArgument, TimestampOption, VersionOption
from deltacli.cli.options.run import Run
from deltacli.cli.results import Outcome
from deltacli.cli.terminal.interrupts import Interrupted
from deltacli.cli.terminal.shell import again_without, quoted_table
from deltacli.errors import EXIT_FINDINGS, DeltacliError, Refused, UsageError
from deltacli.units import plural

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.operations.checkpoint.execute import CheckpointResult
    from deltacli.operations.checkpoint.plan import CheckpointPlan, CheckpointRequest

EXIT_CODES = (0, 1, 2, 3, 4, 7, 70)
RUNS_ON_CLUSTER = True


class LayoutChoice(StrEnum):
    AUTO = "auto"
    CLASSIC = "classic"
    MULTI_PART = "multi-part"
    V2 = "v2"


class TopChoice(StrEnum):
    JSON = "json"
    PARQUET = "parquet"


class StatsChoice(StrEnum):
    KEEP = "keep"
    JSON = "json"
    STRUCT = "struct"
    BOTH = "both"


Layout = Annotated[
    LayoutChoice,
    typer.Option(
        "--layout",
        metavar="auto|classic|multi-part|v2",
        help="Layout of the checkpoint; auto follows the table's policy.  [default: auto]",
        show_default=False,
    ),
]
Parts = Annotated[
    int | None,
    typer.Option("--parts", metavar="N", help="Number of files of a multi-part checkpoint.", show_default=False),
]
RowsPerFile = Annotated[
    int | None,
    typer.Option(
        "--rows-per-file",
        metavar="N",
        help="Actions per sidecar or part.  [default: 200000 per sidecar]",
        show_default=False,
    ),
]
Top = Annotated[
    TopChoice,
    typer.Option(
        "--v2-top",
        metavar="json|parquet",
        help="Format of the main file of a V2 checkpoint.  [default: json]",
        show_default=False,
    ),
]
Stats = Annotated[
    StatsChoice,
    typer.Option(
        "--stats",
        metavar="keep|json|struct|both",
        help="Columns of statistics; keep: as the properties ask, else as in the last checkpoint.  [default: keep]",
        show_default=False,
    ),
]
IfBehind = Annotated[
    int,
    typer.Option(
        "--if-behind",
        metavar="N",
        help="Do nothing unless N commits were made since the last checkpoint.",
        show_default=False,
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Write it even if a complete one of this version and layout exists.")
]
Verify = Annotated[bool, typer.Option("--verify", help="Compare existing checkpoints with the log; write nothing.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be written; write nothing.")]


def checkpoint(
    run: Run,
    table: TableArgument,
    *,
    version: VersionOption = None,
    timestamp: TimestampOption = None,
    layout: Layout = LayoutChoice.AUTO,
    parts: Parts = None,
    rows_per_file: RowsPerFile = None,
    v2_top: Top = TopChoice.JSON,
    stats: Stats = StatsChoice.KEEP,
    if_behind: IfBehind = 0,
    force: Force = False,
    verify: Verify = False,
    dry_run: DryRun = False,
) -> None:
    """Write a checkpoint, so that readers replay less.

    \b
    The checkpoint is written under a temporary name, read back and compared with
    the expected content before it gets its final name. The hint
    (_last_checkpoint) is updated last and never to an older version. Memory use
    does not grow with the number of files.

    \b
    Examples:
      deltacli checkpoint ./tbl
      deltacli checkpoint ./tbl --if-behind 10 -q > /dev/null   (in cron)
      deltacli checkpoint ./tbl --version 42
      deltacli checkpoint ./tbl --layout v2 --v2-top parquet
      deltacli checkpoint ./tbl --verify
    """

    if if_behind < 0:
        raise UsageError(f"--if-behind {if_behind} is negative")
    parse_moment_of(version, timestamp)
    opened = run.open_table(table, writes=not (verify or dry_run))
    if verify:
        _require_nothing_to_write(
            {
                "--layout": layout is not LayoutChoice.AUTO,
                "--parts": parts is not None,
                "--rows-per-file": rows_per_file is not None,
                "--if-behind": if_behind > 0,
                "--force": force,
                "--dry-run": dry_run,
            }
        )
        _verify(run, opened, table, chosen_version(opened, version, timestamp))
        return
    from deltacli.operations.checkpoint.plan import make_request

    request = make_request(
        version=chosen_version(opened, version, timestamp),
        layout=None if layout is LayoutChoice.AUTO else layout.value,
        parts=parts,
        rows_per_file=rows_per_file,
        v2_top=v2_top.value,
        stats=stats.value,
        if_behind=if_behind,
        force=force,
    )
    _write(run, opened, table, request, dry_run=dry_run)


def _require_nothing_to_write(options: Mapping[str, bool]) -> None:
    """Raise UsageError where an option for writing is given together with `--verify`."""
    if given := [option for option, is_given in options.items() if is_given]:
        raise UsageError(f"--verify writes nothing; it cannot be combined with {', '.join(given)}")


def _show(run: Run, opened: Table, result: CheckpointResult) -> None:
    from deltacli.cli.render.checkpoint import checkpoint_sections, draw_checkpoint

    content = result.as_json()
    columns = ("path", "sizeBytes", "rows")
    run.write(
        Outcome(
            "checkpoint",
            opened.uri,
            content,
            lambda: checkpoint_sections(result),
            content["files"],
            columns,
            lambda canvas: draw_checkpoint(canvas, result),
        )
    )


def _write(run: Run, opened: Table, table: str, request: CheckpointRequest, *, dry_run: bool) -> None:
    from deltacli.operations.checkpoint.execute import write_checkpoint
    from deltacli.operations.checkpoint.plan import plan_checkpoint

    try:
        plan = plan_checkpoint(opened, request)
    except Refused:
        if dry_run and not request.force:
            with suppress(DeltacliError):  # --force does not override this refusal: there is no plan
                forced = plan_checkpoint(opened, replace(request, force=True))
                _show(run, opened, write_checkpoint(forced, dry_run=True))
        raise
    _note(run, plan)
    published: list[str] = []
    try:
        result = write_checkpoint(plan, dry_run=dry_run, tell=published.append)
    except Interrupted as signal:
        if published:
            files = plural(len(published), "file")
            signal.outcome = f"{files} of the checkpoint written, _last_checkpoint not updated"
        raise
    if result.plan is not plan:  # the checkpoint that the state was read from is corrupt
        _note(run, result.plan)
    _show(run, opened, result)
    verify = f"deltacli checkpoint {quoted_table(table)} --verify --version {result.version}"
    run.say_next(again_without(invocation.arguments, "--dry-run") if dry_run else verify)


def _note(run: Run, plan: CheckpointPlan) -> None:
    from deltacli.cli.options.chosen_version import EXPLAINED

    for problem in plan.snapshot.problems:
        run.note(f"note: {problem}: {EXPLAINED[problem]}")
    for note in plan.notes:
        run.note(f"note: {note}")


def _verify(run: Run, opened: Table, table: str, version: int | None) -> None:
    from deltacli.cli.render.checkpoint import verifications
    from deltacli.operations.checkpoint.verify import CheckpointVerdict, verify_checkpoints

    outcomes = list(verify_checkpoints(opened, version=version))
    run.write(verifications(opened.uri, outcomes))
    if any(one.verdict in (CheckpointVerdict.DIFFERS, CheckpointVerdict.UNREADABLE) for one in outcomes):
        run.note(f"next: deltacli validate {quoted_table(table)}")
        raise typer.Exit(EXIT_FINDINGS)
