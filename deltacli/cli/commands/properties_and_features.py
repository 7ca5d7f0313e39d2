"""`deltacli properties TABLE` and `deltacli features TABLE`, which change settings in commits of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from deltacli.cli.command_classes import ClusterCommand, SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import invocation
from deltacli.cli.options.given import given_options
from deltacli.cli.options.streams import (
    AllowStreamLossOption,
    CheckpointsOption,
    IgnoreStreamsOlderOption,
    ProtectStreamsOption,
)
from deltacli.cli.options.tables import CommitMetadataOption, DryRunOption, TableArgument, YesOption
from deltacli.cli.options.values import make_choice_parser
from deltacli.cli.render.settings import change_result, drop_result, features_result, properties_result
from deltacli.cli.running.changing import ChangePresentation, Mode, run_change
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.problem_notes import note_unpublished_versions
from deltacli.cli.running.stream_notes import note_streams
from deltacli.cli.terminal.suggested_commands import repeat_command, repeat_command_with_flags
from deltacli.core.errors import UsageError, is_shared, nearest_name, quote_table
from deltacli.delta.log.actions import parse_commit_metadata

if TYPE_CHECKING:
    from deltacli.api.prepared_change import PreparedChange
    from deltacli.api.table import Table
    from deltacli.operations.change.drop_feature import FeatureDrop
    from deltacli.operations.change.properties_and_features import (
        FeaturesOutcome,
        PropertiesOutcome,
        ShownProperty,
    )
    from deltacli.operations.streams.streams import StreamsReport

app = typer.Typer(add_completion=False)


Settings = TypeVar("Settings", "FeaturesOutcome", "PropertiesOutcome")


class PropertyChange(StrEnum):
    GET = "get"
    SET = "set"
    UNSET = "unset"


@app.command(
    "properties",
    cls=SharedOptionsCommand,
    epilog=exit_codes(unreadable=True, refused=True, conflict=True, storage=True, unknown=True),
)
def properties(
    context: typer.Context,
    table: TableArgument,
    change: Annotated[
        PropertyChange | None,
        typer.Argument(
            metavar="[get|set|unset]",
            parser=make_choice_parser(PropertyChange),
            help="Action; without it all properties are shown.",
        ),
    ] = None,
    items: Annotated[
        list[str] | None, typer.Argument(metavar="[K=V|K]...", help="Properties to set, keys to get or to unset.")
    ] = None,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Also set delta. keys that no known engine recognizes.")
    ] = False,
    upgrade_protocol: Annotated[
        bool, typer.Option("--upgrade-protocol", help="Add the features that the properties require.")
    ] = False,
    commit_metadata: CommitMetadataOption = None,
    checkpoints: CheckpointsOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Show the properties of a table, set some or unset some.

    \b
    Properties are changed in one commit of their own. Values are checked and
    written in a form that every engine reads in the same way (30 days becomes
    interval 30 days). A change is refused if the protocol does not support it, if
    it would make the table invalid, or if only an engine can make it correctly.
    Keys that do not start with delta. are not checked. delta.enableRowTracking=true
    takes several commits, which first give ids to the rows of all files.
    Writers that are running fail, also appends (MetadataChangedException), and have
    to run again.

    \b
    Examples:
      deltacli properties ./tbl
      deltacli properties ./tbl get delta.appendOnly owner
      deltacli properties ./tbl set delta.checkpointInterval=20 --dry-run
      deltacli properties ./tbl set delta.appendOnly=true owner=ops --yes
      deltacli properties ./tbl set delta.enableRowTracking=true --upgrade-protocol --dry-run
      deltacli properties ./tbl unset owner --yes
    """
    run: CommandContext = context.obj
    writes = change in (PropertyChange.SET, PropertyChange.UNSET)
    opened = run.open_table(table, writes=writes and not dry_run)
    if change is None or change is PropertyChange.GET:
        if force or upgrade_protocol or dry_run or yes or commit_metadata or checkpoints:
            raise UsageError(
                "--force, --upgrade-protocol, --commit-metadata, --checkpoints, --dry-run and --yes require set or "
                "unset"
            )
        if change is not None and not items:
            raise _without_key(change)
        _show_properties(run, table, opened, None if change is None else items or [])
        return
    prepared = _prepare_change(
        opened,
        change,
        items or [],
        force=force,
        upgrade_protocol=upgrade_protocol,
        commit_metadata=parse_commit_metadata(commit_metadata or []),
    )
    streams = note_streams(run, opened, checkpoints)
    run_change(run, prepared, _make_properties_presentation(table, change, streams), Mode(dry_run, yes))


