"""Requested changes as values, as JSON objects, and as words of a command line, with types in SQL.

A column is a path as `column_path` reads it. In JSON, `change` names the kind, the other keys are the fields.

Spec: Schema Serialization Format; Delta-Spark: data types.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import NamedTuple, NoReturn, TypeAlias

from deltacli.core.alter_verbs import Details, Verb, find_missing_words
from deltacli.core.errors import DeltacliError, Refused, UsageError, command, nearest_type, parameter
from deltacli.core.texts import add_article, parse_names
from deltacli.core.typing import Json, JsonObject
from deltacli.delta.schema import types
from deltacli.delta.schema.type_changes import (
    NUMBER_TYPES,
    OF_DECIMALS,
    canonical_name,
    digits_of_decimal,
    hint_for_type,
)
from deltacli.delta.schema.widening import parses
from deltacli.delta.sql.parser import Form, Node, parse_expression

TYPE_CODE = "usage.type"
_OTHER_NAMES: Mapping[str, str] = {"timestamp_ltz": "timestamp", "bool": "boolean"}
_PLAIN = types.PLAIN_TYPES | {"variant"}
_TEXTS = re.compile(r"(?:char|character|varchar)\s*\(\s*([1-9]\d{0,8})\s*\)", re.ASCII)
_WITH_LENGTH, _LENGTH = ("char", "character", "varchar"), 255
POSSIBLE = (
    f"{NUMBER_TYPES}, boolean, string, char(n), varchar(n), binary, date, timestamp, timestamp_ntz, variant, array<…>, "
    "map<…, …>, struct<name: type, …>"
)
"""How types of new columns are written."""
_WORDS = [word for word in re.findall(r"\b[a-z_]{3,}\b", POSSIBLE) if word not in ("with", "name", "type")]
_TOKEN = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|'(?P<text>(?:[^'\\]|''|\\.)*)'|(?P<word>[\w$]+)|(?P<mark>[<>(),:]))", re.DOTALL
)


def parse_sql_type(text: str) -> types.DataType:
    """Return a type as people write it. `char(n)` and `varchar(n)` keep their names. Raises UsageError (`usage.type`).

    Comments of fields are in their metadata, NOT NULL makes them not nullable.
    """
    if text.lstrip().startswith(("{", '"')):
        return _parse_json(text)
    parser = _Parser(text)
    found = parser.data_type(0)
    if parser.token is not None:
        parser.fail(f"{parser.token.text!r} follows the type")
    return found


def _parse_json(text: str) -> types.DataType:
    field = f'{{"name":"x","type":{text},"nullable":true,"metadata":{{}}}}'
    try:
        found = types.parse_schema(f'{{"type":"struct","fields":[{field}]}}').fields[0].data_type
        json.loads(text)
    except (ValueError, DeltacliError) as fault:
        reason = fault.message if isinstance(fault, DeltacliError) else str(fault)
        raise UsageError(f"the type {text[:120]!r} cannot be used: {reason}", code=TYPE_CODE) from None
    _require_known(found, text)
    return found


def _require_known(data_type: types.DataType, text: str) -> None:
    for one in types.types_within(data_type):
        if not isinstance(one, types.PrimitiveType) or one.name in _PLAIN or digits_of_decimal(one.name) is not None:
            continue
        if _TEXTS.fullmatch(one.name) is None:
            raise _unknown(text, f"{one.name} is not a type of new columns")


def _unknown(text: str, reason: str) -> UsageError:
    return UsageError(
        f"the type {text[:120]!r} cannot be used: {reason}",
        code=TYPE_CODE,
        facts={"possible": POSSIBLE},
        hint=hint_for_type(text),
    )


class _Token(NamedTuple):
    text: str
    kind: str


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[_Token] = []
        place = 0
        while place < len(text.rstrip()):
            match = _TOKEN.match(text, place)
            if match is None:
                self.fail(f"{text[place:].strip()[:20]!r} is not expected there")
            kind = match.lastgroup or ""
            self.tokens.append(_Token(match[kind], kind))
            place = match.end()
        self.at = 0

    @property
    def token(self) -> _Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def fail(self, reason: str) -> NoReturn:
        raise _unknown(self.text, reason)

    def take(self) -> _Token:
        token = self.token
        if token is None:
            self.fail("it ends too early")
        self.at += 1
        return token

    def accepts(self, text: str) -> bool:
        token = self.token
        if token is None or token.kind not in ("mark", "word") or token.text.lower() != text:
            return False
        self.at += 1
        return True

    def expect(self, mark: str) -> None:
        if not self.accepts(mark):
            self.fail(f"{mark!r} is missing")

    def data_type(self, depth: int) -> types.DataType:
        if depth > types.MAX_DEPTH:
            self.fail(f"types are nested too deeply: more than {types.MAX_DEPTH} of them")
        token = self.take()
        if token.kind != "word":
            self.fail(f"{token.text!r} is not a type")
        match token.text.lower():
            case "array":
                self.expect("<")
                element, nullable = self.part(depth)
                self.expect(">")
                return types.ArrayType(element, nullable)
            case "map":
                self.expect("<")
                key, key_nullable = self.part(depth)
                self.expect(",")
                value, nullable = self.part(depth)
                self.expect(">")
                del key_nullable  # keys are never null
                return types.MapType(key, value, nullable)
            case "struct":
                return self.struct(depth)
        return self.primitive(token.text)

    def part(self, depth: int) -> tuple[types.DataType, bool]:
        return self.data_type(depth + 1), not self.is_not_null()

    def is_not_null(self) -> bool:
        if not self.accepts("not"):
            return False
        if not self.accepts("null"):
            self.fail("NULL is missing after NOT")
        return True

    def struct(self, depth: int) -> types.StructType:
        self.expect("<")
        fields: list[types.StructField] = []
        while not fields or self.accepts(","):
            name = self.take()
            if name.kind not in ("word", "quoted"):
                self.fail(f"{name.text!r} is not the name of a field")
            self.accepts(":")
            data_type = self.data_type(depth + 1)
            nullable = not self.is_not_null()
            metadata = {}
            if self.accepts("comment"):
                comment = self.take()
                if comment.kind != "text":
                    self.fail("COMMENT is not followed by a text in quotes")
                metadata = {"comment": _unescaped(comment.text)}
            shown = name.text.replace("``", "`") if name.kind == "quoted" else name.text
            fields.append(types.StructField(shown, data_type, nullable, metadata))
        self.expect(">")
        return types.StructType(tuple(fields))

    def primitive(self, word: str) -> types.PrimitiveType:
        text = word
        if self.accepts("("):
            arguments = [self.take().text]
            while self.accepts(","):
                arguments.append(self.take().text)
            self.expect(")")
            text = f"{word}({','.join(arguments)})"
        name = canonical_name(text)
        name = _OTHER_NAMES.get(name, name)
        if fixed := _TEXTS.fullmatch(name):
            return types.PrimitiveType(f"{'varchar' if name.startswith('v') else 'char'}({int(fixed[1])})")
        if name not in _PLAIN and digits_of_decimal(name) is None:
            reason = f"{text} is not a type of new columns"
            if word.lower() in ("dec", "decimal", "numeric"):
                reason = OF_DECIMALS
            elif word.lower() in _WITH_LENGTH:
                meant = f"{word.lower()}({_LENGTH})"
                fault = _unknown(self.text, f"{word} needs a length, such as {meant}, or use string")
                raise fault.suggest_as_fact(self.text, re.sub(rf"\b{word}\b\s*(\([^)]*\))?", meant, self.text))
            elif (near := nearest_type(word, _WORDS)) is not None:
                near += f"({_LENGTH})" if near in _WITH_LENGTH and text == word else ""
                whole = re.sub(rf"(?<![\w`]){re.escape(word)}(?![\w`:])", near, self.text)
                raise _unknown(self.text, reason).suggest(self.text, whole)
            self.fail(reason)
        return types.PrimitiveType(name)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)|''", lambda match: match[1] or "'", text, flags=re.DOTALL)


def sql_text(data_type: types.DataType) -> str:
    """Return a type as Spark writes it in SQL: `array<varchar(5)>`, `struct<a:int>`."""
    match data_type:
        case types.ArrayType(element):
            return f"array<{sql_text(element)}>"
        case types.MapType(key, value):
            return f"map<{sql_text(key)},{sql_text(value)}>"
        case types.StructType(fields):
            return f"struct<{','.join(f'{field.name}:{sql_text(field.data_type)}' for field in fields)}>"
        case types.PrimitiveType(name):
            return _SQL_NAMES.get(name, name)


_SQL_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


# -- requested changes as values ---------------------------------------------------------------------------------------

CHANGE_CODE = "usage.change"


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A new nullable column or nested field. `position`: first, last, before:X or after:X; None: last."""

    column: str
    type: str
    comment: str | None = None
    position: str | None = None


