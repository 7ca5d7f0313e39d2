"""One tree of errors: the class is the fault, the branch the exit code; and how texts name parameters and commands.

raise UsageError(f"{parameter('vacuum.prefix')} and {parameter('vacuum.where')} exclude each other")
    raise Refused("the log has a gap", hint=command("validate", level="storage"))

Both return text as the caller of this process knows it: Python reads "`prefix` and `where`", and a method of the table;
the command line has its own `Spelling`. So call them where the text is made, never while a module is imported.
Parameters have the names of the Python API, or those of the option where Python has none.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from deltacli.core.typing import Json

# -- how errors, notes and rules name parameters and next commands -----------------------------------------------------

_ALIKE, _ALIKE_TYPES, _ALIKE_PATHS = 0.6, 0.75, 0.8


def nearest_name(name: str, known: Iterable[str], *, ignores_case: bool = False, alike: float = _ALIKE) -> str | None:
    """Return the known name that is most like a name, else one with the same letters in another order, None where none
    is; `alike` is a share, 1 for equal names.
    """
    by_spelling = {candidate.lower() if ignores_case else candidate: candidate for candidate in known}
    wanted = name.lower() if ignores_case else name
    if not wanted or wanted in by_spelling:
        return by_spelling.get(wanted)
    from difflib import get_close_matches

    found = get_close_matches(wanted, by_spelling, 1, alike)
    found = found or [one for one in by_spelling if len(one) > 2 and sorted(one) == sorted(wanted)]
    return by_spelling[found[0]] if found else None


def nearest_type(text: str, known: Iterable[str]) -> str | None:
    """Return a misspelled type, or one of another database, as it was probably meant, with its digits; None for other
    texts, also where only the digits are wrong.
    """
    word, bracket, rest = text.strip().partition("(")
    word = _TYPES_OF_OTHERS.get(word.rstrip().lower(), word)
    near = nearest_name(word.rstrip(), known, ignores_case=True, alike=_ALIKE_TYPES)
    found = (near or "") + bracket + rest
    return None if near is None or found.lower() == text.strip().lower() else found


_TYPES_OF_OTHERS = {
    **dict.fromkeys(("clob", "json", "nvarchar", "str", "text", "uuid"), "string"),
    **dict.fromkeys(("blob", "bytea", "bytes", "varbinary"), "binary"),
    **dict.fromkeys(("int64", "uint32"), "bigint"),
    **dict.fromkeys(("int32", "mediumint"), "int"),
    "datetime": "timestamp",
    "float64": "double",
    "int16": "smallint",
    "int8": "tinyint",
    "number": "decimal",
}


def nearest_path(path: Sequence[str], known: Iterable[Sequence[str]]) -> Sequence[str] | None:
    """Return the path of a column that was probably meant: one that differs in a letter or two, else one with the same
    last name, else one that is alike as a whole or in its last name; None without one.
    """
    paths = {".".join(one): one for one in known}
    text, last = ".".join(path), path[-1].lower()
    namesakes = [written for written, one in paths.items() if one[-1].lower() == last]
    near = nearest_name(text, paths, ignores_case=True, alike=_ALIKE_PATHS)
    near = near or nearest_name(text, namesakes, ignores_case=True, alike=0.0)
    near = near or nearest_name(text, paths, ignores_case=True)
    if near is None:
        by_last = {one[-1]: written for written, one in paths.items()}
        near = by_last.get(nearest_name(last, by_last, ignores_case=True) or "")
    return None if near is None else paths[near]


def nearest_directory(path: str) -> str | None:
    """Return a missing local path with the last name of the directory that was probably meant; None without one."""
    above, _, name = path.rstrip("/").rpartition("/")
    try:
        with os.scandir(above or ("/" if path.startswith("/") else ".")) as entries:
            found = [entry.name for entry in islice(entries, _MOST_NEIGHBOURS) if entry.is_dir()]
    except (OSError, ValueError):
        return None
    near = nearest_name(name, found)
    return near and f"{path.rstrip('/').removesuffix(name)}{near}"


_MOST_NEIGHBOURS = 1_000
_UNPRINTABLE = r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
TABLE_PLACEHOLDER = "{table}"
SHELL_ONLY = frozenset({"explain", "format", "master", "remote", "save_plan", "spark_conf", "verify", "write_baseline"})
"""Parameters without which a command is another one, and which no method has."""
OMITTED_OPTIONS = frozenset({"json", "schema", "yes"})
"""Options that methods do without."""
_OF_PAIMON = "paimon"
"""What is True for an operation on a Paimon table, which Python opens by another function."""
_OF_OPENING = ("allow_external", "storage_options")
_WITHOUT_METHOD = frozenset(
    {
        "alter",
        "catalog ls",
        "doctor",
        "features",
        "fleet",
        "log cat",
        "log crc",
        "properties",
        "schema",
        "share",
        "spark",
    }
)
_GROUPS = ("catalog", "doctor", "log", "schema")
_WITHOUT_TABLE = ("fleet", "share", "spark")
_OPTIONS = {
    ("changes", "from_version"): "from",
    ("changes", "to_version"): "to",
    ("log compact", "first"): "from",
    ("open_table", "storage_options"): "storage-option",
    ("log compact", "last"): "to",
    ("undelete", "sources"): "from",
    ("repair", "sources"): "from",
    ("repair", "partition_values"): "partition-value",
    ("restore", "sources"): "from",
    ("vacuum", "keep_versions"): "keep-version",
    ("validate", "with_manifests"): "refs",
}
"""Options that are not named like the parameter."""


def quote_word(word: str) -> str:
    """Return a word quoted for a shell; `$'…'` if it has characters that must not reach a terminal."""
    if not re.search(_UNPRINTABLE, word):
        is_plain = "'" in word and not re.search(r"""["$`\\!]""", word)
        return f'"{word}"' if is_plain else shlex.quote(word)
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{re.sub(_UNPRINTABLE, _bytes_of, escaped)}'"


