"""What `validate` calls an error is not trusted by a change of the table: which rules stop what.

Judged is the version that a change would leave: metadata that it replaces stops nothing. Only what a plan has read
anyway is judged. The rules about the columns of a data file stop that file where a task opens it
(`work/rewrite/pieces.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.basis import Act
from deltacli.core.errors import Refusal, Refused, command
from deltacli.core.typing import RecordBatch
from deltacli.delta.log.file_actions import num_records_column
from deltacli.delta.log.row_ids import DOMAIN, FEATURE
from deltacli.delta.log.segment import LOG_DIRECTORY, Place, commit_name
from deltacli.delta.log.state import TableConfiguration, configuration_of, plain_action, plain_metadata
from deltacli.delta.paths.engine_readings import SEVERAL_SPELLINGS

if TYPE_CHECKING:
    from deltacli.delta.log.actions import Action
    from deltacli.delta.log.commit_content import CommitRequest
    from deltacli.rules.framework.base import Finding
    from deltacli.table.version import Snapshot


class Stop(NamedTuple):
    """Rules, as `--select` takes them, and the acts that their errors stop, but for one rule. `only_new`: where the
    version before has the error as well, it stops nothing.
    """

    rules: str
    acts: Act
    only_new: bool = False
    but: str | None = None

    def is_about(self, rule: str) -> bool:
        """Return True if the errors of a rule stop the acts."""
        return rule != self.but and any(fnmatchcase(rule, one) for one in self.rules.split())


STOPS = (
    Stop("mapping.id-duplicate mapping.physical-path-duplicate", Act.COMMIT | Act.ADD | Act.NAME),
    Stop("metadata.* schema.* mapping.* typewidening.* rowtracking.*", Act.ADD, but="schema.unknown-type"),
    Stop("*", Act.COMMIT, only_new=True),
    Stop("*", Act.NAME, only_new=True, but="schema.no-columns"),
)
"""What errors of the metadata and of row ids stop: after the first ones it is not known which column is meant; with
those of the second row it is not known what a file contains, or which ids are free. A rewrite leaves the files with a
column of an unknown type alone (`work/rewrite/pieces.py`), and an append is refused for it by itself. A version without
columns comes back, as Spark restores it: it has no rows, and the first column that is added ends the error.
"""
REMOVED_OTHERWISE, TWICE = "action.remove-dv-mismatch", "action.readd-without-remove"
"""The errors that keep the live files they name out of a rewrite, beside `SEVERAL_SPELLINGS`."""
_REASONS = {
    REMOVED_OTHERWISE: "it was removed with another deletion vector than it has, so that its rows may be there twice",
    TWICE: "it is live with two deletion vectors, so that its rows are there twice",
    SEVERAL_SPELLINGS: "the log spells its path in several ways, so that engines may read its rows twice or not at all",
}


def keeps_file_as_it_is(rule: str) -> bool:
    """Return True if an error is about the actions of a live file, which is therefore not rewritten."""
    return rule in _REASONS


def reason_of(rule: str) -> str:
    """Return why a file that a rule names is left alone."""
    return _REASONS[rule]


def require_trusted(act: Act, snapshot: Snapshot | None, request: CommitRequest) -> None:
    """Raise Refused where errors of the metadata that a request leaves, or begins a table with, stop an act."""
    found, version = list[Refusal](), 0
    if snapshot is not None:
        metadata, config, version = plain_metadata(snapshot.raw_metadata), snapshot.config, snapshot.version
    if request.metadata is not None:
        own: Action = {} if snapshot is None else plain_action(snapshot.raw_protocol)
        before = None
        if snapshot is not None:
            if not isinstance(metadata.get("schemaString"), str):
                return
            before = configuration_of(metadata, own)
        metadata, config = request.metadata, configuration_of(request.metadata, request.protocol or own)
        if before is not None:
            found += broken_rules(version, before, config, act)
    if act is Act.ADD and not found:
        errors = _errors(config, metadata, version, act)
        found += [_refusal(one) for one in errors if _stops(one, act, is_new=False)]
    if found:
        raise Refused.by(found)


def _refusal(finding: Finding) -> Refusal:
    rule = finding.rule.id
    return Refusal(rule, f"the table breaks a rule: {finding.message}", str(command("validate", select=[rule])))


def broken_rules(
    version: int, before: TableConfiguration, after: TableConfiguration, act: Act = Act.COMMIT
) -> Iterator[Refusal]:
    """Yield the errors of new metadata that stop a change of a version."""
    memory: dict[str, Any] = {}  # Any: each check keeps its own data, by name
    was, is_now = before.raw_metadata or {}, after.raw_metadata or {}
    known = {(one.rule.id, one.message) for one in _errors(before, was, version, act, memory=memory)}
    placed = _placed(before, version)
    found = list(_errors(after, is_now, version + 1, act, previous=placed, memory=memory))
    found += _errors(after, is_now, version + 1, act) if known else ()
    for one in dict.fromkeys(found):
        if _stops(one, act, is_new=(one.rule.id, one.message) not in known):
            yield Refusal(one.rule.id, f"the table would break a rule: {one.message}", "")


def _stops(finding: Finding, act: Act, *, is_new: bool) -> bool:
    rule = finding.rule.id
    return any(act & stop.acts and (is_new or not stop.only_new) and stop.is_about(rule) for stop in STOPS)


def _placed(config: TableConfiguration, version: int) -> TableConfiguration:
    return replace(config, metadata_place=_place(version), metadata_version=version, protocol_version=version)


def _place(version: int) -> Place:
    return Place(f"{LOG_DIRECTORY}/{commit_name(version)}", None, version)


def _errors(
    config: TableConfiguration,
    metadata: Mapping[str, Any],
    version: int,
    act: Act,
    *,
    previous: TableConfiguration | None = None,
    memory: dict[str, Any] | None = None,
) -> Iterator[Finding]:
    """Yield what `validate` calls an error of a protocol and a metadata (after others), if it may stop an act."""
    from deltacli.rules.framework.base import CATALOGUE, RULES_OF_ADD, Severity
    from deltacli.rules.framework.views import MetadataView, TableConfigurationView

    memory, place, config = {} if memory is None else memory, _place(version), _placed(config, version)
    for view in (
        MetadataView(place, version, dict(metadata), config, previous, None, memory),
        TableConfigurationView(place, version, config, memory),
    ):
        for check in CATALOGUE.checks_of(type(view), RULES_OF_ADD if act is Act.ADD else None):
            yield from (one for one in check.run(view) if one.severity is Severity.ERROR)


ROW_ID_FIELDS = ("path", "stats", "baseRowId", "defaultRowCommitVersion")
"""The fields of adds that `row_ids_of` reads."""


def row_ids_of(adds: RecordBatch) -> RecordBatch:
    """Return the columns of `StateView.live` that rules about row ids look at."""
    from deltacli.rules.framework.views import OF_CHECKPOINT

    paths = pc.cast(adds.column("path"), pa.string())
    columns = {
        "path": paths,
        "key": paths,
        "num_records": num_records_column(adds.column("stats")),
        "base_row_id": adds.column("baseRowId"),
        "default_row_commit_version": adds.column("defaultRowCommitVersion"),
        "version": pa.repeat(pa.scalar(OF_CHECKPOINT, pa.int64()), adds.num_rows),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def errors_of_row_ids(snapshot: Snapshot, live: pa.Table | None = None) -> Sequence[Refusal]:
    """Return the errors of the row ids of live files, given in the columns of `row_ids_of`, or read."""
    if FEATURE not in snapshot.config.features:
        return ()
    if live is None:
        parts = list(snapshot.file_actions.map_actions("add", row_ids_of, fields=ROW_ID_FIELDS))
        if not parts:
            return ()
        live = pa.Table.from_batches(parts)
    from deltacli.rules.actions.row_tracking import AREA
    from deltacli.rules.framework.views import StateView

    domains = {one.domain: one.configuration for one in snapshot.domains if one.domain == DOMAIN}
    view = StateView(snapshot.version, snapshot.config, {}, domains, live, 0)
    return [_refusal(one) for check in AREA.checks if check.view is StateView for one in check.run(view)]
