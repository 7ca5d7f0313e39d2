"""What commits that a query has not delivered do to it by the columns, properties and protocol that they change.

A query of Delta compares the schema of each such version with that of the newest one, which it has when it starts. It
continues behind columns that were added or widened. After any other change each restart fails, also before the commit,
unless the query has a schema tracking log.

With such a log it delivers everything before a change, and stops once. After a change that is not additive it then
waits for an option that allows the change. Measured with Delta for Spark 4.4.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow.compute as pc

from deltacli.core.errors import DeltacliError
from deltacli.delta.log import state
from deltacli.delta.log.actions import Action
from deltacli.delta.schema.column_differences import (
    ColumnChange,
    ColumnDifference,
    find_breaking_differences,
    find_differences,
)
from deltacli.delta.streams import Position, SchemaEntry, SourceKind
from deltacli.operations.read.changes import CommitSummary
from deltacli.operations.streams.checkpoints import Finding, Verdict
from deltacli.operations.streams.needs import StreamCommit, TableHistory

STOPS_ONCE = "it stops once, and goes on after a restart"
_RENAME, _DROP, _RETYPE = "allowSourceColumnRename", "allowSourceColumnDrop", "allowSourceColumnTypeChange"
_ALLOWING_OPTIONS: Mapping[ColumnChange, Sequence[str]] = {
    ColumnChange.RENAMED: [_RENAME],
    ColumnChange.DROPPED: [_DROP],
    ColumnChange.WIDENED: [_RETYPE],
    ColumnChange.REPARTITIONED: [],
    ColumnChange.UNMAPPED: [_RENAME, _DROP, _RETYPE],
}
"""The options that let a query with a schema tracking log pass a change, by the change. None help with others."""
_STARTS_OVER = "each restart fails. Start over with a new checkpoint"
_CHANGES_TRACKED = "changes the schema, a property or the protocol"


class _SchemaStep(NamedTuple):
    """A commit with a metadata or a protocol, and the configurations around it; None where one is unknown."""

    version: int
    before: state.TableConfiguration | None
    after: state.TableConfiguration | None


def find_schema_stops(history: TableHistory, position: Position, log: SchemaEntry | None) -> Iterator[Finding]:
    """Yield how commits ahead stop a source by what they change besides files.

    Args:
        history: The table, with all commits from the position on.
        position: Where the source starts.
        log: The newest entry of its schema tracking log; None without a log.
    """
    steps = list(_schema_steps(history, first_undelivered(position)))
    if not steps:
        return
    if log is not None:
        yield from _find_tracked_stops(_merge_consecutive(steps, history), log)
    elif position.kind is SourceKind.DELTA:
        yield from _find_untracked_stop(steps, history.snapshot.config)
    else:
        yield from _find_stop_of_own_source(steps)


def first_undelivered(position: Position) -> int:
    """Return the first version whose commit can still stop a source: one that is partly delivered did not stop it."""
    return position.version + (position.in_snapshot or position.delivered > 0)


def describe_stop(
    before: state.TableConfiguration,
    *,
    metadata: Action | None,
    protocol: Action | None,
    version: int,
    is_tracked: bool,
    kind: SourceKind = SourceKind.DELTA,
) -> str | None:
    """Return how a commit that somebody is about to make stops a source, or None if the source continues.

    Args:
        before: The configuration that the commit changes.
        metadata: The metadata action of the commit, if it has one.
        protocol: The protocol action of the commit, if it has one.
        version: The version of the commit.
        is_tracked: Whether the source has a schema tracking log.
        kind: What reads the table.
    """
    after = _config_after(before, StreamCommit(version, metadata, protocol))
    if is_tracked:
        what = _describe_tracked_change(before, after)
        return None if what is None else f"the commit {what.text}"
    if after is None:
        return None
    is_own = kind is SourceKind.DELTACLI
    breaking = [] if is_own else find_breaking_differences(before, after)
    if breaking:
        return f"{breaking[0].text}: it stops, and {_describe_end(breaking)}"
    difference = next(find_differences(before, after), None)
    if difference is None:
        return None
    return f"{difference.text}: if it is running, {STOPS_ONCE}"


def _schema_steps(history: TableHistory, first: int) -> Iterator[_SchemaStep]:
    """Yield the commits from a version on that have a metadata or a protocol, in order."""
    after: state.TableConfiguration | None = None
    for version, commit in sorted(history.commits.items()):
        if version < first or (commit.metadata is None and commit.protocol is None):
            continue
        before = history.config_at(version - 1) if after is None else after
        after = None if before is None else _config_after(before, commit)
        yield _SchemaStep(version, before, after)


def _config_after(before: state.TableConfiguration, commit: StreamCommit) -> state.TableConfiguration | None:
    """Return the configuration after a commit; None if it cannot be read."""
    summary = CommitSummary(protocol=commit.protocol, metadata=commit.metadata)
    try:
        return summary.config_after(before, commit.version, f"version {commit.version}")
    except DeltacliError:
        return None


# -- without a schema tracking log -------------------------------------------------------------------------------------


def _find_untracked_stop(steps: Iterable[_SchemaStep], newest: state.TableConfiguration) -> Iterator[Finding]:
    """Yield the first commit after which no restart succeeds.

    A restart has the columns of the newest version, so each version ahead is compared with that. A column that was
    renamed and then renamed back breaks the query, too: the version in between has another name.
    """
    steps = [step for step in steps if step.before is not None and step.after is not None]
    versions = [config for step in steps for config in (step.before, step.after) if config is not None]
    breaking = [difference for config in versions for difference in find_breaking_differences(config, newest)]
    if not breaking:
        return
    for step in steps:
        assert step.before is not None
        assert step.after is not None
        of_commit = find_breaking_differences(step.before, step.after)
        if of_commit:
            ending = _describe_end([*of_commit, *breaking])
            yield Finding(Verdict.DEAD, f"commit {step.version}: {of_commit[0].text}: {ending}")
            return
    yield Finding(Verdict.DEAD, f"{breaking[0].text}: {_describe_end(breaking)}")


def _describe_end(breaking: Iterable[ColumnDifference]) -> str:
    """Return how a query without a schema tracking log ends, and with which options it can continue."""
    changes = [difference.change for difference in breaking]
    if not _ALLOWING_OPTIONS.keys() >= set(changes):
        return _STARTS_OVER
    return f"each restart fails without {' and '.join(['schemaTrackingLocation', *_options_that_allow(changes)])}"


def _options_that_allow(changes: Iterable[ColumnChange]) -> list[str]:
    """Return the options with their values that let a query with a schema tracking log pass changes, each once."""
    names = [name for change in changes for name in _ALLOWING_OPTIONS.get(change, ())]
    return [f"{name}=always" for name in dict.fromkeys(names)]


def _find_stop_of_own_source(steps: Iterable[_SchemaStep]) -> Iterator[Finding]:
    """Yield the first commit that may stop deltacli's own source after a restart, too."""
    for step in steps:
        if step.before is None or step.after is None:
            continue
        breaking = find_breaking_differences(step.before, step.after)
        if breaking:
            yield Finding(Verdict.AT_RISK, f"commit {step.version}: {breaking[0].text}: it stops there")
            return


