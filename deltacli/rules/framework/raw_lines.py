"""The raw lines of a commit with all their faults.

Replay stops at the first fault, but `validate` continues. Spec: Delta Log Entries; Actions.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from deltacli.core.typing import Json
from deltacli.delta.log.action_fields import FIELDS
from deltacli.delta.log.commit_lines import (
    KNOWN_ACTIONS,
    MAX_DEPTH,
    MAX_LINE_BYTES,
    Action,
    is_nested_too_deeply,
    json_reason,
    take_whole_numbers,
)
from deltacli.delta.log.log_path import Place
from deltacli.rules.framework.base import Finding
from deltacli.rules.framework.views import LocatedAction
from deltacli.rules.log.commit_lines import (
    BAD_JSON,
    CRLF_OR_BLANK,
    DUPLICATE_KEY,
    LINE_NOT_OBJECT,
    LONE_SURROGATE,
    NOT_UTF8,
    PRETTY_PRINTED,
    WRONG_TYPE,
    faults_of,
    report_field,
    report_spelling,
    report_unknown_field,
    shown,
    unknown_fields,
)

_MOST_PLAIN_SHAPES = 10_000
_MOST_KEYS_TOLD = 10
_BOM = b"\xef\xbb\xbf"
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPED = rf"{_HIGH}{_LOW}|({_HIGH}|{_LOW})|\\."
"""A pair of surrogates, half of one (the group), or another escape."""


_ESCAPE_WITHIN = b"\\\\u"
"""An escape in a JSON text that is a field of an action."""


class ScannedLines(NamedTuple):
    """The actions of a file of lines, in order, and all faults of its lines.

    Actions whose fields have a wrong type, or that have no path, are in `broken` instead. `is_readable` is False if a
    line could not be parsed, so that its actions are unknown.
    """

    actions: list[LocatedAction]
    broken: list[LocatedAction]
    findings: list[Finding]
    is_readable: bool


class LineScanner:
    """Scans the files of one table. Valid shapes of actions are remembered, so a million adds of one writer need one
    check.
    """

    def __init__(self) -> None:
        self._sound: set[tuple[Any, ...]] = set()  # Any: names and types of the fields
        self._odd: dict[tuple[Any, ...], list[str]] = {}

    def scan(self, data: bytes, place: Place) -> ScannedLines:
        """Scan the bytes of a whole file; `place` names it."""
        lines = data.split(b"\n")
        scanned = self.scan_lines(lines, place)
        is_held = max(map(len, lines)) <= MAX_LINE_BYTES
        if is_held and any(finding.rule is BAD_JSON for finding in scanned.findings):
            spread = _spread_values(data)
            if spread is not None:
                return self._scan_spread(spread, place)
        return scanned

    def scan_lines(self, lines: Iterable[bytes], place: Place) -> ScannedLines:
        """Scan the lines of a file of any size; `place` names it."""
        run = _Run(place)
        blank = False
        for number, line in enumerate(lines, 1):
            run.odd_ends += blank
            blank = False
            if not line:
                blank = True
                continue
            if len(line) > MAX_LINE_BYTES:
                message = f"the line is longer than {MAX_LINE_BYTES >> 20} MiB, which no reader supports"
                run.report(BAD_JSON.at(place._replace(line=number), message, seen=f"{len(line)} bytes"))
                run.is_readable = False
                continue
            try:
                value = orjson.loads(line)
                if orjson.dumps(value) != line:
                    value = self._careful(line, number, run)
            except (orjson.JSONDecodeError, orjson.JSONEncodeError):
                if line.isspace():
                    run.odd_ends += 1
                    continue
                value = self._careful(line, number, run)
            if value is _UNREADABLE:
                run.is_readable = False
            else:
                run.is_readable &= self._take(value, number, run, line)
        return run.result()

    def _scan_spread(self, values: list[tuple[int, Any]], place: Place) -> ScannedLines:
        """Parse the actions of a file whose lines are parts of actions."""
        run = _Run(place)
        message = "actions span several lines, but each must be on its own line"
        run.report(PRETTY_PRINTED.at(place._replace(line=1), message))
        for number, value in values:
            self._take(value, number, run, json.dumps(value).encode())
        return run.result()

    def _careful(self, line: bytes, number: int, run: _Run) -> Json:
        """Parse a line that does not have the usual machine-written form."""
        place = run.place._replace(line=number)
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as fault:
            message = f"byte {fault.start} of the line is not UTF-8"
            seen = repr(line[fault.start : fault.start + 8])
            run.report(NOT_UTF8.at(place, message, seen=seen))
            return _UNREADABLE
        if line.startswith(_BOM):
            run.report(NOT_UTF8.at(place, "the line begins with a byte order mark", seen="EF BB BF"))
            text = text[1:]
        twice: dict[str, None] = {}

        def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
            made = dict(items)
            if len(made) != len(items):
                twice.update((name, None) for name, count in Counter(name for name, _ in items).items() if count > 1)
            return made

        try:
            value = json.loads(text, object_pairs_hook=pairs)
            if isinstance(value, dict) and is_nested_too_deeply(line, value):
                raise RecursionError
        except RecursionError:
            message = f"the line is nested too deeply: more than {MAX_DEPTH} levels of objects and arrays"
            run.report(BAD_JSON.at(place, message))
            return _UNREADABLE
        except ValueError as fault:
            reason = json_reason(fault) if isinstance(fault, json.JSONDecodeError) else "a number has too many digits"
            message = f"the line is not JSON: {reason}"
            run.report(BAD_JSON.at(place, message, seen=f"…{text[-60:]}" if len(text) > 60 else text))
            return _UNREADABLE
        for name in list(twice)[:_MOST_KEYS_TOLD]:
            message = f'the key "{name[:80]}" occurs twice in one object; the last value was used'
            run.report(DUPLICATE_KEY.at(place, message, seen=name))
        if b"\\u" in line and not _is_unicode(value):
            message = "a text of the line has half a surrogate pair, which is not Unicode"
            run.report(LONE_SURROGATE.at(place, message, seen=next(_halves(text))))
        run.odd_ends += text.endswith("\r")
        return value

    def _take(self, value: Json, number: int, run: _Run, line: bytes) -> bool:
        """Parse the actions of one line. Return False if it has none."""
        if type(value) is not dict:
            message = f"the line is {shown(value)}, expected an object with one action"
            run.report(LINE_NOT_OBJECT.at(run.place._replace(line=number), message, seen=shown(value)))
            return False
        is_filled = True
        if len(value) != 1 or None in value.values():
            is_filled = _report_number(value, number, run)
        for kind, action in value.items():
            if type(action) is dict:
                if _ESCAPE_WITHIN in line:
                    _report_halves_within(kind, action, run.place._replace(line=number), run)
                for names in take_whole_numbers(kind, action, line):
                    run.report(report_spelling(kind, names, action, run.place._replace(line=number)))
                shape = (kind, *action, *map(type, action.values()))
                if (shape in self._sound and _small_parts_are_plain(action)) or kind not in FIELDS:
                    run.actions.append(LocatedAction(kind, action, number))
                else:
                    self._take_unusual(shape, LocatedAction(kind, action, number), run)
            elif action is not None:
                _take_no_object(kind, action, number, run)
        return is_filled

    def _take_unusual(self, shape: tuple[Any, ...], placed: LocatedAction, run: _Run) -> None:
        """Parse an action of a new shape, or with parts that a shape does not cover."""
        kind, action, number = placed
        odd = self._odd.get(shape)
        if odd is not None and _small_parts_are_plain(action):
            run.note_unknown(kind, odd, number)
            run.actions.append(placed)
            return
        is_broken = False
        is_sound = True
        place = run.place._replace(line=number)
        for fault in faults_of(kind, action):
            key = action.get("path") if isinstance(action.get("path"), str) else None
            run.report(report_field(kind, fault, place._replace(key=key)))
            is_broken |= fault.found is not None or fault.name == "path"
            is_sound = False
        unknown = unknown_fields(kind, action)
        run.note_unknown(kind, unknown, number)
        if is_sound and len(self._sound) + len(self._odd) < _MOST_PLAIN_SHAPES:
            if unknown:
                self._odd[shape] = unknown
            else:
                self._sound.add(shape)
        (run.broken if is_broken else run.actions).append(placed)


class _Run:
    """The results of one file so far."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.actions: list[LocatedAction] = []
        self.broken: list[LocatedAction] = []
        self.is_readable = True
        self.odd_ends = 0
        self._findings: list[Finding] = []
        self._unknown: dict[tuple[str, str], tuple[int, int]] = {}

    def report(self, finding: Finding) -> None:
        """Add a finding."""
        self._findings.append(finding)

    def note_unknown(self, kind: str, names: Sequence[str], number: int) -> None:
        """Count unrecognized fields. Each is reported once per file."""
        for name in names:
            first, count = self._unknown.get((kind, name), (number, 0))
            self._unknown[kind, name] = (first, count + 1)

    def result(self) -> ScannedLines:
        """Return the results, with the faults of the whole file at the end."""
        for (kind, name), (first, count) in self._unknown.items():
            self.report(report_unknown_field(kind, name, count, self.place._replace(line=first)))
        if self.odd_ends:
            message = f"{self.odd_ends} blank lines, or lines that end with CR LF"
            self.report(CRLF_OR_BLANK.at(self.place, message, seen=self.odd_ends))
        return ScannedLines(self.actions, self.broken, self._findings, self.is_readable)