def _bytes_of(match: re.Match[str]) -> str:
    """Return the escapes of the bytes of characters; half a surrogate pair is a byte, or text from Python."""
    try:
        data = match[0].encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        data = match[0].encode("utf-8", "surrogatepass")
    return "".join(f"\\x{byte:02x}" for byte in data)


def quote_table(table: str) -> str:
    """Return a table as an argument: a path that begins with a dash must not be read as an option."""
    return quote_word(f"./{table}" if table.startswith("-") else table)


def is_shared(table: str) -> bool:
    """Return whether the name of a table is the address of a shared one, `PROFILE#SHARE.SCHEMA.TABLE`."""
    return re.search(r"#[^#/.]+(?:\.[^#/.]+){2}\Z", table) is not None


def quote_identifier(name: str) -> str:
    """Return the name of a column as SQL and conditions take it literally."""
    return f"`{name.replace('`', '``')}`"


def format_sql_name(name: str) -> str:
    """Return the name of a column for SQL, in backticks where it is not a plain word."""
    return name if name.isascii() and name.isidentifier() else quote_identifier(name)


class DoubleQuoted(str):
    """A value that a shell shows in double quotes."""

    __slots__ = ()


class DurationArgument(str):
    """A duration as a shell takes it, such as 7d, which Python shows as its milliseconds."""

    __slots__ = ("milliseconds",)
    milliseconds: int

    def __new__(cls, text: str, milliseconds: int) -> DurationArgument:
        found = super().__new__(cls, text)
        found.milliseconds = milliseconds
        return found

    def __repr__(self) -> str:
        return repr(self.milliseconds)


class CommandLine(str):
    """A whole command line: a hint with no place for a table, whatever its words are."""

    __slots__ = ()