def _show_properties(run: CommandContext, spelling: str, table: Table, keys: Sequence[str] | None) -> None:
    """Write the properties with these keys; with None, all of them."""
    listed = table.list_properties()
    snapshot = listed.snapshot
    shown = listed.items
    if keys is not None:
        if not listed.is_complete and {*keys} - {item.key for item in listed.items}:
            raise _not_told("these properties", spelling)
        shown = _chosen(run, listed.items, keys)
    run.write(properties_result(table.uri, snapshot.version, shown))
    note_unpublished_versions(run, snapshot)
    if not listed.is_complete and keys is None:
        run.note("note: other properties are unknown: the sharing server answers in the parquet format")
    is_sound = all(item.is_valid and item.is_known is not False for item in shown)
    if listed.is_complete or not is_sound:
        run.suggest_command(f"deltacli {'features' if is_sound else 'validate'} {quote_table(spelling)}")


def _not_told(what: str, spelling: str) -> UsageError:
    return UsageError(
        f"the sharing server answers in the parquet format, which does not have {what} of the table",
        code="share.read-only",
        hint=f"deltacli snapshot {quote_table(spelling)}",
    )


def _make_properties_presentation(
    spelling: str, change: PropertyChange, streams: StreamsReport | None
) -> ChangePresentation[PropertiesOutcome, PropertiesOutcome]:
    """Return how a change of properties is told; `streams` are queries that it may stop."""

    def question(planned: PropertiesOutcome) -> str:
        count = len(planned.plan.changes)
        return f"{change} {count} {'property' if count == 1 else 'properties'} of {planned.table}"

    def notes(planned: PropertiesOutcome) -> Iterable[str]:
        if planned.refused is not None:
            return
        yield from planned.plan.cautions
        if streams is not None and not planned.is_noop:
            protocol = None if planned.features is None else planned.features.protocol_after
            yield from streams.describe_stopped(metadata=planned.plan.metadata, protocol=protocol)

    return replace(_make_presentation(spelling, question), list_notes=notes)


def _without_key(change: PropertyChange) -> UsageError:
    what = "KEY=VALUE" if change is PropertyChange.SET else "KEY"
    return UsageError(f"{change}: missing argument {what}", hint=repeat_command([*invocation.arguments, what]))


def _chosen(run: CommandContext, properties: Sequence[ShownProperty], keys: Sequence[str]) -> list[ShownProperty]:
    """Return the properties with these keys, and note those not set. Raises UsageError for a key nearly right."""
    from deltacli.delta.protocol.known_properties import MEANINGS, known_keys

    found, known = {one.key: one for one in properties}, set(known_keys())
    for key in dict.fromkeys(keys):
        if key in found:
            continue
        if key not in known and (near := nearest_name(key, known | set(found), ignores_case=True)):
            words = [near if word == key else word for word in invocation.arguments]
            raise UsageError(f"{key} is not set", hint=repeat_command(words)).suggest(key, near)
        _, default = MEANINGS.get(key, (None, None))
        run.note(f"note: {key} is not set" + (f"; its default is {default}" if default else ""))
    return [found[key] for key in dict.fromkeys(keys) if key in found]


