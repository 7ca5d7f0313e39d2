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
from deltacli.cli.options.given import get_used_options
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


Outcome = TypeVar("Outcome", "FeaturesOutcome", "PropertiesOutcome")


class PropertyChange(StrEnum):
    """The word after the table of `properties`."""

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
    is_change = change in (PropertyChange.SET, PropertyChange.UNSET)
    delta_table = run.open_table(table, writes=is_change and not dry_run)
    if change is None or change is PropertyChange.GET:
        if force or upgrade_protocol or dry_run or yes or commit_metadata or checkpoints:
            raise UsageError(
                "--force, --upgrade-protocol, --commit-metadata, --checkpoints, --dry-run and --yes require set or "
                "unset"
            )
        if change is not None and not items:
            raise _make_missing_key_error(change)
        _show_properties(run, table, delta_table, None if change is None else items or [])
        return

    prepared_change = _prepare_property_change(
        delta_table,
        change,
        items or [],
        force=force,
        upgrade_protocol=upgrade_protocol,
        commit_metadata=parse_commit_metadata(commit_metadata or []),
    )
    streams = note_streams(run, delta_table, checkpoints)
    presentation = _make_properties_presentation(table, change, streams)
    run_change(run, prepared_change, presentation, Mode(dry_run, yes))


def _show_properties(run: CommandContext, name: str, table: Table, keys: Sequence[str] | None) -> None:
    """Write the properties of a table.

    Args:
        run: The run of the command.
        name: The table as the user typed it.
        table: The table.
        keys: The properties to show. None: all properties.

    Raises:
        UsageError: If a key is probably misspelled, or the table is shared and its server does not send properties.
    """
    table_properties = table.list_properties()
    properties = table_properties.items
    if keys is not None:
        unknown_keys = set(keys) - {item.key for item in properties}
        if unknown_keys and not table_properties.is_complete:
            raise _make_not_shared_error("these properties", name)
        properties = _select_properties(run, properties, keys)
    run.write(properties_result(table.uri, table_properties.snapshot.version, properties))

    note_unpublished_versions(run, table_properties.snapshot)
    if keys is None and not table_properties.is_complete:
        run.note("note: other properties are unknown: the sharing server answers in the parquet format")
    has_errors = any(not item.is_valid or item.is_known is False for item in properties)
    if has_errors:
        run.suggest_command(f"deltacli validate {quote_table(name)}")
    elif table_properties.is_complete:
        run.suggest_command(f"deltacli features {quote_table(name)}")


def _make_not_shared_error(subject: str, name: str) -> UsageError:
    return UsageError(
        f"the sharing server answers in the parquet format, which does not have {subject} of the table",
        code="share.read-only",
        hint=f"deltacli snapshot {quote_table(name)}",
    )


def _make_properties_presentation(
    name: str, change: PropertyChange, streams: StreamsReport | None
) -> ChangePresentation[PropertiesOutcome, PropertiesOutcome]:
    """Return the presentation of a change of properties. Its notes name the queries of `streams` that it would stop."""

    def build_question(outcome: PropertiesOutcome) -> str:
        count = len(outcome.plan.changes)
        return f"{change} {count} {'property' if count == 1 else 'properties'} of {outcome.table}"

    def list_notes(outcome: PropertiesOutcome) -> Iterable[str]:
        if outcome.refused is not None:
            return
        yield from outcome.plan.cautions
        if streams is not None and not outcome.is_noop:
            protocol = None if outcome.features is None else outcome.features.protocol_after
            yield from streams.describe_stopped(metadata=outcome.plan.metadata, protocol=protocol)

    return replace(_make_presentation(name, build_question), list_notes=list_notes)


def _make_missing_key_error(change: PropertyChange) -> UsageError:
    metavar = "KEY=VALUE" if change is PropertyChange.SET else "KEY"
    return UsageError(f"{change}: missing argument {metavar}", hint=repeat_command([*invocation.arguments, metavar]))


