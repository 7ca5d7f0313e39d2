"""Rules about the lines of commits, and the raw lines of a commit with all their faults.

Replay stops at the first fault, but `validate` continues.

Spec: Actions; Delta Log Entries.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import orjson

from deltacli.core.errors import LazyText, command
from deltacli.core.typing import Json
from deltacli.core.units import plural
from deltacli.delta.log.actions import (
    FIELDS,
    KNOWN_ACTIONS,
    MAX_DEPTH,
    MAX_LINE_BYTES,
    PARTS,
    Action,
    DecodedObject,
    Field,
    FieldType,
    choose_actions,
    decode_objects,
    find_constants,
    is_nested_too_deeply,
    json_reason,
    take_whole_numbers,
)
from deltacli.delta.log.segment import Place
from deltacli.rules.framework.base import Area, Finding, Fix, Rule, Severity, from_a_copy
from deltacli.rules.framework.views import LocatedAction

AREA = Area("commit_lines", spec="Delta Log Entries")

_RESTORE = Fix(
    broken="the commit cannot be read as written, so this version and all later ones are in doubt",
    advice="restore the file from a backup or an older object version; commits must never be edited",
    loss="without a backup, this version and all later ones",
)
_CUT_OFF = _RESTORE._replace(
    advice=from_a_copy("bring the commit back from a copy or a backup of the log; commits must never be edited")
)
_LATER_ADD = Fix(
    broken="readers must guess the field or refuse the table",
    advice="commit the same action again with the right fields and dataChange=false; leave the old commit unchanged",
    loss="nothing: the newer action replaces it",
)
_IGNORED = Fix(broken="nothing: readers ignore it", advice="no repair needed")

EMPTY = AREA.error(
    "commit.empty",
    "A commit file is empty: an incomplete write, which silently restores or loses rows if readers skip the file.",
    *_CUT_OFF._replace(
        advice=from_a_copy(
            "if there is no copy, and you know that it changed nothing, let repair accept it; otherwise bring it back "
            "from a copy or a backup of the log, and never edit a commit"
        )
    ),
    example="00000000000000000003.json of 0 bytes",
)
NOT_UTF8 = AREA.error(
    "commit.not-utf8",
    "A line of a commit is not UTF-8, or begins with a byte order mark.",
    *_RESTORE,
    example=r'{"add":{"path":"caf\xe9.parquet",…}} in Latin-1',
)
BAD_JSON = AREA.error(
    "commit.bad-json",
    "A line of a commit is not a complete JSON value. If it is the last line, the write was incomplete.",
    *_CUT_OFF,
    example='{"add":{"path":"part-0.par',
)
LINE_NOT_OBJECT = AREA.error(
    "commit.line-not-object",
    "A line of a commit is not an object with exactly one action. A warning for an object with none, and for several "
    "of which every engine reads the same rows.",
    *_RESTORE,
    spec="Actions",
    example='["add"]',
)
DUPLICATE_KEY = AREA.warning(
    "commit.duplicate-key",
    "A line has the same JSON key twice in one object. Engines disagree about which value applies.",
    spec="Delta Log Entries (JSON, RFC 8259)",
    broken="one reader uses the first value, another the last",
    repair="commit the action again with one value",
    example='{"add":{"path":"a.parquet","path":"b.parquet",…}}',
)
UNKNOWN_FIELD = AREA.info(
    "commit.unknown-field",
    "A known action has a field that the protocol does not define. Readers ignore it.",
    *_IGNORED,
    spec="Protocol Evolution",
    example='{"add":{"path":"a.parquet",…,"rowGroups":3}}',
)
PRETTY_PRINTED = AREA.error(
    "commit.pretty-printed",
    "An action spans several lines, or a line has several objects. Readers fail on it, or read the first object only.",
    *_RESTORE,
    example='{\n  "commitInfo": {\n',
)
CRLF_OR_BLANK = AREA.error(
    "commit.crlf-or-blank",
    "A commit has blank lines. An info if a checkpoint covers it, and for lines that end with CR LF, or with CR alone.",
    broken="Delta Kernel for Java refuses a version with a blank line in its commits; other readers ignore such lines",
    repair=LazyText(
        "let readers begin behind the commit: {}; ends of lines need no repair", partial(command, "checkpoint")
    ),
    example=r'{"commitInfo":{}}\n\n',
)
MISSING_REQUIRED = AREA.error(
    "action.missing-required",
    "An action lacks a required field.",
    broken=_LATER_ADD.broken,
    repair=LazyText(
        "if a metaData lacks a field other than schemaString, let readers begin behind the commit: {}; otherwise "
        f"{_LATER_ADD.advice}",
        partial(command, "checkpoint"),
    ),
    loss=_LATER_ADD.loss,
    spec="Actions",
    example='{"add":{"path":"a.parquet","partitionValues":{},"modificationTime":1,"dataChange":true}} without size',
)
WRONG_TYPE = AREA.error(
    "action.wrong-type",
    "A field of an action has a JSON type that differs from the protocol.",
    *_LATER_ADD,
    spec="Actions",
    example='{"add":{"size":"1024",…}}',
)
NUMBER_SPELLING = AREA.error(
    "action.number-spelling",
    "An integer of an action is written with a fraction or an exponent. It is read as the number that it is. A warning "
    "if a checkpoint covers the commit.",
    broken="readers that parse integers strictly refuse the version and all later ones",
    repair=_LATER_ADD.advice,
    loss=_LATER_ADD.loss,
    spec="Actions",
    example='{"add":{"size":1024.0,…}}',
)
LONE_SURROGATE = AREA.error(
    "commit.lone-surrogate",
    "A text of a commit, or of a schema, statistics or a domain in it, has an escape of half a surrogate pair, which "
    "is not Unicode. Most readers refuse the commit.",
    broken="readers that demand Unicode refuse this version and all later ones",
    repair=LazyText(
        "replace the text, if it is one of the table (alter, properties), then let readers begin behind the commit: {}",
        partial(command, "checkpoint"),
    ),
    spec="Delta Log Entries (JSON, RFC 8259)",
    example=r'{"commitInfo":{"userMetadata":"\ud83c"}}',
)
NOT_FINITE = AREA.error(
    "commit.number-not-finite",
    "A commit, or a schema in it, has NaN or Infinity as a value, which JSON does not have.",
    broken="Delta Kernel (Java and Rust), deltalake, polars, DuckDB, chDB and daft refuse this version and all later "
    "ones; Spark reads them",
    repair=LazyText(
        "let readers begin behind the commit: {}; a value in the schema remains until an engine replaces the schema",
        partial(command, "checkpoint"),
    ),
    spec="Delta Log Entries (JSON, RFC 8259)",
    example='{"commitInfo":{"operation":"WRITE","operationMetrics":{"ratio":NaN}}}',
)
_NOT_FINITE_IN_SCHEMA = NOT_FINITE.with_fix(
    NOT_FINITE.fix._replace(
        advice="an engine has to replace the schema with one without the value; a checkpoint does not help, because it "
        "has the schema, too"
    )
)
_NOT_FINITE_IN_KNOWN_FIELD = NOT_FINITE.with_fix(NOT_FINITE.fix._replace(advice=_RESTORE.advice, loss=_RESTORE.loss))
"""For a field that the protocol defines: with the value in it, no checkpoint can be written from the commit."""
_SCHEMA_FIELD = "schemaString"
CONFIGURATION_NOT_STRING = AREA.error(
    "domain.configuration-not-string",
    "The configuration of a domain is not a string.",
    spec="Domain Metadata",
    broken="readers that parse the configuration as text fail",
    repair="commit the domain again with its configuration as a string",
    example='{"domainMetadata":{"domain":"d","configuration":{},"removed":false}}',
)


def report_field(kind: str, fault: FieldFault, place: Place) -> Finding:
    """Return the finding for a faulty field."""
    what = f"{kind}.{fault.name}"
    if fault.found is None:
        # A checkpoint has what readers assume for the field. A schema is not assumed.
        ends = kind == "metaData" and fault.name != _SCHEMA_FIELD
        expected = fault.expected
        message = f"{what} is missing"
        return MISSING_REQUIRED.at(place, message, expected=expected, cases=(what,), ends_with_checkpoint=ends)
    rule = CONFIGURATION_NOT_STRING if what == "domainMetadata.configuration" else WRONG_TYPE
    return rule.at(
        place, f"{what} is {fault.found}, expected {fault.expected}", seen=fault.found, expected=fault.expected
    )


_PLAIN = {FieldType.TEXT: str, FieldType.BOOLEAN: bool, FieldType.OBJECT: dict}


class FieldFault(NamedTuple):
    """A field that is missing (`found` None) or of another type than `expected`."""

    name: str
    found: str | None
    expected: str


def faults_of(kind: str, action: Action) -> Iterator[FieldFault]:
    """Yield every fault of the fields of an action. Kinds with free fields have no faults."""
    yield from _faults(FIELDS.get(kind, {}), action, "")


def unknown_fields(kind: str, action: Action) -> list[str]:
    """Return the unrecognized fields, which readers ignore."""
    known = FIELDS.get(kind)
    return [] if known is None else sorted(name for name in action if name not in known)


def _faults(fields: Mapping[str, Field], action: Action, prefix: str) -> Iterator[FieldFault]:
    for name, field in fields.items():
        value = action.get(name)
        if value is None:
            if field.required:
                yield FieldFault(prefix + name, None, field.type.value)
        elif not _is_plain(field.type, value):
            yield from _faults_inside(field, value, prefix + name)


def _is_plain(field_type: FieldType, value: object) -> bool:
    """Return True if a value has the right type, False if it has not or needs a closer look."""
    plain = _PLAIN.get(field_type)
    if plain is not None:
        return type(value) is plain
    if field_type is FieldType.LONG:
        return type(value) is int and -(2**63) <= value < 2**63
    if field_type is FieldType.INT:
        return type(value) is int and -(2**31) <= value < 2**31
    return False


def _faults_inside(field: Field, value: Json, name: str) -> Iterator[FieldFault]:
    match field.type:
        case FieldType.VECTOR | FieldType.FORMAT if type(value) is dict:
            yield from _faults(PARTS[field.type], value, f"{name}.")
        case FieldType.TEXTS if type(value) is list:
            odd = [item for item in value if type(item) is not str]
            if odd:
                yield FieldFault(name, f"an array with {describe_value(odd[0])}", field.type.value)
        case FieldType.TEXT_MAP | FieldType.VALUES if type(value) is dict:
            for key, item in value.items():
                if type(item) is not str and not (item is None and field.type is FieldType.VALUES):
                    yield FieldFault(f"{name}.{key}", describe_value(item), "a string")
        case _:
            yield FieldFault(name, describe_value(value), field.type.value)


def describe_value(value: object) -> str:
    """Describe a JSON value in a few words."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return f'the string "{value[:60]}"'
        case dict():
            return "an object"
        case list():
            return "an array"
        case _:
            return f"the number {value}"[:80]


