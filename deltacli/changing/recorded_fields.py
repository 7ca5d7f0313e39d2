"""Validation of JSON files that deltacli writes for itself: lists of backups, quarantine manifests, clone notes.

Anybody can edit such a file, and an older release, an interrupted write or a damaged disk can leave any content in it.
So each field is validated when the file is parsed. Other code can then rely on the values: a path does not lead out of
its directory, a time can be formatted, a size is a number.

Functions such as `validate_path` take the value and the name of a field, and return the value with its type. If the
value is invalid, they raise a ValueError whose message contains the name: `createdTime is 'x', not an integer …`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from urllib.parse import unquote

from deltacli.core.typing import Json
from deltacli.delta.log.segment import MAX_TIME_MS, MAX_VERSION

MAX_SIZE_BYTES = 2**63 - 1
_MAX_SHOWN_CHARACTERS = 80
"""Maximum number of characters of an invalid value in a message."""

_SHA256 = re.compile("[0-9a-f]{64}")


def digest_content(content: Mapping[str, object]) -> str:
    """Return the SHA-256 of a JSON document. The order of its keys and its whitespace do not matter."""
    import hashlib  # loads OpenSSL, which most commands do not need

    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def validate_path(value: object, field: str) -> str:
    """Return a relative path that does not lead out of its directory, such as `day=1/part-0.parquet`."""
    if not isinstance(value, str):
        raise _build_error(value, field, "a path")
    if any(part in ("", ".", "..") for part in value.split("/")) or not _is_valid_name(value):
        raise _build_error(value, field, "a path below the directory")
    return value


def validate_uri(value: object, field: str) -> str:
    """Return the URI of a directory, such as `file:///lake/table` or `s3://bucket/table`."""
    if not isinstance(value, str) or "://" not in value:
        raise _build_error(value, field, "a URI")
    # The URI of a local directory is percent-encoded, so the decoded path must be valid, too.
    if not _is_valid_name(value) or not _is_valid_name(unquote(value, errors="surrogateescape")):
        raise _build_error(value, field, "a URI that a directory can have")
    return value


def validate_array(value: object, field: str) -> list[Json]:
    """Return a list. The entries are not validated."""
    if not isinstance(value, list):
        raise _build_error(value, field, "a list")
    return value


def validate_object(value: object, field: str) -> dict[str, Json]:
    """Return a JSON object. The fields are not validated."""
    if not isinstance(value, dict):
        raise _build_error(value, field, "an object")
    return value


def require_field(content: Mapping[str, Json], name: str) -> Json:
    """Return the value of a required field. The value is not validated.

    Raises:
        ValueError: If the field is missing.
    """
    if name not in content:
        raise ValueError(f"{name} is missing")
    return content[name]


def validate_sha256(value: object, field: str) -> str:
    """Return a SHA-256: 64 lower-case hexadecimal digits."""
    if not isinstance(value, str) or _SHA256.fullmatch(value) is None:
        raise _build_error(value, field, "a SHA-256")
    return value


def validate_size_bytes(value: object, field: str) -> int:
    """Return the size of a file in bytes."""
    return _validate_integer(value, field, 0, MAX_SIZE_BYTES)


def validate_time_ms(value: object, field: str) -> int:
    """Return a time in epoch milliseconds, in the range that engines can represent."""
    return _validate_integer(value, field, -MAX_TIME_MS, MAX_TIME_MS)


def validate_version(value: object, field: str, *, least: int = 0) -> int:
    """Return a version number that is at least `least`."""
    return _validate_integer(value, field, least, MAX_VERSION)


def is_valid(read: Callable[[object, str], object], value: object) -> bool:
    """Return True if a function of this module, such as `validate_path`, accepts a value."""
    try:
        read(value, "")
    except ValueError:
        return False
    return True


def _is_valid_name(text: str) -> bool:
    """Return True if a file or a directory can have this name."""
    try:
        # Python decodes bytes that are not UTF-8 to surrogates from U+DC80 to U+DCFF. No file name has other
        # surrogates.
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _validate_integer(value: object, field: str, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise _build_error(value, field, f"an integer from {least} to {most}")
    return value


def _build_error(value: object, field: str, expected: str) -> ValueError:
    """Return the error for an invalid value, with a message such as `size is -1, not an integer from 0 to 9`."""
    return ValueError(f"{field} is {str(value)[:_MAX_SHOWN_CHARACTERS]!r}, not {expected}")
