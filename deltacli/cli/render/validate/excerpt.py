"""The line of the log that a finding is about, and the field in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from deltacli.cli.render.json import dumps
from deltacli.cli.render.validate.report import CheckedTable
from deltacli.delta.log.log_path import Place
from deltacli.delta.rules.framework.base import Finding

ReadLine = Callable[[CheckedTable, Place], bytes | None]
"""Reads the line at a place; None where there is none to show."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_VALUE_END = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^,{}\[\]"]+)')
_LEAST = 3
"""Characters of a value; shorter ones are found by chance."""


class Excerpt(NamedTuple):
    """A line in three parts: `field` is what the finding is about, empty where that is not known."""

    before: str
    field: str
    after: str


def excerpt_of(line: bytes, finding: Finding) -> Excerpt:
    """Return the line of a finding, split around the field that it is about."""
    text = line.decode("utf-8", "surrogateescape").removesuffix("\r")
    for start, end in _places(text, finding):
        return Excerpt(text[:start], text[start:end], text[end:])
    return Excerpt(text, "", "")


def _places(text: str, finding: Finding) -> Iterator[tuple[int, int]]:
    """Yield where the field may be, the surest place first. A value counts only where the line has it once."""
    key = finding.place.key or ""
    names = [name.rpartition(".")[2] for name in _NAME.findall(finding.message) if _is_field(name)]
    for name in [*([key] if _is_field(key) else []), *names]:
        if (place := _only(text, f"{_json(name)}:")) is not None:
            after = _VALUE_END.match(text, place[1])
            yield place[0], after.end() if after else place[1] - 1
    if key and (place := _only(text, _json(f'"name":{_json(key)}')[1:-1])) is not None:
        yield place  # a column in the schema, which is JSON in a text of JSON
    for value in (finding.seen, finding.expected, finding.place.key):
        for written in _spellings(value):
            if (place := _only(text, f":{written}", follows=",}]")) is not None:
                yield place[0] + 1, place[1]
    for written in re.findall(r"\S+/\S+|\S+\.parquet", finding.message):
        if (place := _only(text, _json(written.strip(":,;")))) is not None:
            yield place


def _is_field(name: str) -> bool:
    """True for a name that is no word of English: `add.path`, `minReaderVersion`."""
    return "." in name or name != name.lower()


def _spellings(value: str | None) -> Iterator[str]:
    if value and len(value) >= _LEAST and value not in ("true", "false", "null"):
        yield value
        yield _json(value)


def _json(text: str) -> str:
    return dumps(text).decode("utf-8", "replace")


def _only(text: str, part: str, *, follows: str = "") -> tuple[int, int] | None:
    """Return where a text has a part, if it has it once (followed by one of `follows`)."""
    ends = f"(?=[{re.escape(follows)}])" if follows else ""
    matches = list(re.finditer(re.escape(part) + ends, text))
    return matches[0].span() if len(matches) == 1 else None
