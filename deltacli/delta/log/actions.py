"""The actions of a commit: the fields of each, declared once, and the lines of JSON that hold them.

Derived from them are the types that `validate` checks in commits and in the columns of checkpoints, the Arrow schemas
of file actions and of checkpoint rows, and the fields by which two states are compared.

The standard library parses what orjson
refuses but known writers have produced (bare NaN, lone surrogates, actions that span several lines). Lines end only at
LF, because U+2028 and similar characters occur unescaped in strings.

Spec: Actions; Checkpoint Schema; Delta Log Entries; Protocol Evolution. orjson parses plain text; Commit Provenance
Information.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from deltacli.core.errors import CommitCorrupt, UsageError, command, parameter
from deltacli.core.texts import is_utf8_encodable
from deltacli.core.typing import Json
from deltacli.delta.log.disputed_readings import SEVERAL_ACTIONS, SEVERAL_OBJECTS


class FieldType(Enum):
    """The possible types of a field. The value describes them in JSON."""

    TEXT = "a string"
    LONG = "an integer of 64 bits"
    INT = "an integer of 32 bits"
    BOOLEAN = "true or false"
    TEXTS = "an array of strings"
    TEXT_MAP = "an object of strings"
    VALUES = "an object of strings and nulls"
    OBJECT = "an object"
    FORMAT = "an object with a provider and options"
    VECTOR = "a deletion vector"


class Field(NamedTuple):
    type: FieldType
    required: bool = False


PARTS: Mapping[FieldType, Mapping[str, Field]] = {
    # `dv.bad-descriptor` reports fields that are missing from a descriptor.
    FieldType.VECTOR: {
        "storageType": Field(FieldType.TEXT),
        "pathOrInlineDv": Field(FieldType.TEXT),
        "offset": Field(FieldType.INT),
        "sizeInBytes": Field(FieldType.INT),
        "cardinality": Field(FieldType.LONG),
    },
    FieldType.FORMAT: {"provider": Field(FieldType.TEXT, True), "options": Field(FieldType.TEXT_MAP, True)},
}
"""The fields inside a field that is a struct."""

FIELDS: Mapping[str, Mapping[str, Field]] = {
    "txn": {
        "appId": Field(FieldType.TEXT, True),
        "version": Field(FieldType.LONG, True),
        "lastUpdated": Field(FieldType.LONG),
    },
    "add": {
        "path": Field(FieldType.TEXT, True),
        "partitionValues": Field(FieldType.VALUES, True),
        "size": Field(FieldType.LONG, True),
        "modificationTime": Field(FieldType.LONG, True),
        "dataChange": Field(FieldType.BOOLEAN, True),
        "stats": Field(FieldType.TEXT),
        "tags": Field(FieldType.OBJECT),
        "deletionVector": Field(FieldType.VECTOR),
        "baseRowId": Field(FieldType.LONG),
        "defaultRowCommitVersion": Field(FieldType.LONG),
        "clusteringProvider": Field(FieldType.TEXT),
    },
    "remove": {
        "path": Field(FieldType.TEXT, True),
        "deletionTimestamp": Field(FieldType.LONG),
        "dataChange": Field(FieldType.BOOLEAN, True),
        "extendedFileMetadata": Field(FieldType.BOOLEAN),
        "partitionValues": Field(FieldType.VALUES),
        "size": Field(FieldType.LONG),
        "stats": Field(FieldType.TEXT),
        "tags": Field(FieldType.OBJECT),
        "deletionVector": Field(FieldType.VECTOR),
        "baseRowId": Field(FieldType.LONG),
        "defaultRowCommitVersion": Field(FieldType.LONG),
    },
    "cdc": {
        "path": Field(FieldType.TEXT, True),
        "partitionValues": Field(FieldType.VALUES, True),
        "size": Field(FieldType.LONG, True),
        "dataChange": Field(FieldType.BOOLEAN, True),
        "tags": Field(FieldType.OBJECT),
    },
    "metaData": {
        "id": Field(FieldType.TEXT, True),
        "name": Field(FieldType.TEXT),
        "description": Field(FieldType.TEXT),
        "format": Field(FieldType.FORMAT, True),
        "schemaString": Field(FieldType.TEXT, True),
        "partitionColumns": Field(FieldType.TEXTS, True),
        "configuration": Field(FieldType.TEXT_MAP, True),
        "createdTime": Field(FieldType.LONG),
    },
    "protocol": {
        "minReaderVersion": Field(FieldType.INT, True),
        "minWriterVersion": Field(FieldType.INT, True),
        "readerFeatures": Field(FieldType.TEXTS),
        "writerFeatures": Field(FieldType.TEXTS),
    },
    "domainMetadata": {
        "domain": Field(FieldType.TEXT, True),
        "configuration": Field(FieldType.TEXT, True),
        "removed": Field(FieldType.BOOLEAN, True),
    },
    "sidecar": {
        "path": Field(FieldType.TEXT, True),
        "sizeInBytes": Field(FieldType.LONG, True),
        "modificationTime": Field(FieldType.LONG, True),
        "tags": Field(FieldType.OBJECT),
    },
    "checkpointMetadata": {"version": Field(FieldType.LONG, True), "tags": Field(FieldType.OBJECT)},
}
"""Fields of every action whose fields the protocol defines, in the order of columns. `commitInfo` may have any."""


_WHOLE = {FieldType.LONG, FieldType.INT}
_INFO = ("timestamp", "inCommitTimestamp", "readVersion")
"""Fields of `commitInfo` that are integers wherever they occur."""


@lru_cache(maxsize=1)
def integer_fields() -> Mapping[str, tuple[str, ...]]:
    """Return the fields of each kind of action that are integers, and those of a deletion vector."""
    found = {kind: _integers_of(fields) for kind, fields in FIELDS.items()}
    return {**found, "commitInfo": _INFO, "deletionVector": _integers_of(PARTS[FieldType.VECTOR])}


def _integers_of(fields: Mapping[str, Field]) -> tuple[str, ...]:
    return tuple(name for name, field in fields.items() if field.type in _WHOLE)


def respelled_integers(kind: str, action: Mapping[str, Json]) -> list[tuple[str, ...]]:
    """Return the places of integers of an action that JSON parsers return as floats: `486.0` and `4.86e2`, which are
    the number 486 as JSON has it, and numbers with a fraction. Readers and `validate` ask this function.
    """
    whole = integer_fields()
    found: list[tuple[str, ...]] = [(name,) for name in whole.get(kind, ()) if type(action.get(name)) is float]
    vector = action.get("deletionVector")
    if type(vector) is dict:
        found += [("deletionVector", name) for name in whole["deletionVector"] if type(vector.get(name)) is float]
    return found


def missing_field_error(what: str, source: str) -> CommitCorrupt:
    """Return the error for a missing required field: `what` is `add.size`, `source` the file."""
    return CommitCorrupt(
        f"{source}: {what} is missing", file=source, code="action.missing-required", hint=command("history")
    )


def wrong_type_error(what: str, actual: str, source: str) -> CommitCorrupt:
    """Return the error for a field whose value has a different type than in the protocol."""
    message = f"{source}: {what} has the wrong type"
    return CommitCorrupt(
        message, file=source, code="action.wrong-type", facts={"found": actual[:120]}, hint=command("history")
    )


def too_deep(what: str, source: str) -> CommitCorrupt:
    """Return the error for a value that was read but is nested too deeply to be written."""
    return wrong_type_error(what, "a value nested too deeply to be written", source)


def format_json_value(value: object) -> str:
    """Return a value of the log for a message. `repr` is recursive and fails on deeply nested values."""
    try:
        return repr(value)
    except RecursionError:
        return "a value nested too deeply to be shown"


# -- parsing a commit file ---------------------------------------------------------------------------------------------

Action = dict[str, Any]  # Any: an action as found, with unrecognized fields

ROWS_CHECKED = "deltacli.rowsChecked"
"""The tag of a commit that demands something of rows which were written before, and has checked them."""

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


MAX_LINE_BYTES = 128 << 20
"Enough for a schema of a million columns. A longer line is refused because reading needs several copies of it in "
"memory."

MAX_DEPTH = 200
"Nested objects and arrays; JSON writers fail at slightly more."

_DIGITS = 19
"Decimal digits of an integer of 64 bits."
_BLANK = re.compile(r"\s*")
_LINE_BREAK = re.compile(r"[\r\n]")


def split_lines(blocks: Iterable[bytes], name: str = "the file") -> Iterator[bytes]:
    """Yield the lines of a file that arrives in blocks.

    The last one may lack its LF. Raises CommitCorrupt (`commit.line-too-long`) before a line above MAX_LINE_BYTES is in
    memory.
    """
    rest: list[bytes] = []
    held, number = 0, 1
    for block in blocks:
        first = block.find(b"\n")
        held += len(block) if first < 0 else first
        if held > MAX_LINE_BYTES:
            raise line_too_long(name, number)
        rest.append(block if first < 0 else block[:first])
        if first < 0:
            continue
        yield b"".join(rest)
        *lines, last = block[first + 1 :].split(b"\n")
        yield from lines
        number += 1 + len(lines)
        rest, held = [last], len(last)
    if held:
        yield b"".join(rest)


def line_too_long(name: str, number: int | None = None) -> CommitCorrupt:
    """Return the error for a line that is too long. `number` counts from 1, None if unknown."""
    return CommitCorrupt(
        f"{name} {'has a line' if number is None else f'line {number} is'} longer than {MAX_LINE_BYTES >> 20} MiB",
        file=name,
        code="commit.line-too-long",
        facts={"limit": f"{MAX_LINE_BYTES} bytes"} | ({} if number is None else {"line": str(number)}),
        hint=command("history"),
    )


def read_actions(data: bytes, name: str, *, disputed_rules: set[str] | None = None) -> list[tuple[str, Action]]:
    """Return the actions of a whole commit file as (kind, action), in file order, including unknown kinds.

    Args:
        data: The bytes of the file.
        name: Its name, for errors.
        disputed_rules: Gets the rules of `validate` for lines that engines read differently.

    Raises:
        CommitCorrupt: Naming file, line and byte: `commit.bad-json`, `commit.line-not-object`, `action.wrong-type`.
    """
    try:
        return _read_plain_actions(data)
    except (orjson.JSONDecodeError, _NotPlainError):
        pass
    try:
        return list(stream_actions(data.split(b"\n"), name, disputed_rules=disputed_rules))
    except CommitCorrupt as corrupt:
        spread = _read_spread_actions(data, name, disputed_rules) if corrupt.code == "commit.bad-json" else None
        if spread is None:
            raise corrupt
        return spread


class _NotPlainError(Exception):
    pass


def _read_plain_actions(data: bytes) -> list[tuple[str, Action]]:
    """Read the usual form of a commit, one object with one action per line; all else is left to `stream_actions`."""
    actions, whole = [], integer_fields()
    for line in data.split(b"\n"):
        if line:
            value = orjson.loads(line)
            if type(value) is not dict or len(value) != 1:
                raise _NotPlainError
            action = kind, fields = value.popitem()
            if type(fields) is not dict or ("deletionVector" in fields and respelled_integers(kind, fields)):
                raise _NotPlainError
            for name in whole.get(kind, ()):  # a call of `respelled_integers` would take a third of the time
                if name in fields and type(fields[name]) is float:
                    raise _NotPlainError
            actions.append(action)
    return actions


def stream_actions(
    lines: Iterable[bytes], name: str, *, disputed_rules: set[str] | None = None
) -> Iterator[tuple[str, Action]]:
    """Yield (kind, action) line by line without keeping the file. Arguments and errors are those of `read_actions`."""
    loads = orjson.loads
    offset = 0
    rest = iter(lines)
    for number, line in enumerate(rest, 1):
        if not line:
            offset += 1
            continue
        try:
            value = loads(line)
        except orjson.JSONDecodeError:
            if line.isspace():
                offset += len(line) + 1
                continue
            try:
                value = _parse_leniently(line, name, number, offset)
            except CommitCorrupt as corrupt:
                if next(rest, None) is None and is_cut_off(line):
                    corrupt.message = f"{name} ends in the middle of line {number}: the file is incomplete"
                raise
        if type(value) is not dict:
            raise _not_an_action(name, number, offset, value)
        if len(value) > 1:
            value = choose_actions(value, disputed_rules)
        for kind, action in value.items():
            if type(action) is dict:
                if "deletionVector" in action or float in map(type, action.values()):
                    take_whole_numbers(kind, action, line)
                yield kind, action
            elif action is not None:
                # A commitInfo is free in form and changes no row: as text or as a list it has no field that is known.
                if kind in KNOWN_ACTIONS and kind != "commitInfo":
                    raise _wrong_type(name, number, offset, kind, action)
                yield kind, {}
        offset += len(line) + 1


def choose_actions(line: Mapping[str, Json], disputed_rules: set[str] | None = None) -> Mapping[str, Json]:
    """Return the actions of a line with several of them that count; by the protocol a line has one.

    Delta for Spark and the Rust kernel take an add and leave out a remove on the same line. The Java kernel takes both.
    A file that may be live is never treated as deleted, so the remove is left out. All other actions are taken: Spark
    takes one of them only, but none of them removes rows.

    Args:
        line: The kinds of action on the line, each with the action. Null stands for no action.
        disputed_rules: Gets the rule of `validate` if engines read the line differently.
    """
    # A commitInfo changes nothing, and a kind that is not known is ignored.
    kinds = {kind for kind, action in line.items() if action is not None and kind in KNOWN_ACTIONS} - {"commitInfo"}
    if len(kinds) < 2:
        return line
    if disputed_rules is not None:
        disputed_rules.add(SEVERAL_ACTIONS)
    if not kinds >= {"add", "remove"}:
        return line
    return {kind: action for kind, action in line.items() if kind != "remove"}


def take_whole_numbers(kind: str, action: Action, line: bytes | None = None) -> list[tuple[str, ...]]:
    """Replace integers of an action that its line spells otherwise (`486.0`, `4.86e2`) by their exact value, and return
    their places. Without a line, the action is of a checkpoint whose columns are doubles. What is no whole number of 64
    bits is left as it is.
    """
    places = respelled_integers(kind, action)
    if not places:
        return []
    exact = action
    if line is not None:
        try:
            exact = json.loads(line, parse_float=exact_number)[kind]
        except (ValueError, RecursionError):  # too many digits or levels elsewhere in the line
            return []
    found = []
    for *outer, name in places:
        value, part = exact, action
        for step in outer:
            value, part = value[step], part[step]
        number = value[name]
        if (type(number) is int or number.is_integer()) and -(2**63) <= number < 2**63:
            part[name] = int(number)
            found.append((*outer, name))
    return found


def exact_number(text: str) -> int | float:
    """Return a number that a JSON text spells with a fraction or an exponent, as an integer where it is whole."""
    from decimal import Decimal

    number = Decimal(text)
    is_whole = number.adjusted() < _DIGITS and number == number.to_integral_value()
    return int(number) if is_whole else float(text)


def kinds_of(line: bytes) -> Collection[str] | None:
    """Return the kinds of action in one line, none for a blank line, or None if it is not a JSON object."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        if line.isspace():
            return ()
        try:
            value = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError):
            return None
    return [kind for kind, action in value.items() if action is not None] if type(value) is dict else None


