"""`deltacli features TABLE`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.commands.properties import apply_settings
from deltacli.cli.confirmation import require_confirmation
from deltacli.cli.invocation import invocation
from deltacli.cli.options.common_options import CommitMetadataOption, DryRunOption, TableArgument, YesOption
from deltacli.cli.options.run import Run
from deltacli.cli.terminal.interrupts import telling_commit
from deltacli.cli.terminal.shell import again_without, quoted_table
from deltacli.errors import UsageError

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.operations.change.drop_feature import FeatureDrop
    from deltacli.operations.change.table_features import FeaturesOutcome

EXIT_CODES = (0, 2, 3, 4, 5, 6, 7, 8, 70)
RUNS_ON_CLUSTER = True


class FeatureChange(StrEnum):
    ADD = "add"
    DROP = "drop"


ChangeArgument = Annotated[
    FeatureChange | None,
    typer.Argument(metavar="[add|drop]", help="Action; without it the features are shown.", show_default=False),
]
NamesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME]...", help="Features to add, or one to drop.", show_default=False),
]
TruncateOption = Annotated[
    bool,
    typer.Option(
        "--truncate-history", help="drop: delete the versions that need the feature instead of protecting them."
    ),
]


def features(
    run: Run,
    table: TableArgument,
    change: ChangeArgument = None,
    names: NamesArgument = None,
    truncate_history: TruncateOption = False,
    commit_metadata: CommitMetadataOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Show the table features of a table, add some to its protocol, or drop one.

    \b
    Features are added in one commit with a new protocol, which cannot be undone:
    clients that do not support the features lose access. Features that they
    depend on are added with them. A supported feature is not yet active: most are
    enabled by a property.
    A feature is dropped in several commits. What uses it goes first: its property,
    deletion vectors, older types and other names of columns by rewriting their
    files, row ids by adding files again without them. A feature that older versions
    need is dropped behind new checkpoints, which are protected from then on.
    Clients without it read the newest version afterwards. --truncate-history deletes
    these versions instead, a day later: run it again then.

    \b
    Examples:
      deltacli features ./tbl
      deltacli features ./tbl add deletionVectors --dry-run
      deltacli features ./tbl add v2Checkpoint rowTracking --yes
      deltacli features ./tbl drop v2Checkpoint --dry-run  # after it was added
      deltacli features ./tbl drop rowTracking --yes
    """
    from deltacli.delta.log.commit_metadata import parse_commit_metadata

    opened = run.open_table(table, writes=change is not None and not dry_run)
    if change is None:
        if dry_run or yes or commit_metadata:
            raise UsageError("--commit-metadata, --dry-run and --yes require add or drop")
        _show(run, table, opened)
        return
    added_keys = parse_commit_metadata(commit_metadata or [])
    if not names or (change is FeatureChange.DROP and len(names) > 1):
        what = "one feature is dropped at a time" if names else "missing argument FEATURE"
        raise UsageError(f"{change}: {what}", hint="deltacli features --help")
    if change is FeatureChange.DROP:
        from deltacli.operations.change.drop_feature import plan_drop

        plan = partial(plan_drop, opened, names[0], truncate_history=truncate_history, commit_metadata=added_keys)
        _drop(run, table, plan, added_keys, dry_run=dry_run, yes=yes)
        return
    if truncate_history:
        raise UsageError("--truncate-history requires drop")
    _add(run, table, opened, names, added_keys, dry_run=dry_run, yes=yes)


def _show(run: Run, spelling: str, opened: Table) -> None:
    from deltacli.cli.render.properties_and_features import features_result
    from deltacli.operations.change.table_features import list_features

    snapshot = opened.snapshot()
    run.write(features_result(opened.uri, snapshot.version, snapshot.protocol, list_features(snapshot)))
    run.say_next(f"deltacli explain {quoted_table(spelling)}")


def _add(
    run: Run,
    spelling: str,
    opened: Table,
    names: Sequence[str],
    commit_metadata: Mapping[str, str],
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    from deltacli.operations.change.table_features import add_features, plan_addition

    def question(planned: FeaturesOutcome) -> str | None:
        listed = ", ".join(one.name for one in planned.plan.added)
        return f"add {listed} to the protocol of {planned.table} permanently" if listed else None

    def make() -> FeaturesOutcome:
        return add_features(opened, names, commit_metadata=commit_metadata)

    apply_settings(run, spelling, partial(plan_addition, opened, names), question, make, dry_run=dry_run, yes=yes)


def _drop(
    run: Run,
    spelling: str,
    plan: Callable[[], FeatureDrop],
    commit_metadata: Mapping[str, str],
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    from deltacli.cli.render.properties_and_features import drop_result
    from deltacli.operations.change.drop_feature import drop_feature

    planned = plan()
    if dry_run:
        run.write(drop_result(planned))
        run.say_next(again_without(invocation.arguments, "--dry-run"))
        return
    what = f"drop the feature {planned.name} of {planned.table.uri}: {'; '.join(planned.steps)}"
    require_confirmation(run, what, yes=yes, show_plan=lambda: run.write(drop_result(planned)))
    with telling_commit():
        done = drop_feature(planned, commit_metadata=commit_metadata)
    run.write(drop_result(done))
    run.say_next(f"deltacli history {quoted_table(spelling)} --limit 10")
