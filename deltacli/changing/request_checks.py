"""Checks of a commit request against the previous version: protocol, catalog, Unicode, row ids and timestamps."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import orjson

from deltacli.changing.change_kind import ChangeKind
from deltacli.core import errors
from deltacli.core.texts import build_text_error
from deltacli.delta.log.commit_content import (
    CommitRequest,
    PreviousVersion,
    build_next_version,
    build_version_before_first,
    needs_in_commit_timestamp,
    require_supported_request,
)
from deltacli.delta.log.row_ids import DOMAIN, read_mark
from deltacli.delta.log.segment import LOG_DIRECTORY, TimestampSource, commit_name
from deltacli.delta.schema.finite_numbers import require_finite_numbers
from deltacli.storage.optional_interfaces import require_writable
from deltacli.table.handle import managed_store

if TYPE_CHECKING:
    from deltacli.storage import ReadStorage
    from deltacli.table.version import Snapshot


def require_committable_request(snapshot: Snapshot, request: CommitRequest) -> None:
    """Require that a request could be committed after a version, without committing it.

    Plans call this, so that a dry run is refused for the same reasons as the change itself. The metadata is not
    checked for errors, see `require_committable_change`.

    Args:
        snapshot: The version.
        request: The commit that the planned change would create.

    Raises:
        NoAtomicCreate: If the store is read-only.
        Refused: If the protocol or the catalog forbids the commit.
    """
    require_writable(snapshot.table.storage)
    require_allowed_request(snapshot.table.storage, request, describe_version(snapshot, request))


def require_committable_change(
    snapshot: Snapshot, request: CommitRequest, kind: ChangeKind = ChangeKind.CHANGE_METADATA
) -> None:
    """Require that a request could be committed, and that no error of the metadata stops the change.

    Args:
        snapshot: The version.
        request: The commit that the planned change would create.
        kind: The kind of the change. It decides which errors of the metadata stop it (`preflight.py`).

    Raises:
        NoAtomicCreate: If the store is read-only.
        Refused: If the protocol or the catalog forbids the commit, or errors of the metadata stop the change.
    """
    # Imports pyarrow and the rules of `validate`. Not all changes need them.
    from deltacli.changing.preflight import require_valid_metadata

    require_committable_request(snapshot, request)
    require_valid_metadata(kind, snapshot, request)


def require_allowed_request(storage: ReadStorage, request: CommitRequest, previous_version: PreviousVersion) -> None:
    """Require that the table allows a commit, and that the commit can be encoded as JSON.

    Args:
        storage: The store of the table. If a catalog manages the table, it is a `ManagedStore`, which knows the rules
            of the catalog.
        request: The commit.
        previous_version: The version that the commit would follow.

    Raises:
        Refused: If the protocol or the catalog forbids the commit, or if the schema contains NaN or Infinity.
        UsageError: If a text contains half a surrogate pair, which has no UTF-8 encoding.
    """
    # A copy gets its own table id by a commit that repeats the schema of the source, even if it contains NaN.
    if not request.assigns_table_id:
        require_finite_numbers(request.metadata)

    managed = managed_store(storage)
    require_supported_request(request, previous_version, by_catalog=managed is not None)
    if managed is not None:
        managed.require_accepted_by_catalog(request, previous_version)

    new_texts = {
        "metaData": request.metadata,
        "operation": request.operation_parameters,
        "tags": request.tags,
        "txn": request.transactions,
        "domainMetadata": request.domains,
    }
    require_encodable_text(new_texts, previous_version.metadata.as_json())


def describe_version(
    snapshot: Snapshot | None, request: CommitRequest, *, later_version: PreviousVersion | None = None
) -> PreviousVersion:
    """Return the properties of a version that the next commit depends on.

    Args:
        snapshot: The version; None if the request creates version 0.
        request: The next commit. The commit time and the high-water mark of row ids are determined only if the request
            needs them.
        later_version: The version that an earlier commit of the same run created after the snapshot. The request
            follows this version, once the row ids of the snapshot were checked.

    Raises:
        Refused: If the request needs a commit time or a high-water mark that is unknown. Otherwise its in-commit
            timestamp could be earlier than the previous one, or row ids could be assigned twice.
    """
    if snapshot is None:
        return build_version_before_first(request)
    version = PreviousVersion(snapshot.version, snapshot.protocol, snapshot.metadata)
    version = _add_row_id_mark(version, snapshot, request)
    if later_version is not None:
        return later_version
    if not needs_in_commit_timestamp(request, version):
        return version

    # In a table with in-commit timestamps, the file times of commits need not be in order, so they are no substitute.
    commit_time = snapshot.time
    if commit_time is None or (
        version.has_in_commit_timestamps and commit_time.source is not TimestampSource.IN_COMMIT
    ):
        raise errors.Refused(
            f"version {snapshot.version} has no in-commit timestamp to base that of the next version on",
            code="ict.missing",
            facts={"looked at": f"{LOG_DIRECTORY}/{commit_name(snapshot.version)}"},
            hint=errors.command("validate", select=[errors.DoubleQuoted("ict.*")]),
        )
    return version._replace(committed_ms=commit_time.timestamp_ms)


def _add_row_id_mark(version: PreviousVersion, snapshot: Snapshot, request: CommitRequest) -> PreviousVersion:
    """Return a version with its high-water mark of row ids, the highest row id that was ever assigned.

    Raises:
        Refused: If the request adds rows that need row ids, and the domain with the high-water mark cannot be read.
    """
    domain = next((domain for domain in snapshot.domains if domain.domain == DOMAIN), None)
    if domain is None:
        return version
    mark = read_mark(domain.configuration)
    if mark is not None:
        return version._replace(row_id_mark=mark)

    assigns_row_ids = build_next_version(request, version).first_row_id is not None
    if request.new_rows and assigns_row_ids:
        raise errors.Refused(
            f"version {snapshot.version} has no high-water mark of row ids that new ones could follow",
            code="rowtracking.high-water-mark",
            facts={"domain": DOMAIN, "found": domain.configuration[:120]},
            hint=errors.command("validate", select=[errors.DoubleQuoted("rowtracking.*")]),
        )
    return version


def require_encodable_text(new: Mapping[str, object], previous: object) -> None:
    """Require that all strings in new values can be encoded as UTF-8, unless the previous version has the same defect.

    Python decodes an argument with invalid UTF-8 to halves of surrogate pairs, such as "\\udce4", and orjson refuses to
    encode these. Older writers may have left some in the log. They are kept, because a change of an unrelated property
    must not fail for them.

    Args:
        new: The new values, by the names that the error uses: `{"metaData": {…}, "tags": {…}}`.
        previous: The metadata of the previous version, as in the log.

    Raises:
        UsageError: If a new value contains half a surrogate pair that the previous version does not contain.
    """
    try:
        orjson.dumps(new)
    except TypeError:
        pass
    else:
        return

    try:
        previous_texts = [*_find_texts(previous, ""), *_find_texts(_parse_schema(previous), "")]
        new_texts = list(_find_texts(new, ""))
    except RecursionError:
        return  # The value is nested too deeply to be encoded. The encoder of the commit reports this.

    previous_halves = set[str]()
    for named_text in previous_texts:
        previous_halves.update(_find_surrogates(named_text.text))
    for named_text in new_texts:
        if not previous_halves.issuperset(_find_surrogates(named_text.text)):
            message = f"{named_text.name} is not text: it holds half a character"
            raise build_text_error(named_text.text, message)


class _NamedText(NamedTuple):
    """A string within a nested value.

    Attributes:
        name: The keys on the way to the string, joined by dots: `metaData.configuration.owner`.
        text: The string.
    """

    name: str
    text: str


def _find_texts(value: object, name: str) -> Iterator[_NamedText]:
    """Yield all strings in a nested value, including the keys of objects.

    Args:
        value: A JSON value.
        name: The keys on the way to the value, joined by dots; "" for the outermost value.
    """
    if isinstance(value, str):
        yield _NamedText(name, value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _find_texts(key, name)
            yield from _find_texts(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, Sequence) and not isinstance(value, bytes):
        for item in value:
            yield from _find_texts(item, name)


def _find_surrogates(text: str) -> Iterator[str]:
    """Yield the halves of surrogate pairs in a string. Python strings contain no complete pairs."""
    return (character for character in text if "\ud800" <= character <= "\udfff")


def _parse_schema(metadata: object) -> object:
    """Return the parsed schema of a metaData action; None if it cannot be parsed.

    In `schemaString`, half a surrogate pair may be hidden as the JSON escape `\\ud800`.
    """
    text = metadata.get("schemaString") if isinstance(metadata, Mapping) else None
    if not isinstance(text, str):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None