class Command(str):
    """A next command as a text, and what that spells: an operation on a table."""

    __slots__ = ("arguments", "operation", "options", "table")
    operation: str
    table: str | None
    arguments: tuple[object, ...]
    options: Mapping[str, object]

    def __new__(
        cls,
        text: str,
        operation: str = "",
        table: str | None = None,
        arguments: tuple[object, ...] = (),
        options: Mapping[str, object] = MappingProxyType({}),
    ) -> Command:
        found = super().__new__(cls, text)
        found.operation, found.table, found.arguments, found.options = operation, table, arguments, dict(options)
        return found

    def with_options(self, **options: object) -> Command:
        return get_spelling().command(self.operation, self.table, self.arguments, {**self.options, **options})


def method_name(operation: str) -> str:
    """Return the method of a table for an operation."""
    return "_".join(reversed(operation.split())).replace("-", "_")


class ParameterHint(str):
    """A hint to repeat a call with more parameters, each as its caller writes it."""

    __slots__ = ("parameters",)
    parameters: tuple[str, ...]

    def __new__(cls, text: str, parameters: tuple[str, ...] = ()) -> ParameterHint:
        found = super().__new__(cls, text)
        found.parameters = parameters
        return found


def suggest_parameters(*parameters: str, also: str = "") -> ParameterHint:
    """Return the hint to add parameters, as `parameter` returns them, with what else is to be said."""
    return ParameterHint(f"add {' '.join(parameters)}{also}", parameters)


def get_command_option(hint: str | None, name: str) -> object:
    """Return an option of a next command; None for another hint, and without it."""
    return hint.options.get(name) if isinstance(hint, Command) else None


_PLACES = {"save_plan": "FILE", "sources": "COPY", "version": "N"}
"""Parameter -> the word that stands for its value in a command line."""
PLACEHOLDERS = frozenset(
    {"COLUMN", "CONDITION", "COPY", "DIRECTORY", "FILE", "KEY", "N", "NAME", "POSITION", "RECIPIENT"}
    | {"TABLE", "TEXT", "TYPE", "URI", "URL", "VALUE"}
)
"""Words of hints in whose place users write their own."""


def is_complete_command(line: str, typed: Iterable[str]) -> bool:
    """Return whether a command can run as it is: it has no placeholder, except words of the command that was typed."""
    return not any(
        PLACEHOLDERS & {*re.split(r"[=,@]", word)} for word in shlex.split(line, comments=True) if word not in typed
    )


def is_command(advice: str) -> bool:
    """Return True for advice that is a command to paste, False for a sentence."""
    return advice.startswith("deltacli ")


class Spelling:
    """Names parameters and commands for callers of the Python API."""

    def parameter(self, operation: str, name: str, value: object = None) -> str:
        """Return the name of a parameter, with a value where there is one."""
        if operation == "storage_options":
            return f"`storage_options[{name!r}]`" if value is None else f"`storage_options={{{name!r}: {value!r}}}`"
        return f"`{name}`" if value is None else f"`{name}={value!r}`"

    def command(
        self, operation: str, table: str | None, arguments: tuple[object, ...], options: Mapping[str, object]
    ) -> Command:
        """Return an operation on a table as a command to paste; empty where this caller has none."""
        is_of_shell = operation in _WITHOUT_METHOD or operation.split(maxsplit=1)[0] in (
            *_WITHOUT_TABLE,
            "doctor",
            "schema",
        )
        if is_of_shell or not SHELL_ONLY.isdisjoint(options):
            return Command("")
        of_opening = {name: options[name] for name in _OF_OPENING if name in options}
        rest = {
            name: value for name, value in options.items() if name not in (*_OF_OPENING, *OMITTED_OPTIONS, _OF_PAIMON)
        }
        if operation == "read":
            of_version = {name: rest.pop(name) for name in list(rest) if name in ("version", "timestamp")}
            method = f"snapshot({_shown((), of_version)}).scan"
        else:
            method = method_name(operation)
        opened = _shown((), of_opening)
        place = table if table is None or _is_template(table) else repr(table)
        function = "open_paimon" if _OF_PAIMON in options else "open_table"
        handle = "table" if place is None else f"{function}({place}{opened and ', '}{opened})"
        return Command(f"{handle}.{method}({_shown(arguments, rest)})", operation, table, arguments, options)

    def fill(self, hint: str, table: str) -> str:
        """Fill the table into a hint, where it says `{table}`, `{table}/NAME` or `{parent}`."""
        if _has_no_place(hint):
            return hint
        if isinstance(hint, Command) and hint.table == TABLE_PLACEHOLDER:
            return self.command(hint.operation, table, hint.arguments, hint.options)
        if "deltacli " in hint:  # of a layer that does not call `command` yet
            return fill_hint(hint, table)
        if below := re.search(r"\{table\}(/[^)]*)", hint):
            return hint.replace(below[0], repr(table.rstrip("/") + below[1]))
        return hint.replace("{parent}", repr(_parent(table))).replace(TABLE_PLACEHOLDER, repr(table))