def is_nested_too_deeply(line: bytes, action: Action) -> bool:
    """Return True if an action, parsed from a line, has more than MAX_DEPTH nested objects and arrays."""
    if line.count(b"{") + line.count(b"[") <= MAX_DEPTH:
        return False
    level: list[object] = [action]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for value in level
            for item in (value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
            if isinstance(item, dict | list)
        ]
    return bool(level)


def _parse_leniently(line: bytes, name: str, number: int, offset: int) -> Json:
    """Parse a line that orjson refuses: NaN, Infinity and lone surrogates are accepted, anything else is a fault."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise CommitCorrupt(
            f"{name} line {number} is not UTF-8",
            file=name,
            code="commit.not-utf8",
            facts={"byte": str(offset + fault.start), "found": repr(line[fault.start : fault.start + 8])},
            hint=command("history"),
        ) from None
    if text.startswith("\ufeff"):
        raise CommitCorrupt(
            f"{name} line {number} begins with a byte order mark",
            file=name,
            code="commit.not-utf8",
            facts={"byte": str(offset), "found": repr(line[:8])},
            hint=command("history"),
        )
    try:
        return json.loads(text)
    except RecursionError:
        reason, position = "nested too deeply", 0
    except json.JSONDecodeError as fault:
        reason, position = json_reason(fault), len(text[: fault.pos].encode("utf-8", "surrogatepass"))
    except ValueError:
        reason, position = "a number has too many digits", 0
    raise CommitCorrupt(
        f"{name} line {number} is not JSON: {reason}",
        file=name,
        code="commit.bad-json",
        facts={"line": str(number), "byte": str(offset + position), "line ends with": repr(text[-60:])},
        hint=command("history"),
    )


def find_constants(text: object) -> list[str]:
    """Return which of NaN, Infinity and -Infinity a JSON text has as values, in the order of their first occurrence.

    JSON does not have these numbers. Spark writes and reads them, and so does deltacli (see `_parse_leniently`), but
    most engines refuse the whole text. The words within strings are no values. None are found in what is no JSON text.
    """
    if not isinstance(text, str) or ("NaN" not in text and "Infinity" not in text):
        return []
    constants: dict[str, None] = {}

    def note(constant: str) -> float:
        constants[constant] = None
        return float(constant)

    try:
        json.loads(text, parse_constant=note)
    except (ValueError, RecursionError):
        return []
    return list(constants)


def json_reason(fault: json.JSONDecodeError) -> str:
    """Return why a text is not JSON, without the position that the standard library puts after it."""
    return fault.msg.lower().removesuffix(" starting at")


def is_cut_off(line: bytes) -> bool:
    """Return True for the beginning of a JSON value whose end is missing."""
    try:
        text = line.decode("utf-8")
        json.loads(text)
    except UnicodeDecodeError as fault:
        return fault.end == len(line) and fault.reason == "unexpected end of data"
    except json.JSONDecodeError as fault:
        left = text[fault.pos :].rstrip()
        is_word = any(word.startswith(left) for word in ("true", "false", "null", "-"))
        return fault.msg.startswith("Unterminated string") or (is_word and fault.pos > 0)
    except (ValueError, RecursionError):
        return False
    return False


class DecodedObject(NamedTuple):
    """A JSON object of a commit whose objects are not one per line.

    Attributes:
        value: The object, normally with one action.
        line: The number of the line on which it begins, from 1.
        is_first_on_line: False if another object ends on the line on which it begins.
        is_on_one_line: Whether it ends on the line on which it begins.
    """

    value: Action
    line: int
    is_first_on_line: bool
    is_on_one_line: bool

    @property
    def counted(self) -> Action:
        """The actions of the object that count.

        Delta for Spark and the Java kernel read the first object of a line only, the Rust kernel all of them. A file
        that may be live is never treated as deleted, so a remove counts in the first object only, an add in all.
        """
        if self.is_first_on_line:
            return self.value
        return {kind: action for kind, action in self.value.items() if kind != "remove"}


def decode_objects(text: str) -> Iterator[DecodedObject]:
    """Yield the JSON objects of a text that are separated by white space of any kind, or by none.

    Raises:
        ValueError: If a part of the text is not an object. JSONDecodeError is one.
        RecursionError: If an object is nested too deeply.
    """
    decoder = json.JSONDecoder()
    position = _after_blanks(text, 0)
    line = 1 + text.count("\n", 0, position)
    is_first = True
    while position < len(text):
        value, end = decoder.raw_decode(text, position)
        if type(value) is not dict:
            raise ValueError("not an object")
        following = _after_blanks(text, end)
        yield DecodedObject(value, line, is_first, not _has_line_break(text, position, end))

        is_first = _has_line_break(text, end, following)
        line += text.count("\n", position, following)
        position = following


def _has_line_break(text: str, start: int, end: int) -> bool:
    """Return whether a part of a text has LF or CR, either of which ends a line for engines."""
    return _LINE_BREAK.search(text, start, end) is not None


def _read_spread_actions(data: bytes, name: str, disputed_rules: set[str] | None) -> list[tuple[str, Action]] | None:
    """Read a commit whose actions span lines, or that has several on one line (`commit.pretty-printed`).

    Returns:
        Its actions; None for a commit of another form.
    """
    found: list[tuple[str, Action]] = []
    of_file = set[str]()
    try:
        for decoded in decode_objects(data.decode("utf-8")):
            line = json.dumps(decoded.counted).encode()
            found += stream_actions([line], name, disputed_rules=of_file)
            if not decoded.is_first_on_line:
                of_file.add(SEVERAL_OBJECTS)
    except (ValueError, RecursionError):
        return None
    if disputed_rules is not None:
        disputed_rules |= of_file
    return found


def _after_blanks(text: str, position: int) -> int:
    """Return where the next value begins. The text is never copied, which would cost quadratic time."""
    match = _BLANK.match(text, position)
    return match.end() if match else position


def _not_an_action(name: str, number: int, offset: int, value: object) -> CommitCorrupt:
    return CommitCorrupt(
        f"{name} line {number} is not an action: found {json_type(value)}, expected an object",
        file=name,
        code="commit.line-not-object",
        facts={"line": str(number), "byte": str(offset)},
        hint=command("history"),
    )


def _wrong_type(name: str, number: int, offset: int, kind: str, value: object) -> CommitCorrupt:
    return CommitCorrupt(
        f"{name} line {number}: {kind} is {json_type(value)}, expected an object",
        file=name,
        code="action.wrong-type",
        facts={"line": str(number), "byte": str(offset)},
        hint=command("history"),
    )


def json_type(value: object) -> str:
    """Return the name of a JSON type for a message: `a number`, `an object`."""
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


# -- keys with texts that a user adds to the commitInfo of a commit ----------------------------------------------------

NO_METADATA: Mapping[str, str] = {}

_WRITTEN = "deltacli writes this key"
_NUMBER, _OBJECT = "Delta-Spark expects a number there", "Delta-Spark expects an object there"

RESERVED: Mapping[str, str] = {
    "timestamp": _WRITTEN,
    "inCommitTimestamp": _WRITTEN,
    "operation": _WRITTEN,
    "operationParameters": _WRITTEN,
    "operationMetrics": _WRITTEN,
    "readVersion": _WRITTEN,
    "isolationLevel": _WRITTEN,
    "isBlindAppend": _WRITTEN,
    "tags": _WRITTEN,
    "engineInfo": _WRITTEN,
    "txnId": _WRITTEN,
    # A text in their place makes DESCRIBE HISTORY, streams and concurrent writers fail at this version permanently.
    "version": _NUMBER,
    "job": _OBJECT,
    "notebook": _OBJECT,
}
"""Key -> why a user cannot set it."""
_BY_LOWER_CASE = {key.lower(): key for key in RESERVED}


def parse_commit_metadata(texts: Sequence[str]) -> dict[str, str]:
    """Return the keys and values of `KEY=VALUE` texts. Raises UsageError (`usage.commit-metadata`)."""
    pairs: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator:
            raise _refused(f"{text!r} has no value", {"expected": "KEY=VALUE"})
        if pairs.get(key, value) != value:
            raise _refused(f"{key} has two values: {pairs[key]!r} and {value!r}", {"expected": "one value per key"})
        pairs[key] = value
    require_unreserved_keys(pairs)
    return pairs


def require_unreserved_keys(metadata: Mapping[str, str]) -> None:
    """Raise UsageError (`usage.commit-metadata`) for reserved keys and for values that are not text."""
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise _refused(f"{key!r} with the value {value!r}", {"expected": "strings as key and value"})
        if not key or not is_utf8_encodable(key) or not is_utf8_encodable(value):
            raise _refused(
                f"{key!r} with the value {value!r}", {"expected": "strings in UTF-8, and a key that is not empty"}
            )
        reserved = _BY_LOWER_CASE.get(key.lower())
        if reserved is not None:
            other = parameter("vacuum.commit_metadata", {f"{reserved}Name": "VALUE"})
            hint = None if RESERVED[reserved] is _WRITTEN else f"another key: {other}"
            raise _refused(f"the key {key} is reserved", {"why": f"{reserved}: {RESERVED[reserved]}"}, hint=hint)


def _refused(what: str, facts: Mapping[str, str], *, hint: str | None = None) -> UsageError:
    return UsageError(f"commit metadata: {what}", code="usage.commit-metadata", facts=facts, hint=hint)
