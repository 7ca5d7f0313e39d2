"""Fields of the files that deltacli writes for itself: manifests and lists of backups, notes of copies and clones.

Anybody can edit such a file, and an older release, a torn write or a damaged disk can leave anything in it. Each
field is therefore checked where the file is parsed. Behind that, no code meets a value that no run has written: a path
that leads elsewhere, a time that no file can have, a text where a number belongs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from urllib.parse import unquote

from deltacli.core.typing import Json
from deltacli.delta.log.segment import MAX_TIME_MS, MAX_VERSION

MAX_SIZE_BYTES = 2**63 - 1
_SHOWN = 80
_SHA256 = re.compile("[0-9a-f]{64}")


def digest_content(content: Mapping[str, object]) -> str:
    """Return the SHA-256 of a JSON document, independent of the order of its keys and of blanks."""
    import hashlib  # with OpenSSL, which most commands do without

    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_path(value: object, field: str) -> str:
    """Return a path below a directory. Raises ValueError for anything else, with the name of the field."""
    if not isinstance(value, str):
        raise _wrong(value, field, "a path")
    if any(part in ("", ".", "..") for part in value.split("/")) or not _can_be_named(value):
        raise _wrong(value, field, "a path below the directory")
    return value


def read_uri(value: object, field: str) -> str:
    """Return the URI of a directory, as stores have it. Raises ValueError for anything else."""
    if not isinstance(value, str) or "://" not in value:
        raise _wrong(value, field, "a URI")
    # Local paths are decoded before they are opened.
    if not _can_be_named(value) or not _can_be_named(unquote(value, errors="surrogateescape")):
        raise _wrong(value, field, "a URI that a directory can have")
    return value


def read_array(value: object, field: str) -> list[Json]:
    """Return a list, whose entries are not checked. Raises ValueError: a text or an object has entries, too."""
    if not isinstance(value, list):
        raise _wrong(value, field, "a list")
    return value


def read_object(value: object, field: str) -> dict[str, Json]:
    """Return a JSON object, whose fields are not checked. Raises ValueError."""
    if not isinstance(value, dict):
        raise _wrong(value, field, "an object")
    return value


def read_field(content: Mapping[str, Json], name: str) -> Json:
    """Return a field that must be there. Raises ValueError."""
    if name not in content:
        raise ValueError(f"{name} is missing")
    return content[name]


def read_sha256(value: object, field: str) -> str:
    """Return a SHA-256 in hexadecimal. Raises ValueError."""
    if not isinstance(value, str) or _SHA256.fullmatch(value) is None:
        raise _wrong(value, field, "a SHA-256")
    return value


def read_size_bytes(value: object, field: str) -> int:
    """Return the size of a file in bytes. Raises ValueError."""
    return _read_integer(value, field, 0, MAX_SIZE_BYTES)


def read_time_ms(value: object, field: str) -> int:
    """Return a time in epoch milliseconds that engines can represent. Raises ValueError."""
    return _read_integer(value, field, -MAX_TIME_MS, MAX_TIME_MS)


def read_version(value: object, field: str, *, least: int = 0) -> int:
    """Return the number of a version, at least `least`. Raises ValueError."""
    return _read_integer(value, field, least, MAX_VERSION)


def is_field(read: Callable[[object, str], object], value: object) -> bool:
    """Return True if one of the functions of this module accepts a value."""
    try:
        read(value, "")
    except ValueError:
        return False
    return True


def _can_be_named(text: str) -> bool:
    """Return True if a store can have a file or a directory of this name."""
    try:
        # A name that is not UTF-8 has its bytes as halves of surrogate pairs; other halves are in no name.
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def _read_integer(value: object, field: str, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise _wrong(value, field, f"an integer from {least} to {most}")
    return value


def _wrong(value: object, field: str, expected: str) -> ValueError:
    return ValueError(f"{field} is {str(value)[:_SHOWN]!r}, not {expected}")