class ShellSpelling(Spelling):
    """Names parameters and commands for a shell. Not a part of `cli`, because executors of a cluster need it, too."""

    def parameter(self, operation: str, name: str, value: object = None) -> str:
        """Return the option of a parameter, with a value where there is one; `--no-NAME` for False."""
        if operation == "storage_options":
            return f"--storage-option {name}" if value is None else f"--storage-option {name}={value}"
        option = _OPTIONS.get((operation, name)) or name.removesuffix("_ms").replace("_", "-")
        if isinstance(value, bool) or value is None:
            return f"--no-{option}" if value is False else f"--{option}"
        if isinstance(value, Mapping):
            value = " ".join(f"{key}={inner}" for key, inner in value.items())
        if isinstance(value, list):
            (value,) = value
        return f"--{option} {value}"

    def command(
        self, operation: str, table: str | None, arguments: tuple[object, ...], options: Mapping[str, object]
    ) -> Command:
        """Return a command line, in which the table follows the words of the command."""
        words = operation.split()
        length = 2 if words[0] in _GROUPS else 1
        place = [] if table is None else [table if _is_template(table) else quote_table(table)]
        if words[0] in _WITHOUT_TABLE:
            place = []
        given = [
            self.parameter(operation, name, one if isinstance(one, bool) else _word(one, _PLACES.get(name, "VALUE")))
            for name, value in options.items()
            if name != _OF_PAIMON
            for one in (value if isinstance(value, list) else [value])
        ]
        line = " ".join(["deltacli", *words[:length], *place, *words[length:], *map(_word, arguments), *given])
        return Command(line, operation, table, arguments, options)

    def fill(self, hint: str, table: str) -> str:
        return fill_hint(hint, table)


def _word(value: object, place: str = "VALUE") -> str:
    """Return a value as it is on a command line; `place` stands for one that the user fills in."""
    if value is ...:
        return place
    if isinstance(value, tuple):
        return " ".join(map(_word, value))
    if isinstance(value, Mapping):
        return " ".join(_pair(key, inner) for key, inner in value.items())
    return f'"{value}"' if isinstance(value, DoubleQuoted) else quote_word(str(value))


def _pair(key: str, value: object) -> str:
    if value is ...:
        return f"{key}=VALUE"
    return f"{key}={quote_word(value)}" if isinstance(value, str) and " " in value else quote_word(f"{key}={value}")


def _is_template(table: str) -> bool:
    return table in (TABLE_PLACEHOLDER, "{parent}") or table.startswith("{table}/")


def _shown(arguments: tuple[object, ...], options: Mapping[str, object]) -> str:
    words = [*map(repr, arguments), *(f"{name}={value!r}" for name, value in options.items())]
    return ", ".join(words).replace("Ellipsis", "...")


_chosen = [Spelling()]


def get_spelling() -> Spelling:
    """Return how this process names parameters and commands, for others that work for it."""
    return _chosen[-1]


