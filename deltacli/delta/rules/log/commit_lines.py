"""Rules about the lines of commits: each line must be one action with valid fields."""

from __future__ import annotations

from deltacli.delta.log.place import Place
from deltacli.delta.rules.framework.action_types import FieldFault
from deltacli.delta.rules.framework.base import Area, Finding, Fix, Level, Severity

AREA = Area("commit_lines")

_RESTORE = Fix(
    broken="the commit cannot be read as written, so this version and all later ones are in doubt",
    repair="restore the file from a backup or an older object version; commits must never be edited",
    loss="without a backup, this version and all later ones",
)
_LATER_ADD = Fix(
    broken="readers must guess the field or refuse the table",
    repair="commit the same action again with the right fields and dataChange=false; leave the old commit unchanged",
    loss="nothing: the newer action replaces it",
)
_IGNORED = Fix(broken="nothing: readers ignore it", repair="no repair needed", loss="nothing")

EMPTY = AREA.rule(
    "commit.empty",
    Severity.ERROR,
    Level.LOG,
    "A commit file is empty: an incomplete write, which silently restores or loses rows if readers skip the file.",
    spec="Delta Log Entries",
    fix=_RESTORE,
    example="00000000000000000003.json of 0 bytes",
)
NOT_UTF8 = AREA.rule(
    "commit.not-utf8",
    Severity.ERROR,
    Level.LOG,
    "A line of a commit is not UTF-8, or begins with a byte order mark.",
    spec="Delta Log Entries",
    fix=_RESTORE,
    example=r'{"add":{"path":"caf\xe9.parquet",…}} in Latin-1',
)
BAD_JSON = AREA.rule(
    "commit.bad-json",
    Severity.ERROR,
    Level.LOG,
    "A line of a commit is not a complete JSON value. If it is the last line, the write was incomplete.",
    spec="Delta Log Entries",
    fix=_RESTORE,
    example='{"add":{"path":"part-0.par',
)
LINE_NOT_OBJECT = AREA.rule(
    "commit.line-not-object",
    Severity.ERROR,
    Level.LOG,
    "A line of a commit is not an object with exactly one action.",
    spec="Actions",
    fix=_RESTORE,
    example='["add"]',
)
DUPLICATE_KEY = AREA.rule(
    "commit.duplicate-key",
    Severity.WARNING,
    Level.LOG,
    "A line has the same JSON key twice in one object. Engines disagree about which value applies.",
    spec="Delta Log Entries (JSON, RFC 8259)",
    fix=Fix(
        broken="one reader uses the first value, another the last",
        repair="commit the action again with one value",
        loss="nothing",
    ),
    example='{"add":{"path":"a.parquet","path":"b.parquet",…}}',
)
UNKNOWN_FIELD = AREA.rule(
    "commit.unknown-field",
    Severity.INFO,
    Level.LOG,
    "A known action has a field that the protocol does not define. Readers ignore it.",
    spec="Protocol Evolution",
    fix=_IGNORED,
    example='{"add":{"path":"a.parquet",…,"rowGroups":3}}',
)
PRETTY_PRINTED = AREA.rule(
    "commit.pretty-printed",
    Severity.ERROR,
    Level.LOG,
    "An action spans several lines. Most readers fail on it.",
    spec="Delta Log Entries",
    fix=_RESTORE,
    example='{\n  "commitInfo": {\n',
)
CRLF_OR_BLANK = AREA.rule(
    "commit.crlf-or-blank",
    Severity.INFO,
    Level.LOG,
    "A commit has blank lines, or lines that end with CR LF.",
    spec="Delta Log Entries",
    fix=_IGNORED,
    example=r'{"commitInfo":{}}\r\n',
)
MISSING_REQUIRED = AREA.rule(
    "action.missing-required",
    Severity.ERROR,
    Level.LOG,
    "An action lacks a required field.",
    spec="Actions",
    fix=_LATER_ADD,
    example='{"add":{"path":"a.parquet","partitionValues":{},"modificationTime":1,"dataChange":true}} without size',
)
WRONG_TYPE = AREA.rule(
    "action.wrong-type",
    Severity.ERROR,
    Level.LOG,
    "A field of an action has a JSON type that differs from the protocol.",
    spec="Actions",
    fix=_LATER_ADD,
    example='{"add":{"size":"1024",…}}',
)
CONFIGURATION_NOT_STRING = AREA.rule(
    "domain.configuration-not-string",
    Severity.ERROR,
    Level.LOG,
    "The configuration of a domain is not a string.",
    spec="Domain Metadata",
    fix=Fix(
        broken="readers that parse the configuration as text fail",
        repair="commit the domain again with its configuration as a string",
        loss="nothing",
    ),
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


def report_unknown_field(kind: str, name: str, count: int, place: Place) -> Finding:
    """Return the finding for an unrecognized field, once per file."""
    where = f" in {count:,} actions" if count > 1 else ""
    message = f"{kind}.{name} is not defined by the protocol{where}; readers ignore it"
    return UNKNOWN_FIELD.at(place, message, seen=name)
