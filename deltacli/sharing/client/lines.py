"""The lines of an answer, split at line feeds only, none of them longer than the limit. Spec: API Response Actions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import orjson

from deltacli.sharing.client.faults import invalid, too_much
from deltacli.typing import Json

_TEXT_BYTES = 2 << 20
"""Of whole lines that are parsed at once."""


def whole_lines(blocks: Iterable[bytes], most_bytes: int) -> Iterator[bytes]:
    """Yield the body in texts of whole lines: the first one as soon as it is there, larger ones later.

    Raises AnswerInvalid for a line longer than `most_bytes`.
    """
    held, held_bytes, rest, rest_bytes, least = list[bytes](), 0, list[bytes](), 0, 0
    for block in blocks:
        if end := block.rfind(b"\n") + 1:
            held += [*rest, block[:end]]
            held_bytes += rest_bytes + end
            rest, rest_bytes = [block[end:]], 0
        else:
            rest.append(block)
        rest_bytes += len(block) - end
        if rest_bytes > most_bytes:
            raise too_much("a line of an answer", f"{most_bytes:,} bytes")
        if held and held_bytes >= least:
            yield _short_lines(b"".join(held), most_bytes)
            held, held_bytes, least = [], 0, _TEXT_BYTES
    if held or rest_bytes:
        yield _short_lines(b"".join([*held, *rest]), most_bytes)


def _short_lines(text: bytes, most_bytes: int) -> bytes:
    if len(text) > most_bytes and any(len(line) > most_bytes for line in text.split(b"\n")):
        raise too_much("a line of an answer", f"{most_bytes:,} bytes")
    return text


def parse_line(line: bytes) -> tuple[str, dict[str, Json]]:
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


def parse_lines(text: bytes) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield the actions of lines; empty ones are skipped."""
    return (parse_line(line) for line in text.split(b"\n") if line and not line.isspace())