@contextmanager
def use_spelling(chosen: Spelling) -> Iterator[None]:
    """Name parameters and commands in this way; a process does it for the whole of its work."""
    _chosen.append(chosen)
    try:
        yield
    finally:
        _chosen.pop()


def parameter(name: str, value: object = None) -> str:
    """Return what the caller calls a parameter, with a value where there is one; True and False are values of flags.

    `name` is `OPERATION.NAME`, with `open_table` for what all operations share, or `storage_options.NAME`.
    """
    operation, _, last = name.partition(".")
    return get_spelling().parameter(operation, last, value)


def command(operation: str, *arguments: object, table: str | None = TABLE_PLACEHOLDER, **options: object) -> str:
    """Return a next command: an operation with the words and the options of its command line; empty where the caller
    has none. `...` stands for what the user fills in, on a command line a word of PLACEHOLDERS. `table=None` leaves the
    table out of a sentence.
    """
    return get_spelling().command(operation, table, arguments, options)


def install_command(extra: str) -> str:
    """Return the command that adds an extra to this installation."""
    from deltacli.core.installation import build_install_command

    return build_install_command(extra)


def paimon_command(operation: str) -> str:
    """Return an operation on a Paimon table as a next command."""
    return get_spelling().command(operation, TABLE_PLACEHOLDER, (), {_OF_PAIMON: True})


class LazyText:
    """A sentence that is written before it is known who reads it: `{}` stands for a parameter or a command, which is
    spelled when the sentence is read.
    """

    __slots__ = ("_sentence", "_spelled")

    def __init__(self, sentence: str, spelled: Callable[[], str]) -> None:
        self._sentence = sentence
        self._spelled = spelled

    def __str__(self) -> str:
        """Return the sentence as the caller of this process knows it; without the command where it has none."""
        return self._sentence.replace("{}", self._spelled()).removesuffix(": ")


def fill_hint(hint: str, table: str | None) -> str:
    """Fill the table into a hint: `{table}`, `{table}/NAME` for one below it, `{parent}` for the directory above."""
    if _has_no_place(hint):
        return hint
    if table is None:
        return hint.replace("{table}", "TABLE").replace("{parent}", "TABLE")
    if below := re.search(r"\{table\}/(.*)\Z", hint, re.DOTALL):
        return hint[: below.start()] + quote_table(f"{table.rstrip('/')}/{below[1]}")
    return hint.replace("{table}", quote_table(table)).replace("{parent}", quote_table(_parent(table)))


def _has_no_place(hint: str) -> bool:
    is_filled = isinstance(hint, Command) and hint.table is not None and not _is_template(hint.table)
    return is_filled or isinstance(hint, CommandLine)


def _parent(table: str) -> str:
    return (table.rstrip("/").rpartition("/")[0] or "/") if "/" in table.rstrip("/") else "."


# -- one tree of errors ------------------------------------------------------------------------------------------------

# DeltacliError                 exit   what it says
# ├── UsageError                   2   the command line is wrong: option, column, value, scheme, missing extra
# │   └── PaimonTable                  a Paimon table where a Delta table is needed
# ├── Unreadable                   3   path, table or version absent, log incomplete or corrupt, reader feature unknown
# │   ├── CatalogNameUnknown           a catalog has no such catalog, schema or table
# │   ├── NotATable                    nothing there, a file, or a directory without a usable log
# │   ├── LogIncomplete                a gap, or a log without its beginning
# │   ├── CommitCorrupt                a commit file that cannot be parsed: file, line, byte
# │   ├── CheckpointUnreadable         a checkpoint, part or sidecar that cannot be opened or lacks what it must hold
# │   ├── DataUnreadable               a data file or deletion vector that is not what the log says
# │   │   └── CatalogAnswerInvalid         a catalog answered what it must not answer
# │   ├── VersionAbsent                never written, or no longer reconstructable
# │   └── ProtocolUnsupported          the table asks for a reader that deltacli is not
# ├── Refused                      4   a guard stopped it, nothing changed
# │   ├── NoAtomicCreate               the store cannot create a file for one of many writers: it is read-only
# │   └── PathExternal                 a file outside the table, below no prefix that was allowed
# ├── PartlyDone                   5   run again
# ├── ConflictLost                 6   other writers won every retry
# ├── StorageFailed                7   network, permission, credentials, throttling, no space
# │   ├── CatalogUnavailable           a catalog cannot be reached, or fails
# │   ├── FileMissing                  a referenced file is missing
# │   ├── PermissionRefused            access denied
# │   │   └── CatalogDenied                a catalog refuses access, or gives no credentials
# │   ├── CredentialsMissing           nothing to ask for access with
# │   └── NoSpace                      the disk, or the quota, is full
# ├── ClusterFailed                7   a cluster that cannot be reached, or a job that failed there
# ├── MemoryExhausted              7   memory, or the address space that a limit allows, is used up
# └── OutcomeUnknown               8   a commit was sent and its fate could not be read back