# -- the raw lines of a commit with all their faults -------------------------------------------------------------------

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
    """Scans the files of a table. Valid shapes of actions are remembered: a million adds of a writer need one check."""

    def __init__(self) -> None:
        self._sound: set[tuple[Any, ...]] = set()  # Any: names and types of the fields
        self._odd: dict[tuple[Any, ...], list[str]] = {}

    def scan(self, data: bytes, place: Place) -> ScannedLines:
        """Scan the bytes of a whole file; `place` names it."""
        lines = _split_lines(data)
        scanned = self.scan_lines(lines, place)
        is_held = max(map(len, lines)) <= MAX_LINE_BYTES
        if is_held and any(finding.rule is BAD_JSON for finding in scanned.findings):
            objects = _decode_all(data)
            if objects is not None:
                return self._scan_objects(objects, place)
        return scanned

    def scan_lines(self, lines: Iterable[bytes], place: Place) -> ScannedLines:
        """Scan the lines of a file of any size; `place` names it."""
        run = _Run(place)
        blank = False
        for number, line in enumerate(lines, 1):
            run.blank_lines += blank
            blank = False
            if not line:
                blank = True
                continue
            if len(line) > MAX_LINE_BYTES:
                message = f"the line is longer than {MAX_LINE_BYTES >> 20} MiB, which no reader supports"
                seen = f"{len(line)} bytes"
                run.report(BAD_JSON.at(place._replace(line=number), message, seen=seen, cases=("too long",)))
                run.is_readable = False
                continue
            try:
                value = orjson.loads(line)
                if orjson.dumps(value) != line:
                    value = self._careful(line, number, run)
            except (orjson.JSONDecodeError, orjson.JSONEncodeError):
                if line.isspace():
                    run.blank_lines += 1
                    continue
                value = self._careful(line, number, run)
            if value is _UNREADABLE:
                run.is_readable = False
            else:
                run.is_readable &= self._take(value, number, run, line)
        return run.result()

    def _scan_objects(self, objects: Sequence[DecodedObject], place: Place) -> ScannedLines:
        """Parse the actions of a file whose objects are not one per line."""
        run = _Run(place)
        _report_form(objects, place, run)
        for decoded in objects:
            text = json.dumps(decoded.value)
            _report_not_finite(find_constants(text), "the action", place._replace(line=decoded.line), run)
            if decoded.counted or not decoded.value:
                self._take(decoded.counted, decoded.line, run, json.dumps(decoded.counted).encode())
        return run.result()

    def _careful(self, line: bytes, number: int, run: _Run) -> Json:
        """Parse a line that does not have the usual machine-written form."""
        place = run.place._replace(line=number)
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as fault:
            message = f"byte {fault.start} of the line is not UTF-8"
            seen = repr(line[fault.start : fault.start + 8])
            run.report(NOT_UTF8.at(place, message, seen=seen, cases=("bytes",)))
            return _UNREADABLE
        if line.startswith(_BOM):
            message = "the line begins with a byte order mark"
            run.report(NOT_UTF8.at(place, message, seen="EF BB BF", cases=("mark",)))
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
            run.report(BAD_JSON.at(place, message, cases=("too deep",)))
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
        constants = find_constants(text)
        rule = _NOT_FINITE_IN_KNOWN_FIELD if constants and _is_in_known_field(value) else NOT_FINITE
        _report_not_finite(constants, "the line", place, run, rule=rule)
        run.odd_ends += text.endswith("\r")
        return value

    def _take(self, value: Json, number: int, run: _Run, line: bytes) -> bool:
        """Parse the actions of one line. Return False if it is not an object, so that it may have been any action."""
        if type(value) is not dict:
            message = f"the line is {describe_value(value)}, expected an object with one action"
            case = "array" if isinstance(value, list) else "no object"
            place = run.place._replace(line=number)
            run.report(LINE_NOT_OBJECT.at(place, message, seen=describe_value(value), cases=(case,)))
            return False
        if len(value) != 1 or None in value.values():
            _report_number(value, number, run)
            value = choose_actions(value)
        for kind, action in value.items():
            if type(action) is dict:
                if kind == "metaData":
                    constants = find_constants(action.get(_SCHEMA_FIELD))
                    place = run.place._replace(line=number)
                    _report_not_finite(constants, f"metaData.{_SCHEMA_FIELD}", place, run, rule=_NOT_FINITE_IN_SCHEMA)
                if _ESCAPE_WITHIN in line:
                    _report_halves_within(kind, action, run.place._replace(line=number), run)
                for names in take_whole_numbers(kind, action, line):
                    whole: Json = action
                    for name in names:
                        whole = whole[name]
                    message = f"{'.'.join((kind, *names))} is written with a fraction or an exponent"
                    place, expected = run.place._replace(line=number), f"{whole}"
                    run.report(NUMBER_SPELLING.at(place, message, expected=expected, ends_with_checkpoint=True))
                shape = (kind, *action, *map(type, action.values()))
                if (shape in self._sound and _small_parts_are_plain(action)) or kind not in FIELDS:
                    run.actions.append(LocatedAction(kind, action, number))
                else:
                    self._take_unusual(shape, LocatedAction(kind, action, number), run)
            elif action is not None:
                _take_no_object(kind, action, number, run)
        return True

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
        self.blank_lines = 0
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
            where = f" in {count:,} actions" if count > 1 else ""
            message = f"{kind}.{name} is not defined by the protocol{where}; readers ignore it"
            self.report(UNKNOWN_FIELD.at(self.place._replace(line=first), message, seen=name))
        if self.blank_lines:
            message = f"the commit has {plural(self.blank_lines, 'blank line')}"
            seen = self.blank_lines
            self.report(CRLF_OR_BLANK.at(self.place, message, seen=seen, cases=("blank",), ends_with_checkpoint=True))
        elif self.odd_ends:
            message = f"{plural(self.odd_ends, 'line')} ending with CR LF or CR"
            severity = Severity.INFO
            finding = CRLF_OR_BLANK.at(self.place, message, seen=self.odd_ends, severity=severity, cases=("ends",))
            self.report(finding)
        return ScannedLines(self.actions, self.broken, self._findings, self.is_readable)


