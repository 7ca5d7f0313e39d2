"""Rules about the content of one schema file that need no other key of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from deltacli.core.errors import Unreadable
from deltacli.core.hints import Worded, parameter
from deltacli.paimon.schema import CURRENT_VERSION
from deltacli.paimon.type_objects import Odd
from deltacli.rules.framework.base import Area, Finding, Fix, ReadFault, Rule, Severity
from deltacli.rules.paimon.catalogue import Profile, SchemaFileView

AREA = Area("Schema files", spec="Schema")

_PYTHON = partial(parameter, "validate.profile", "python")
_RESTORE = "restore the file from a backup; if no snapshot, tag or data file names this schema, it can be deleted"
_UNREADABLE = Fix("readers of this schema fail", _RESTORE, "nothing if the file is restored")

BAD_JSON = AREA.error(
    "paimon.bad-json",
    "A schema file is a JSON object in UTF-8 without a byte order mark.",
    *_UNREADABLE,
    example='{"version": 3,',
)
MISSING_KEY = AREA.error(
    "paimon.missing-key",
    "A schema file has all required keys, and so has each field.",
    *_UNREADABLE,
    example="a schema without highestFieldId",
)
BAD_VALUE = AREA.error(
    "paimon.bad-value",
    "The keys of a schema file have values of their types.",
    *_UNREADABLE,
    example='"highestFieldId": "3"',
)
BAD_TYPE = AREA.error(
    "paimon.bad-type",
    "The type of each field is a data type of Paimon.",
    *_UNREADABLE,
    example='"type": "DECIMAL(39, 0)"',
)
TOO_LARGE = AREA.error(
    "paimon.file-too-large",
    "A metadata file has a plausible size.",
    *_UNREADABLE,
    example="a schema file of 1 GiB",
)
ID_DIFFERS = AREA.error(
    "paimon.id-differs",
    "The id in a schema file is the number in its name.",
    broken=_UNREADABLE.broken,
    repair="set the id to the number in the file name",
    loss=_UNREADABLE.loss,
    example='"id": 4 in schema-3',
)
NULL_KEY = AREA.warning(
    "paimon.null-key",
    "Required keys are not null; null keys are an error.",
    broken="readers disagree: some fail, others read an empty value",
    repair="write [ ] or { }",
    example='"partitionKeys": null',
)
UNKNOWN_VERSION = AREA.warning(
    "paimon.unknown-version",
    f"The version of a schema file is 1 to {CURRENT_VERSION}.",
    spec="Compatibility",
    broken="readers ignore what a newer version adds",
    repair="use a newer deltacli, or find the program that wrote the file",
    example='"version": 4',
)
DUPLICATE_KEY = AREA.warning(
    "paimon.duplicate-key",
    "A JSON object has each key once.",
    broken="readers can use different ones of the values",
    repair="delete the wrong one; Java uses the last",
    example='"id": 1, "id": 2',
)
TRAILING_TEXT = AREA.warning(
    "paimon.trailing-text",
    "Nothing follows the JSON object.",
    broken="strict readers fail; Java ignores the text",
    repair="delete the text",
    example="{ } { }",
)
OPTION_NOT_STRING = AREA.warning(
    "paimon.option-not-string",
    "The values of options are strings.",
    broken="strict readers fail; Java converts the value to text",
    repair="write the value in quotes",
    example='"bucket": 5',
)
NULLABLE_MAP_KEY = AREA.warning(
    "paimon.map-key-nullable",
    Worded("The key of a MAP is NOT NULL; an error with {}.", partial(parameter, "validate.profile", "cpp")),
    spec="Limitations; MAP Key Must Be NOT NULL",
    broken="Paimon C++ refuses the whole schema, because Arrow has no nullable map keys",
    repair="write the key as NOT NULL",
    example='{"type": "MAP", "key": "INT", "value": "INT"}',
)
NULLABILITY = AREA.warning(
    "paimon.nullability-contradiction",
    Worded("A type string and the key nullable agree; an error with {}.", _PYTHON),
    spec="DataField",
    broken="Java trusts the string, pypaimon the key",
    repair="delete the key nullable, and write NOT NULL with one blank",
    example='{"type": "ARRAY NOT NULL", "element": "INT", "nullable": true}',
)
NOT_CANONICAL = AREA.info(
    "paimon.type-not-canonical",
    Worded("Type strings have the form in which Java writes them; a warning with {}.", _PYTHON),
    spec="DataField",
    broken="pypaimon refuses some other forms and misreads others",
    repair="write the type in its usual form",
    example="INT  NOT  NULL, VARCHAR (10), INT ARRAY",
)
UNKNOWN_KEY = AREA.info(
    "paimon.unknown-key",
    "A schema file has known keys only.",
    broken="nothing: readers ignore the key",
    repair="none needed",
    example='"owner": "me"',
)

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


@AREA.check_faults(SchemaFileView, BAD_JSON, MISSING_KEY, BAD_VALUE, BAD_TYPE, TOO_LARGE)
def check_reading(view: SchemaFileView) -> Iterator[ReadFault]:
    """Report why a file cannot be read."""
    if isinstance(view.content, Unreadable):
        yield ReadFault(view.content.code, view.place(), view.content.message)


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