EXIT_OK = 0
EXIT_FINDINGS = 1
EXIT_BUG = 70

EXIT_CODES: Mapping[int, str] = {
    0: "done, or nothing to do",
    1: "findings: problems were found, or work is due; the command itself succeeded",
    2: "usage: unknown option, command or column, bad value, unsupported scheme, missing extra",
    3: "unreadable: path, table or version absent, log incomplete or corrupt, unsupported reader feature",
    4: "refused by a guard, nothing changed",
    5: "partly done, run again",
    6: "conflict: other writers won every retry",
    7: "storage or resources: network, permission, credentials, throttling, no space, out of memory, cluster",
    8: "unknown: a commit was sent and its fate could not be read back",
    70: "a bug",
}


class DeltacliError(Exception):
    """What failed, the facts that show it, and the next command.

    `code` is the rule id of `validate` if one fits. `facts` are printed one per line, in order. `table` is set by the
    operation if the code that raised the error does not know it. The message is `reason`, behind what is `preamble`:
    NOTHING_CHANGED, what failed for this reason, or nothing.
    """

    exit_code = EXIT_BUG
    code = "bug"

    def __init__(
        self,
        message: str,
        *,
        preamble: str = "",
        code: str | None = None,
        facts: Mapping[str, str] | None = None,
        hint: str | None = None,
        table: str | None = None,
    ) -> None:
        super().__init__(preamble + message)
        self.preamble, self.reason = preamble, message
        self.code = code or type(self).code
        self.facts: dict[str, str] = dict(facts or {})
        self.hint = hint or None  # a caller may have no command for it
        self.table = table
        self.written: str | None = None
        """The word that is wrong, as it was given."""
        self.near: str | None = None
        """What was probably meant instead."""

    @property
    def message(self) -> str:
        return self.preamble + self.reason

    @message.setter
    def message(self, message: str) -> None:
        self.preamble, self.reason = "", message

    def suggest(self, written: str, near: str | None, question: str = "; did you mean {}?") -> Self:
        """Return the error with a question for what was probably meant instead of a word; None: nothing."""
        if near is not None:
            self.written, self.near = written, near
            self.reason += question.format(near)
        return self

    def suggest_as_fact(self, written: str, near: str | None) -> Self:
        """Return the error with a fact about what was probably meant instead of a word; None: nothing."""
        if near is not None:
            self.facts.setdefault("did you mean", near)
        return self.suggest(written, near, "")

    @property
    def message_without_outcome(self) -> str:
        """The message, without what it says of the table."""
        return self.reason if self.preamble == NOTHING_CHANGED else self.message

    def __str__(self) -> str:
        """Return the message behind the table, as the command line shows them."""
        if not self.table or self.exit_code == UsageError.exit_code or self.message.startswith(self.table):
            return self.message
        return f"{self.table}: {self.message}"


class UsageError(DeltacliError):
    """The command line, or an argument of the API, is wrong."""

    exit_code = 2
    code = "usage"


