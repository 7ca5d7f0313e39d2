"""Fields of the files that deltacli writes for itself: manifests and lists of backups, notes of copies and clones.

Anybody can edit such a file, and an older release, a torn write or a damaged disk can leave anything in it. Each
field is therefore checked where the file is parsed. Behind that, no code meets a value that no run has written: a path
that leads elsewhere, a time that no file can have, a text where a number belongs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

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
    if any(part in ("", ".", "..") for part in value.split("/")) or "\0" in value:
        raise _wrong(value, field, "a path below the directory")
    # A name that is not UTF-8 has its bytes as halves of surrogate pairs; other halves are in no name.
    value.encode("utf-8", "surrogateescape")
    return value


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


def _read_integer(value: object, field: str, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise _wrong(value, field, f"an integer from {least} to {most}")
    return value


def _wrong(value: object, field: str, expected: str) -> ValueError:
    return ValueError(f"{field} is {str(value)[:_SHOWN]!r}, not {expected}")