def _prepare_change(
    table: Table,
    change: PropertyChange,
    items: list[str],
    *,
    force: bool,
    upgrade_protocol: bool,
    commit_metadata: Mapping[str, str],
) -> PreparedChange[PropertiesOutcome, PropertiesOutcome]:
    """Return the change of the words behind `set` or `unset`. Raises UsageError."""
    from deltacli.delta.protocol.property_changes import pairs_of

    if not items:
        raise _without_key(change)
    if change is PropertyChange.UNSET:
        if force:
            raise UsageError("--force requires set; unset accepts any existing key")
        if upgrade_protocol:
            raise UsageError("--upgrade-protocol requires set")
        return table.prepare_unset_properties(items, commit_metadata=commit_metadata)
    if any("=" not in item for item in items):
        raise _without_value(items)
    return table.prepare_set_properties(
        pairs_of(items), force=force, upgrade_protocol=upgrade_protocol, commit_metadata=commit_metadata
    )


def _without_value(items: Sequence[str]) -> UsageError:
    """Return the error for a key without `=` and a value, with the plan of the change that was perhaps meant."""
    from deltacli.delta.protocol.known_properties import MEANINGS, right_spelling

    words = [word for word in invocation.arguments if word != "--yes"]
    given = next(item for item in items if "=" not in item)
    key = right_spelling(given) or given
    place = words.index(given)
    if place and words[place - 1] in items:  # KEY=30 days
        given = f"{words[place - 1]} {given}"
        key, words[place - 1 : place + 1] = given.partition("=")[0], [given]
    else:
        following = [*takewhile(lambda word: word in items and "=" not in word, words[place + 1 :])]  # KEY VALUE
        value = " ".join(following) or MEANINGS.get(key, ("", None))[1] or "true"
        words[place : place + 1 + len(following)] = [f"{key}={value}"]
    return UsageError(
        f"{given!r} is not of the form KEY=VALUE",
        code="usage.property",
        facts={"expected": f"{key}=VALUE"},
        hint=repeat_command(words) if "--dry-run" in words else repeat_command_with_flags(words, ["--dry-run"]),
    )


def _make_presentation(spelling: str, question: Callable[[Settings], str]) -> ChangePresentation[Settings, Settings]:
    """Return how a change of settings is told; `spelling` is the table as the user wrote it."""
    history = f"deltacli history {quote_table(spelling)} --limit 1"
    return ChangePresentation(
        build_question=question,
        build_plan_result=lambda planned, _: change_result(planned, is_done=False),
        build_outcome_result=lambda made: change_result(made, is_done=True),
        suggest_after_change=lambda made: None if made.committed_version is None else history,
    )


class FeatureChange(StrEnum):
    ADD = "add"
    DROP = "drop"


