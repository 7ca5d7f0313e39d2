"""`deltacli features TABLE`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.apply_change import carry_out, show_plan
from deltacli.cli.options.common_options import CommitMetadataOption, DryRunOption, TableArgument, YesOption
from deltacli.cli.options.run import Run
from deltacli.errors import DeltacliError, Refused, UsageError

if TYPE_CHECKING:
    from deltacli.api.table import Table

EXIT_CODES = (0, 2, 3, 4, 6, 7, 8, 70)


class Change(StrEnum):
    ADD = "add"


def features(
    run: Run,
    table: TableArgument,
    change: Annotated[
        Change | None,
        typer.Argument(metavar="[add]", help="Action; without it the features are shown.", show_default=False),
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Features to add.", show_default=False),
    ] = None,
    commit_metadata: CommitMetadataOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Show the table features of a table, or add some to its protocol.

    \b
    Features are added in one commit with a new protocol, which cannot be undone:
    clients that do not support the features lose access. Features that they
    depend on are added with them. A supported feature is not yet active: most are
    enabled by a property.

    \b
    Examples:
      deltacli features ./tbl
      deltacli features ./tbl add deletionVectors --dry-run
      deltacli features ./tbl add v2Checkpoint rowTracking --yes
    """
    from deltacli.delta.log.commit_metadata import parse_commit_metadata

    opened = run.open_table(table, writes=change is not None and not dry_run)
    if change is None:
        if dry_run or yes or commit_metadata:
            raise UsageError("--commit-metadata, --dry-run and --yes require add")
        from deltacli.cli.render.properties_and_features import features_result
        from deltacli.operations.change.table_features import list_features

        snapshot = opened.snapshot()
        run.write(features_result(opened.uri, snapshot.version, snapshot.protocol, list_features(snapshot)))
        return
    added_keys = parse_commit_metadata(commit_metadata or [])
    _add(run, opened, table, names or [], added_keys, dry_run=dry_run, yes=yes)


def _add(
    run: Run,
    opened: Table,
    table: str,
    names: list[str],
    commit_metadata: Mapping[str, str],
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    from deltacli.operations.change.table_features import add_features, plan_addition

    if not names:
        raise UsageError("add: missing argument FEATURE", hint="deltacli features --help")
    try:
        plan = plan_addition(opened, names)
    except Refused:
        if dry_run:
            with suppress(DeltacliError):  # a feature without a protocol that could support it: there is no plan
                show_plan(run, plan_addition(opened, names, unguarded=True), has_next=False)
        raise
    if dry_run or not plan.plan.added:
        show_plan(run, plan, has_next=dry_run and bool(plan.plan.added))
        return
    listed = ", ".join(one.name for one in plan.plan.added)
    what = f"add {listed} to the protocol of {plan.table} permanently"
    carry_out(run, table, what, plan, lambda: add_features(opened, names, commit_metadata=commit_metadata), yes=yes)
