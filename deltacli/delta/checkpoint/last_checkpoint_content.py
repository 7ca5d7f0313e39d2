"""`_last_checkpoint`: where to start listing, never an authority. Spec: Last Checkpoint File; JSON checksum."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

from deltacli.core.process import new_digest
from deltacli.core.typing import Json


class Hint(NamedTuple):
    """A trustworthy hint: the version at which to start listing."""

    version: int


class BadHint(NamedTuple):
    """A hint that cannot be trusted, and the rule it violates. It costs a listing from the start, never an error."""

    rule: str


MAX_HINT_BYTES = 16 << 20
"""Maximum size of a hint. Readers get one byte more, and refuse it by its length."""

_MAX_CANONICAL = 64 << 20
"Maximum number of characters to hash: a long key is repeated for each leaf below it."

_MAX_DEPTH = 200
_MAX_SCHEMA = 20_000
"Maximum length of a schema repeated outside its file, as in the reference implementation."


class _DuplicateKeyError(ValueError):
    pass


def parse_hint(data: bytes) -> dict[str, Json] | str:
    """Return the JSON object in `_last_checkpoint`, or the reason why it has none."""
    if len(data) > MAX_HINT_BYTES:
        return f"it is larger than {MAX_HINT_BYTES >> 20} MiB"
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_unique)
    except UnicodeDecodeError:
        return "it is not UTF-8"
    except RecursionError:
        return "it is nested too deeply"
    except _DuplicateKeyError as fault:
        return f"it has the key {fault} twice"
    except ValueError:
        return "it is not a single JSON value"
    return value if isinstance(value, dict) else "it is not an object"


def read_hint(data: bytes) -> Hint | BadHint:
    """Read `_last_checkpoint`.

    Incomplete text, duplicate keys, a missing version, or a checksum that matches neither known order make a bad hint.
    """
    value = parse_hint(data)
    if isinstance(value, str):
        return BadHint("hint.bad-json")
    try:
        return _judge(value)
    except ValueError:  # lone surrogates have no checksum
        return BadHint("hint.bad-json")


def _judge(value: dict[str, Json]) -> Hint | BadHint:
    version = value.get("version")
    if type(version) is not int or not 0 <= version < 2**63:
        return BadHint("hint.missing-field")
    checksum = value.get("checksum")
    if isinstance(checksum, str) and checksum.lower() not in checksums(value):
        return BadHint("hint.checksum-bad")
    return Hint(version)


def make_hint(
    *,
    version: int,
    size: int,
    size_bytes: int,
    adds: int,
    parts: int | None = None,
    schema: dict[str, Json] | None = None,
) -> bytes:
    """Return the bytes of `_last_checkpoint`.

    `size` counts actions, including those in sidecars; `schema` is that of the top-level file. The version comes first,
    so that a partial read by old clients still finds it; the checksum comes last.
    """
    value: dict[str, Any] = {"version": version, "size": size}
    if parts is not None:
        value["parts"] = parts
    value |= {"sizeInBytes": size_bytes, "numOfAddFiles": adds}
    if schema is not None and short_schema(schema) is not None:
        value["checkpointSchema"] = schema
    (checksum,) = checksums(value)  # one, because it contains no array of scalars
    return json.dumps({**value, "checksum": checksum}, separators=(",", ":")).encode()


def short_schema(schema: dict[str, Json]) -> str | None:
    """Return a schema as it is repeated outside its file, or None if it is too long for that."""
    text = json.dumps(schema, separators=(",", ":"))
    return text if len(text) <= _MAX_SCHEMA else None


def checksums(value: dict[str, Any]) -> frozenset[str]:
    """Return the valid MD5 checksums of a hint: pairs sorted by path as in the protocol, and sorted whole as in Spark.

    Raises ValueError if there is none, or if it needs too much text.
    """
    pairs, length = [], 0
    for path, text in _leaves(value, ""):
        length += len(path) + len(text)
        if length > _MAX_CANONICAL:
            raise ValueError("the canonical form is too large")
        if path != '"checksum"':
            pairs.append((path, text))
    by_path = ",".join(f"{path}={text}" for path, text in sorted(pairs, key=lambda pair: pair[0].encode()))
    whole = ",".join(sorted((f"{path}={text}" for path, text in pairs), key=str.encode))
    return frozenset(new_digest("md5", text.encode()).hexdigest() for text in (by_path, whole))


def _leaves(value: object, path: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield (path, canonical value) of every leaf: keys quoted and percent-encoded, array positions bare, joined by
    `+`.
    """
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    prefix = f"{path}+" if path else ""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f'{prefix}"{quote(key, safe="-._~")}"', depth + 1)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _leaves(item, f"{prefix}{position}", depth + 1)
    elif isinstance(value, str):
        yield path, f'"{quote(value, safe="-._~")}"'
    else:
        yield path, json.dumps(value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise _DuplicateKeyError(key[:80])
        members[key] = value
    return members
