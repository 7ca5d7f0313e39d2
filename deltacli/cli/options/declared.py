"""Options as they are declared: those of several commands, of `fleet` and `share`, times, and the fields of requests.

An option that works on tables of one format only has its mark, `OF_DELTA` or `OF_PAIMON`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, fields, is_dataclass
from datetime import datetime
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from deltacli.cli.invocation import invocation
from deltacli.cli.terminal.suggested_commands import repeat_command_with
from deltacli.core.errors import UsageError, command, suggest_parameters
from deltacli.core.ranges import parse_versions
from deltacli.core.request_fields import COMMIT_METADATA, OF_DELTA, OF_PAIMON, Kind, Option, spellings_of
from deltacli.core.texts import parse_names
from deltacli.core.times import DAY_MS, parse_duration, to_epoch_ms
from deltacli.core.units import FRACTION_CODE, parse_percentage
from deltacli.storage import open_storage

if TYPE_CHECKING:
    from pathlib import Path

    from deltacli.core.machine import Clock
    from deltacli.sharing.configuration.settings import Configuration
    from deltacli.table.api_arguments import VersionTime
    from deltacli.table.handle import TableHandle

# -- arguments and options that several commands declare ---------------------------------------------------------------


def argument(meaning: str, metavar: str) -> Option:
    """Return how people see an argument, which is an option without a name. Its default is not shown."""
    return Option(meaning, metavar, spelled="")


TableArgument = Annotated[str, argument("Table directory: a path or URI.", "TABLE")]
TablesArgument = Annotated[
    list[str], argument("Table directories, or patterns such as 'lake/**': paths or URIs.", "TABLE...")
]


def is_several(tables: Sequence[str]) -> bool:
    return len(tables) > 1 or not {*"*?["}.isdisjoint(tables[0])


TableHereArgument = Annotated[
    str, argument("Table directory: a path or URI.  [default: the current directory]", "TABLE")
]
"""The table of a command that changes nothing; its default is `HERE`."""
VersionOption = Annotated[int | None, Option("Use the snapshot of this version.", "N", table_format=OF_DELTA)]
TimestampOption = Annotated[
    str | None,
    Option(
        "Use the newest version committed at or before T (RFC 3339 with offset, or a date: midnight UTC).",
        "T",
        table_format=OF_DELTA,
    ),
]
LastOption = Annotated[
    str | None,
    Option(
        "The last version: a number, or the last one committed at or before T.  [default: the newest]",
        "V|T",
        spelled="--to",
    ),
]
DryRunOption = Annotated[bool, Option("Show the plan and change nothing; overrides --yes.")]
YesOption = Annotated[bool, Option("Do not ask for confirmation.")]
CommitMetadataOption = Annotated[list[str] | None, COMMIT_METADATA, OF_DELTA]
BranchOption = Annotated[str | None, Option("Branch of a Paimon table.  [default: main]", "B", table_format=OF_PAIMON)]
SchemaIdOption = Annotated[int | None, Option("Use this schema of a Paimon table.", "N", table_format=OF_PAIMON)]
SnapshotIdOption = Annotated[
    int | None, Option("Use this snapshot of a Paimon table and its schema.", "N", table_format=OF_PAIMON)
]
TagOption = Annotated[str | None, Option("Use this tag of a Paimon table and its schema.", "T", table_format=OF_PAIMON)]
DdlOption = Annotated[
    bool, Option("Show the schema of a Paimon table as CREATE TABLE of Flink SQL instead.", table_format=OF_PAIMON)
]
RefsOption = Annotated[
    bool,
    Option(
        "Read the manifests of a Paimon table to find the users of each schema.  [default: --refs]",
        spelled="--refs/--no-refs",
        table_format=OF_PAIMON,
    ),
]
AllowLossyOption = Annotated[
    bool,
    Option("Accept changes of a Paimon table after which stored values are read differently.", table_format=OF_PAIMON),
]
MinPaimonOption = Annotated[
    int | None,
    Option(
        "Oldest major version of Paimon among the engines of the table, 1 or 2; with 2, what Paimon 1.x cannot open is "
        "permitted.  [default: the table's option deltacli.min-paimon, or 1]",
        "VERSION",
        table_format=OF_PAIMON,
    ),
]

CheckpointsOption = Annotated[
    list[str] | None,
    Option(
        "Name the streaming queries with these checkpoint directories that it concerns. Repeatable.",
        "GLOB",
        table_format=OF_DELTA,
    ),
]
"""Notes on these are written by `running/stream_notes.py`."""

DEFAULT_ROWS = 20
"Rows shown on a terminal without --limit."

LimitOption = Annotated[
    int | None, Option(f"Number of rows shown; 0 shows all.  [default: {DEFAULT_ROWS} on a terminal, else 0]", "N")
]
ColumnsOption = Annotated[str | None, Option("Show only these columns, in this order.", "A,B,…")]


# -- arguments and options of `fleet` ----------------------------------------------------------------------------------

FLEET_FILE = "fleet.toml"

FleetFileArgument = Annotated[str, argument(f"Policy file.  [default: {FLEET_FILE}]", "FILE")]
DetailsOption = Annotated[bool, Option("Plan destructive steps exactly, as vacuum and log expire do with --dry-run.")]
SavePlansOption = Annotated[str | None, Option("Also save these plans in a directory, for vacuum --apply.", "DIR")]
FleetLimitOption = Annotated[
    int | None,
    Option("Rows of the table shown, the worst first; 0 shows all.  [default: 20 on a terminal, else 0]", "N"),
]
ExitCodeOption = Annotated[bool, Option("Exit with 1 if a step is due, for scripts.")]


def fleet_command(name: str, file: str, state: str | None = None, only: Sequence[str] = ()) -> str:
    """Return another command for the same policy file, state directory and groups."""
    given = {"state": state, "only": only}
    arguments = [] if file == FLEET_FILE else [file]
    return command(f"fleet {name}", *arguments, table=None, **{key: value for key, value in given.items() if value})


# -- arguments and options of `share` ----------------------------------------------------------------------------------

SHARES = "shares.yaml"

ConfigurationOption = Annotated[
    str, Option("Configuration of the server.", "FILE", spelled="-c --config", shows_default=True)
]
RecipientArgument = Annotated[str, argument("Name of the recipient.", "RECIPIENT")]
OneRecipientArgument = Annotated[str | None, argument("List only this one.", "RECIPIENT")]
GrantsArgument = Annotated[list[str], argument("SHARE, SHARE/SCHEMA or SHARE/SCHEMA/TABLE.", "GRANT...")]
GrantsOption = Annotated[
    list[str] | None, Option("SHARE, SHARE/SCHEMA or SHARE/SCHEMA/TABLE to grant. Repeatable.", "GRANT")
]
CommentOption = Annotated[str | None, Option("Remark that is listed with it.", "TEXT")]
TokensArgument = Annotated[list[str] | None, argument("Ids of tokens, from share token list.", "TOKEN...")]
AllTokensOption = Annotated[bool, Option("Revoke all tokens of the recipient.", spelled="--all")]
ExpiresOption = Annotated[
    str, Option("How long the token is valid, such as 30d or 12h.", "DURATION|never", shows_default=True)
]
OverlapOption = Annotated[
    str, Option("How long the old tokens stay valid; 0s revokes them.", "DURATION", shows_default=True)
]
ProfileOption = Annotated[
    str | None, Option("Write the token to this new profile file, which only you can read, and not to stdout.", "FILE")
]
ProfileArgument = Annotated[str, argument("Profile file.", "FILE")]

DEFAULT_LIFETIME = "90d"
DEFAULT_OVERLAP = "24h"


def read_shares(config: str, *, lists_wildcards: bool = False) -> Configuration:
    """Return the configuration of the server. Without `lists_wildcards` no store is opened. Raises UsageError."""
    from deltacli.sharing.configuration.shares_yaml import read_configuration

    return read_configuration(config, open_store=open_storage if lists_wildcards else None)


def recipients_file_of(configuration: Configuration) -> Path:
    """Return the file of recipients. Raises UsageError where the configuration names none."""
    if configuration.recipients_file is None:
        raise UsageError(
            f"{configuration.path} names no file of recipients",
            code="share.recipients",
            facts={"missing": "recipients: recipients.json"},
            hint=f"add this line to {configuration.path}",
        )
    return configuration.recipients_file


def parse_lifetime(text: str, now_ms: int) -> int | None:
    """Return when a token of this lifetime expires; None for `never`. Raises UsageError."""
    if text == "never":
        return None
    lifetime_ms = parse_duration(text, "--expires")
    if lifetime_ms <= 0:
        raise UsageError(
            f"--expires {text} is not a lifetime",
            facts={"expected": "90d, 12h, or never"},
            hint=suggest_parameters("--expires 90d"),
        )
    return now_ms + lifetime_ms


# -- times on the command line -----------------------------------------------------------------------------------------


def parse_moment(option: str, text: str, arguments: Sequence[str], *, begins: bool = False) -> int:
    """Return the value of an option as epoch milliseconds; `begins`: as in `to_epoch_ms`.

    Raises UsageError, which names the option; for a text that is almost a time, the hint is the same command line with
    the corrected value.
    """
    try:
        return parse_timestamp(text, begins=begins)
    except UsageError as fault:
        corrected = corrected_timestamp(text)
        raise UsageError(
            f"{option}: {fault.message}",
            code=fault.code,
            facts=fault.facts,
            hint=None if corrected is None else repeat_command_with(arguments, option, corrected),
        ) from None


_LONGEST_VERSION = 19
"""Digits of the largest version, 2^63 - 1."""


def parse_end(option: str, text: str, clock: Clock) -> int | VersionTime:
    """Return the end of a range: a version if it consists of digits, else a time, which may be relative to now.

    Raises UsageError.
    """
    digits = text.strip()
    if digits.isascii() and digits.isdigit() and len(digits) <= _LONGEST_VERSION:
        return int(digits)
    from deltacli.table.api_arguments import VersionTime

    if (relative_ms := parse_relative_time(text, clock)) is not None:
        return VersionTime(relative_ms)
    try:
        return VersionTime(parse_moment(option, text, invocation.arguments, begins=option == "--from"))
    except UsageError as fault:
        if not re.fullmatch(_MOMENT, text.strip()) and not _why_impossible(text):
            fault.message = f"{option}: {text!r} is neither a version number nor a time"
        raise


_DAYS_AGO = {"today": 0, "yesterday": 1}


def parse_relative_time(text: str, clock: Clock) -> int | None:
    """Return the time of `1d` or `90m`, so long before now, or of `today` or `yesterday`, at midnight UTC.

    None for other texts. The time is in epoch milliseconds.
    """
    word = text.strip().lower()
    if word in _DAYS_AGO:
        return (clock() // DAY_MS - _DAYS_AGO[word]) * DAY_MS
    try:
        return max(clock() - parse_duration(word, ""), 0)
    except UsageError:
        return None


def parse_timestamp(text: str, *, begins: bool = False) -> int:
    """Return epoch milliseconds of an RFC 3339 time with its offset, or of a bare date at midnight UTC.

    Seconds, and the minutes of the offset, may be left out. Raises UsageError for everything else, also for a time
    without an offset: it is another moment on every machine.
    """
    found = re.fullmatch(_MOMENT, text.strip())
    moment = None if found is None else _moment(found)
    if found is None or moment is None:
        raise _no_timestamp(f"{text!r} is not a timestamp{_why_impossible(text)}")
    if found["time"] and not found["offset"]:
        raise _no_timestamp(f"{text!r} has no offset from UTC")
    return to_epoch_ms(moment, begins=begins)


def corrected_timestamp(text: str) -> str | None:
    """Return what `parse_timestamp` accepts in place of a text that it refuses: a time without an offset in UTC, a date
    with an offset at its midnight, numbers of one digit with a zero before them, the last day of a month for a later
    one. None for other texts.
    """
    text = re.sub(_DATE_WITHOUT_ZEROS, _with_zeros, text.strip())
    found = re.fullmatch(_MOMENT, text)
    if found is not None and (last := _last_day(found["date"])) is not None and last < int(found["date"][8:]) < 32:
        text = f"{text[:8]}{last:02}{text[10:]}"
        found = re.fullmatch(_MOMENT, text)
    if found is not None:
        written = found[0].replace(" ", "").upper()
        return None if _moment(found) is None else written if found["offset"] or not found["time"] else f"{written}Z"
    dated = re.fullmatch(_DATE_WITH_OFFSET, text)
    if dated is None:
        return None
    whole = f"{dated['date']}T00:00:00{dated['offset']}"
    found = re.fullmatch(_MOMENT, whole)
    return whole if found is not None and _moment(found) else None


_OFFSET = r"(?P<offset>[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)"
_MOMENT = (
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    rf"(?:[Tt ](?P<time>[0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}}(?:[.][0-9]+)?)?) ?{_OFFSET}?)?"
)
_DATE_WITHOUT_ZEROS = (
    r"\A(?P<year>[0-9]{4})[-/](?P<month>[0-9]{1,2})[-/](?P<day>[0-9]{1,2})(?:[Tt ]+(?P<hour>[0-9]{1,2})(?=:))?"
)
_DATE_WITH_OFFSET = rf"(?P<date>[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}) ?{_OFFSET}"


def _with_zeros(found: re.Match[str]) -> str:
    date = f"{found['year']}-{found['month']:0>2}-{found['day']:0>2}"
    return date if found["hour"] is None else f"{date}T{found['hour']:0>2}"


def _moment(found: re.Match[str]) -> datetime | None:
    """The moment of a text of the right form, UTC where it has no offset; None where no calendar or clock has it."""
    offset = (found["offset"] or "Z").upper()
    try:
        return datetime.fromisoformat(f"{found['date']}T{found['time'] or '00:00'}{offset}")
    except ValueError:
        return None


def _why_impossible(text: str) -> str:
    """Return why no calendar or clock has a text of the right form; empty for a text of another form."""
    found = re.fullmatch(_MOMENT, re.sub(_DATE_WITHOUT_ZEROS, _with_zeros, text.strip()))
    if found is None or _moment(found) is not None:
        return ""
    from calendar import month_name

    year, month, day = map(int, found["date"].split("-"))
    last = _last_day(found["date"])
    if last is None:
        return f": there is no {f'month {month}' if year else 'year 0'}"
    if not 0 < day <= last:
        return f": no such day, {month_name[month]} {year} has {last} days"
    hour, minute, *second = (found["time"] or "00:00").split(":")
    if int(hour) > 23 or int(minute) > 59 or int(float((second or ["0"])[0])) > 59:
        return ": no such time, the last of a day is 23:59:59"
    return f": no such offset from UTC, {found['offset']}"


def _last_day(date: str) -> int | None:
    """Return the number of days of the month of a date; None for a month that does not exist."""
    from calendar import monthrange

    year, month = int(date[:4]), int(date[5:7])
    return monthrange(year, month)[1] if year and 0 < month < 13 else None


def _no_timestamp(message: str) -> UsageError:
    return UsageError(
        message,
        code="usage.timestamp",
        facts={"expected": "RFC 3339 with an offset, as in 2026-01-09T08:12:44Z, or a date, as in 2026-01-09"},
    )


def parse_moment_of(version: int | None, timestamp: str | None) -> int | None:
    """Return `--timestamp` as epoch milliseconds. Raises UsageError, also for an invalid `--version`."""
    if version is not None and timestamp is not None:
        raise UsageError("--version and --timestamp exclude each other")
    if version is not None and version < 0:
        raise UsageError(f"--version {version} is negative")
    return parse_moment("--timestamp", timestamp, invocation.arguments) if timestamp is not None else None


def chosen_version(table: TableHandle, version: int | None, timestamp: str | None) -> int | None:
    """Return the version of `--version` or `--timestamp`; None for neither. Raises UsageError and VersionAbsent."""
    at_ms = parse_moment_of(version, timestamp)
    if at_ms is None:
        return version
    from deltacli.table.rebuild import version_at

    return version_at(table, at_ms)


# -- options of a command that are made from the fields of a request ---------------------------------------------------

Request = TypeVar("Request")

_NAME = re.compile(r"\s*`(?:[^`]|``)*`\s*(?=,|$)|[^,]+")
_RATE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)/s")


class Asked(Generic[Request]):
    """The values of the options of a request, as on the command line."""

    def __init__(self, request: type[Request], values: Mapping[str, Any]) -> None:  # Any: values parsed by typer
        self._request = request
        self.values = values
        """Field -> its value, for the options that were given."""

    def given(self, *, but: Iterable[str] = ()) -> list[str]:
        """Return the spellings of the options that were given, in order, without those of some fields."""
        left_out = {*but}
        return [_spelled(one) for one in fields(self._request) if one.name in self.values.keys() - left_out]  # type: ignore[arg-type]

    def request(self) -> Request:
        """Return the request. Raises UsageError for invalid values and combinations."""
        found = {one.name: self._read(one) for one in fields(self._request) if one.name in self.values}  # type: ignore[arg-type]
        return self._request(**found)

    def _read(self, one: Field[Any]) -> Any:  # Any: a field, and its value
        read = _READERS.get(one.metadata["option"].kind) if one.metadata else None
        value = self.values[one.name]
        return value if read is None else read(value, _spelled(one))


class Parameter:
    """A parameter of a command: `...` as default where a value is required, and how people see it."""

    def __init__(self, name: str, hint: Any, default: object, shown: Option) -> None:  # Any: an annotation
        self.name, self.hint, self.default, self.shown = name, hint, default, shown
        self.spellings = spellings_of(name, shown)
        """The names of an option, a flag and its opposite with a slash; none of an argument."""

    @property
    def kind(self) -> type[Any]:  # Any: what values are made with
        kinds = [one for one in get_args(self.hint) if one is not NoneType] if self._is_union else [self.hint]
        found: type[Any] = next(iter(get_args(kinds[0])), kinds[0])
        return found

    @property
    def _is_union(self) -> bool:
        return isinstance(self.hint, UnionType)

    @property
    def is_many(self) -> bool:
        return any(get_origin(one) is list for one in (self.hint, *(get_args(self.hint) if self._is_union else ())))

    @property
    def least(self) -> int | None:
        return 1 if self.shown.kind is Kind.COUNT else self.shown.least

    @property
    def takes_value(self) -> bool:
        return bool(self.spellings) and self.kind is not bool and not self.shown.is_counted


Parameters = Mapping[str, Parameter]


class Declared:
    """A command with the shared options after its own. `call` takes the values of its parameters."""

    def __init__(
        self, command: Callable[..., None], parameters: Sequence[Parameter], call: Callable[..., None]
    ) -> None:
        self.name, self.doc = command.__name__, command.__doc__
        self.parameters, self.call = parameters, call


def options_of(hint: object) -> Parameters | None:
    """Return the options for a parameter that is a request, or what was asked of one; None for another parameter.

    A field without an option, or a hint that declares one, is for the Python API only.
    """
    request = _request_of(hint)
    if request is None:
        return None
    hints = get_type_hints(request, include_extras=True)
    found = {}
    for one in fields(request):
        if one.metadata:
            found[one.name] = parameter_of(one.name, one.metadata["option"], hints[one.name], one.default)
        elif get_origin(hints[one.name]) is Annotated:
            found[one.name] = declared(one.name, hints[one.name], one.default)
    return found


def made_of(hint: object, options: Parameters, values: Mapping[str, Any]) -> Any:  # Any: values parsed by typer
    """Return the argument for a parameter of `options_of`. Raises UsageError where it is a request."""
    request = _request_of(hint)
    assert request is not None
    given = {name: values[name] for name, option in options.items() if _is_given(values[name], option)}
    asked = Asked(request, given)
    return asked if get_origin(hint) is Asked else asked.request()


def given_of_one_format(options: Iterable[Parameter], values: Mapping[str, object]) -> dict[str, str]:
    """Return the given options that work on one format only, as they are spelled, with the format."""
    found = {}
    for option in options:
        value, table_format = values[option.name], option.shown.table_format
        if table_format is not None and _is_given(value, option):
            spelled, _, negated = option.spellings[0].partition("/")
            found[negated if value is False else spelled] = table_format
    return found


def _is_given(value: object, option: Parameter) -> bool:
    return value is not option.default and value != []


def _request_of(hint: object) -> type[Any] | None:  # Any: a dataclass
    found = get_args(hint)[0] if get_origin(hint) is Asked else hint
    return found if isinstance(found, type) and is_dataclass(found) else None


def _spelled(one: Field[Any]) -> str:
    return spellings_of(one.name, one.metadata["option"])[-1]


def declared(name: str, hint: Any, default: object) -> Parameter:
    """Return the parameter for a hint, which has an option or an argument."""
    kind, shown, *table_format = get_args(hint)
    if not spellings_of(name, shown):
        return Parameter(name, kind, default, shown)
    return parameter_of(name, shown._replace(table_format=table_format[0]) if table_format else shown, kind, default)


def parameter_of(name: str, option: Option, hint: Any, default: object = None) -> Parameter:
    """Return the parameter of an option. Unless its default is shown, or it is a flag, it has none."""
    kind = _type_of(option, hint)
    if option.kind is Kind.OPPOSITE:
        default = False
    elif not (option.shows_default or kind is bool or option.is_counted or default is ...):
        default = None
    return Parameter(name, kind, default, option)


def converted(text: str, kind: Callable[[str], Any]) -> Any:  # Any: what `kind` makes
    """Return a value of a text. Raises ValueError, also for digits and blanks that only Python takes for a number."""
    if kind is int and not (text.isascii() and text.lstrip("+-").isdecimal()):
        raise ValueError(text)
    return kind(text)


def parse_plainly(parameters: Sequence[Parameter], words: Iterable[str]) -> dict[str, Any] | None:
    """Return the values of words that are plainly right, as typer returns them; None for all others, which typer then
    parses or refuses. Its import takes a third of a short command.
    """
    options = {
        name: (one, place == 0)
        for one in parameters
        for spelling in one.spellings
        for place, name in enumerate(spelling.split("/"))
    }
    found: dict[str, Any] = {}
    others: list[str] = []
    words = iter(words)
    try:
        for word in words:
            if word[:1] != "-":
                others.append(word)
                continue
            name, equals, text = word.partition("=")
            option, is_affirmed = options[name]
            if equals and (name[:2] != "--" or not option.takes_value):
                return None
            if not option.takes_value:
                found[option.name] = is_affirmed if option.kind is bool else found.get(option.name, 0) + 1
                continue
            if not equals:
                text = next(words)
                if text[:1] == "-":
                    return None
            value = converted(text, option.kind)
            if option.least is not None and value < option.least:
                return None
            found[option.name] = [*found.get(option.name, ()), value] if option.is_many else value
        for one in parameters:
            if others and not one.spellings:
                taken = len(others) if one.is_many else 1
                given = [converted(text, one.kind) for text in others[:taken]]
                found[one.name], others = given if one.is_many else given[0], others[taken:]
    except (KeyError, StopIteration, ValueError):
        return None
    values = {one.name: found.get(one.name, one.default) for one in parameters}
    return None if others or ... in values.values() else values


def _type_of(option: Option, hint: Any) -> Any:  # Any: annotations
    if option.kind is None:
        return hint
    return option.choices | None if option.choices else _TYPES.get(option.kind, str | None)


_TYPES: Mapping[Kind, Any] = {  # Any: annotations
    Kind.COUNT: int | None,
    Kind.OPPOSITE: bool,
    **dict.fromkeys((Kind.TEXTS, Kind.VERSIONS, Kind.PATTERNS, Kind.COLUMNS, Kind.COMMIT_METADATA), list[str] | None),
}


def _read_text(text: str, option: str) -> str:
    if not text.strip():
        raise UsageError(f"{option} is empty")
    return text


def _read_names(texts: Sequence[str], option: str) -> tuple[str, ...]:
    return tuple(name for text in texts for name in parse_names(text, option))


def split_columns(columns: str, option: str) -> list[str]:
    """Return names of columns; backticks quote a name with a comma. Raises UsageError for an empty list."""
    how = {"code": "usage.column", "hint": "deltacli snapshot {table} --schema"}
    return [_unquoted(name) for name in parse_names(columns, option, _NAME, **how)]


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if len(name) > 2 and name[0] == "`" == name[-1] else name


def _read_share(text: str, option: str) -> float:
    is_sample = option == "--sample"  # of which 0 % would check nothing
    code, expected = ("usage.sample", "more than 0%, up to 100%") if is_sample else (FRACTION_CODE, "0% to 100%")
    try:
        share = parse_percentage(text)
        if is_sample and not share:
            raise ValueError(f"{text!r} is not a share such as 5%")
        return share
    except ValueError as fault:
        wrong = UsageError(f"{option} {fault}", code=code, facts={"expected": expected})
        if re.fullmatch(r"[1-9][0-9]?|100", text):
            wrong.suggest_as_fact(text, f"{text}%")
        raise wrong from fault


def _read_rate(text: str, option: str) -> float:
    found = _RATE.fullmatch(text.strip())
    if found is None or float(found[1]) <= 0:
        raise UsageError(f"{option} {text} is not a rate", facts={"expected": Kind.RATE.value})
    return float(found[1])


def _read_commit_metadata(texts: Sequence[str], _option: str) -> Mapping[str, str]:
    from deltacli.delta.log.actions import parse_commit_metadata

    return parse_commit_metadata(texts)


_READERS: Mapping[Kind, Callable[[Any, str], object]] = {  # Any: values parsed by typer
    Kind.TEXT: _read_text,
    Kind.TEXTS: lambda texts, option: tuple(_read_text(text, option) for text in texts),
    Kind.DURATION: lambda text, option: parse_duration(text, option, "m" if option == "--time-budget" else None),
    Kind.VERSIONS: lambda texts, option: parse_versions(",".join(texts), option),
    Kind.PATTERNS: _read_names,
    Kind.COLUMNS: _read_names,
    Kind.NAMES: split_columns,
    Kind.SHARE: _read_share,
    Kind.RATE: _read_rate,
    Kind.OPPOSITE: lambda value, _option: not value,
    Kind.COMMIT_METADATA: _read_commit_metadata,
}