class Unreadable(DeltacliError):
    """A path, table or version is absent or cannot be read."""

    exit_code = 3
    code = "table.unreadable"


QUOTED_SUGGESTION = "; did you mean {!r}?"
"""The question about a word that an error has in quotes."""


class PaimonTable(UsageError):
    """A command for Delta tables was given a Paimon table."""

    code = "table.format"


class CatalogNameUnknown(Unreadable):
    """A catalog has no catalog, schema or table of a name."""

    code = "catalog.not-found"


class NotATable(Unreadable):
    """Nothing at the path, a file, or a directory without a usable `_delta_log`."""

    code = "log.not-a-table"
    below: str | None = None
    """The first table below the directory, relative to it."""


class LogIncomplete(Unreadable):
    """A commit that replay needs does not exist."""

    code = "log.gap"


class CommitCorrupt(Unreadable):
    """A commit file that cannot be parsed; `file` is its name."""

    code = "commit.bad-json"

    def __init__(self, message: str, *, file: str | None = None, **parts: Any) -> None:  # Any: of every error
        super().__init__(message, **parts)
        self.file = file


class CheckpointUnreadable(Unreadable):
    """A checkpoint, part or sidecar that cannot be opened, or lacks an action it must hold."""

    code = "checkpoint.unreadable"


class DataUnreadable(Unreadable):
    """A data file, or a deletion vector, that is missing, damaged, or not what the table says it is."""

    code = "data.not-parquet"


class CatalogAnswerInvalid(DataUnreadable):
    """A catalog answered against its interface, refused a request as wrong, or sent more than is accepted."""

    code = "catalog.answer"


class VersionAbsent(Unreadable):
    """A version that never existed, or can no longer be rebuilt."""

    code = "table.version-absent"
    wanted: int | None = None
    """The version, where it is one that was asked for."""
    wanted_ms: int | None = None
    """The time at which one was asked for, where that is before the first one."""
    nearest: int | None = None
    """The newest version that can be rebuilt."""


class ProtocolUnsupported(Unreadable):
    """The table requires a reader version or reader feature that deltacli does not support."""

    code = "protocol.unsupported-reader"
    version: int = 0
    needs: str = ""
    """The message without the version."""
    actions: Sequence[tuple[str, dict[str, Json]]] = ()
    """The protocol, metadata and domains of the version, each with its kind, where a version was rebuilt."""


class Refusal(NamedTuple):
    """A reason not to execute a plan, with a hint or another way out, the option that overrides it where that is safe,
    the files that it is about, as in the log, and facts for the error.
    """

    code: str
    message: str
    hint: str | None = None
    override: str | None = None
    files: tuple[str, ...] = ()
    facts: Mapping[str, str] = {}

    def as_json(self, *parts: str) -> dict[str, Json]:
        """Return it as in a document that also has these parts: `override`, `wayOut`, `files`."""
        every = {"override": self.override, "wayOut": self.hint or "", "files": list(self.files)}
        return {"code": self.code, "message": self.message, **{part: every[part] for part in parts}}


NOTHING_CHANGED = "nothing was changed: "
CONTINUE = "run the same command to continue"


class Refused(DeltacliError):
    """A guard stopped the operation; nothing was changed."""

    exit_code = 4
    code = "refused"
    override: str | None = None
    """What accepts it all the same."""

    @classmethod
    def by(
        cls,
        refusals: Sequence[Refusal],
        facts: Mapping[str, str] | None = None,
        hint: str | None = None,
        *,
        preamble: str = NOTHING_CHANGED,
    ) -> Refused:
        """Return the error for the refusals of a plan: the first one is the message, the codes of the others a fact.
        Facts and hint are those of the first one, where no others are given.
        """
        first, *others = refusals
        also = {"also": ", ".join(one.code for one in others)} if others else {}
        found = cls(
            first.message,
            preamble=preamble,
            code=first.code,
            facts={**(first.facts if facts is None else facts), **also},
            hint=first.hint if hint is None else hint,
        )
        found.override = first.override
        return found