def _report_number(value: dict[str, Any], number: int, run: _Run) -> bool:
    """Report a line with no action or with several. Return False if it has none."""
    filled = sum(action is not None for action in value.values())
    known = sum(action is not None and kind in KNOWN_ACTIONS for kind, action in value.items())
    if filled == 0 or known > 1:  # an unrecognized key may be next to an action
        names = ", ".join(sorted(value)[:5]) or "nothing"
        message = f"the line has {known or 'no'} actions, expected one"
        run.report(LINE_NOT_OBJECT.at(run.place._replace(line=number), message, seen=names, expected="one action"))
    return filled > 0


def _take_no_object(kind: str, action: Json, number: int, run: _Run) -> None:
    if kind not in KNOWN_ACTIONS:
        run.actions.append(LocatedAction(kind, {}, number))
    elif kind == "commitInfo":  # free in form; another rule requires an object
        run.actions.append(LocatedAction(kind, {"": action}, number))
    else:
        message = f"{kind} is {shown(action)}, expected an object"
        place = run.place._replace(line=number)
        run.report(WRONG_TYPE.at(place, message, seen=shown(action), expected="an object"))
        run.broken.append(LocatedAction(kind, {}, number))


def _small_parts_are_plain(action: Action) -> bool:
    """Return True if numbers are small and maps have only strings, so that the shape of an action determines its
    validity.
    """
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


def _is_unicode(value: Json) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _halves(text: str) -> Iterator[str]:
    """Yield the escapes of half a surrogate pair in a JSON text."""
    return (match[1] for match in re.finditer(_ESCAPED, text) if match[1] is not None)


def _report_halves_within(kind: str, action: Action, place: Place, run: _Run) -> None:
    """Report half a surrogate pair in a JSON text that is a field: a schema, statistics, a configuration."""
    for name, text in action.items():
        if isinstance(text, str) and (half := next(_halves(text), None)) is not None:
            message = f"{kind}.{name} has half a surrogate pair, which is not Unicode"
            run.report(LONE_SURROGATE.at(place, message, seen=half))


def _spread_values(data: bytes) -> list[tuple[int, Any]] | None:
    """Return the objects of a file whose actions span several lines, each with its first line, or None if the file is
    not of that form.
    """
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
