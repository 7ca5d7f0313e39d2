"""`_last_checkpoint`: where to start listing, never an authority. Spec: Last Checkpoint File; JSON checksum."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Hint:
    """A hint that can be believed as far as it goes: the version to start listing at."""

    version: int


@dataclass(frozen=True, slots=True)
class BadHint:
    """A hint that can't be believed, and the rule it breaks. Costs a listing from the start, never an error."""

    rule: str


class _DuplicateKeyError(ValueError):
    pass


def read_hint(data: bytes) -> Hint | BadHint:
    """Read `_last_checkpoint`.

    Torn text, duplicate keys, no version, or a checksum that fits neither known order is a bad hint.
    """
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return BadHint("hint.bad-json")
    if not isinstance(value, dict):
        return BadHint("hint.bad-json")
    version = value.get("version")
    if type(version) is not int or not 0 <= version < 2**63:
        return BadHint("hint.missing-field")
    found = value.get("checksum")
    if isinstance(found, str) and found.lower() not in checksums(value):
        return BadHint("hint.checksum-bad")
    return Hint(version)


def checksums(value: dict[str, Any]) -> frozenset[str]:
    """The MD5 checksums a hint may carry: pairs sorted by path as the protocol says, and sorted whole as Spark does."""
    import hashlib

    pairs = [(path, text) for path, text in _leaves(value, "") if path != '"checksum"']
    by_path = ",".join(f"{path}={text}" for path, text in sorted(pairs, key=lambda pair: pair[0].encode()))
    whole = ",".join(sorted((f"{path}={text}" for path, text in pairs), key=str.encode))
    return frozenset(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest() for text in (by_path, whole))


def _leaves(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Yield (path, canonical value) of every leaf: keys quoted and percent-encoded, array positions bare, joined by
    `+`.
    """
    prefix = f"{path}+" if path else ""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f'{prefix}"{quote(key, safe="-._~")}"')
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _leaves(item, f"{prefix}{position}")
    elif isinstance(value, str):
        yield path, f'"{quote(value, safe="-._~")}"'
    else:
        yield path, json.dumps(value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _DuplicateKeyError
    return found
