"""`deltacli checkpoint TABLE...`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from deltacli.cli.invocation import Exit
from deltacli.cli.options import declared
from deltacli.cli.output.results import SingleResult
from deltacli.cli.running.changing import Mode, Wording, run_change
from deltacli.cli.running.run import EXPLAINED, Run
from deltacli.core.errors import EXIT_FINDINGS, UsageError, quote_table
from deltacli.core.request_fields import Option
from deltacli.operations.checkpoint.checkpoint import (
    Checkpoint,
    CheckpointPlan,
    CheckpointRequest,
    CheckpointResult,
    LayoutChoice,
    write_checkpoint,
)

if TYPE_CHECKING:
    from deltacli.api.table import Table

EXIT_CODES = (0, 1, 2, 3, 4, 5, 7, 70)
RUNS_ON_CLUSTER = True
_AS_WITHOUT = (("layout", LayoutChoice.AUTO), ("if_behind", 0))
"""Options with values that change nothing."""

Verify = Annotated[bool, Option("Compare existing checkpoints with the log; write nothing.")]
DryRun = Annotated[bool, Option("Show what would be written; write nothing.")]


def checkpoint(
    run: Run,
    tables: declared.TablesArgument,
    *,
    version: declared.VersionOption = None,
    timestamp: declared.TimestampOption = None,
    asked: declared.Asked[CheckpointRequest],
    verify: Verify = False,
    dry_run: DryRun = False,
) -> None:
    """Write a checkpoint, so that readers have fewer commits to read.

    \b
    The checkpoint is written under a temporary name, read back and compared with
    the expected content before it gets its final name. The hint
    (_last_checkpoint) is updated last and never to an older version. Memory use
    does not grow with the number of files.

    \b
    Examples:
      deltacli checkpoint ./tbl
      deltacli checkpoint ./tbl --if-behind 10 -q > /dev/null  # in cron
      deltacli checkpoint './lake/**' --if-behind 10  # several tables
      deltacli checkpoint ./tbl --version 12
      deltacli checkpoint ./tbl --version 11 --layout multi-part --parts 2
      deltacli checkpoint ./tbl --verify
    """
    if declared.is_several(tables):
        from deltacli.cli.running.many import require_tables, run_many

        require_tables(tables)
    given = {name: value for name, value in asked.values.items() if (name, value) not in _AS_WITHOUT}
    if given.get("if_behind", 0) < 0:
        raise UsageError(f"--if-behind {given['if_behind']} is negative")
    declared.parse_moment_of(version, timestamp)

    def use(run: Run, table: str) -> None:
        opened = run.open_table(table, writes=not (verify or dry_run))
        if verify:
            writing = declared.Asked(CheckpointRequest, given).given(but=("v2_top", "stats"))
            if refused := [*writing, *(["--dry-run"] if dry_run else [])]:
                raise UsageError(f"--verify writes nothing; it cannot be combined with {', '.join(refused)}")
            from deltacli.cli.render.log_files import verifications
            from deltacli.operations.checkpoint.verify import CheckpointVerdict, verify_checkpoints

            outcomes = list(verify_checkpoints(opened, version=declared.chosen_version(opened, version, timestamp)))
            if run.part is not None:
                run.part.state_outcome(sum(len(one.checkpoint.files) for one in outcomes), None)
            run.write(verifications(opened.uri, outcomes))
            if any(one.verdict in (CheckpointVerdict.DIFFERS, CheckpointVerdict.UNREADABLE) for one in outcomes):
                run.say_next(f"deltacli validate {quote_table(table)}", also_in_pipe=True)
                raise Exit(EXIT_FINDINGS)
            return
        chosen = {**given, "version": declared.chosen_version(opened, version, timestamp)}
        _write(run, opened, table, declared.Asked(CheckpointRequest, chosen).request(), dry_run=dry_run)

    if declared.is_several(tables):
        run_many(run, tables, use, Mode(dry_run))
    else:
        use(run, tables[0])


def _write(run: Run, opened: Table, table: str, request: CheckpointRequest, *, dry_run: bool) -> None:
    noted: list[str] = []

    def notes(plan: CheckpointPlan) -> list[str]:
        problems = [f"{problem}: {EXPLAINED[problem]}" for problem in plan.snapshot.problems]
        noted[:] = [*problems, *plan.notes]
        return noted

    def result(made: CheckpointResult) -> SingleResult:
        known = list(noted)
        for note in notes(made.plan):  # of one that was planned again: the checkpoint of its version is corrupt
            if note not in known:
                run.note(f"note: {note}")
        from deltacli.cli.render.log_files import checkpoint_sections, draw_checkpoint

        content = made.as_json()
        columns = ("path", "sizeBytes", "rows")
        return SingleResult(
            "checkpoint",
            opened.uri,
            content,
            lambda: checkpoint_sections(made),
            content["files"],
            columns,
            lambda canvas: draw_checkpoint(canvas, made),
        )

    def following(made: CheckpointResult) -> str:
        return f"deltacli checkpoint {quote_table(table)} --verify --version {made.version}"

    wording: Wording[CheckpointPlan, CheckpointResult] = Wording(
        question=None,
        planned=lambda plan, is_plan: result(write_checkpoint(plan, dry_run=is_plan)),
        done=result,
        following=following,
        notes=notes,
        achieved=lambda made: (len(made.files), sum(file.size_bytes for file in made.files)),
    )
    run_change(run, opened, Checkpoint(request), wording, Mode(dry_run))
