"""Keys with texts that a user adds to the commitInfo of a commit. Spec: Commit Provenance Information."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from deltacli.core.errors import UsageError
from deltacli.core.hints import parameter
from deltacli.delta.encoding.value_text import has_bytes

NO_METADATA: Mapping[str, str] = MappingProxyType({})

_WRITTEN = "deltacli writes this key"
_NUMBER, _OBJECT = "Delta-Spark expects a number there", "Delta-Spark expects an object there"

RESERVED: Mapping[str, str] = {
    "timestamp": _WRITTEN,
    "inCommitTimestamp": _WRITTEN,
    "operation": _WRITTEN,
    "operationParameters": _WRITTEN,
    "operationMetrics": _WRITTEN,
    "readVersion": _WRITTEN,
    "isolationLevel": _WRITTEN,
    "isBlindAppend": _WRITTEN,
    "tags": _WRITTEN,
    "engineInfo": _WRITTEN,
    "txnId": _WRITTEN,
    # A text in their place makes DESCRIBE HISTORY, streams and concurrent writers fail at this version permanently.
    "version": _NUMBER,
    "job": _OBJECT,
    "notebook": _OBJECT,
}
"""Key -> why a user cannot set it."""
_BY_LOWER_CASE = {key.lower(): key for key in RESERVED}


def parse_commit_metadata(texts: Sequence[str]) -> dict[str, str]:
    """Return the keys and values of `KEY=VALUE` texts. Raises UsageError (`usage.commit-metadata`)."""
    pairs: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator:
            raise _refused(f"{text!r} has no value", {"expected": "KEY=VALUE"})
        if pairs.get(key, value) != value:
            raise _refused(f"{key} has two values: {pairs[key]!r} and {value!r}", {"expected": "one value per key"})
        pairs[key] = value
    require_free(pairs)
    return pairs


def require_free(metadata: Mapping[str, str]) -> None:
    """Raise UsageError (`usage.commit-metadata`) for reserved keys and for values that are not text."""
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise _refused(f"{key!r} with the value {value!r}", {"expected": "strings as key and value"})
        if not key or not has_bytes(key) or not has_bytes(value):
            raise _refused(
                f"{key!r} with the value {value!r}", {"expected": "strings in UTF-8, and a key that is not empty"}
            )
        reserved = _BY_LOWER_CASE.get(key.lower())
        if reserved is not None:
            other = parameter("vacuum.commit_metadata", {f"{reserved}Name": "VALUE"})
            hint = None if RESERVED[reserved] is _WRITTEN else f"another key: {other}"
            raise _refused(f"the key {key} is reserved", {"why": f"{reserved}: {RESERVED[reserved]}"}, hint=hint)


def _refused(what: str, facts: Mapping[str, str], *, hint: str | None = None) -> UsageError:
    return UsageError(f"commit metadata: {what}", code="usage.commit-metadata", facts=facts, hint=hint)