def _report_number(value: dict[str, Any], number: int, run: _Run) -> None:
    """Report a line with no action or with several: a warning if every engine reads the rows alike."""
    filled = sum(action is not None for action in value.values())
    known = {kind for kind, action in value.items() if action is not None and kind in KNOWN_ACTIONS}
    if filled and len(known) < 2:  # an unrecognized key may be next to an action
        return
    names = ", ".join(sorted(value)[:5]) or "nothing"
    message = f"the line has {len(known) or 'no'} actions, expected one"
    case, severity = "several" if filled else "empty", Severity.WARNING
    if known >= {"add", "remove"}:
        case, severity = "add and remove", Severity.ERROR
        message = f"{message}; an add is there, so the remove is left out"
    elif len(known - {"commitInfo"}) > 1 and known & {"protocol", "metaData"}:
        case, severity = "protocol or metaData", Severity.ERROR
    place = run.place._replace(line=number)
    run.report(LINE_NOT_OBJECT.at(place, message, seen=names, expected="one action", severity=severity, cases=(case,)))


def _take_no_object(kind: str, action: Json, number: int, run: _Run) -> None:
    if kind not in KNOWN_ACTIONS:
        run.actions.append(LocatedAction(kind, {}, number))
    elif kind == "commitInfo":  # free in form; another rule requires an object
        run.actions.append(LocatedAction(kind, {"": action}, number))
    else:
        message = f"{kind} is {describe_value(action)}, expected an object"
        place = run.place._replace(line=number)
        run.report(WRONG_TYPE.at(place, message, seen=describe_value(action), expected="an object"))
        run.broken.append(LocatedAction(kind, {}, number))