@dataclass(frozen=True, slots=True)
class ChangeType:
    column: str
    type: str


@dataclass(frozen=True, slots=True)
class RenameColumn:
    column: str
    name: str


@dataclass(frozen=True, slots=True)
class DropColumn:
    column: str


@dataclass(frozen=True, slots=True)
class MoveColumn:
    column: str
    position: str


@dataclass(frozen=True, slots=True)
class SetComment:
    """A comment of a column; None: none."""

    column: str
    comment: str | None


@dataclass(frozen=True, slots=True)
class SetDefault:
    """The default of a column, as SQL; None: none."""

    column: str
    default: str | None


@dataclass(frozen=True, slots=True)
class DropNotNull:
    column: str


@dataclass(frozen=True, slots=True)
class SetNotNull:
    column: str


@dataclass(frozen=True, slots=True)
class AddConstraint:
    """A CHECK constraint: a condition in SQL that must be true of every row."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class DropConstraint:
    name: str


@dataclass(frozen=True, slots=True)
class SetClustering:
    """The columns by which files are clustered; none: not at all."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetTableComment:
    comment: str | None


@dataclass(frozen=True, slots=True)
class SetTableName:
    name: str | None


@dataclass(frozen=True, slots=True)
class SetMapping:
    """Column mapping of a table that has none; `name` is the only mode that existing files allow."""

    mode: str