def _select_properties(
    run: CommandContext, properties: Sequence[ShownProperty], keys: Sequence[str]
) -> list[ShownProperty]:
    """Return the properties with some keys, in the order of the keys. Keys that are not set are noted.

    Raises:
        UsageError: If a key is unknown and similar to a known one.
    """
    from deltacli.delta.protocol.known_properties import MEANINGS, known_keys

    properties_by_key = {item.key: item for item in properties}
    valid_keys = set(known_keys())
    selected_properties: list[ShownProperty] = []
    for key in dict.fromkeys(keys):
        if key in properties_by_key:
            selected_properties.append(properties_by_key[key])
            continue

        similar_key = None
        if key not in valid_keys:
            similar_key = nearest_name(key, valid_keys | set(properties_by_key), ignores_case=True)
        if similar_key:
            words = [similar_key if word == key else word for word in invocation.arguments]
            raise UsageError(f"{key} is not set", hint=repeat_command(words)).suggest(key, similar_key)

        _, default = MEANINGS.get(key, (None, None))
        run.note(f"note: {key} is not set" + (f"; its default is {default}" if default else ""))
    return selected_properties


def _prepare_property_change(
    table: Table,
    change: PropertyChange,
    items: list[str],
    *,
    force: bool,
    upgrade_protocol: bool,
    commit_metadata: Mapping[str, str],
) -> PreparedChange[PropertiesOutcome, PropertiesOutcome]:
    """Return the change for the words after `set` or `unset`.

    Args:
        table: The table.
        change: `set` or `unset`.
        items: The words: `KEY=VALUE` after `set`, keys after `unset`.
        force: The value of `--force`.
        upgrade_protocol: The value of `--upgrade-protocol`.
        commit_metadata: Additional keys of the commit.

    Raises:
        UsageError: If there are no words, a word has the wrong form, or an option is for `set` only.
    """
    from deltacli.delta.protocol.property_changes import pairs_of

    if not items:
        raise _make_missing_key_error(change)
    if change is PropertyChange.UNSET:
        if force:
            raise UsageError("--force requires set; unset accepts any existing key")
        if upgrade_protocol:
            raise UsageError("--upgrade-protocol requires set")
        return table.prepare_unset_properties(items, commit_metadata=commit_metadata)

    if any("=" not in item for item in items):
        raise _make_missing_value_error(items)
    return table.prepare_set_properties(
        pairs_of(items), force=force, upgrade_protocol=upgrade_protocol, commit_metadata=commit_metadata
    )


def _make_missing_value_error(items: Sequence[str]) -> UsageError:
    """Return the error for a word without `=` after `set`. The hint is the dry run of the probable change.

    set delta.logRetentionDuration=30 days  ->  set 'delta.logRetentionDuration=30 days'
    set delta.appendOnly true               ->  set delta.appendOnly=true
    set delta.appendOnly                    ->  set delta.appendOnly=DEFAULT
    """
    from deltacli.delta.protocol.known_properties import MEANINGS, right_spelling

    words = [word for word in invocation.arguments if word != "--yes"]
    wrong_item = next(item for item in items if "=" not in item)
    position = words.index(wrong_item)
    if position and words[position - 1] in items:
        # The word belongs to the value of the item before it: the quotes of `KEY=30 days` are missing.
        wrong_item = f"{words[position - 1]} {wrong_item}"
        key = wrong_item.partition("=")[0]
        words[position - 1 : position + 1] = [wrong_item]
    else:
        key = right_spelling(wrong_item) or wrong_item
        value_words = list(takewhile(lambda word: word in items and "=" not in word, words[position + 1 :]))
        _, default = MEANINGS.get(key, ("", None))
        value = " ".join(value_words) or default or "true"
        words[position : position + 1 + len(value_words)] = [f"{key}={value}"]
    return UsageError(
        f"{wrong_item!r} is not of the form KEY=VALUE",
        code="usage.property",
        facts={"expected": f"{key}=VALUE"},
        hint=repeat_command(words) if "--dry-run" in words else repeat_command_with_flags(words, ["--dry-run"]),
    )


def _make_presentation(name: str, build_question: Callable[[Outcome], str]) -> ChangePresentation[Outcome, Outcome]:
    """Return the presentation of a change of properties or features, with a question of its own."""

    def suggest_history(outcome: Outcome) -> str | None:
        return None if outcome.committed_version is None else f"deltacli history {quote_table(name)} --limit 1"

    return ChangePresentation(
        build_question=build_question,
        build_plan_result=lambda outcome, _: change_result(outcome, is_done=False),
        build_outcome_result=lambda outcome: change_result(outcome, is_done=True),
        suggest_after_change=suggest_history,
    )