def _small_parts_are_plain(action: Action) -> bool:
    """Return True if numbers are small and maps have only strings, so that its shape makes an action valid or not."""
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
_CARRIAGE_RETURN = re.compile(rb"\r(?!\n|\Z)")


def _split_lines(data: bytes) -> list[bytes]:
    """Return the lines of a file. Where lines end with CR alone, as engines accept it, each keeps its CR.

    A JSON text has no raw CR within a string, so one in the middle of a line ends an action, or is white space.
    """
    lines = data.split(b"\n")
    if b"\r" not in data or _CARRIAGE_RETURN.search(data) is None:
        return lines
    return [part for line in lines for part in line.replace(b"\r", b"\r\n").removesuffix(b"\n").split(b"\n")]


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


def _report_not_finite(
    constants: Sequence[str], what: str, place: Place, run: _Run, *, rule: Rule = NOT_FINITE
) -> None:
    """Report constants of a line, or of a JSON text in a field of it, that are numbers for Spark alone."""
    if constants:
        named = " and ".join(constants)
        message = f"{what} has {named}, which is not JSON; Spark reads the commit"
        # A checkpoint has no commitInfo and no fields that the protocol does not define, but the schema.
        ends = rule is not _NOT_FINITE_IN_SCHEMA
        expected = "a number, a string or null"
        run.report(rule.at(place, message, seen=named, expected=expected, ends_with_checkpoint=ends))


