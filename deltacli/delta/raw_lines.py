"""The raw lines of a commit, all faults reported: where replay stops at the first, `validate` goes on.

Spec: Delta Log Entries; Actions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from deltacli.delta.commit_lines import KNOWN_ACTIONS, MAX_DEPTH, Action, is_nested_too_deeply
from deltacli.delta.rules import commit_lines as rules
from deltacli.delta.rules.action_types import FIELDS, faults_of, shown, unknown_fields
from deltacli.delta.rules.base import Finding, Place
from deltacli.delta.rules.views import Placed

_MOST_PLAIN_SHAPES = 10_000
_BOM = b"\xef\xbb\xbf"


class ScannedLines(NamedTuple):
    """The actions of a file of lines, in order, and everything that is wrong with its lines.

    Actions whose fields have a wrong type, or that have no path, are in `broken` instead. `is_readable` is False where
    a line could not be parsed: what it held is not known.
    """

    actions: list[Placed]
    broken: list[Placed]
    findings: list[Finding]
    is_readable: bool


class LineScanner:
    """Scans the files of one table; shapes of actions that were found sound are remembered, so that a million adds of
    one writer cost one look.
    """

    def __init__(self) -> None:
        self._sound: set[tuple[Any, ...]] = set()  # Any: names and types of the fields

    def scan(self, data: bytes, place: Place) -> ScannedLines:
        """Scan the bytes of a whole file; `place` names it."""
        found = ScannedLines([], [], [], True)
        unreadable = False
        odd_ends = 0
        lines = data.split(b"\n")
        for number, line in enumerate(lines, 1):
            if not line:
                odd_ends += number < len(lines)
                continue
            try:
                value = orjson.loads(line)
                if orjson.dumps(value) != line:
                    value, odd = self._careful(line, place._replace(line=number), found)
                    odd_ends += odd
            except (orjson.JSONDecodeError, orjson.JSONEncodeError):
                if line.isspace():
                    odd_ends += 1
                    continue
                value, odd = self._careful(line, place._replace(line=number), found)
                odd_ends += odd
            if value is _UNREADABLE:
                unreadable = True
                continue
            unreadable |= not self._take(value, number, place, found)
        if unreadable and (spread := _spread_values(data)) is not None:
            return self._rescan(spread, place)
        if odd_ends:
            message = f"{odd_ends} blank lines, or lines that end with CR LF"
            found.findings.append(rules.CRLF_OR_BLANK.at(place, message, seen=odd_ends))
        return found._replace(is_readable=not unreadable)

    def _rescan(self, values: list[tuple[int, Any]], place: Place) -> ScannedLines:
        found = ScannedLines([], [], [], True)
        message = "actions are spread over several lines; each must stand on a line of its own"
        found.findings.append(rules.PRETTY_PRINTED.at(place._replace(line=1), message))
        for number, value in values:
            self._take(value, number, place, found)
        return found

    def _careful(self, line: bytes, place: Place, found: ScannedLines) -> tuple[Any, bool]:  # Any: a JSON value
        """Parse a line that is not as a machine writes it; True with it where it ends with CR."""
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as fault:
            message = f"byte {fault.start} of the line is not UTF-8"
            seen = repr(line[fault.start : fault.start + 8])
            found.findings.append(rules.NOT_UTF8.at(place, message, seen=seen))
            return _UNREADABLE, False
        if line.startswith(_BOM):
            found.findings.append(rules.NOT_UTF8.at(place, "the line begins with a byte order mark", seen="EF BB BF"))
            text = text[1:]
        twice: list[str] = []

        def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
            made = dict(items)
            if len(made) != len(items):
                names = [name for name, _ in items]
                twice.extend(sorted({name for name in names if names.count(name) > 1}))
            return made

        try:
            value = json.loads(text, object_pairs_hook=pairs)
            if isinstance(value, dict) and is_nested_too_deeply(line, value):
                raise RecursionError
        except RecursionError:
            message = f"the line is nested too deeply: more than {MAX_DEPTH} objects and arrays within each other"
            found.findings.append(rules.BAD_JSON.at(place, message))
            return _UNREADABLE, False
        except ValueError as fault:
            reason = fault.msg.lower() if isinstance(fault, json.JSONDecodeError) else "a number has too many digits"
            message = f"the line is not JSON: {reason}"
            found.findings.append(rules.BAD_JSON.at(place, message, seen=f"…{text[-60:]}" if len(text) > 60 else text))
            return _UNREADABLE, False
        for name in twice:
            message = f'the key "{name[:80]}" stands twice in one object; the last one was taken'
            found.findings.append(rules.DUPLICATE_KEY.at(place, message, seen=name))
        return value, text.endswith("\r")

    def _take(self, value: Any, number: int, place: Place, found: ScannedLines) -> bool:  # Any: a JSON value
        """Take the actions of one line; False where it holds none."""
        if type(value) is not dict:
            message = f"the line is {shown(value)}, expected an object with one action"
            where = place._replace(line=number)
            found.findings.append(rules.LINE_NOT_OBJECT.at(where, message, seen=shown(value)))
            return False
        filled = len(value)
        if filled != 1:
            filled = sum(action is not None for action in value.values())
            known = sum(action is not None and kind in KNOWN_ACTIONS for kind, action in value.items())
            if filled == 0 or known > 1:  # what nobody knows yet may stand beside an action
                names = ", ".join(sorted(value)[:5]) or "nothing"
                message = f"the line holds {known or 'no'} actions, expected one"
                where = place._replace(line=number)
                found.findings.append(rules.LINE_NOT_OBJECT.at(where, message, seen=names, expected="one action"))
        for kind, action in value.items():
            if type(action) is dict:
                shape = (kind, *action, *map(type, action.values()))
                if (shape in self._sound and _small_parts_are_plain(action)) or kind not in FIELDS:
                    found.actions.append(Placed(kind, action, number))
                else:
                    self._take_unusual(shape, Placed(kind, action, number), place._replace(line=number), found)
            elif action is not None:
                self._take_no_object(kind, action, place._replace(line=number), found)
        return filled > 0

    def _take_no_object(
        self, kind: str, action: Any, place: Place, found: ScannedLines
    ) -> None:  # Any: a JSON value that is no object
        number = place.line or 0
        if kind not in KNOWN_ACTIONS:
            found.actions.append(Placed(kind, {}, number))
        elif kind == "commitInfo":  # free in form; a rule of its own asks for an object
            found.actions.append(Placed(kind, {"": action}, number))
        else:
            message = f"{kind} is {shown(action)}, expected an object"
            found.findings.append(rules.WRONG_TYPE.at(place, message, seen=shown(action), expected="an object"))
            found.broken.append(Placed(kind, {}, number))

    def _take_unusual(self, shape: tuple[Any, ...], placed: Placed, place: Place, found: ScannedLines) -> None:
        """Take an action of a shape that was not seen before, or with parts that a shape does not tell."""
        kind, action, _ = placed
        is_broken = False
        is_sound = True
        for fault in faults_of(kind, action):
            key = action.get("path") if isinstance(action.get("path"), str) else None
            found.findings.append(rules.report_field(kind, fault, place._replace(key=key)))
            is_broken |= fault.found is not None or fault.name == "path"
            is_sound = False
        if unknown := unknown_fields(kind, action):
            found.findings.extend(rules.report_unknown_fields(kind, unknown, place))
            is_sound = False
        if is_sound and len(self._sound) < _MOST_PLAIN_SHAPES:
            self._sound.add(shape)
        (found.broken if is_broken else found.actions).append(placed)


def _small_parts_are_plain(action: Action) -> bool:
    """True if numbers are small and maps hold strings alone, so that the shape of an action says everything."""
    for value in action.values():
        kind = type(value)
        if kind is int:
            if not -(2**31) <= value < 2**62 or (value >= 2**31 and "minReaderVersion" in action):
                return False
        elif kind is dict:
            for item in value.values():
                if type(item) is not str and item is not None:
                    return False
            if "storageType" in value:
                return False
        elif kind is list:
            return False
    return True


_UNREADABLE = object()


def _spread_values(data: bytes) -> list[tuple[int, Any]] | None:
    """The objects of a file whose actions span several lines, each with its first line; None if it is not that."""
    try:
        return list(_decode_spread(data.decode("utf-8")))
    except (ValueError, RecursionError):
        return None


def _decode_spread(text: str) -> Iterator[tuple[int, Any]]:
    decoder = json.JSONDecoder()
    position, line, counted = 0, 1, 0
    while True:
        while position < len(text) and text[position] in " \t\r\n":
            position += 1
        if position >= len(text):
            return
        line += text.count("\n", counted, position)
        counted = position
        value, position = decoder.raw_decode(text, position)
        if type(value) is not dict or is_nested_too_deeply(json.dumps(value).encode(), value):
            raise ValueError("no action")
        yield line, value