# -- with a schema tracking log ----------------------------------------------------------------------------------------


class _TrackedStop(NamedTuple):
    """What a change does to a query with a schema tracking log.

    Attributes:
        text: The change and its effect, in words.
        is_final: Whether each restart fails until the query is started with other options, or over.
    """

    text: str
    is_final: bool


def _merge_consecutive(steps: Iterable[_SchemaStep], history: TableHistory) -> Iterator[_SchemaStep]:
    """Yield steps in which consecutive commits without files are one, as Delta follows them.

    A column that is added and dropped again in the next commit is no change for the query.
    """
    with_files = set(pc.unique(history.events["version"]).to_pylist())
    merged: _SchemaStep | None = None
    newest_merged = -1
    for step in steps:
        if (
            merged is not None
            and step.version == newest_merged + 1
            and with_files.isdisjoint((newest_merged, step.version))
        ):
            merged = merged._replace(after=step.after)
        else:
            if merged is not None:
                yield merged
            merged = step
        newest_merged = step.version
    if merged is not None:
        yield merged


def _find_tracked_stops(steps: Iterable[_SchemaStep], log: SchemaEntry) -> Iterator[Finding]:
    """Yield the first commit that stops a tracked query once, and the first one that stops it for good.

    The log has an entry for a commit at which the query has stopped already. Such a commit does not stop it again.
    """
    stops_once = False
    for step in steps:
        stop = _describe_tracked_change(step.before, step.after)
        if stop is None:
            continue
        if stop.is_final:
            yield Finding(Verdict.DEAD, f"commit {step.version} {stop.text}")
            return
        if not stops_once and step.version > log.version:
            stops_once = True
            yield Finding(Verdict.AT_RISK, f"commit {step.version} {stop.text}")


def _describe_tracked_change(
    before: state.TableConfiguration | None, after: state.TableConfiguration | None
) -> _TrackedStop | None:
    """Return what a change does to a query with a schema tracking log; None if it continues."""
    if before is not None and after is not None:
        if not _is_tracked(before, after):
            return None
        blocking = _find_blocking_differences(before, after)
        if blocking:
            what = f"{_CHANGES_TRACKED}: {blocking[0].text}"
            changes = [difference.change for difference in blocking]
            if ColumnChange.RETYPED in changes:
                return _TrackedStop(f"{what}: {_STARTS_OVER}", is_final=True)
            options = " and ".join(_options_that_allow(changes))
            return _TrackedStop(f"{what}: each restart fails until it has {options}", is_final=True)
    return _TrackedStop(f"{_CHANGES_TRACKED}: {STOPS_ONCE}", is_final=False)


def _find_blocking_differences(
    before: state.TableConfiguration, after: state.TableConfiguration
) -> list[ColumnDifference]:
    """Return the differences that a query with a schema tracking log does not pass without further options."""
    breaking = find_breaking_differences(before, after)
    if any(difference.change is ColumnChange.UNMAPPED for difference in breaking):
        return breaking
    passed = (ColumnChange.ADDED, ColumnChange.REPARTITIONED)
    return [difference for difference in find_differences(before, after) if difference.change not in passed]


def _is_tracked(before: state.TableConfiguration, after: state.TableConfiguration) -> bool:
    """Return whether a schema tracking log follows the difference of two configurations.

    It follows the schema with the comments of columns, the partition columns, the protocol, and properties of Delta.
    It does not follow the name and the description of the table, or properties of users.
    """
    if before.protocol is None or after.protocol is None or before.metadata is None or after.metadata is None:
        return True
    followed = [
        config.metadata._replace(
            id="", name=None, description=None, created_time=None, configuration=_properties_of_delta(config)
        )
        for config in (before, after)
        if config.metadata is not None
    ]
    return bool(
        state.find_metadata_differences(followed[0], followed[1])
        or state.find_protocol_differences(before.protocol, after.protocol)
    )


def _properties_of_delta(config: state.TableConfiguration) -> dict[str, str]:
    return {name: value for name, value in config.properties.items() if name.startswith("delta.")}