class NoAtomicCreate(Refused):
    """The store cannot guarantee that only one of two concurrent writers creates a file."""

    code = "storage.no-atomic-create"


class PathExternal(Refused):
    """A file that is outside the table's own root and store, and below no prefix that the user allowed. `prefix` is the
    one to allow, if the table is trusted.
    """

    code = "path.external"

    def __init__(self, message: str, *, facts: Mapping[str, str] | None = None, prefix: str | None = None) -> None:
        hint = None
        if prefix is not None and "{" not in prefix:  # a hint would replace that by the table's name
            hint = command("read", allow_external=[prefix])
        super().__init__(message, facts=facts, hint=hint)
        self.prefix = prefix


class PartlyDone(DeltacliError):
    """Part of the work is done; running the command again does the rest."""

    exit_code = 5
    code = "partly-done"

    cause_exit: int | None = None
    """The exit code of the error that ended the work; None where it went on to its end."""

    @classmethod
    def after(cls, cause: DeltacliError, so_far: str) -> PartlyDone:
        """Return the error for one that came after something was done: under its code, with what was done so far."""
        facts = {**cause.facts, "so far": so_far}
        found = cls(cause.message_without_outcome, code=cause.code, facts=facts, hint=cause.hint, table=cause.table)
        found.cause_exit = cause.exit_code
        return found


class ConflictLost(DeltacliError):
    """Another writer committed first."""

    exit_code = 6
    code = "conflict"


class StorageFailed(DeltacliError):
    """The store did not respond, or returned an error."""

    exit_code = 7
    code = "storage.failed"


class FileMissing(StorageFailed):
    """A file named by a listing or another file does not exist."""

    code = "storage.file-missing"


class PermissionRefused(StorageFailed):
    """The store, or the file system, denies read or write access."""

    code = "storage.permission"
    place: str | None = None
    """The local path that is not accessible."""


class CatalogDenied(PermissionRefused):
    """A catalog does not accept the token, refuses access, or gives no credentials for the location of a table."""

    code = "catalog.denied"


class CatalogUnavailable(StorageFailed):
    """A catalog cannot be reached, or fails."""

    code = "catalog.unavailable"


class CredentialsMissing(StorageFailed):
    """No provider of the cloud's credential chain has credentials."""

    code = "storage.credentials"


class NoSpace(StorageFailed):
    """The disk, or the user's quota, is full."""

    code = "storage.no-space"


class ClusterFailed(DeltacliError):
    """A cluster cannot be reached, or a job failed there."""

    exit_code = 7
    code = "cluster.failed"


class MemoryExhausted(DeltacliError):
    """An allocation of memory failed. It does not mean that the bytes being read are damaged, so it is not a
    StorageFailed and never a reason to use other bytes instead.
    """

    exit_code = 7
    code = "memory.exhausted"


class OutcomeUnknown(DeltacliError):
    """A commit was sent, and neither its presence nor its absence could be confirmed."""

    exit_code = 8
    code = "commit.outcome-unknown"


NOT_UNICODE = "text.not-unicode"
_SHOWN = 120


def require_path(text: str, name: str) -> None:
    """Raise UsageError for a text that cannot be a path: with a NUL, or half a surrogate pair that is no byte."""
    if "\0" in text:
        raise build_text_error(text, f"{name} holds a NUL character")
    require_bytes_or_text(text, name)


def require_bytes_or_text(text: str, name: str) -> None:
    """Raise UsageError for half a surrogate pair, unless it is a byte that is not UTF-8."""
    if not text.isascii():
        try:
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise build_text_error(text, f"{name} is not text: it holds half a character") from None


def build_text_error(text: str, message: str) -> UsageError:
    """Return the error for a text that cannot be stored."""
    return UsageError(message, code=NOT_UNICODE, facts={"found": ascii(text)[:_SHOWN], "expected": "a text in UTF-8"})