def _is_in_known_field(value: Json) -> bool:
    """Return whether a line has NaN or Infinity in a field that the protocol defines.

    Such a field has another type, or is `tags`, which has texts in a checkpoint: none can be written from the commit.
    """
    actions = value.items() if type(value) is dict else ()
    return any(
        not _is_finite(action.get(name))
        for kind, action in actions
        if type(action) is dict
        for name in FIELDS.get(kind, ())
    )


def _is_finite(value: Json) -> bool:
    """Return False for NaN and Infinity, also within objects and arrays."""
    if type(value) is dict:
        return all(map(_is_finite, value.values()))
    if type(value) is list:
        return all(map(_is_finite, value))
    return type(value) is not float or math.isfinite(value)


def _decode_all(data: bytes) -> list[DecodedObject] | None:
    """Return the objects of a file whose actions are not one per line; None for another file."""
    try:
        objects = list(decode_objects(data.decode("utf-8")))
    except (ValueError, RecursionError):
        return None
    is_too_deep = any(is_nested_too_deeply(json.dumps(decoded.value).encode(), decoded.value) for decoded in objects)
    return None if is_too_deep else objects


def _report_form(objects: Sequence[DecodedObject], place: Place, run: _Run) -> None:
    """Report that the actions of a file span lines, or that a line has several objects, of which engines read some."""
    if not all(decoded.is_on_one_line for decoded in objects):
        message = "actions span several lines, but each must be on its own line"
        run.report(PRETTY_PRINTED.at(place._replace(line=1), message))
        return
    following = [decoded for decoded in objects if not decoded.is_first_on_line]
    if not following:
        return  # lines that end with CR alone
    kinds = {kind for decoded in following for kind in decoded.value}
    cases = []
    if "remove" in kinds:
        cases.append("remove after another")
    if kinds != {"remove"}:
        cases.append("several on a line")
    message = "a line has several objects, but each must be on its own line"
    if "remove" in kinds:
        message = f"{message}; a remove after another object is left out"
    run.report(PRETTY_PRINTED.at(place._replace(line=following[0].line), message, cases=tuple(cases)))