ColumnChange: TypeAlias = (
    AddColumn | ChangeType | RenameColumn | DropColumn | MoveColumn | SetComment | SetDefault | DropNotNull | SetNotNull
)
TableChange: TypeAlias = AddConstraint | DropConstraint | SetClustering | SetTableComment | SetTableName | SetMapping
Change: TypeAlias = ColumnChange | TableChange

KINDS: Mapping[str, type[Change]] = {
    "add": AddColumn,
    "type": ChangeType,
    "rename": RenameColumn,
    "drop": DropColumn,
    "move": MoveColumn,
    "comment": SetComment,
    "default": SetDefault,
    "nullable": DropNotNull,
    "not-null": SetNotNull,
    "add-constraint": AddConstraint,
    "drop-constraint": DropConstraint,
    "cluster": SetClustering,
    "table-comment": SetTableComment,
    "name": SetTableName,
    "mapping": SetMapping,
}
"""The kinds by their names in JSON."""

KIND_OF: Mapping[type[Change], str] = {made: name for name, made in KINDS.items()}


def change_json(change: Change) -> dict[str, Json]:
    """Return a change as a JSON object; what was left out is not in it."""
    given = {one.name: getattr(change, one.name) for one in fields(change)}
    optional = {one.name for one in fields(change) if one.default is not MISSING}
    shown = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in given.items()
        if value is not None or name not in optional
    }
    return {"change": KIND_OF[type(change)], **shown}


def read_changes(data: bytes) -> tuple[Change, ...]:
    """Return the changes in a JSON array. Raises UsageError (`usage.change`) that names the place."""
    try:
        found: Json = json.loads(data, object_pairs_hook=_with_each_key_once)
    except (ValueError, RecursionError) as fault:
        raise UsageError(f"the changes are not JSON: {fault}", code=CHANGE_CODE) from None
    if not isinstance(found, list) or not found:
        raise UsageError(
            "the changes are not a JSON array with one or more objects",
            code=CHANGE_CODE,
            facts={"expected": '[{"change": "add", "column": "price", "type": "decimal(10,2)"}]'},
        )
    return tuple(read_change(one, f"[{number}]") for number, one in enumerate(found))


