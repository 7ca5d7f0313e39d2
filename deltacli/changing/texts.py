"""The texts of a commit: no other engine opens a table whose log has half a surrogate pair."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import orjson

from deltacli.core.errors import not_text


def require_text(new: Mapping[str, object], before: object) -> None:
    """Raise UsageError for half a surrogate pair, as a byte that is not UTF-8 becomes in arguments, that the version
    `before` does not have. What an older writer left is kept.
    """
    try:
        orjson.dumps(new)
    except TypeError:
        try:
            known = {half for _, text in _texts([before, _schema_of(before)], "") for half in _halves(text)}
            texts = list(_texts(new, ""))
        except RecursionError:
            return  # nested too deeply to be written at all, which the encoder refuses
        for place, text in texts:
            if not known.issuperset(_halves(text)):
                raise not_text(text, f"{place} is not text: it holds half a character") from None


def _schema_of(metadata: object) -> object:
    """Return the schema of a metaData, whose names may have half a surrogate pair as an escape of its JSON."""
    text = metadata.get("schemaString") if isinstance(metadata, Mapping) else None
    try:
        return json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _halves(text: str) -> Iterator[str]:
    return (half for half in text if "\ud800" <= half <= "\udfff")


def _texts(value: object, place: str) -> Iterator[tuple[str, str]]:
    """Yield every text in a value, keys included, with its place."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _texts(key, place)
            yield from _texts(one, f"{place}.{key}" if place else str(key))
    elif isinstance(value, Sequence) and not isinstance(value, bytes):
        for one in value:
            yield from _texts(one, place)
