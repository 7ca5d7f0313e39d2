"""Values of keys: from TOML to what the steps take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from deltacli.errors import UsageError
from deltacli.fleet.policy_file.keys import Key
from deltacli.loopback import is_loopback
from deltacli.operations.vacuum.request import DeletionLimit
from deltacli.request_fields import Kind
from deltacli.units import parse_duration, parse_share, parse_size


def read_value(key: Key, value: object) -> object:
    """Return the value of a key. Raises ValueError, without a text, where it is not of the kind of the key."""
    try:
        found = _READERS[key.kind](value)
    except UsageError:
        raise ValueError from None
    if key.choices and found not in key.choices:
        raise ValueError
    return found


def url_fault(url: str) -> str | None:
    """Return why an address is not one that a summary may be sent to, None where it is."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is not a URL"
    if not host or any(ord(c) <= 32 or ord(c) > 126 for c in url):
        return "is not a URL"
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        return "is not an https URL"
    if parts.username is not None or parts.password is not None:
        return "has credentials, which belong in the secret"
    return "has a fragment" if parts.fragment else None


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError
    return tuple(map(_text, value))


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError
    return value


def _size(value: object) -> int:
    return _count(value) if isinstance(value, int) else parse_size(_text(value))


def _limit(value: object) -> str:
    return DeletionLimit.parse(_text(value)).text


_READERS: Mapping[Kind, Callable[[Any], object]] = {  # Any: TOML values
    Kind.TEXT: _text,
    Kind.TEXTS: _texts,
    Kind.FLAG: _flag,
    Kind.COUNT: _count,
    Kind.SIZE: _size,
    Kind.DURATION: lambda value: parse_duration(_text(value), ""),
    Kind.SHARE: lambda value: parse_share(_text(value)),
    Kind.LIMIT: _limit,
    Kind.CHOICE: _text,
}
