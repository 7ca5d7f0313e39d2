"""The lines of files as actions of a log: paths are names made of ids, URLs are kept aside.

Spec: File; Data Change Files; File in Delta Format; Deletion Vectors in Delta Sharing.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltacli.delta.log.commit_lines import Action
from deltacli.sharing.client.answers import ActionLine
from deltacli.sharing.client.faults import invalid
from deltacli.sharing.client.tables.file_urls import (
    StoredUrls,
    data_file_name,
    vector_file_name,
    vector_text,
    vector_uuid,
)
from deltacli.sharing.protocol.capabilities import ResponseFormat
from deltacli.typing import Json

_LARGEST = 2**63 - 1
_KINDS_OF_PARQUET = {"file": "add", "add": "add", "remove": "remove", "cdf": "cdc"}
_KINDS = ("add", "remove", "cdc")


@dataclass(frozen=True, slots=True)
class SharedFile:
    """One file of an answer. `action` is an `add`, `remove` or `cdc` of a log, whose path is `name`."""

    kind: str
    file_id: str
    name: str
    action: Action
    url: str
    size_bytes: int | None
    expires_ms: int | None
    version: int | None
    timestamp_ms: int | None
    vector_name: str | None = None
    vector_url: str | None = None

    def add_urls(self, urls: StoredUrls) -> bool:
        """Add the URLs of the file and of its deletion vector; return False where the file is there already."""
        if self.vector_name is not None:
            urls.add(self.vector_name, self.vector_url, None, self.expires_ms)  # several vectors share a file
        return urls.add(self.name, self.url, self.size_bytes, self.expires_ms)


def read_file(line: ActionLine, form: ResponseFormat) -> SharedFile:
    """Return the file of a line. Raises AnswerInvalid."""
    if form is ResponseFormat.PARQUET:
        return _of_parquet(line)
    if line.kind != "file":
        raise _unexpected(line.kind)
    single = line.fields.get("deltaSingleAction")
    found = [(kind, value) for kind, value in (single or {}).items() if value] if isinstance(single, dict) else []
    if len(found) != 1 or found[0][0] not in _KINDS or not isinstance(found[0][1], dict):
        raise invalid("deltaSingleAction is not one action of a file")
    kind, action = found[0]
    return _of_delta(line.fields, kind, action)


def _of_delta(fields: dict[str, Json], kind: str, wire: Action) -> SharedFile:
    file_id = fields.get("id")
    name, url, action = data_file_name(file_id), wire.get("path"), dict(wire)
    expires_ms = _whole(fields, "expirationTimestamp")
    action["path"] = name
    vector_name = vector_url = None
    if (vector := wire.get("deletionVector")) is not None:
        action["deletionVector"], vector_name, vector_url = _local_vector(vector, fields.get("deletionVectorFileId"))
    size = _whole(wire, "size") if "size" in wire else _whole(fields, "size")
    if kind == "add" and size is None:
        raise invalid("a file has no size", {"id": file_id})
    if kind != "remove":
        action["size"] = size
    return SharedFile(
        kind,
        str(file_id),
        name,
        action,
        _url(url),
        size,
        expires_ms,
        _whole(fields, "version"),
        _whole(fields, "timestamp"),
        vector_name,
        vector_url,
    )


def _of_parquet(line: ActionLine) -> SharedFile:
    kind, fields = _KINDS_OF_PARQUET.get(line.kind), line.fields
    if kind is None:
        raise _unexpected(line.kind)
    name, size = data_file_name(fields.get("id")), _whole(fields, "size")
    if size is None:
        raise invalid("a file has no size", {"id": fields.get("id")})
    timestamp_ms = _whole(fields, "timestamp")
    values = fields.get("partitionValues") or {}
    if not isinstance(values, dict):
        raise invalid("partitionValues is not an object", {"id": fields.get("id")})
    # An empty text is null. Spec: Partition Value Serialization.
    partition = {key: None if value == "" else value for key, value in values.items()}
    action: Action = {"path": name, "partitionValues": partition, "size": size, "stats": fields.get("stats")}
    if kind == "add":
        action["modificationTime"] = timestamp_ms or 0
    return SharedFile(
        kind,
        str(fields["id"]),
        name,
        action,
        _url(fields.get("url")),
        size,
        _whole(fields, "expirationTimestamp"),
        _whole(fields, "version"),
        timestamp_ms,
    )


def _local_vector(vector: object, vector_id: object) -> tuple[Action, str | None, str | None]:
    """Return a descriptor whose file has a name in the table's directory, the name, and the URL; an inline vector as it
    is.
    """
    if not isinstance(vector, dict):
        raise invalid("a deletion vector is not an object")
    if vector.get("storageType") == "i":
        return vector, None, None
    url = vector.get("pathOrInlineDv")
    if vector.get("storageType") != "p" or not isinstance(url, str):
        raise invalid("a deletion vector has no URL", {"storageType": vector.get("storageType")})
    try:
        name = vector_uuid(vector_id, url)
    except ValueError:
        raise invalid("a deletion vector has no URL") from None
    return {**vector, "storageType": "u", "pathOrInlineDv": vector_text(name)}, vector_file_name(name), url


def _url(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise invalid("a file has no URL")
    return value


def _whole(fields: dict[str, Json], name: str) -> int | None:
    value = fields.get(name)
    if value is not None and (type(value) is not int or not 0 <= value <= _LARGEST):
        raise invalid(f"{name} of a file is not a whole number", {"found": value})
    return value


def _unexpected(kind: str) -> Exception:
    return invalid("a line has an unexpected action", {"found": kind})
