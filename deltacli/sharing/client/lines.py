"""The lines of an answer, split at line feeds only, none of them longer than the limit. Spec: API Response Actions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from deltacli.sharing.client.faults import invalid, too_much

_LINES_A_GROUP = 8_192


def split_lines(blocks: Iterable[bytes], most_bytes: int) -> Iterator[list[bytes]]:
    """Yield the lines of a body in groups. Raises AnswerInvalid for a line longer than `most_bytes`."""
    rest = b""
    for block in blocks:
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        if len(rest) > most_bytes or any(len(line) > most_bytes for line in lines):
            raise too_much("a line of an answer", f"{most_bytes:,} bytes")
        for start in range(0, len(lines), _LINES_A_GROUP):
            yield lines[start : start + _LINES_A_GROUP]
    if rest:
        yield [rest]


def parse_line(line: bytes) -> tuple[str, dict[str, Any]]:  # Any: JSON values
    """Return the only key of a line's object and its value. Raises AnswerInvalid."""
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError as fault:
        raise invalid("a line is not JSON", {"reason": fault}) from fault
    if not isinstance(document, dict):
        raise invalid("a line is not a JSON object")
    found = [(name, value) for name, value in document.items() if value is not None]
    if len(found) != 1 or not isinstance(found[0][1], dict):
        raise invalid("a line is not an object with one action", {"keys": ", ".join(map(str, document))})
    return found[0]


def parse_lines(lines: Iterable[bytes]) -> Iterator[tuple[str, dict[str, Any]]]:  # Any: JSON values
    """Yield the actions of lines; empty ones are skipped."""
    return (parse_line(line) for line in lines if line and not line.isspace())
