"""Checks of a commit request before it becomes the next version: protocol, catalog, texts, row ids, timestamps."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import orjson

from deltacli.changing.change_kind import ChangeKind
from deltacli.core import errors
from deltacli.core.texts import build_text_error
from deltacli.delta.log.commit_content import (
    Base,
    CommitRequest,
    base_of_new_table,
    is_stamped,
    require_allowed,
    slot_of,
)
from deltacli.delta.log.row_ids import DOMAIN, read_mark
from deltacli.delta.log.segment import LOG_DIRECTORY, TimestampSource, commit_name
from deltacli.delta.schema.finite_numbers import require_finite_numbers
from deltacli.storage.optional_interfaces import require_writable
from deltacli.table.handle import managed_store

if TYPE_CHECKING:
    from deltacli.storage import ReadStorage
    from deltacli.table.version import Snapshot


def require_possible(
    snapshot: Snapshot, request: CommitRequest, kind: ChangeKind | None = ChangeKind.CHANGE_METADATA
) -> None:
    """Require that a request could be committed after a version. For plans, which commit nothing.

    Args:
        snapshot: The version.
        request: The commit that the plan would make.
        kind: What the change does: errors of the metadata stop some kinds and not others (`preflight.py`). None if the
            plan judges the metadata itself.

    Raises:
        NoAtomicCreate: If the store is read-only.
        Refused: If the protocol or the catalog forbids the commit, or errors of the metadata stop it.
    """
    require_writable(snapshot.table.storage)
    require_allowed_request(snapshot.table.storage, request, describe_version(snapshot, request))
    if kind is not None:
        # Imports pyarrow and the rules of `validate`, which the changes that judge for themselves may do without.
        from deltacli.changing.preflight import require_valid_metadata

        require_valid_metadata(kind, snapshot, request)


def require_allowed_request(storage: ReadStorage, request: CommitRequest, previous_version: Base) -> None:
    """Require that the table allows a commit, and that its content can be written as JSON.

    Args:
        storage: The store of the table, which knows the catalog if one manages it.
        request: The commit.
        previous_version: The version that it would follow.

    Raises:
        Refused: If the protocol or the catalog forbids the commit, or if the schema has NaN or Infinity.
        UsageError: If a text has half a surrogate pair.
    """
    # The commit that gives a copy its own id has the schema of its source, as the copied commits before it.
    if not request.gives_id:
        require_finite_numbers(request.metadata)

    managed = managed_store(storage)
    require_allowed(request, previous_version, by_catalog=managed is not None)
    if managed is not None:
        managed.require_ratifiable(request, previous_version)

    new_texts = {
        "metaData": request.metadata,
        "operation": request.operation_parameters,
        "tags": request.tags,
        "txn": request.transactions,
        "domainMetadata": request.domains,
    }
    require_text(new_texts, previous_version.metadata.as_json())


def describe_version(snapshot: Snapshot | None, request: CommitRequest, *, later_version: Base | None = None) -> Base:
    """Return what the next commit has to know about the version that it follows.

    Args:
        snapshot: The version; None if the request makes version 0.
        request: The next commit. The commit time and the high-water mark of row ids are determined only if it needs
            them.
        later_version: The version that an earlier commit of the same run made from this snapshot. It is what the
            request follows, once the snapshot has passed the check of row ids.

    Raises:
        Refused: If one of these is needed and unknown: the next in-commit timestamp could be earlier, or row ids could
            be assigned twice.
    """
    if snapshot is None:
        return base_of_new_table(request)
    version = Base(snapshot.version, snapshot.protocol, snapshot.metadata)
    version = _add_row_id_mark(version, snapshot, request)
    if later_version is not None:
        return later_version
    if not is_stamped(request, version):
        return version

    # Once a table has in-commit timestamps, the times of its files do not have to follow each other.
    commit_time = snapshot.time
    if commit_time is None or (version.is_stamped and commit_time.source is not TimestampSource.IN_COMMIT):
        raise errors.Refused(
            f"version {snapshot.version} has no in-commit timestamp to base that of the next version on",
            code="ict.missing",
            facts={"looked at": f"{LOG_DIRECTORY}/{commit_name(snapshot.version)}"},
            hint=errors.command("validate", select=[errors.DoubleQuoted("ict.*")]),
        )
    return version._replace(committed_ms=commit_time.timestamp_ms)


def _add_row_id_mark(version: Base, snapshot: Snapshot, request: CommitRequest) -> Base:
    """Return a version with the highest row id that was ever assigned.

    Raises:
        Refused: If the request adds rows that need ids, and the domain of the high-water mark cannot be read.
    """
    domain = next((domain for domain in snapshot.domains if domain.domain == DOMAIN), None)
    if domain is None:
        return version
    mark = read_mark(domain.configuration)
    if mark is not None:
        return version._replace(row_id_mark=mark)

    assigns_row_ids = slot_of(request, version).first_row_id is not None
    if request.new_rows and assigns_row_ids:
        raise errors.Refused(
            f"version {snapshot.version} has no high-water mark of row ids that new ones could follow",
            code="rowtracking.high-water-mark",
            facts={"domain": DOMAIN, "found": domain.configuration[:120]},
            hint=errors.command("validate", select=[errors.DoubleQuoted("rowtracking.*")]),
        )
    return version


def require_text(new: Mapping[str, object], previous: object) -> None:
    """Require texts that can be written as UTF-8, unless the previous version has the same defect.

    A byte of an argument that is not UTF-8 becomes half a surrogate pair in Python. Orjson refuses to write it. What an
    older writer left in the log is kept, because a change of another property must not fail for it.

    Args:
        new: What is to be written, by the names that the error is to use.
        previous: The metadata of the previous version, as in the log.

    Raises:
        UsageError: If there is such a half that the previous version does not have.
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
        return  # nested too deeply to be written at all, which the encoder refuses
    known_halves = {half for named_text in previous_texts for half in _find_half_pairs(named_text.text)}
    for named_text in new_texts:
        if not known_halves.issuperset(_find_half_pairs(named_text.text)):
            message = f"{named_text.name} is not text: it holds half a character"
            raise build_text_error(named_text.text, message)


class _NamedText(NamedTuple):
    """A text within a nested value.

    Attributes:
        name: The keys that lead to it, joined by dots.
        text: The text.
    """

    name: str
    text: str


def _find_texts(value: object, name: str) -> Iterator[_NamedText]:
    """Yield every text in a nested value, keys included."""
    if isinstance(value, str):
        yield _NamedText(name, value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _find_texts(key, name)
            yield from _find_texts(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, Sequence) and not isinstance(value, bytes):
        for item in value:
            yield from _find_texts(item, name)


def _find_half_pairs(text: str) -> Iterator[str]:
    return (character for character in text if "\ud800" <= character <= "\udfff")


def _parse_schema(metadata: object) -> object:
    """Return the schema of a metaData, in which half a surrogate pair may stand as an escape of its JSON."""
    text = metadata.get("schemaString") if isinstance(metadata, Mapping) else None
    if not isinstance(text, str):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None