def _with_each_key_once(pairs: list[tuple[str, Json]]) -> JsonObject:
    """Return a JSON object. Raises UsageError where a key is there twice: which value is meant is not known."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"the changes have the key {twice} twice in one object", code=CHANGE_CODE)
    return found


def as_changes(found: Iterable[Change | JsonObject]) -> tuple[Change, ...]:
    """Return changes that are values or JSON objects. Raises UsageError (`usage.change`), also without any."""
    changes = tuple(
        one if isinstance(one, Change) else read_change(one, f"[{number}]") for number, one in enumerate(found)
    )
    if not changes:
        raise UsageError("there are no changes", code=CHANGE_CODE)
    return changes


def read_change(value: Json | JsonObject, place: str) -> Change:
    """Return the change in a JSON object. Raises UsageError (`usage.change`)."""
    if not isinstance(value, Mapping):
        raise _bad(place, "it is not an object", "an object with change")
    kind = value.get("change")
    made = KINDS.get(kind) if isinstance(kind, str) else None
    if made is None:
        raise _bad(place, f"change is {kind!r}", ", ".join(KINDS))
    known = {one.name: one for one in fields(made)}
    if made is AddColumn and value.get("default") is not None:
        raise default_with_add(str(value.get("column")), str(value.get("type")), str(value["default"]))
    if odd := sorted(set(value) - set(known) - {"change"}):
        raise _bad(place, f"{kind} has no {odd[0]}", ", ".join(known))
    if missing := [name for name, one in known.items() if one.default is MISSING and name not in value]:
        raise _bad(place, f"{kind} lacks {missing[0]}", ", ".join(known))
    given = {name: value[name] for name in known if name in value}
    if made is SetClustering:
        return SetClustering(_texts(given["columns"], f"{place}.columns"))
    for name, one in given.items():
        may_be_null = "None" in str(known[name].type)
        if not (isinstance(one, str) or (one is None and may_be_null)):
            raise _bad(f"{place}.{name}", f"it is {one!r}", "a text or null" if may_be_null else "a text")
    return made(**given)


def _texts(value: Json, place: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise _bad(place, f"it is {value!r}", "an array of texts")
    return tuple(value)


def _bad(place: str, reason: str, expected: str) -> UsageError:
    return UsageError(f"the change at {place} cannot be used: {reason}", code=CHANGE_CODE, facts={"expected": expected})


def default_with_add(column: str, data_type: str, default: str) -> Refused:
    """Return the error for a column that is added together with a default, of which the second step may be refused."""
    if (fault := default_fault(column, parse_sql_type(data_type), default)) is not None:
        return Refused(fault[0], code="alter.default")
    return Refused(
        f"{column} cannot be added with a default: rows of existing files would not get it, they stay null",
        code="alter.default-with-add",
        facts={
            "first": command("alter", "add", column, data_type) or "add",
            "then": command("alter", "default", column, default) or "default",
        },
    )


def changes_of(verb: Verb, words: Sequence[str], details: Details) -> tuple[Change, ...]:
    """Return what a verb and its words ask for. Raises UsageError, and Refused for what is never done."""
    form, (least, most), make = _FORMS[verb]
    if details.removes and verb is Verb.CLUSTER:
        least, most, form = 0, 0, parameter("alter.none")
    if details.removes and verb in (Verb.COMMENT, Verb.DEFAULT):
        least, most, form = 1, 1, f"{form.split()[0]} {parameter('alter.drop')}"
    if not least <= len(words) <= (most or len(words)):
        missing = find_missing_words(form, words) if len(words) < least else []
        what = f"the {missing[0].lower()}" if missing else "a word"
        raise UsageError(
            f"{verb}: {f'{what} is missing' if len(words) < least else 'there are too many words'}",
            facts={"expected": f"{verb} {form}", "found": " ".join(words) or "nothing"},
            hint=_meant(verb, words)
            or (command("alter", verb.value, *words, *missing) if missing else command("alter", table=None, help=True)),
        )
    return make(words, details)


def _meant(verb: Verb, words: Sequence[str]) -> str | None:
    """Return the command that was meant by `move COLUMN after OTHER`, or with the words of a sentence between."""
    plain = [word for word in words if word.lower() not in ("column", "columns", "to")]
    least, most = _FORMS[verb][1]
    if len(plain) < len(words) and least <= len(plain) <= (most or len(plain)):
        return command("alter", verb.value, *plain)
    if verb is not Verb.MOVE or len(words) != 3 or words[1].lower() not in ("after", "before"):
        return None
    return command("alter", verb.value, words[0], f"{words[1].lower()}:{words[2]}")


def _added(words: Sequence[str], details: Details) -> tuple[Change, ...]:
    if details.default is not None:
        raise default_with_add(words[0], words[1], details.default)
    if not details.nullable:
        message = f"{words[0]} cannot be added as NOT NULL: rows of existing files have no value for it"
        raise Refused(message, code="alter.not-null", hint=command("alter", "add", *words))
    return (AddColumn(words[0], words[1], details.comment, details.position),)


def _constraint(words: Sequence[str], _: Details) -> tuple[Change, ...]:
    match words:
        case ["add", name, expression]:
            return (AddConstraint(name, expression),)
        case ["drop", name]:
            return (DropConstraint(name),)
        case ["add", name]:
            meant = ["add", name, "CONDITION"]
        case [name, expression]:
            meant = ["add", name, expression]
        case _:
            meant = []
    raise UsageError(
        "constraint: add or drop, a name, and a condition to add",
        facts={"expected": "constraint add NAME EXPRESSION, or constraint drop NAME", "found": " ".join(words)},
        hint=command("alter", "constraint", *meant) if meant else command("alter", table=None, help=True),
    )


def _clustered(words: Sequence[str], _: Details) -> tuple[Change, ...]:
    return (SetClustering(tuple(name for word in words for name in parse_names(word, "cluster"))),)


def _each(make: Callable[[str], Change]) -> Callable[[Sequence[str], Details], tuple[Change, ...]]:
    return lambda words, _: tuple(make(word) for word in words)


_Make: TypeAlias = Callable[[Sequence[str], Details], tuple[Change, ...]]

_FORMS: Mapping[Verb, tuple[str, tuple[int, int | None], _Make]] = {
    Verb.ADD: ("COLUMN TYPE", (2, 2), _added),
    Verb.TYPE: ("COLUMN TYPE", (2, 2), lambda words, _: (ChangeType(words[0], words[1]),)),
    Verb.RENAME: ("COLUMN NAME", (2, 2), lambda words, _: (RenameColumn(words[0], words[1]),)),
    Verb.DROP: ("COLUMN...", (1, None), _each(DropColumn)),
    Verb.MOVE: ("COLUMN first|last|before:X|after:X", (2, 2), lambda words, _: (MoveColumn(words[0], words[1]),)),
    Verb.COMMENT: (
        "COLUMN TEXT",
        (2, 2),
        lambda words, details: (SetComment(words[0], None if details.removes else words[1]),),
    ),
    Verb.DEFAULT: (
        "COLUMN VALUE",
        (2, 2),
        lambda words, details: (SetDefault(words[0], None if details.removes else words[1]),),
    ),
    Verb.NULLABLE: ("COLUMN...", (1, None), _each(DropNotNull)),
    Verb.NOT_NULL: ("COLUMN...", (1, None), _each(SetNotNull)),
    Verb.CONSTRAINT: ("add NAME EXPRESSION | drop NAME", (2, 3), _constraint),
    Verb.CLUSTER: ("COLUMN,COLUMN", (1, None), _clustered),
    Verb.TABLE_COMMENT: ("TEXT", (1, 1), lambda words, _: (SetTableComment(words[0] or None),)),
    Verb.NAME: ("TEXT", (1, 1), lambda words, _: (SetTableName(words[0] or None),)),
    Verb.MAPPING: ("name", (1, 1), lambda words, _: (SetMapping(words[0]),)),
}
"""The words of each verb, their number, and the changes that they ask for."""


_QUOTES = "quote texts twice: \"'unknown'\""
_NUMBERS = ("byte", "short", "integer", "long", "float", "double", "decimal")


def default_fault(name: str, data_type: types.DataType, text: str) -> tuple[str, str] | None:
    """Return why a text cannot be the default of a column of this type, with a way out or '', else None."""
    said = f"{text} cannot be the default of {name}"
    expression = parse_expression(text)
    if expression.fault is not None or expression.root is None:
        return f"{said}: {expression.fault or 'it is not understood'}", _QUOTES
    if expression.columns:
        column = ".".join(expression.columns[0])
        way_out = command("alter", "default", name, repr(column)) or _QUOTES
        return f"{said}: it refers to a column, {column}; a text has quotes of its own", way_out
    reason = _misfit(expression.root, data_type)
    return None if reason is None else (f"{said}, which is of type {sql_text(data_type)}: {reason}", "")


def _misfit(node: Node, data_type: types.DataType) -> str | None:
    """Return why a literal certainly is no value of a type; None where it may be one."""
    sign = ""
    if node.form is Form.VALUE and node.name in ("-", "+") and len(node.parts) == 1:
        sign, node = node.name, node.parts[0]
    if node.form in (Form.NULL, Form.CALL, Form.CAST, Form.OTHER):
        return None
    name = data_type.name if isinstance(data_type, types.PrimitiveType) else "struct"
    is_number = name.startswith(_NUMBERS)
    if node.form is Form.TEXT:
        return None if name in ("string", "variant") else "it is a text"
    if node.form is Form.NUMBER:
        if name == "string":
            return None
        if not is_number:
            return "it is a number"
        digits = node.name.rstrip("LlSsYyDdFf").removesuffix("B")
        return None if parses(name, sign + digits) else "it does not fit"
    if node.form is Form.CONDITION:
        return None if name in ("boolean", "string") else "it is true or false"
    if node.form is Form.VALUE and node.name in ("date", "timestamp", "timestamp_ntz") and is_number:
        return f"it is {add_article(node.name)}"
    return None
