"""`deltacli properties TABLE` and `deltacli features TABLE`, which change settings in commits of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, TypeVar

from deltacli.cli.changing import Mode, Wording, run_change
from deltacli.cli.invocation import invocation
from deltacli.cli.options.common_options import CommitMetadataOption, DryRunOption, TableArgument, YesOption, argument
from deltacli.cli.options.run import Run
from deltacli.cli.terminal.shell import again, again_with_flags, quoted_table
from deltacli.core.errors import UsageError
from deltacli.core.request_fields import Option

if TYPE_CHECKING:
    from deltacli.api.table import Table
    from deltacli.operations.change.drop_feature import DropFeature, FeatureDrop
    from deltacli.operations.change.table_features import FeaturesAddition, FeaturesOutcome
    from deltacli.operations.change.table_properties import PropertiesOutcome, PropertyEdits, ShownProperty

EXIT_CODES = {
    "properties": (0, 2, 3, 4, 6, 7, 8, 70),
    "features": (0, 2, 3, 4, 5, 6, 7, 8, 70),
}
RUNS_ON_CLUSTER = {"features": True}

Settings = TypeVar("Settings", "FeaturesOutcome", "PropertiesOutcome")


class PropertyChange(StrEnum):
    GET = "get"
    SET = "set"
    UNSET = "unset"


def properties(
    run: Run,
    table: TableArgument,
    change: Annotated[
        PropertyChange | None, argument("Action; without it all properties are shown.", "[get|set|unset]")
    ] = None,
    items: Annotated[list[str] | None, argument("Properties to set, keys to get or to unset.", "[K=V|K]...")] = None,
    force: Annotated[bool, Option("Also set delta. keys that no known engine recognizes.")] = False,
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

    writes = change in (PropertyChange.SET, PropertyChange.UNSET)
    opened = run.open_table(table, writes=writes and not dry_run)
    if change is None or change is PropertyChange.GET:
        if force or dry_run or yes or commit_metadata:
            raise UsageError("--force, --commit-metadata, --dry-run and --yes require set or unset")
        if change is not None and not items:
            raise _without_key(change)
        _show_properties(run, table, opened, None if change is None else items or [])
        return
    edits = _edits(change, items or [], force=force, commit_metadata=parse_commit_metadata(commit_metadata or []))
    _change(run, table, opened, change, edits, Mode(dry_run, yes))


def _show_properties(run: Run, spelling: str, table: Table, keys: Sequence[str] | None) -> None:
    """Write the properties with these keys, or all."""
    from deltacli.cli.render.properties_and_features import properties_result
    from deltacli.operations.change.table_properties import show_properties

    snapshot = table.snapshot()
    found = show_properties(snapshot)
    if keys is not None:
        found = _chosen(run, found, keys)
    run.write(properties_result(table.uri, snapshot.version, found))
    is_sound = all(one.is_valid and one.is_known is not False for one in found)
    run.say_next(f"deltacli {'features' if is_sound else 'validate'} {quoted_table(spelling)}")


def _change(run: Run, spelling: str, table: Table, change: PropertyChange, edits: PropertyEdits, mode: Mode) -> None:
    from deltacli.operations.change.table_properties import PropertiesChange

    def question(planned: PropertiesOutcome) -> str:
        count = len(planned.plan.changes)
        return f"{change} {count} {'property' if count == 1 else 'properties'} of {planned.table}"

    def notes(planned: PropertiesOutcome) -> Sequence[str]:
        return planned.plan.cautions if planned.refused is None else ()

    run_change(run, table, PropertiesChange(edits), replace(_wording(spelling, question), notes=notes), mode)


def _without_key(change: PropertyChange) -> UsageError:
    what = "KEY=VALUE" if change is PropertyChange.SET else "KEY"
    return UsageError(f"{change}: missing argument {what}", hint=again([*invocation.arguments, what]))


def _chosen(run: Run, properties: Sequence[ShownProperty], keys: Sequence[str]) -> list[ShownProperty]:
    """Return the properties with these keys, and note those that are not set. Raises UsageError for a key that is
    almost that of another property.
    """
    from deltacli.core.hints import nearest_name
    from deltacli.delta.protocol.known_properties import MEANINGS, known_keys

    found, known = {one.key: one for one in properties}, set(known_keys())
    for key in dict.fromkeys(keys):
        if key in found:
            continue
        if key not in known and (near := nearest_name(key, known | set(found), ignores_case=True)):
            words = [near if word == key else word for word in invocation.arguments]
            raise UsageError(f"{key} is not set", hint=again(words)).asking(key, near)
        _, default = MEANINGS.get(key, (None, None))
        run.note(f"note: {key} is not set" + (f"; its default is {default}" if default else ""))
    return [found[key] for key in dict.fromkeys(keys) if key in found]


def _edits(
    change: PropertyChange, items: list[str], *, force: bool, commit_metadata: Mapping[str, str]
) -> PropertyEdits:
    """Return the requested change. Raises UsageError."""
    from deltacli.delta.protocol.property_changes import pairs_of
    from deltacli.operations.change.table_properties import PropertyEdits

    if not items:
        raise _without_key(change)
    if change is PropertyChange.UNSET:
        if force:
            raise UsageError("--force requires set; unset accepts any existing key")
        return PropertyEdits(drop=tuple(items), commit_metadata=commit_metadata)
    if any("=" not in item for item in items):
        raise _without_value(items)
    return PropertyEdits(put=pairs_of(items), force=force, commit_metadata=commit_metadata)


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
        hint=again(words) if "--dry-run" in words else again_with_flags(words, ["--dry-run"]),
    )


def _wording(spelling: str, question: Callable[[Settings], str]) -> Wording[Settings, Settings]:
    """Return how a change of settings is told; `spelling` is the table as the user wrote it."""
    from deltacli.cli.render.properties_and_features import change_result

    history = f"deltacli history {quoted_table(spelling)} --limit 1"
    return Wording(
        question=question,
        planned=lambda planned, _: change_result(planned, is_done=False),
        done=lambda made: change_result(made, is_done=True),
        following=lambda made: None if made.committed_version is None else history,
    )


class FeatureChange(StrEnum):
    ADD = "add"
    DROP = "drop"


FeatureArgument = Annotated[FeatureChange | None, argument("Action; without it the features are shown.", "[add|drop]")]
NamesArgument = Annotated[list[str] | None, argument("Features to add, or one to drop.", "[NAME]...")]
TruncateOption = Annotated[bool, Option("drop: delete the versions that need the feature instead of protecting them.")]


def features(
    run: Run,
    table: TableArgument,
    change: FeatureArgument = None,
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
        _show_features(run, table, opened)
        return
    added_keys = parse_commit_metadata(commit_metadata or [])
    if not names or (change is FeatureChange.DROP and len(names) > 1):
        what = "one feature is dropped at a time" if names else "missing argument FEATURE"
        raise UsageError(f"{change}: {what}", hint="deltacli features --help")
    if change is FeatureChange.DROP:
        from deltacli.operations.change.drop_feature import DropFeature

        _drop(run, table, opened, DropFeature(names[0], truncate_history, added_keys), Mode(dry_run, yes))
        return
    if truncate_history:
        raise UsageError("--truncate-history requires drop")
    from deltacli.operations.change.table_features import FeaturesAddition

    _add(run, table, opened, FeaturesAddition(names, added_keys), Mode(dry_run, yes))


def _show_features(run: Run, spelling: str, opened: Table) -> None:
    from deltacli.cli.render.properties_and_features import features_result
    from deltacli.operations.change.table_features import list_features

    snapshot = opened.snapshot()
    run.write(features_result(opened.uri, snapshot.version, snapshot.protocol, list_features(snapshot)))
    run.say_next(f"deltacli explain {quoted_table(spelling)}")


def _add(run: Run, spelling: str, table: Table, change: FeaturesAddition, mode: Mode) -> None:
    def question(planned: FeaturesOutcome) -> str:
        listed = ", ".join(one.name for one in planned.plan.added)
        return f"add {listed} to the protocol of {planned.table} permanently"

    run_change(run, table, change, _wording(spelling, question), mode)


def _drop(run: Run, spelling: str, table: Table, change: DropFeature, mode: Mode) -> None:
    from deltacli.cli.render.properties_and_features import drop_result

    def question(planned: FeatureDrop) -> str:
        return f"drop the feature {planned.name} of {planned.table.uri}: {'; '.join(planned.steps)}"

    wording: Wording[FeatureDrop, FeatureDrop] = Wording(
        question=question,
        planned=lambda planned, _: drop_result(planned),
        done=drop_result,
        following=lambda _: f"deltacli history {quoted_table(spelling)} --limit 10",
    )
    run_change(run, table, change, wording, mode)
