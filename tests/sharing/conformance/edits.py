"""Changes of answers, from which deviations are made."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.sharing.asgi import Reply
from tests.sharing.conformance.faulty import Call, Change

Json = Any  # Any: JSON values
When = Callable[[Call], bool]


def on(when: When, *edits: Callable[[Reply], Reply], only_ok: bool = True) -> Change:
    """Change the answers to some requests, those with status 200 or 206 unless `only_ok` is False."""

    def change(call: Call, reply: Reply) -> Reply:
        if when(call) and (reply.status in (200, 206) or not only_ok):
            for edit in edits:
                reply = edit(reply)
        return reply

    return change


def status(code: int) -> Callable[[Reply], Reply]:
    """Answer with an error."""
    body = json.dumps({"errorCode": "X", "message": "planted"}).encode()
    return lambda _: Reply(code, {"content-type": "application/json"}, body)


def header(name: str, value: str | None) -> Callable[[Reply], Reply]:
    """Set or remove a header."""

    def edit(reply: Reply) -> Reply:
        kept = {key: text for key, text in reply.headers.items() if key.lower() != name}
        return replace(reply, headers=kept if value is None else {**kept, name: value})

    return edit


def document(change: Callable[[Json], Json]) -> Callable[[Reply], Reply]:
    """Change a JSON document, in place or by what is returned."""

    def edit(reply: Reply) -> Reply:
        content = reply.json
        changed = change(content)
        return replace(reply, body=json.dumps(content if changed is None else changed).encode())

    return edit


def lines(change: Callable[[list[Json]], list[Json] | None]) -> Callable[[Reply], Reply]:
    """Change the lines, in place or by what is returned."""

    def edit(reply: Reply) -> Reply:
        content = reply.lines
        changed = change(content)
        found = content if changed is None else changed
        return replace(reply, body=b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in found))

    return edit


def meta(change: Callable[[Json], None]) -> Callable[[Reply], Reply]:
    """Change the metadata, in either format."""

    def edit(found: list[Json]) -> None:
        fields = found[1]["metaData"]
        change(fields.get("deltaMetadata", fields))

    return lines(edit)


def files(change: Callable[[Json, Json], None], *, first: bool = True) -> Callable[[Reply], Reply]:
    """Change the first file, or all files: the fields of its line, and those of its action."""

    def edit(found: list[Json]) -> None:
        rows = [line for line in found[2:] if "endStreamAction" not in line]
        for line in rows[:1] if first else rows:
            fields = next(iter(line.values()))
            action = next(iter(fields["deltaSingleAction"].values())) if "deltaSingleAction" in fields else fields
            change(fields, action)

    return lines(edit)


def body(data: bytes) -> Callable[[Reply], Reply]:
    """Answer with other bytes."""
    return lambda reply: replace(reply, body=data)


def drop(*places: int) -> Callable[[Reply], Reply]:
    """Leave out lines by their places."""

    def edit(found: list[Json]) -> list[Json]:
        gone = {place % len(found) for place in places}
        return [line for number, line in enumerate(found) if number not in gone]

    return lines(edit)