@app.command(
    "features",
    cls=ClusterCommand,
    epilog=exit_codes(
        unreadable=True,
        refused=True,
        partly="drop: some of its commits are made; run it again",
        conflict=True,
        storage=True,
        unknown=True,
    ),
)
def features(
    context: typer.Context,
    table: TableArgument,
    change: Annotated[
        FeatureChange | None,
        typer.Argument(
            metavar="[add|drop]",
            parser=make_choice_parser(FeatureChange),
            help="Action; without it the features are shown.",
        ),
    ] = None,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Features to add, or one to drop.")
    ] = None,
    *,
    truncate_history: Annotated[
        bool,
        typer.Option(
            "--truncate-history", help="drop: delete the versions that need the feature instead of protecting them."
        ),
    ] = False,
    protect_streams: ProtectStreamsOption = None,
    ignore_streams_older_ms: IgnoreStreamsOlderOption = None,
    allow_stream_loss: AllowStreamLossOption = None,
    commit_metadata: CommitMetadataOption = None,
    checkpoints: CheckpointsOption = None,
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
    these versions instead, a day later: run it again then. It keeps what streaming
    queries need with --protect-streams.
    Writers that are running fail, also appends (ProtocolChangedException), and have
    to run again.

    \b
    Examples:
      deltacli features ./tbl
      deltacli features ./tbl add deletionVectors --dry-run
      deltacli features ./tbl add v2Checkpoint rowTracking --yes
      deltacli features ./tbl drop v2Checkpoint --dry-run  # after it was added
      deltacli features ./tbl drop rowTracking --yes
      deltacli features ./tbl drop v2Checkpoint --truncate-history --protect-streams './chk/*' --dry-run
    """
    run: CommandContext = context.obj
    opened = run.open_table(table, writes=change is not None and not dry_run)
    if change is None:
        if dry_run or yes or commit_metadata or checkpoints:
            raise UsageError("--commit-metadata, --checkpoints, --dry-run and --yes require add or drop")
        _require_no_protection(context)
        _show_features(run, table, opened)
        return
    added_keys = parse_commit_metadata(commit_metadata or [])
    if not names or (change is FeatureChange.DROP and len(names) > 1):
        what = "one feature is dropped at a time" if names else "missing argument FEATURE"
        raise UsageError(f"{change}: {what}", hint="deltacli features --help")
    mode = Mode(dry_run, yes)
    if change is FeatureChange.DROP:
        dropping = opened.prepare_drop_features(
            names[0],
            truncate_history=truncate_history,
            protect_streams=tuple(protect_streams or ()),
            ignore_streams_older_ms=ignore_streams_older_ms,
            allow_stream_loss=tuple(allow_stream_loss or ()),
            commit_metadata=added_keys,
        )
        streams = note_streams(run, opened, checkpoints)
        run_change(run, dropping, _make_drop_presentation(table, streams), mode)
        return
    _require_no_protection(context)
    if truncate_history:
        raise UsageError("--truncate-history requires drop")
    adding = opened.prepare_add_features(names, commit_metadata=added_keys)
    streams = note_streams(run, opened, checkpoints)
    run_change(run, adding, _make_addition_presentation(table, streams), mode)


def _require_no_protection(context: typer.Context) -> None:
    """Require that no option is given that protects streaming queries: only a drop deletes what they need."""
    given = given_options(context, "protect_streams", "ignore_streams_older_ms", "allow_stream_loss")
    if given:
        raise UsageError(f"{given[0]} requires drop with --truncate-history")


def _show_features(run: CommandContext, spelling: str, opened: Table) -> None:
    listed = opened.list_features()
    if listed.items is None:
        raise _not_told("the protocol", spelling)
    snapshot = listed.snapshot
    run.write(features_result(opened.uri, snapshot.version, snapshot.protocol, listed.items))
    note_unpublished_versions(run, snapshot)
    if not is_shared(spelling):
        run.suggest_command(f"deltacli explain {quote_table(spelling)}")


def _make_addition_presentation(
    spelling: str, streams: StreamsReport | None
) -> ChangePresentation[FeaturesOutcome, FeaturesOutcome]:
    """Return how an addition of features is told; `streams` are queries that it may stop."""

    def question(planned: FeaturesOutcome) -> str:
        listed = ", ".join(addition.name for addition in planned.plan.added)
        return f"add {listed} to the protocol of {planned.table} permanently"

    def notes(planned: FeaturesOutcome) -> Iterable[str]:
        if streams is None or planned.is_noop or planned.refused is not None:
            return ()
        return streams.describe_stopped(metadata=None, protocol=planned.plan.protocol_after)

    return replace(_make_presentation(spelling, question), list_notes=notes)


def _make_drop_presentation(
    spelling: str, streams: StreamsReport | None
) -> ChangePresentation[FeatureDrop, FeatureDrop]:
    """Return how a drop of a feature is told; `streams` are queries that it may stop or cut off."""

    def question(planned: FeatureDrop) -> str:
        return f"drop the feature {planned.name} of {planned.table.uri}: {'; '.join(planned.steps)}"

    def notes(planned: FeatureDrop) -> Iterable[str]:
        if streams is None:
            return
        first_version_left = planned.find_first_version_left()
        if first_version_left is not None:
            yield from streams.describe_cut_off(first_version_left)
        metadata = planned.find_changed_metadata()
        yield from streams.describe_stopped(metadata=metadata, protocol=dict(planned.protocol_after))

    return ChangePresentation(
        list_notes=notes,
        build_question=question,
        build_plan_result=lambda planned, _: drop_result(planned),
        build_outcome_result=drop_result,
        suggest_after_change=lambda _: f"deltacli history {quote_table(spelling)} --limit 10",
    )
