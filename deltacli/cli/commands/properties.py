"""`deltacli properties TABLE`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.apply_change import carry_out, show_plan
from deltacli.cli.invocation import invocation
from deltacli.cli.options.common_options import CommitMetadataOption, DryRunOption, TableArgument, YesOption
from deltacli.cli.options.run import Run
from deltacli.cli.terminal.shell import again
from deltacli.errors import DeltacliError, Refused, UsageError

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.operations.change.table_properties import PropertyEdits, ShownProperty

EXIT_CODES = (0, 2, 3, 4, 6, 7, 8, 70)


class Change(StrEnum):
    GET = "get"
    SET = "set"
    UNSET = "unset"


def properties(
    run: Run,
    table: TableArgument,
    change: Annotated[
        Change | None,
        typer.Argument(
            metavar="[get|set|unset]", help="Action; without it all properties are shown.", show_default=False
        ),
    ] = None,
    items: Annotated[
        list[str] | None,
        typer.Argument(metavar="[K=V|K]...", help="Properties to set, keys to get or to unset.", show_default=False),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also set delta. keys that no known engine recognizes.")
    ] = False,
    commit_metadata: CommitMetadataOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Show the properties of a table, set some or unset some.

    \b
    Properties are changed in one commit of their own. Values are checked and
    written in a form that every engine reads in the same way (30 days becomes
    interval 30 days). A change is refused if the protocol does not support it, if
    it would make the table invalid, or if only an engine can make it correctly.
    Keys that do not start with delta. are not checked.

    \b
    Examples:
      deltacli properties ./tbl
      deltacli properties ./tbl get delta.appendOnly owner
      deltacli properties ./tbl set delta.checkpointInterval=20 --dry-run
      deltacli properties ./tbl set delta.appendOnly=true owner=ops --yes
      deltacli properties ./tbl unset owner --yes
    """
    from deltacli.delta.log.commit_metadata import parse_commit_metadata

    opened = run.open_table(table, writes=change in (Change.SET, Change.UNSET) and not dry_run)
    if change is None or change is Change.GET:
        if force or dry_run or yes or commit_metadata:
            raise UsageError("--force, --commit-metadata, --dry-run and --yes require set or unset")
        from deltacli.cli.render.properties_and_features import properties_result
        from deltacli.operations.change.table_properties import show_properties

        if change is not None and not items:
            raise _without_key(change)
        snapshot = opened.snapshot()
        found = show_properties(snapshot)
        if change is not None:
            found = _chosen(run, found, items or [])
        run.write(properties_result(opened.uri, snapshot.version, found))
        return
    edits = _edits(change, items or [], force=force, commit_metadata=parse_commit_metadata(commit_metadata or []))
    _change(run, opened, table, change, edits, dry_run=dry_run, yes=yes)


def _without_key(change: Change) -> UsageError:
    return UsageError(f"{change}: missing argument KEY", hint="deltacli properties --help")


def _chosen(run: Run, properties: Sequence[ShownProperty], keys: Sequence[str]) -> list[ShownProperty]:
    """Return the properties with these keys, and note those that are not set. Raises UsageError for a key that is
    almost that of another property.
    """
    from deltacli.delta.protocol.known_properties import known_keys
    from deltacli.delta.protocol.property_meanings import GUIDE
    from deltacli.did_you_mean import nearest_name

    found, known = {one.key: one for one in properties}, set(known_keys())
    for key in dict.fromkeys(keys):
        if key in found:
            continue
        if key not in known and (near := nearest_name(key, known | set(found), ignores_case=True)):
            words = [near if word == key else word for word in invocation.arguments]
            raise UsageError(f"{key} is not set; did you mean {near}?", hint=again(words))
        default = GUIDE[key].default if key in GUIDE else None
        run.note(f"note: {key} is not set" + (f"; its default is {default}" if default else ""))
    return [found[key] for key in dict.fromkeys(keys) if key in found]


def _edits(change: Change, items: list[str], *, force: bool, commit_metadata: Mapping[str, str]) -> PropertyEdits:
    """Return the requested change. Raises UsageError."""
    from deltacli.delta.protocol.property_changes import pairs_of
    from deltacli.operations.change.table_properties import PropertyEdits

    if not items:
        raise _without_key(change)
    if change is Change.UNSET:
        if force:
            raise UsageError("--force requires set; unset accepts any existing key")
        return PropertyEdits(drop=tuple(items), commit_metadata=commit_metadata)
    return PropertyEdits(put=pairs_of(items), force=force, commit_metadata=commit_metadata)


def _change(
    run: Run, opened: Table, table: str, change: Change, edits: PropertyEdits, *, dry_run: bool, yes: bool
) -> None:
    from deltacli.operations.change.table_properties import change_properties, plan_properties

    try:
        plan = plan_properties(opened, edits)
    except Refused:
        if dry_run:
            with suppress(DeltacliError):  # --force does not override this refusal: there is no plan
                show_plan(run, plan_properties(opened, replace(edits, force=True)), has_next=False)
        raise
    for caution in plan.plan.cautions:
        run.note(f"note: {caution}")
    if dry_run or not plan.plan.changes:
        show_plan(run, plan, has_next=dry_run and bool(plan.plan.changes))
        return
    count = len(plan.plan.changes)
    what = f"{change} {count} {'property' if count == 1 else 'properties'} of {plan.table}"
    carry_out(run, table, what, plan, lambda: change_properties(opened, edits), yes=yes)
