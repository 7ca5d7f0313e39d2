"""Errors of `validate` that stop a change, because executing it would destroy data or the evidence of the error.

A rewrite that trusts a broken schema commits what it misread, and afterwards nobody can see that anything was wrong. So
the rules of `validate` are run before a commit. `BLOCKING_RULES` says which rules stop which kinds of changes.

The version that the change would leave is judged, not the one that it finds: a change that removes an error must not be
stopped by it. Only what a plan has read anyway is judged. The rules about the columns of a single data file stop only
that file, where a task opens it (`work/rewrite/exactness.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.changing.change_kind import ChangeKind
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


class BlockingRules(NamedTuple):
    """Rules whose errors stop some kinds of changes.

    Attributes:
        rules: Patterns of rule ids, separated by blanks, as `validate --select` takes them.
        kinds: The kinds of changes that are stopped.
        only_if_new: Whether an error that the version before has as well stops nothing.
        except_rule: A rule that matches a pattern and stops nothing; None if there is none.
    """

    rules: str
    kinds: ChangeKind
    only_if_new: bool = False
    except_rule: str | None = None

    def is_about(self, rule: str) -> bool:
        """Return True if the errors of a rule stop these changes."""
        if rule == self.except_rule:
            return False
        return any(fnmatchcase(rule, pattern) for pattern in self.rules.split())


BLOCKING_RULES = (
    # After these errors it is not known which column is meant.
    BlockingRules(
        "mapping.id-duplicate mapping.physical-path-duplicate",
        ChangeKind.CHANGE_METADATA | ChangeKind.ADD_FILES | ChangeKind.REUSE_FILES,
    ),
    # With these it is not known what a file contains, or which row ids are free. A rewrite leaves the files with a
    # column of an unknown type alone (`work/rewrite/exactness.py`), and an append is refused for it by itself.
    BlockingRules(
        "metadata.* schema.* mapping.* typewidening.* rowtracking.*",
        ChangeKind.ADD_FILES,
        except_rule="schema.unknown-type",
    ),
    BlockingRules("*", ChangeKind.CHANGE_METADATA, only_if_new=True),
    # A version without columns comes back, as Spark restores it: it has no rows, and the first column that is added
    # ends the error.
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
    """Return True if an error is about the actions of a live file, which a rewrite leaves alone therefore."""
    return rule in _REASONS_FOR_EXCLUSION


def explain_exclusion(rule: str) -> str:
    """Return why a rewrite leaves the files alone that a rule names."""
    return _REASONS_FOR_EXCLUSION[rule]


def require_valid_metadata(kind: ChangeKind, snapshot: Snapshot | None, request: CommitRequest) -> None:
    """Refuse a commit if errors of the metadata that it leaves stop its kind of change.

    Two different questions are asked:

    * A commit that replaces the metadata must not bring new errors. Errors that the present metadata already has do
      not stop it, because the commit may be the repair.
    * A commit that adds data files needs metadata without errors, old ones included: it is not known what the files
      contain otherwise.

    Args:
        kind: What the commit does.
        snapshot: The version that the commit follows; None for the first commit of a table.
        request: The commit.

    Raises:
        Refused: With one refusal per error.
    """
    if snapshot is None:
        assert request.metadata is not None
        version = 0
        metadata = request.metadata
        configuration = configuration_of(metadata, request.protocol or {})
    else:
        version = snapshot.version
        metadata = plain_metadata(snapshot.raw_metadata)
        configuration = snapshot.config
        if request.metadata is not None:
            # Without a schema nothing can be compared. `restore` and `repair` may be about to bring one.
            if not isinstance(metadata.get("schemaString"), str):
                return
            protocol: Action = plain_action(snapshot.raw_protocol)
            previous_configuration = configuration_of(metadata, protocol)
            metadata = request.metadata
            configuration = configuration_of(metadata, request.protocol or protocol)
            new_errors = list(find_new_errors(version, previous_configuration, configuration, kind))
            if new_errors:
                raise Refused.by(new_errors)

    if kind is ChangeKind.ADD_FILES:
        errors = _find_metadata_errors(configuration, metadata, version, kind)
        refusals = [_build_refusal(error) for error in errors if _is_blocking(error, kind, is_new=False)]
        if refusals:
            raise Refused.by(refusals)


def find_new_errors(
    version: int,
    before: TableConfiguration,
    after: TableConfiguration,
    kind: ChangeKind = ChangeKind.CHANGE_METADATA,
) -> Iterator[Refusal]:
    """Yield the errors of new metadata that stop a change.

    Args:
        version: The version that the change follows.
        before: Protocol and metadata of that version.
        after: Protocol and metadata that the change would leave.
        kind: What the change does.
    """
    memory = dict[str, Any]()  # Any: each check keeps its own data, by name
    metadata_before = before.raw_metadata or {}
    metadata_after = after.raw_metadata or {}
    errors_before = _find_metadata_errors(before, metadata_before, version, kind, memory=memory)
    known = {(error.rule.id, error.message) for error in errors_before}

    located_before = _locate_configuration(before, version)
    errors = list(
        _find_metadata_errors(after, metadata_after, version + 1, kind, previous=located_before, memory=memory)
    )
    if known:
        # With the memory of the version before, checks do not report again what that has as well. Some of these errors
        # stop the change nevertheless, so all of them are asked for once more without it.
        errors += _find_metadata_errors(after, metadata_after, version + 1, kind)
    for error in dict.fromkeys(errors):
        is_new = (error.rule.id, error.message) not in known
        if _is_blocking(error, kind, is_new=is_new):
            yield Refusal(error.rule.id, f"the table would break a rule: {error.message}", "")


def _is_blocking(error: Finding, kind: ChangeKind, *, is_new: bool) -> bool:
    for blocking in BLOCKING_RULES:
        is_relevant = is_new or not blocking.only_if_new
        if kind & blocking.kinds and is_relevant and blocking.is_about(error.rule.id):
            return True
    return False


def _build_refusal(error: Finding) -> Refusal:
    rule = error.rule.id
    return Refusal(rule, f"the table breaks a rule: {error.message}", str(command("validate", select=[rule])))


def _find_metadata_errors(
    configuration: TableConfiguration,
    metadata: Mapping[str, Any],
    version: int,
    kind: ChangeKind,
    *,
    previous: TableConfiguration | None = None,
    memory: dict[str, Any] | None = None,
) -> Iterator[Finding]:
    """Yield what `validate` calls an error of a protocol and a metadata, as far as it may stop a kind of change.

    Args:
        configuration: The protocol and the metadata.
        metadata: The metadata as in the log.
        version: The version that has them.
        kind: What the change does. Changes that add files need only some modules of rules.
        previous: Those of the version before, for rules that compare; None if there is nothing to compare with.
        memory: What the checks have noted about the version before. They add to it.
    """
    # The rules take long to import, and only changes need them here.
    from deltacli.rules.framework.base import CATALOGUE, RULES_OF_ADD, Severity
    from deltacli.rules.framework.views import MetadataView, TableConfigurationView

    memory = {} if memory is None else memory
    commit_place = _locate_commit(version)
    located = _locate_configuration(configuration, version)
    modules = RULES_OF_ADD if kind is ChangeKind.ADD_FILES else None
    views = (
        MetadataView(commit_place, version, dict(metadata), located, previous, None, memory),
        TableConfigurationView(commit_place, version, located, memory),
    )
    for view in views:
        for check in CATALOGUE.checks_of(type(view), modules):
            for finding in check.run(view):
                if finding.severity is Severity.ERROR:
                    yield finding


def _locate_configuration(configuration: TableConfiguration, version: int) -> TableConfiguration:
    """Return a configuration that states the commit of a version as its place, for the messages of rules."""
    return replace(
        configuration,
        metadata_place=_locate_commit(version),
        metadata_version=version,
        protocol_version=version,
    )


def _locate_commit(version: int) -> Place:
    return Place(f"{LOG_DIRECTORY}/{commit_name(version)}", None, version)


ROW_ID_FIELDS = ("path", "stats", "baseRowId", "defaultRowCommitVersion")
"""The fields of adds that `select_row_id_columns` reads."""


def select_row_id_columns(adds: RecordBatch) -> RecordBatch:
    """Return the columns of `StateView.live` that the rules about row ids look at.

    Args:
        adds: Adds with the fields `ROW_ID_FIELDS`.
    """
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


def find_row_id_errors(snapshot: Snapshot, live: pa.Table | None = None) -> Sequence[Refusal]:
    """Return the errors of the row ids of live files: new ids could be assigned twice.

    Args:
        snapshot: The version. Without row tracking it has no such errors.
        live: All live files in the columns of `select_row_id_columns`; None to read them.
    """
    if FEATURE not in snapshot.config.features:
        return ()
    if live is None:
        batches = list(snapshot.file_actions.map_actions("add", select_row_id_columns, fields=ROW_ID_FIELDS))
        if not batches:
            return ()
        live = pa.Table.from_batches(batches)
    # As above: the rules take long to import.
    from deltacli.rules.actions.row_tracking import AREA
    from deltacli.rules.framework.views import StateView

    domains = {domain.domain: domain.configuration for domain in snapshot.domains if domain.domain == DOMAIN}
    view = StateView(snapshot.version, snapshot.config, {}, domains, live, 0)
    checks = [check for check in AREA.checks if check.view is StateView]
    return [_build_refusal(error) for check in checks for error in check.run(view)]
