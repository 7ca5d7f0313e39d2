"""Find the field in a line of the log that a finding is about, so that a terminal can mark it.

A finding states the line, but not the position in it. The position is derived from the names and values that the
finding contains. If none of them occurs exactly once in the line, no field is marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from deltacli.core.documents import dumps
from deltacli.rules.framework.base import Finding

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
"""Matches a word or a name of a field, such as `add.path`."""

_JSON_VALUE = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^,{}\[\]"]+)')
"""Matches a JSON string, number, boolean or null."""

_FILE_NAME = re.compile(r"\S+/\S+|\S+\.parquet")
"""Matches a path or the name of a data file in a message."""

_MIN_VALUE_LENGTH = 3
"""The number of characters from which a value is searched. Shorter values occur by chance."""

Span = tuple[int, int]
"""The positions of the first character and after the last character."""


class Excerpt(NamedTuple):
    """A line in three parts.

    Attributes:
        before: The text before the field. The whole line if the field is unknown.
        field: The field that the finding is about, such as `"size":1363`; "" if it is unknown.
        after: The text after the field.
    """

    before: str
    field: str
    after: str


def split_line(line: bytes, finding: Finding) -> Excerpt:
    """Split a line of the log around the field that a finding is about."""
    text = line.decode("utf-8", "surrogateescape").removesuffix("\r")
    span = _find_field(text, finding)
    if span is None:
        return Excerpt(text, "", "")
    start, end = span
    return Excerpt(text[:start], text[start:end], text[end:])


def _find_field(text: str, finding: Finding) -> Span | None:
    """Return the position of the field, by the most reliable clue that occurs exactly once in the line."""
    return (
        _find_named_field(text, finding)
        or _find_schema_column(text, finding.place.key)
        or _find_value(text, finding)
        or _find_path(text, finding.message)
    )


def _find_named_field(text: str, finding: Finding) -> Span | None:
    """Return the position of a field with its value, by its name in the finding: `add.size` finds `"size":1363`."""
    names: list[str] = []
    key = finding.place.key or ""
    if _is_field_name(key):
        names.append(key)
    for name in _NAME.findall(finding.message):
        if _is_field_name(name):
            _, _, last_part = name.rpartition(".")
            names.append(last_part)

    for name in names:
        span = _find_unique(text, f"{_encode_json(name)}:")
        if span is not None:
            start, colon_end = span
            value = _JSON_VALUE.match(text, colon_end)
            # An object or array is not marked, only its name.
            return start, colon_end - 1 if value is None else value.end()
    return None


def _is_field_name(word: str) -> bool:
    """Return whether a word is the name of a field (`add.path`, `minReaderVersion`) rather than an English word."""
    return "." in word or word != word.lower()


def _find_schema_column(text: str, column: str | None) -> Span | None:
    r"""Return the position of a column in the schema, which is JSON in a JSON string: `\"name\":\"id\"`."""
    if not column:
        return None
    field = f'"name":{_encode_json(column)}'
    escaped_field = _encode_json(field)[1:-1]
    return _find_unique(text, escaped_field)


def _find_value(text: str, finding: Finding) -> Span | None:
    """Return the position of a value that was seen or expected, or of the key, as the value of any field."""
    for value in (finding.seen, finding.expected, finding.place.key):
        for json_value in _encode_value(value):
            span = _find_unique(text, f":{json_value}", followed_by=",}]")
            if span is not None:
                colon, end = span
                return colon + 1, end
    return None


def _encode_value(value: str | None) -> Iterator[str]:
    """Yield the text of a value in JSON: first as a number or object, then as a string."""
    if value and len(value) >= _MIN_VALUE_LENGTH and value not in ("true", "false", "null"):
        yield value
        yield _encode_json(value)


def _find_path(text: str, message: str) -> Span | None:
    """Return the position of a path that the message contains."""
    for path in _FILE_NAME.findall(message):
        span = _find_unique(text, _encode_json(path.strip(":,;")))
        if span is not None:
            return span
    return None


def _encode_json(text: str) -> str:
    return dumps(text).decode("utf-8", "replace")


def _find_unique(text: str, part: str, *, followed_by: str = "") -> Span | None:
    """Return the position of a part that occurs exactly once; None otherwise.

    Args:
        text: The line.
        part: The part.
        followed_by: The characters of which one must follow the part; "" for any.
    """
    lookahead = f"(?=[{re.escape(followed_by)}])" if followed_by else ""
    matches = list(re.finditer(re.escape(part) + lookahead, text))
    return matches[0].span() if len(matches) == 1 else None
