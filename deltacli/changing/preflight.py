"""Errors of `validate` that stop a change, because executing it would destroy data or the evidence of the error.

Example: if two columns are mapped to the same physical column, a rewrite reads one of them wrongly and commits what it
read. Afterwards the table is consistent again, and nobody can see that data was lost. Therefore the rules of `validate`
run before a commit, and `BLOCKING_RULES` says which errors stop which kinds of changes.

The rules examine the metadata that the commit would result in, so a change that removes an error is not stopped by that
error. Only data that the plan has read anyway is examined. Errors in the columns of a single data file stop only the
rewrite of that file, when a task opens it (`work/rewrite/exactness.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.change_kind import ChangeKind
from deltacli.core.errors import Refusal, Refused, command
from deltacli.core.typing import RecordBatch
from deltacli.delta.log.file_actions import extract_num_records_column
from deltacli.delta.log.row_ids import DOMAIN, FEATURE
from deltacli.delta.log.segment import LOG_DIRECTORY, Place, commit_name
from deltacli.delta.log.state import TableConfiguration, configuration_of, drop_null_fields, plain_metadata
from deltacli.delta.paths.engine_readings import SEVERAL_SPELLINGS

if TYPE_CHECKING:
    from deltacli.delta.log.actions import Action
    from deltacli.delta.log.commit_content import CommitRequest
    from deltacli.rules.framework.base import Finding
    from deltacli.table.version import Snapshot


class BlockingRules(NamedTuple):
    """Rules of `validate` whose errors stop certain kinds of changes.

    Attributes:
        rules: Patterns of rule ids, separated by spaces, in the syntax of `validate --select`: `schema.* mapping.*`.
        kinds: The kinds of changes that are stopped.
        only_if_new: Whether an error stops the change only if the previous version does not have it.
        except_rule: The id of a rule that never stops these changes although a pattern matches it; None for no
            exception.
    """

    rules: str
    kinds: ChangeKind
    only_if_new: bool = False
    except_rule: str | None = None

    def matches(self, rule: str) -> bool:
        """Return True if errors of the rule with this id stop the changes."""
        if rule == self.except_rule:
            return False
        return any(fnmatchcase(rule, pattern) for pattern in self.rules.split())


BLOCKING_RULES = (
    # Two columns have one id or one physical name, so readers cannot tell which column a file contains.
    BlockingRules(
        "mapping.id-duplicate mapping.physical-path-duplicate",
        ChangeKind.CHANGE_METADATA | ChangeKind.ADD_FILES | ChangeKind.REUSE_FILES,
    ),
    # These errors make it unclear how to read a data file, or which row ids are unassigned. Columns of an unknown type
    # are excepted: a rewrite skips files that have such a column (`work/rewrite/exactness.py`), and an append refuses
    # to write one.
    BlockingRules(
        "metadata.* schema.* mapping.* typewidening.* rowtracking.*",
        ChangeKind.ADD_FILES,
        except_rule="schema.unknown-type",
    ),
    BlockingRules("*", ChangeKind.CHANGE_METADATA, only_if_new=True),
    # Like Spark, `restore` may restore a version without columns. It has no rows, and adding the first column ends the
    # error.
    BlockingRules("*", ChangeKind.REUSE_FILES, only_if_new=True, except_rule="schema.no-columns"),
)

REMOVED_WITH_OTHER_VECTOR = "action.remove-dv-mismatch"
ADDED_TWICE = "action.readd-without-remove"

_REASONS_FOR_EXCLUSION = {
    REMOVED_WITH_OTHER_VECTOR: (
        "it was removed with another deletion vector than it has, so that its rows may be there twice"
    ),
    ADDED_TWICE: "it is live with two deletion vectors, so that its rows are there twice",
    SEVERAL_SPELLINGS: "the log spells its path in several ways, so that engines may read its rows twice or not at all",
}


def is_excluded_from_rewrite(rule: str) -> bool:
    """Return True if a rewrite must skip the live files that violate the rule with this id.

    The add and remove actions of such a file contradict each other, so engines disagree on its rows.
    """
    return rule in _REASONS_FOR_EXCLUSION


def explain_exclusion(rule: str) -> str:
    """Return the reason why a rewrite skips files that violate the rule with this id."""
    return _REASONS_FOR_EXCLUSION[rule]


class _MetadataVersion(NamedTuple):
    """The protocol and the metadata of a version, as they are or as a commit would leave them.

    Attributes:
        version: The number of the version, for messages.
        metadata: The metaData action.
        configuration: Protocol and metadata, parsed.
    """

    version: int
    metadata: Mapping[str, Any]  # Any: a JSON value
    configuration: TableConfiguration

    @property
    def commit_place(self) -> Place:
        """The commit file of the version, as the place that messages of rules refer to."""
        return Place(f"{LOG_DIRECTORY}/{commit_name(self.version)}", None, self.version)

    @property
    def located_configuration(self) -> TableConfiguration:
        """Protocol and metadata, marked as those in the commit file of the version."""
        return replace(
            self.configuration,
            metadata_place=self.commit_place,
            metadata_version=self.version,
            protocol_version=self.version,
        )


def require_valid_metadata(kind: ChangeKind, snapshot: Snapshot | None, request: CommitRequest) -> None:
    """Require that a commit leaves the metadata of the table without errors that stop a change of this kind.

    * A commit that replaces the metadata must not introduce new errors. Errors of the previous version do not stop
      it, because the commit may be the repair.
    * A commit that adds data files requires metadata without any error, because the meaning of the new files would
      be unclear.

    Args:
        kind: The kind of the change.
        snapshot: The version that the commit follows; None for the first commit of a table.
        request: The commit.

    Raises:
        Refused: If errors stop the commit. There is one refusal per error.
    """
    replaces_metadata = snapshot is not None and request.metadata is not None
    if snapshot is not None and replaces_metadata and not _has_schema(snapshot):
        # `restore` and `repair` add a schema to a table without one. There is nothing to compare it with.
        return

    resulting_version = _build_resulting_version(snapshot, request)
    if snapshot is not None and replaces_metadata:
        _require_no_new_errors(kind, snapshot, resulting_version)
    if kind is ChangeKind.ADD_FILES:
        _require_no_errors(kind, resulting_version)


def _has_schema(snapshot: Snapshot) -> bool:
    return isinstance(plain_metadata(snapshot.raw_metadata).get("schemaString"), str)


def _build_resulting_version(snapshot: Snapshot | None, request: CommitRequest) -> _MetadataVersion:
    """Return the protocol and metadata after a commit. Messages refer to the version that the commit follows."""
    if snapshot is None:
        assert request.metadata is not None
        return _MetadataVersion(0, request.metadata, configuration_of(request.metadata, request.protocol or {}))
    if request.metadata is None:
        return _MetadataVersion(snapshot.version, plain_metadata(snapshot.raw_metadata), snapshot.config)
    protocol: Action = request.protocol or drop_null_fields(snapshot.raw_protocol)
    return _MetadataVersion(snapshot.version, request.metadata, configuration_of(request.metadata, protocol))


def _require_no_new_errors(kind: ChangeKind, snapshot: Snapshot, resulting_version: _MetadataVersion) -> None:
    """Require that new metadata has no errors that the previous metadata does not have."""
    previous_metadata = plain_metadata(snapshot.raw_metadata)
    previous_configuration = configuration_of(previous_metadata, drop_null_fields(snapshot.raw_protocol))
    refusals = find_new_errors(snapshot.version, previous_configuration, resulting_version.configuration, kind)
    if refusals:
        raise Refused.from_refusals(refusals)


def _require_no_errors(kind: ChangeKind, version: _MetadataVersion) -> None:
    """Require that metadata has no errors that stop a change of this kind."""
    errors = _MetadataRules(kind).find_errors(version)
    refusals = [_build_refusal(error) for error in errors if _is_blocking(error, kind, is_new=False)]
    if refusals:
        raise Refused.from_refusals(refusals)


def find_new_errors(
    version: int,
    before: TableConfiguration,
    after: TableConfiguration,
    kind: ChangeKind = ChangeKind.CHANGE_METADATA,
) -> list[Refusal]:
    """Find the errors of new metadata that stop a change.

    Args:
        version: The version that the change follows.
        before: Protocol and metadata of that version.
        after: Protocol and metadata that the change would result in.
        kind: The kind of the change.

    Returns:
        One refusal per error.
    """
    version_before = _MetadataVersion(version, before.raw_metadata or {}, before)
    version_after = _MetadataVersion(version + 1, after.raw_metadata or {}, after)

    rules = _MetadataRules(kind)
    errors_before = rules.find_errors(version_before)
    errors = rules.find_errors(version_after, previous=version_before)
    if errors_before:
        # Rules that remember earlier versions do not report an error of `before` again. Some errors stop the change
        # even if they are not new, so `after` is examined once more by rules that remember nothing.
        errors += _MetadataRules(kind).find_errors(version_after)

    known_errors = {(error.rule.id, error.message) for error in errors_before}
    refusals = list[Refusal]()
    for error in dict.fromkeys(errors):
        is_new = (error.rule.id, error.message) not in known_errors
        if _is_blocking(error, kind, is_new=is_new):
            refusals.append(Refusal(error.rule.id, f"the table would break a rule: {error.message}", ""))
    return refusals


def _is_blocking(error: Finding, kind: ChangeKind, *, is_new: bool) -> bool:
    """Return True if an error stops a kind of change.

    Args:
        error: The error.
        kind: The kind of the change.
        is_new: Whether the previous version does not have the error.
    """
    for blocking_rules in BLOCKING_RULES:
        is_relevant = is_new or not blocking_rules.only_if_new
        if kind & blocking_rules.kinds and is_relevant and blocking_rules.matches(error.rule.id):
            return True
    return False


def _build_refusal(error: Finding) -> Refusal:
    rule = error.rule.id
    return Refusal(rule, f"the table breaks a rule: {error.message}", str(command("validate", select=[rule])))


class _MetadataRules:
    """The rules of `validate` about protocol and metadata.

    Some rules compare a version with earlier ones, for example to find a column id that is assigned to a second column.
    They remember the versions that this instance has examined. So call `find_errors` in ascending order of versions,
    and use a new instance to examine a version on its own.
    """

    def __init__(self, kind: ChangeKind) -> None:
        """Select the rules that can stop a kind of change."""
        # Only the rules in `RULES_OF_ADD` can stop new data files. Importing the others would delay each append.
        from deltacli.rules.framework.base import RULES_OF_ADD

        self._modules = RULES_OF_ADD if kind is ChangeKind.ADD_FILES else None
        self._memory: dict[str, Any] = {}  # Any: each rule stores its own data, under its own key

    def find_errors(self, version: _MetadataVersion, *, previous: _MetadataVersion | None = None) -> list[Finding]:
        """Return the errors of a version.

        Args:
            version: The version.
            previous: The version before, for rules about changes of the metadata; None to skip these rules.
        """
        # Importing the rules takes long, and most commands do not need them.
        from deltacli.rules.framework.base import CATALOGUE, Severity
        from deltacli.rules.framework.views import MetadataView, TableConfigurationView

        configuration = version.located_configuration
        metadata_view = MetadataView(
            version.commit_place,
            version.version,
            dict(version.metadata),
            configuration,
            previous=None if previous is None else previous.located_configuration,
            commit=None,
            memory=self._memory,
        )
        configuration_view = TableConfigurationView(version.commit_place, version.version, configuration, self._memory)

        errors: list[Finding] = []
        for view in (metadata_view, configuration_view):
            for check in CATALOGUE.find_checks(type(view), self._modules):
                errors.extend(finding for finding in check.run(view) if finding.severity is Severity.ERROR)
        return errors


ROW_ID_FIELDS = ("path", "stats", "baseRowId", "defaultRowCommitVersion")
"""The fields of add actions that `select_row_id_columns` reads."""


def select_row_id_columns(adds: RecordBatch) -> RecordBatch:
    """Return the columns of `StateView.live` that the rules about row ids read.

    Args:
        adds: Add actions with the fields `ROW_ID_FIELDS`.
    """
    from deltacli.rules.framework.views import OF_CHECKPOINT

    paths = pc.cast(adds.column("path"), pa.string())
    columns = {
        "path": paths,
        "key": paths,
        "num_records": extract_num_records_column(adds.column("stats")),
        "base_row_id": adds.column("baseRowId"),
        "default_row_commit_version": adds.column("defaultRowCommitVersion"),
        "version": pa.repeat(pa.scalar(OF_CHECKPOINT, pa.int64()), adds.num_rows),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def find_row_id_errors(snapshot: Snapshot, live: pa.Table | None = None) -> Sequence[Refusal]:
    """Find errors of the row ids of live files, such as two rows with one id.

    New files would get ids that are assigned already.

    Args:
        snapshot: The version. It has no such errors if row tracking is not supported.
        live: All live files in the columns of `select_row_id_columns`; None to read them.

    Returns:
        One refusal per error.
    """
    if FEATURE not in snapshot.config.features:
        return ()
    if live is None:
        batches = list(snapshot.file_actions.map_actions("add", select_row_id_columns, fields=ROW_ID_FIELDS))
        if not batches:
            return ()
        live = pa.Table.from_batches(batches)

    # Importing the rules takes long, and most commands do not need them.
    from deltacli.rules.actions.row_tracking import AREA
    from deltacli.rules.framework.views import StateView

    domains = {domain.domain: domain.configuration for domain in snapshot.domains if domain.domain == DOMAIN}
    view = StateView(snapshot.version, snapshot.config, {}, domains, live, 0)
    checks = [check for check in AREA.checks if check.view is StateView]
    return [_build_refusal(error) for check in checks for error in check.run(view)]