class FeatureChange(StrEnum):
    """The word after the table of `features`."""

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
    delta_table = run.open_table(table, writes=change is not None and not dry_run)
    if change is None:
        if dry_run or yes or commit_metadata or checkpoints:
            raise UsageError("--commit-metadata, --checkpoints, --dry-run and --yes require add or drop")
        _require_no_protection(context)
        _show_features(run, table, delta_table)
        return

    added_keys = parse_commit_metadata(commit_metadata or [])
    if not names:
        raise UsageError(f"{change}: missing argument FEATURE", hint="deltacli features --help")
    if change is FeatureChange.DROP and len(names) > 1:
        raise UsageError(f"{change}: one feature is dropped at a time", hint="deltacli features --help")

    mode = Mode(dry_run, yes)
    if change is FeatureChange.DROP:
        drop = delta_table.prepare_drop_features(
            names[0],
            truncate_history=truncate_history,
            protect_streams=tuple(protect_streams or ()),
            ignore_streams_older_ms=ignore_streams_older_ms,
            allow_stream_loss=tuple(allow_stream_loss or ()),
            commit_metadata=added_keys,
        )
        streams = note_streams(run, delta_table, checkpoints)
        run_change(run, drop, _make_drop_presentation(table, streams), mode)
        return

    _require_no_protection(context)
    if truncate_history:
        raise UsageError("--truncate-history requires drop")
    addition = delta_table.prepare_add_features(names, commit_metadata=added_keys)
    streams = note_streams(run, delta_table, checkpoints)
    run_change(run, addition, _make_addition_presentation(table, streams), mode)


def _require_no_protection(context: typer.Context) -> None:
    """Refuse options that protect streaming queries. Only a drop with `--truncate-history` deletes old versions."""
    protection_options = get_used_options(context, "protect_streams", "ignore_streams_older_ms", "allow_stream_loss")
    if protection_options:
        raise UsageError(f"{protection_options[0]} requires drop with --truncate-history")


def _show_features(run: CommandContext, name: str, table: Table) -> None:
    table_features = table.list_features()
    if table_features.items is None:
        raise _make_not_shared_error("the protocol", name)
    snapshot = table_features.snapshot
    run.write(features_result(table.uri, snapshot.version, snapshot.protocol, table_features.items))
    note_unpublished_versions(run, snapshot)
    if not is_shared(name):
        run.suggest_command(f"deltacli explain {quote_table(name)}")


def _make_addition_presentation(
    name: str, streams: StreamsReport | None
) -> ChangePresentation[FeaturesOutcome, FeaturesOutcome]:
    """Return the presentation of added features. Its notes name the queries of `streams` that it would stop."""

    def build_question(outcome: FeaturesOutcome) -> str:
        features = ", ".join(addition.name for addition in outcome.plan.added)
        return f"add {features} to the protocol of {outcome.table} permanently"

    def list_notes(outcome: FeaturesOutcome) -> Iterable[str]:
        if streams is None or outcome.is_noop or outcome.refused is not None:
            return ()
        return streams.describe_stopped(metadata=None, protocol=outcome.plan.protocol_after)

    return replace(_make_presentation(name, build_question), list_notes=list_notes)


def _make_drop_presentation(name: str, streams: StreamsReport | None) -> ChangePresentation[FeatureDrop, FeatureDrop]:
    """Return the presentation of a dropped feature.

    Its notes name the queries of `streams` that would stop, or would lack versions that are deleted.
    """

    def build_question(drop: FeatureDrop) -> str:
        return f"drop the feature {drop.name} of {drop.table.uri}: {'; '.join(drop.steps)}"

    def list_notes(drop: FeatureDrop) -> Iterable[str]:
        if streams is None:
            return
        first_remaining_version = drop.find_first_version_left()
        if first_remaining_version is not None:
            yield from streams.describe_cut_off(first_remaining_version)
        metadata = drop.find_changed_metadata()
        yield from streams.describe_stopped(metadata=metadata, protocol=dict(drop.protocol_after))

    return ChangePresentation(
        build_question=build_question,
        build_plan_result=lambda drop, _: drop_result(drop),
        build_outcome_result=drop_result,
        suggest_after_change=lambda _: f"deltacli history {quote_table(name)} --limit 10",
        list_notes=list_notes,
    )
