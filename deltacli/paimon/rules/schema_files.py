"""Rules about the content of one schema file that need no other key of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deltacli.delta.rules.framework.base import Area, Finding, Fix, Level, Rule, Severity
from deltacli.errors import Unreadable
from deltacli.paimon.oddities import Odd
from deltacli.paimon.rules.views import Profile, SchemaFileView
from deltacli.paimon.schema import CURRENT_VERSION

AREA = Area("Schema files")

_RESTORE = "restore the file from a backup; if no snapshot, tag or data file names this schema, it can be deleted"
_LOST = "nothing if the file is restored"


def _error(rule_id: str, checks: str, example: str, *, repair: str = _RESTORE) -> Rule:
    fix = Fix("readers of this schema fail", repair, _LOST)
    return AREA.rule(rule_id, Severity.ERROR, Level.LOG, checks, spec="Schema", fix=fix, example=example)


def _warning(rule_id: str, checks: str, broken: str, repair: str, example: str, *, spec: str = "Schema") -> Rule:
    fix = Fix(broken, repair, "nothing")
    return AREA.rule(rule_id, Severity.WARNING, Level.LOG, checks, spec=spec, fix=fix, example=example)


BAD_JSON = _error(
    "paimon.bad-json", "A schema file is a JSON object in UTF-8 without a byte order mark.", '{"version": 3,'
)
MISSING_KEY = _error(
    "paimon.missing-key",
    "A schema file has all required keys, and so has each field.",
    "a schema without highestFieldId",
)
BAD_VALUE = _error("paimon.bad-value", "The keys of a schema file have values of their types.", '"highestFieldId": "3"')
BAD_TYPE = _error("paimon.bad-type", "The type of each field is a data type of Paimon.", '"type": "DECIMAL(39, 0)"')
TOO_LARGE = _error("paimon.file-too-large", "A metadata file has a plausible size.", "a schema file of 1 GiB")
ID_DIFFERS = _error(
    "paimon.id-differs",
    "The id in a schema file is the number in its name.",
    '"id": 4 in schema-3',
    repair="set the id to the number in the file name",
)
NULL_KEY = _warning(
    "paimon.null-key",
    "Required keys are not null; null keys are an error.",
    "readers disagree: some fail, others read an empty value",
    "write [ ] or { }",
    '"partitionKeys": null',
)
UNKNOWN_VERSION = _warning(
    "paimon.unknown-version",
    f"The version of a schema file is 1 to {CURRENT_VERSION}.",
    "readers ignore what a newer version adds",
    "use a newer deltacli, or find the program that wrote the file",
    '"version": 4',
    spec="Compatibility",
)
DUPLICATE_KEY = _warning(
    "paimon.duplicate-key",
    "A JSON object has each key once.",
    "readers can use different ones of the values",
    "delete the wrong one; Java uses the last",
    '"id": 1, "id": 2',
)
TRAILING_TEXT = _warning(
    "paimon.trailing-text",
    "Nothing follows the JSON object.",
    "strict readers fail; Java ignores the text",
    "delete the text",
    "{ } { }",
)
OPTION_NOT_STRING = _warning(
    "paimon.option-not-string",
    "The values of options are strings.",
    "strict readers fail; Java converts the value to text",
    "write the value in quotes",
    '"bucket": 5',
)
NULLABLE_MAP_KEY = _warning(
    "paimon.map-key-nullable",
    "The key of a MAP is NOT NULL; an error with --profile cpp.",
    "Paimon C++ refuses the whole schema, because Arrow has no nullable map keys",
    "write the key as NOT NULL",
    '{"type": "MAP", "key": "INT", "value": "INT"}',
    spec="Limitations; MAP Key Must Be NOT NULL",
)
NULLABILITY = _warning(
    "paimon.nullability-contradiction",
    "A type string and the key nullable agree; an error with --profile python.",
    "Java trusts the string, pypaimon the key",
    "delete the key nullable, and write NOT NULL with one blank",
    '{"type": "ARRAY NOT NULL", "element": "INT", "nullable": true}',
    spec="DataField",
)
NOT_CANONICAL = AREA.rule(
    "paimon.type-not-canonical",
    Severity.INFO,
    Level.LOG,
    "Type strings have the form in which Java writes them; a warning with --profile python.",
    spec="DataField",
    fix=Fix("pypaimon refuses some other forms and misreads others", "write the type in its usual form", "nothing"),
    example="INT  NOT  NULL, VARCHAR (10), INT ARRAY",
)
UNKNOWN_KEY = AREA.rule(
    "paimon.unknown-key",
    Severity.INFO,
    Level.LOG,
    "A schema file has known keys only.",
    spec="Schema",
    fix=Fix("nothing: readers ignore the key", "none needed", "nothing"),
    example='"owner": "me"',
)

_READ_FAULTS = {rule.id: rule for rule in (BAD_JSON, MISSING_KEY, BAD_VALUE, BAD_TYPE, TOO_LARGE)}

_ODDITIES: Mapping[Odd, tuple[Rule, str]] = {
    Odd.NULL_KEY: (NULL_KEY, "{place} is null"),
    Odd.DUPLICATE_KEY: (DUPLICATE_KEY, "the key {place} occurs more than once in an object"),
    Odd.TRAILING_TEXT: (TRAILING_TEXT, "{seen} characters follow the JSON object"),
    Odd.UNKNOWN_KEY: (UNKNOWN_KEY, "unknown key {place}"),
    Odd.OPTION_NOT_STRING: (OPTION_NOT_STRING, "the value of {place} is not a string"),
    Odd.NULLABLE_MAP_KEY: (NULLABLE_MAP_KEY, "the key of the MAP {place} is nullable"),
    Odd.NULLABILITY: (NULLABILITY, "the type of {place} is ambiguous"),
    Odd.NOT_CANONICAL: (NOT_CANONICAL, "the type of {place} has an unusual form"),
}


@AREA.check(SchemaFileView, *_READ_FAULTS.values())
def check_reading(view: SchemaFileView) -> Iterator[Finding]:
    """Report why a file cannot be read."""
    if isinstance(view.content, Unreadable) and (rule := _READ_FAULTS.get(view.content.code)) is not None:
        yield rule.at(view.place(), view.content.message)


@AREA.check(SchemaFileView, *(rule for rule, _ in _ODDITIES.values()))
def check_oddities(view: SchemaFileView) -> Iterator[Finding]:
    """Report what Java reads but does not write."""
    if view.schema is None:
        return
    for oddity in view.schema.oddities:
        rule, message = _ODDITIES[oddity.rule]
        place = view.place(oddity.place or None)
        text = message.format(place=oddity.place, seen=oddity.seen)
        yield rule.at(place, text, seen=oddity.seen, severity=_severity(view.profile, oddity.rule, oddity.place))


def _severity(profile: Profile, odd: Odd, place: str) -> Severity | None:
    """Return the severity where it is not that of the rule."""
    if odd is Odd.NOT_CANONICAL and profile is Profile.PYTHON:
        return Severity.WARNING
    is_error = (
        (odd is Odd.NULL_KEY and place in ("partitionKeys", "primaryKeys"))
        or (odd is Odd.NULLABLE_MAP_KEY and profile is Profile.CPP)
        or (odd is Odd.NULLABILITY and profile is Profile.PYTHON)
    )
    return Severity.ERROR if is_error else None


@AREA.check(SchemaFileView, ID_DIFFERS, UNKNOWN_VERSION)
def check_id_and_version(view: SchemaFileView) -> Iterator[Finding]:
    """Compare the id with the file name, and the version with the known ones."""
    if view.schema is None:
        return
    if view.schema.id != view.id:
        message = f"the file has the id {view.schema.id}"
        yield ID_DIFFERS.at(view.place("id"), message, seen=view.schema.id, expected=view.id)
    if not 1 <= view.schema.version <= CURRENT_VERSION:
        message = f"version {view.schema.version} is unknown"
        expected = f"1 to {CURRENT_VERSION}"
        yield UNKNOWN_VERSION.at(view.place("version"), message, seen=view.schema.version, expected=expected)
