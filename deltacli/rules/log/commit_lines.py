"""Rules about the lines of commits: each line must be one action, whose fields have their types. Spec: Actions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from deltacli.core.hints import Worded, command
from deltacli.core.typing import Json
from deltacli.delta.log.action_fields import FIELDS, PARTS, Field, FieldType
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.log.log_path import Place
from deltacli.rules.framework.base import Area, Finding, Fix, from_a_copy

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
    *_CUT_OFF,
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
    "A line of a commit is not an object with exactly one action.",
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
    "An action spans several lines. Most readers fail on it.",
    *_RESTORE,
    example='{\n  "commitInfo": {\n',
)
CRLF_OR_BLANK = AREA.info(
    "commit.crlf-or-blank",
    "A commit has blank lines, or lines that end with CR LF.",
    *_IGNORED,
    example=r'{"commitInfo":{}}\r\n',
)
MISSING_REQUIRED = AREA.error(
    "action.missing-required",
    "An action lacks a required field.",
    *_LATER_ADD,
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
NUMBER_SPELLING = AREA.warning(
    "action.number-spelling",
    "An integer of an action is written with a fraction or an exponent. It is read as the number that it is.",
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
    repair=Worded(
        "replace the text, if it is one of the table (alter, properties), then let readers begin behind the commit: {}",
        partial(command, "checkpoint"),
    ),
    spec="Delta Log Entries (JSON, RFC 8259)",
    example=r'{"commitInfo":{"userMetadata":"\ud83c"}}',
)
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
        return MISSING_REQUIRED.at(place, f"{what} is missing", expected=fault.expected)
    rule = CONFIGURATION_NOT_STRING if what == "domainMetadata.configuration" else WRONG_TYPE
    return rule.at(
        place, f"{what} is {fault.found}, expected {fault.expected}", seen=fault.found, expected=fault.expected
    )


def report_spelling(kind: str, names: Sequence[str], action: Action, place: Place) -> Finding:
    """Return the finding for an integer in another spelling, which was replaced by its value in the action."""
    value: Json = action
    for name in names:
        value = value[name]
    what = ".".join((kind, *names))
    message = f"{what} is written with a fraction or an exponent"
    return NUMBER_SPELLING.at(place, message, expected=f"{value}")


def report_unknown_field(kind: str, name: str, count: int, place: Place) -> Finding:
    """Return the finding for an unrecognized field, once per file."""
    where = f" in {count:,} actions" if count > 1 else ""
    message = f"{kind}.{name} is not defined by the protocol{where}; readers ignore it"
    return UNKNOWN_FIELD.at(place, message, seen=name)


_PLAIN = {
    FieldType.TEXT: str,
    FieldType.BOOLEAN: bool,
    FieldType.OBJECT: dict,
}


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
                yield FieldFault(name, f"an array with {shown(odd[0])}", field.type.value)
        case FieldType.TEXT_MAP | FieldType.VALUES if type(value) is dict:
            for key, item in value.items():
                if type(item) is not str and not (item is None and field.type is FieldType.VALUES):
                    yield FieldFault(f"{name}.{key}", shown(item), "a string")
        case _:
            yield FieldFault(name, shown(value), field.type.value)


def shown(value: object) -> str:
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
