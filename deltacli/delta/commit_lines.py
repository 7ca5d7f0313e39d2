"""Parsing a commit file: lines of JSON, one action each. Spec: Delta Log Entries; Actions; Protocol Evolution.

orjson parses what is plain; the standard library parses what orjson refuses but JSON writers of the field have
produced (bare NaN, lone surrogates, actions spread over several lines). Lines end at LF only: U+2028 and friends
stand raw inside strings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from deltacli.errors import CommitCorrupt

Action = dict[str, Any]  # Any: an action as found, with the fields nobody here knows

KNOWN_ACTIONS = frozenset(
    {
        "add",
        "remove",
        "cdc",
        "metaData",
        "protocol",
        "txn",
        "domainMetadata",
        "commitInfo",
        "sidecar",
        "checkpointMetadata",
    }
)


def split_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file that arrives in blocks; the last one may lack its LF."""
    rest = b""
    for block in blocks:
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        yield from lines
    if rest:
        yield rest


def read_actions(data: bytes, name: str) -> list[tuple[str, Action]]:
    """Return the actions of a whole commit file as (kind, action), in file order, unknown kinds among them.

    Raises CommitCorrupt naming file, line and byte: `commit.bad-json`, `commit.line-not-object`, `action.wrong-type`.
    """
    try:
        return _read_plain_actions(data)
    except (orjson.JSONDecodeError, _NotPlainError):
        pass
    try:
        return list(stream_actions(data.split(b"\n"), name))
    except CommitCorrupt as corrupt:
        spread = _read_spread_actions(data, name) if corrupt.code == "commit.bad-json" else None
        if spread is None:
            raise corrupt
        return spread


class _NotPlainError(Exception):
    pass


def _read_plain_actions(data: bytes) -> list[tuple[str, Action]]:
    """Read what nearly every commit is: one object of one action on every line.

    Anything else is left to `stream_actions`.
    """
    actions = []
    for line in data.split(b"\n"):
        if line:
            value = orjson.loads(line)
            if type(value) is not dict or len(value) != 1:
                raise _NotPlainError
            action = value.popitem()
            if type(action[1]) is not dict:
                raise _NotPlainError
            actions.append(action)
    return actions


def stream_actions(lines: Iterable[bytes], name: str) -> Iterator[tuple[str, Action]]:
    """Yield (kind, action) line by line without holding the file. Raises CommitCorrupt like `read_actions`."""
    loads = orjson.loads
    offset = 0
    for number, line in enumerate(lines, 1):
        if not line:
            offset += 1
            continue
        try:
            value = loads(line)
        except orjson.JSONDecodeError:
            if line.isspace():
                offset += len(line) + 1
                continue
            value = _parse_leniently(line, name, number, offset)
        if type(value) is not dict:
            raise _not_an_action(name, number, offset, value)
        for kind, action in value.items():
            if type(action) is dict:
                yield kind, action
            elif action is not None:
                if kind in KNOWN_ACTIONS:
                    raise _wrong_type(name, number, offset, kind, action)
                yield kind, {}
        offset += len(line) + 1


def _parse_leniently(line: bytes, name: str, number: int, offset: int) -> Any:  # Any: a JSON value
    """Parse a line that orjson refuses: NaN, Infinity and lone surrogates are read, anything else is a fault."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise CommitCorrupt(
            f"{name} line {number} is not UTF-8",
            code="commit.not-utf8",
            facts={"byte": str(offset + fault.start), "found": repr(line[fault.start : fault.start + 8])},
            hint="deltacli history {table}",
        ) from None
    try:
        return json.loads(text)
    except RecursionError:
        reason, position = "nested too deeply", 0
    except json.JSONDecodeError as fault:
        reason, position = fault.msg.lower(), len(text[: fault.pos].encode("utf-8", "surrogatepass"))
    raise CommitCorrupt(
        f"{name} line {number} is not JSON: {reason}",
        code="commit.bad-json",
        facts={"line": str(number), "byte": str(offset + position), "line ends with": repr(text[-60:])},
        hint="deltacli history {table}",
    )


def _read_spread_actions(data: bytes, name: str) -> list[tuple[str, Action]] | None:
    """Read a commit whose actions span several lines (`commit.pretty-printed`); None if it is not that either."""
    decoder = json.JSONDecoder()
    try:
        text = data.decode("utf-8")
        position, found = 0, []
        while text[position:].strip():
            position += len(text[position:]) - len(text[position:].lstrip())
            value, position = decoder.raw_decode(text, position)
            found.append(value)
    except (ValueError, RecursionError):
        return None
    if not all(type(value) is dict for value in found):
        return None
    return list(stream_actions((json.dumps(value).encode() for value in found), name))


def _not_an_action(name: str, number: int, offset: int, value: object) -> CommitCorrupt:
    return CommitCorrupt(
        f"{name} line {number} is not an action: found {_json_type(value)}, expected an object",
        code="commit.line-not-object",
        facts={"line": str(number), "byte": str(offset)},
        hint="deltacli history {table}",
    )


def _wrong_type(name: str, number: int, offset: int, kind: str, value: object) -> CommitCorrupt:
    return CommitCorrupt(
        f"{name} line {number}: {kind} is {_json_type(value)}, expected an object",
        code="action.wrong-type",
        facts={"line": str(number), "byte": str(offset)},
        hint="deltacli history {table}",
    )


def _json_type(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"
