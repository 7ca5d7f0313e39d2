"""`deltacli properties TABLE` and `deltacli features TABLE`, which change settings in commits of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, BinaryIO, TypeVar

import typer

from deltacli.cli.command_classes import ClusterCommand, SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import invocation
from deltacli.cli.options.streams import (
    AllowStreamLossOption,
    CheckpointsOption,
    IgnoreStreamsOlderOption,
    ProtectStreamsOption,
)
from deltacli.cli.options.tables import CommitMetadataOption, DryRunOption, TableArgument, YesOption
from deltacli.cli.options.values import make_choice_parser
from deltacli.cli.output.columns import Column
from deltacli.cli.output.results import ListResult, SingleResult
from deltacli.cli.output.sections import Section
from deltacli.cli.output.surface import Surface
from deltacli.cli.output.text_tables import write_sections
from deltacli.cli.running.changing import Mode, Wording, run_change
from deltacli.cli.running.run import CommandContext, note_catalog
from deltacli.cli.terminal.capabilities import Style, Terminal
from deltacli.cli.terminal.suggested_commands import repeat_command, repeat_command_with_flags
from deltacli.core.documents import envelope
from deltacli.core.errors import UsageError, is_shared, nearest_name, parameter, quote_table
from deltacli.core.ranges import format_ranges
from deltacli.core.typing import JsonObject
from deltacli.core.units import plural
from deltacli.delta.log.actions import parse_commit_metadata
from deltacli.operations.streams.protection import ProtectionRequest

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.delta.protocol.clients import ClientAccess
    from deltacli.delta.protocol.feature_changes import ShownFeature
    from deltacli.delta.protocol.features import Protocol
    from deltacli.operations.change.drop_feature import DropFeature, FeatureDrop
    from deltacli.operations.change.properties_and_features import (
        FeaturesAddition,
        FeaturesOutcome,
        PropertiesOutcome,
        PropertyEdits,
        ShownProperty,
    )
    from deltacli.operations.streams.streams import StreamsReport

app = typer.Typer(add_completion=False)

# -- properties and features of a table --------------------------------------------------------------------------------

_WHOLE = 44
"""Cells up to which a key or a name is never cut."""


def properties_result(uri: str, version: int, properties: Sequence[ShownProperty]) -> ListResult[ShownProperty]:
    """Return the properties of a table."""
    columns: list[Column[ShownProperty]] = [
        Column("key", lambda one: one.key, priority=0, min_width=_WHOLE, wraps=True),
        Column("value", lambda one: one.value, priority=1, min_width=12, style=_style, wraps=True),
        Column("known", lambda one: one.is_known, on_screen=False),
        Column("valid", lambda one: one.is_valid, on_screen=False),
        Column("default", lambda one: one.default, priority=4, min_width=12, wraps=True),
        Column("meaning", _meaning, priority=3, min_width=16, wraps=True),
    ]
    fields = envelope("deltacli.properties", uri, complete=True) | {"version": version}
    items = [one.as_json() for one in properties]
    said = [] if properties else [Section("properties", ["none"])]
    return ListResult(
        fields, "property", items, columns, properties, items_name="properties", make_sections=lambda _: said
    )


class FeaturesResult(ListResult["ShownFeature"]):
    """The protocol of a table and its features."""

    def draw(self, sink: BinaryIO, terminal: Terminal) -> None:
        write_sections(sink, terminal, self.sections(terminal))
        if self.rows:
            self.draw_rows(sink, terminal)


def _yes_or_no(value: bool | None) -> str:
    return "" if value is None else "yes" if value else "no"


def features_result(uri: str, version: int, protocol: Protocol, features: Sequence[ShownFeature]) -> FeaturesResult:
    """Return the protocol of a table and its features."""
    columns: list[Column[ShownFeature]] = [
        Column("name", lambda one: one.name, priority=0, min_width=_WHOLE),
        Column("kind", lambda one: one.kind, priority=2, min_width=17),
        Column("listed", lambda one: one.is_listed, text=lambda one: _yes_or_no(one.is_listed), priority=4),
        Column("active", lambda one: one.is_active, text=lambda one: _yes_or_no(one.is_active), priority=1),
        Column("because", lambda one: one.because, priority=3, min_width=20, wraps=True),
    ]
    fields = envelope("deltacli.features", uri, complete=True) | {"version": version, "protocol": protocol.as_json()}
    items = [one.as_json() for one in features]
    said = [Section("protocol", [_protocol_line(protocol.as_json())])]
    return FeaturesResult(
        fields, "feature", items, columns, features, items_name="features", make_sections=lambda _: said
    )


def change_result(outcome: PropertiesOutcome | FeaturesOutcome, *, is_done: bool) -> SingleResult:
    """Return a change that was made or would be; CSV has a line for each property or feature."""
    from deltacli.operations.change.properties_and_features import PropertiesOutcome

    content = outcome.as_json()
    is_of_properties = isinstance(outcome, PropertiesOutcome)
    columns = ("key", "before", "after") if is_of_properties else ("feature", "neededBy")
    said = _change_sections(outcome.table, content, is_done=is_done)

    def draw(canvas: Surface) -> None:
        from deltacli.cli.render.schemas.altering import draw_settings

        draw_settings(canvas, content, said)

    return SingleResult(
        "properties" if is_of_properties else "features",
        outcome.table,
        content,
        lambda: said,
        [{name: change.get(name) for name in columns} for change in content["changes"]],
        columns,
        draw,
    )


def drop_result(drop: FeatureDrop) -> SingleResult:
    """Return a drop of a feature that was made or would be; CSV has a line for each step."""
    content, is_made = drop.as_json(), drop.is_made
    versions = "several, would be committed"
    if drop.versions:
        first, last = drop.versions[0], drop.versions[-1]
        versions = f"{first}, committed" if first == last else f"{first} to {last}, committed"
    before, after = _protocol_line(drop.protocol_before), _protocol_line(drop.protocol_after)

    def said() -> list[Section]:
        return [
            Section("table", [drop.table.uri]),
            Section("versions", [versions]),
            Section("done" if is_made else "steps" if drop.versions else "would do", list(drop.steps)),
            Section("protocol", [f"{before} -> {after}"]),
            Section("clients", [_regained(client) for client in drop.clients]),
        ]

    rows = [{"step": step} for step in drop.steps]
    return SingleResult("features", drop.table.uri, content, said, rows, ("step",), line_type="feature-drop")


def _regained(client: ClientAccess) -> str:
    does = "reads and writes" if client.reads and client.writes else "reads" if client.reads else "writes"
    return f"{client.name} {client.version or ''}".rstrip() + f": {does} it again"


def _meaning(one: ShownProperty) -> str | None:
    if not one.is_valid:
        return f"not valid: expected {one.expected}"
    return "not recognized by any known engine" if one.is_known is False else one.meaning


def _style(one: ShownProperty) -> Style:
    return Style.PLAIN if one.is_valid and one.is_known is not False else Style.PROBLEM


def _change_sections(table: str, content: JsonObject, *, is_done: bool) -> list[Section]:
    changes = content["changes"]
    if not changes:
        said = "none of the keys is set" if content.get("cautions") else "already set"
        return [Section("nothing to do", [f"{table}, version {content['version']}: {said}"])]
    before, after = content["protocolBefore"], content["protocolAfter"]
    now, committed = _protocol_line(after), content["committedVersion"]
    version = f"{committed}, committed" if is_done else f"{content['version'] + 1}, unless another writer commits first"
    backlog, versions = content.get("rowIds"), content.get("committedVersions") or ()
    if len(versions) > 1:
        version = f"{format_ranges(versions)}, committed"
    elif backlog and not is_done:
        version = f"several from {content['version'] + 1} on"
    who = {label: content[label] for label in ("readers", "writers") if label in content}
    if len(who) == 2 and who["readers"] == who["writers"]:
        who = {"clients": who["readers"]}
    return [
        Section("table", [table]),
        Section("version", [version]),
        Section("changed" if is_done else "would change", [_sentence_of(change) for change in changes]),
        *([Section("row ids", _of_backlog(backlog))] if backlog else []),
        Section("protocol", [now if before == after else f"{_protocol_line(before)} -> {now}"]),
        *[Section(label, [text]) for label, text in who.items()],
    ]


def _of_backlog(backlog: JsonObject) -> list[str]:
    files = f"{plural(backlog['files'], 'file')} without, which get them in {plural(backlog['commits'], 'commit')}"
    counted = f"{plural(backlog['uncounted'], 'footer')} read, because the log does not have their number of rows"
    return [files, counted] if backlog["uncounted"] else [files]


def _sentence_of(change: JsonObject) -> str:
    if "feature" in change:
        return (
            f"{change['feature']}, which {change['neededBy']} needs" if "neededBy" in change else str(change["feature"])
        )
    before = change.get("before", "(not set)")
    return f"{change['key']}: {before} -> {change.get('after', '(not set)')}"


def _protocol_line(action: JsonObject) -> str:
    versions = f"reader {action['minReaderVersion']}, writer {action['minWriterVersion']}"
    named = sorted({*(action.get("readerFeatures") or ()), *(action.get("writerFeatures") or ())})
    return f"{versions} with {', '.join(named)}" if named else versions


# -- `deltacli properties TABLE` and `deltacli features TABLE` ---------------------------------------------------------


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
    added_keys = parse_commit_metadata(commit_metadata or [])
    edits = _edits(change, items or [], force=force, upgrade_protocol=upgrade_protocol, commit_metadata=added_keys)
    streams = _read_streams(run, opened, checkpoints)
    _change(run, table, opened, change, edits, Mode(dry_run, yes), streams)


def _read_streams(run: CommandContext, table: Table, checkpoints: Sequence[str] | None) -> StreamsReport | None:
    """Return the queries of checkpoint directories, after a note on each that cannot continue; None without any."""
    if not checkpoints:
        return None
    from deltacli.cli.running.stream_notes import note_streams

    return note_streams(run, table, checkpoints)


def _show_properties(run: CommandContext, spelling: str, table: Table, keys: Sequence[str] | None) -> None:
    from deltacli.operations.change.properties_and_features import show_properties
    from deltacli.operations.read.snapshot import knows_protocol

    snapshot = table.snapshot()
    found = show_properties(snapshot)
    is_told = knows_protocol(snapshot)
    if keys is not None:
        if not is_told and {*keys} - {one.key for one in found}:
            raise _not_told("these properties", spelling)
        found = _chosen(run, found, keys)
    run.write(properties_result(table.uri, snapshot.version, found))
    note_catalog(run, snapshot)
    if not is_told and keys is None:
        run.note("note: other properties are unknown: the sharing server answers in the parquet format")
    is_sound = all(one.is_valid and one.is_known is not False for one in found)
    if is_told or not is_sound:
        run.say_next(f"deltacli {'features' if is_sound else 'validate'} {quote_table(spelling)}")


def _not_told(what: str, spelling: str) -> UsageError:
    return UsageError(
        f"the sharing server answers in the parquet format, which does not have {what} of the table",
        code="share.read-only",
        hint=f"deltacli snapshot {quote_table(spelling)}",
    )


def _change(
    run: CommandContext,
    spelling: str,
    table: Table,
    change: PropertyChange,
    edits: PropertyEdits,
    mode: Mode,
    streams: StreamsReport | None,
) -> None:
    from deltacli.operations.change.properties_and_features import PropertiesChange

    def question(planned: PropertiesOutcome) -> str:
        count = len(planned.plan.changes)
        return f"{change} {count} {'property' if count == 1 else 'properties'} of {planned.table}"

    def notes(planned: PropertiesOutcome) -> Iterable[str]:
        if planned.refused is not None:
            return
        yield from planned.plan.cautions
        if streams is not None and not planned.is_noop:
            from deltacli.cli.running.stream_notes import stopped_streams

            protocol = None if planned.features is None else planned.features.protocol_after
            yield from stopped_streams(streams, metadata=planned.plan.metadata, protocol=protocol)

    run_change(run, table, PropertiesChange(edits), replace(_wording(spelling, question), notes=notes), mode)


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


def _edits(
    change: PropertyChange, items: list[str], *, force: bool, upgrade_protocol: bool, commit_metadata: Mapping[str, str]
) -> PropertyEdits:
    from deltacli.delta.protocol.property_changes import pairs_of
    from deltacli.operations.change.properties_and_features import PropertyEdits

    if not items:
        raise _without_key(change)
    if change is PropertyChange.UNSET:
        if force:
            raise UsageError("--force requires set; unset accepts any existing key")
        if upgrade_protocol:
            raise UsageError("--upgrade-protocol requires set")
        return PropertyEdits(drop=tuple(items), commit_metadata=commit_metadata)
    if any("=" not in item for item in items):
        raise _without_value(items)
    return PropertyEdits(
        put=pairs_of(items), force=force, commit_metadata=commit_metadata, upgrade_protocol=upgrade_protocol
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


def _wording(spelling: str, question: Callable[[Settings], str]) -> Wording[Settings, Settings]:
    """Return how a change of settings is told; `spelling` is the table as the user wrote it."""
    history = f"deltacli history {quote_table(spelling)} --limit 1"
    return Wording(
        question=question,
        planned=lambda planned, _: change_result(planned, is_done=False),
        done=lambda made: change_result(made, is_done=True),
        following=lambda made: None if made.committed_version is None else history,
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
    protection = ProtectionRequest(
        protect_streams=tuple(protect_streams or ()),
        ignore_streams_older_ms=ignore_streams_older_ms,
        allow_stream_loss=tuple(allow_stream_loss or ()),
    )
    opened = run.open_table(table, writes=change is not None and not dry_run)
    if change is None:
        if dry_run or yes or commit_metadata or checkpoints:
            raise UsageError("--commit-metadata, --checkpoints, --dry-run and --yes require add or drop")
        _require_drop(protection)
        _show_features(run, table, opened)
        return
    added_keys = parse_commit_metadata(commit_metadata or [])
    if not names or (change is FeatureChange.DROP and len(names) > 1):
        what = "one feature is dropped at a time" if names else "missing argument FEATURE"
        raise UsageError(f"{change}: {what}", hint="deltacli features --help")
    if change is FeatureChange.DROP:
        from deltacli.operations.change.drop_feature import DropFeature

        dropping = DropFeature(names[0], truncate_history, added_keys, protection)
        _drop(run, table, opened, dropping, Mode(dry_run, yes), _read_streams(run, opened, checkpoints))
        return
    _require_drop(protection)
    if truncate_history:
        raise UsageError("--truncate-history requires drop")
    from deltacli.operations.change.properties_and_features import FeaturesAddition

    addition = FeaturesAddition(names, added_keys)
    _add(run, table, opened, addition, Mode(dry_run, yes), _read_streams(run, opened, checkpoints))


def _require_drop(protection: ProtectionRequest) -> None:
    if protection.options:
        option = parameter(f"features drop.{next(iter(protection.options))}")
        raise UsageError(f"{option} requires drop with --truncate-history")


def _show_features(run: CommandContext, spelling: str, opened: Table) -> None:
    from deltacli.operations.change.properties_and_features import list_features
    from deltacli.operations.read.snapshot import knows_protocol

    snapshot = opened.snapshot()
    if not knows_protocol(snapshot):
        raise _not_told("the protocol", spelling)
    run.write(features_result(opened.uri, snapshot.version, snapshot.protocol, list_features(snapshot)))
    note_catalog(run, snapshot)
    if not is_shared(spelling):
        run.say_next(f"deltacli explain {quote_table(spelling)}")


def _add(
    run: CommandContext,
    spelling: str,
    table: Table,
    change: FeaturesAddition,
    mode: Mode,
    streams: StreamsReport | None,
) -> None:
    def question(planned: FeaturesOutcome) -> str:
        listed = ", ".join(one.name for one in planned.plan.added)
        return f"add {listed} to the protocol of {planned.table} permanently"

    def stopped(planned: FeaturesOutcome) -> Iterable[str]:
        if streams is None or planned.is_noop or planned.refused is not None:
            return ()
        from deltacli.cli.running.stream_notes import stopped_streams

        return stopped_streams(streams, metadata=None, protocol=planned.plan.protocol_after)

    run_change(run, table, change, replace(_wording(spelling, question), notes=stopped), mode)


def _drop(
    run: CommandContext, spelling: str, table: Table, change: DropFeature, mode: Mode, streams: StreamsReport | None
) -> None:

    def question(planned: FeatureDrop) -> str:
        return f"drop the feature {planned.name} of {planned.table.uri}: {'; '.join(planned.steps)}"

    def stopped(planned: FeatureDrop) -> Iterable[str]:
        if streams is None:
            return
        from deltacli.cli.running.stream_notes import cut_off_streams, stopped_streams
        from deltacli.operations.change.drop_feature import find_changed_metadata, find_first_version_left

        first_left = find_first_version_left(planned)
        if first_left is not None:
            yield from cut_off_streams(streams, first_left)
        metadata = find_changed_metadata(planned)
        yield from stopped_streams(streams, metadata=metadata, protocol=dict(planned.protocol_after))

    wording: Wording[FeatureDrop, FeatureDrop] = Wording(
        notes=stopped,
        question=question,
        planned=lambda planned, _: drop_result(planned),
        done=drop_result,
        following=lambda _: f"deltacli history {quote_table(spelling)} --limit 10",
    )
    run_change(run, table, change, wording, mode)
