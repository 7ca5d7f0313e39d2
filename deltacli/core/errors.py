"""The errors of deltacli, one tree of exceptions, and its exit codes.

The class of an error says what went wrong; the branch of the tree is the exit code:

    DeltacliError                 exit   meaning
    ├── UsageError                   2   the command line is wrong: option, column, value, scheme, missing extra
    │   └── PaimonTable                  a Paimon table where a Delta table is needed
    ├── Unreadable                   3   path, table or version absent, log incomplete or corrupt, protocol unsupported
    │   ├── CatalogNameUnknown           a catalog has no such catalog, schema or table
    │   ├── NotATable                    nothing there, a file, or a directory without a usable log
    │   ├── LogIncomplete                a gap, or a log without its beginning
    │   ├── CommitCorrupt                a commit file that cannot be parsed: file, line, byte
    │   ├── CheckpointUnreadable         a checkpoint, part or sidecar that cannot be opened or lacks what it must hold
    │   ├── DataUnreadable               a data file or deletion vector that is not what the log says
    │   │   └── CatalogAnswerInvalid         a catalog answered what it must not answer
    │   ├── VersionAbsent                never written, or no longer reconstructable
    │   └── ProtocolUnsupported          the table asks for a reader that deltacli is not
    ├── Refused                      4   a guard stopped it, nothing changed
    │   ├── NoAtomicCreate               the store cannot create a file for one of many writers: it is read-only
    │   └── PathExternal                 a file outside the table, below no prefix that was allowed
    ├── PartlyDone                   5   run again
    ├── ConflictLost                 6   other writers won every retry
    ├── StorageFailed                7   network, permission, credentials, throttling, no space
    │   ├── CatalogUnavailable           a catalog cannot be reached, or fails
    │   ├── FileMissing                  a referenced file is missing
    │   ├── PermissionRefused            access denied
    │   │   └── CatalogDenied                a catalog refuses access, or gives no credentials
    │   ├── CredentialsMissing           nothing to ask for access with
    │   └── NoSpace                      the disk, or the quota, is full
    ├── ClusterFailed                7   a cluster that cannot be reached, or a job that failed there
    ├── MemoryExhausted              7   memory, or the address space that a limit allows, is used up
    └── OutcomeUnknown               8   a commit was sent and its fate could not be read back

A message names the thing, what was found and what was expected. A hint is a command that can be pasted, made by the
functions of `hints`. Whoever raises an error mostly needs those as well, so this module exports them, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from deltacli.core.command_calls import TABLE_PLACEHOLDER, CommandCall, DoubleQuoted, DurationArgument
from deltacli.core.hint_syntax import HintSyntax, get_hint_syntax, use_hint_syntax
from deltacli.core.hints import (
    PLACEHOLDERS,
    CommandHint,
    CommandLine,
    LazyText,
    ParameterHint,
    command,
    fill_table,
    format_command,
    get_command_option,
    install_command,
    is_command,
    is_complete_command,
    paimon_command,
    parameter,
    suggest_parameters,
)
from deltacli.core.nearest_names import nearest_directory, nearest_name, nearest_path, nearest_type
from deltacli.core.python_syntax import OMITTED_OPTIONS, SHELL_ONLY, PythonSyntax, get_method_name
from deltacli.core.quoting import format_sql_name, is_shared, quote_identifier, quote_table, quote_word
from deltacli.core.shell_syntax import ShellSyntax
from deltacli.core.typing import Json

EXIT_OK = 0
EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_UNREADABLE = 3
EXIT_REFUSED = 4
EXIT_PARTLY_DONE = 5
EXIT_CONFLICT = 6
EXIT_RESOURCES = 7
EXIT_UNKNOWN = 8
EXIT_BUG = 70


@dataclass(frozen=True, slots=True)
class ExitCode:
    """An exit code of the command line.

    Attributes:
        number: The exit code of the process.
        meaning: What it means in general. A command may say more about what it means there.
        advice: What to do, unless an error has a hint of its own.
    """

    number: int
    meaning: str
    advice: str


EXIT_CODES: Mapping[int, ExitCode] = {
    code.number: code
    for code in (
        ExitCode(
            EXIT_OK,
            meaning="done, or nothing to do",
            advice="nothing",
        ),
        ExitCode(
            EXIT_FINDINGS,
            meaning="findings: problems were found, or work is due; the command itself succeeded",
            advice="read the findings on stdout",
        ),
        ExitCode(
            EXIT_USAGE,
            meaning="usage: unknown option, command or column, bad value, unsupported scheme, missing extra",
            advice="correct the command line; the hint has a command to paste",
        ),
        ExitCode(
            EXIT_UNREADABLE,
            meaning="unreadable: path, table or version absent, log incomplete or corrupt, unsupported reader feature",
            advice="check the path and the version, then run deltacli validate TABLE to see what is damaged",
        ),
        ExitCode(
            EXIT_REFUSED,
            meaning="refused by a guard, nothing changed",
            advice="read the reason; the hint names the option that overrides the guard, if that is safe",
        ),
        ExitCode(
            EXIT_PARTLY_DONE,
            meaning="partly done, run again",
            advice="read what was left, and why; run the same command again, which continues",
        ),
        ExitCode(
            EXIT_CONFLICT,
            meaning="conflict: other writers won every retry",
            advice="run the same command again, when fewer writers are active",
        ),
        ExitCode(
            EXIT_RESOURCES,
            meaning=(
                "storage or resources: network, permission, credentials, throttling, no space, out of memory, cluster"
            ),
            advice="check network, credentials and permissions with deltacli doctor access TABLE, then run it again",
        ),
        ExitCode(
            EXIT_UNKNOWN,
            meaning="unknown: a commit was sent and its fate could not be read back",
            advice="see whether deltacli history TABLE has the commit, before the command is run again",
        ),
        ExitCode(
            EXIT_BUG,
            meaning="a bug",
            advice="run the command again with -vv, and report the traceback",
        ),
    )
}
"""Every exit code of the command line, except 128+N for signal N, by its number."""

NOTHING_CHANGED = "nothing was changed: "
"""What an error says first if the table is certainly as it was before."""

CONTINUE = "run the same command to continue"
"""The hint after work that was done in part."""

QUOTED_SUGGESTION = "; did you mean {!r}?"
"""The question about a word that the message has in quotes."""


class DeltacliError(Exception):
    """The base of all errors: a message, the facts that show it, and the next command.

    Attributes:
        exit_code: The exit code of the command line, which is the same for a whole branch of the tree.
        code: A stable name of the error, such as `log.gap`; the id of a rule of `validate` if one fits.
        preamble: What the message says before the reason: `NOTHING_CHANGED`, what failed for this reason, or nothing.
        reason: The rest of the message.
        facts: Details by their names. They are shown one per line, in this order.
        hint: What to do next; mostly a command. None if there is nothing to suggest.
        table: The table that the error is about. The operation sets it if the code that raised the error does not
            know it.
        wrong_word: The misspelled word, as the user wrote it, if `suggestion` is known.
        suggestion: The word that was probably meant.
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
        """Make an error. `message` becomes the attribute `reason`; the other parameters are attributes, too."""
        super().__init__(preamble + message)
        self.preamble = preamble
        self.reason = message
        self.code = code or type(self).code
        self.facts: dict[str, str] = dict(facts or {})
        self.hint = hint or None  # `command` returns an empty text if the caller has no such command
        self.table = table
        self.wrong_word: str | None = None
        self.suggestion: str | None = None

    @property
    def message(self) -> str:
        """The text of the error, without the table."""
        return self.preamble + self.reason

    @message.setter
    def message(self, message: str) -> None:
        self.preamble = ""
        self.reason = message

    @property
    def message_without_outcome(self) -> str:
        """The message without the statement that nothing was changed, for the cause of another error."""
        return self.reason if self.preamble == NOTHING_CHANGED else self.message

    def suggest(self, wrong_word: str, suggestion: str | None, question: str = "; did you mean {}?") -> Self:
        """Ask in the message whether another word was meant.

        Args:
            wrong_word: The word as the user wrote it.
            suggestion: The word that was probably meant. Nothing is asked if it is None.
            question: The end of the message, with `{}` for the suggestion.

        Returns:
            The error itself, so that it can be raised in the same statement.
        """
        if suggestion is not None:
            self.wrong_word = wrong_word
            self.suggestion = suggestion
            self.reason += question.format(suggestion)
        return self

    def suggest_as_fact(self, wrong_word: str, suggestion: str | None) -> Self:
        """Add a fact with the word that was probably meant, and leave the message as it is. Return the error."""
        if suggestion is not None:
            self.facts.setdefault("did you mean", suggestion)
        return self.suggest(wrong_word, suggestion, question="")

    def __str__(self) -> str:
        """Return the message after the table, as the command line shows them."""
        # An error of usage is about the command line. Other messages may begin with the table already.
        if not self.table or self.exit_code == EXIT_USAGE or self.message.startswith(self.table):
            return self.message
        return f"{self.table}: {self.message}"


class UsageError(DeltacliError):
    """The command line, or an argument of the API, is wrong."""

    exit_code = EXIT_USAGE
    code = "usage"


class PaimonTable(UsageError):
    """A command for Delta tables was given a Paimon table."""

    code = "table.format"


class Unreadable(DeltacliError):
    """A path, table or version is absent or cannot be read."""

    exit_code = EXIT_UNREADABLE
    code = "table.unreadable"


class CatalogNameUnknown(Unreadable):
    """A catalog has no catalog, schema or table of a name."""

    code = "catalog.not-found"


class NotATable(Unreadable):
    """Nothing at the path, a file, or a directory without a usable `_delta_log`.

    Attributes:
        below: The first table below the directory, relative to it; None if none was found.
    """

    code = "log.not-a-table"
    below: str | None = None


class LogIncomplete(Unreadable):
    """A commit that replay needs does not exist."""

    code = "log.gap"


class CommitCorrupt(Unreadable):
    """A commit file that cannot be parsed.

    Attributes:
        file: The name of the file, if it is known.
    """

    code = "commit.bad-json"

    def __init__(self, message: str, *, file: str | None = None, **details: Any) -> None:  # Any: of every error
        super().__init__(message, **details)
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
    """A version that never existed, or can no longer be rebuilt.

    Attributes:
        wanted: The version, if it is the one that the user wrote.
        wanted_ms: The timestamp that the user wrote, if it is before the first version.
        nearest: The newest version that can be rebuilt, if it is known.
    """

    code = "table.version-absent"
    wanted: int | None = None
    wanted_ms: int | None = None
    nearest: int | None = None


class ProtocolUnsupported(Unreadable):
    """The table requires a reader version or reader feature that deltacli does not support.

    Attributes:
        version: The version of the table that has this protocol.
        needs: The message without the version.
        actions: The protocol, metadata and domains of the version, each with its kind; empty if no version was rebuilt.
    """

    code = "protocol.unsupported-reader"
    version: int = 0
    needs: str = ""
    actions: Sequence[tuple[str, dict[str, Json]]] = ()


class Refusal(NamedTuple):
    """A reason not to execute a plan.

    Attributes:
        code: The code of the error that is raised if the plan is executed all the same.
        message: The reason.
        hint: A command, or a sentence about what to do instead.
        override: The option that accepts the reason, if that can be safe.
        files: The files that the reason is about, as they are in the log.
        facts: Facts for the error.
    """

    code: str
    message: str
    hint: str | None = None
    override: str | None = None
    files: tuple[str, ...] = ()
    facts: Mapping[str, str] = {}

    def as_json(self, *fields: str) -> dict[str, Json]:
        """Return the object for a JSON document: code, message, and any of `override`, `wayOut` and `files`."""
        optional_fields = {"override": self.override, "wayOut": self.hint or "", "files": list(self.files)}
        return {"code": self.code, "message": self.message, **{field: optional_fields[field] for field in fields}}


class Refused(DeltacliError):
    """A guard stopped the operation; nothing was changed.

    Attributes:
        override: The option that accepts the reason, if that can be safe.
    """

    exit_code = EXIT_REFUSED
    code = "refused"
    override: str | None = None

    @classmethod
    def by(
        cls,
        refusals: Sequence[Refusal],
        facts: Mapping[str, str] | None = None,
        hint: str | None = None,
        *,
        preamble: str = NOTHING_CHANGED,
    ) -> Refused:
        """Return the error for the refusals of a plan.

        The first refusal becomes the message. The codes of the others are one more fact, `also`.

        Args:
            refusals: The refusals, the most important one first. There is at least one.
            facts: Facts in place of those of the first refusal.
            hint: A hint in place of that of the first refusal.
            preamble: What the message says before the reason.
        """
        first, *others = refusals
        shown_facts = dict(first.facts if facts is None else facts)
        if others:
            shown_facts["also"] = ", ".join(refusal.code for refusal in others)

        refused = cls(
            first.message,
            preamble=preamble,
            code=first.code,
            facts=shown_facts,
            hint=first.hint if hint is None else hint,
        )
        refused.override = first.override
        return refused


class NoAtomicCreate(Refused):
    """The store cannot guarantee that only one of two concurrent writers creates a file."""

    code = "storage.no-atomic-create"


class PathExternal(Refused):
    """A file outside the table's own root and store, and below no prefix that the user allowed.

    Attributes:
        prefix: The prefix to allow if the table is trusted; None if none can be suggested.
    """

    code = "path.external"

    def __init__(self, message: str, *, facts: Mapping[str, str] | None = None, prefix: str | None = None) -> None:
        hint = None
        # The table is filled in where a hint has braces, so a prefix with braces cannot be in one.
        if prefix is not None and "{" not in prefix:
            hint = command("read", allow_external=[prefix])
        super().__init__(message, facts=facts, hint=hint)
        self.prefix = prefix


class PartlyDone(DeltacliError):
    """Part of the work is done; running the command again does the rest.

    Attributes:
        cause_exit: The exit code of the error that ended the work; None if the work went on to its end.
    """

    exit_code = EXIT_PARTLY_DONE
    code = "partly-done"
    cause_exit: int | None = None

    @classmethod
    def after(cls, cause: DeltacliError, so_far: str) -> PartlyDone:
        """Return the error for work that `cause` ended after something was done.

        Args:
            cause: The error. Its code, facts, hint and table are kept; that nothing was changed is no longer said.
            so_far: What was done before, such as `3 of 5 commits`.
        """
        partly_done = cls(
            cause.message_without_outcome,
            code=cause.code,
            facts={**cause.facts, "so far": so_far},
            hint=cause.hint,
            table=cause.table,
        )
        partly_done.cause_exit = cause.exit_code
        return partly_done


class ConflictLost(DeltacliError):
    """Another writer committed first."""

    exit_code = EXIT_CONFLICT
    code = "conflict"


class StorageFailed(DeltacliError):
    """The store did not respond, or returned an error."""

    exit_code = EXIT_RESOURCES
    code = "storage.failed"


class FileMissing(StorageFailed):
    """A file named by a listing or another file does not exist."""

    code = "storage.file-missing"


class PermissionRefused(StorageFailed):
    """The store, or the file system, denies read or write access.

    Attributes:
        denied_path: The local path that is not accessible; None for other stores.
    """

    code = "storage.permission"
    denied_path: str | None = None


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

    exit_code = EXIT_RESOURCES
    code = "cluster.failed"


class MemoryExhausted(DeltacliError):
    """An allocation of memory failed.

    It does not mean that the bytes being read are damaged, so it is not a StorageFailed and never a reason to use other
    bytes instead.
    """

    exit_code = EXIT_RESOURCES
    code = "memory.exhausted"


class OutcomeUnknown(DeltacliError):
    """A commit was sent, and neither its presence nor its absence could be confirmed."""

    exit_code = EXIT_UNKNOWN
    code = "commit.outcome-unknown"


__all__ = [
    "CONTINUE",
    "EXIT_BUG",
    "EXIT_CODES",
    "EXIT_CONFLICT",
    "EXIT_FINDINGS",
    "EXIT_OK",
    "EXIT_PARTLY_DONE",
    "EXIT_REFUSED",
    "EXIT_RESOURCES",
    "EXIT_UNKNOWN",
    "EXIT_UNREADABLE",
    "EXIT_USAGE",
    "NOTHING_CHANGED",
    "OMITTED_OPTIONS",
    "PLACEHOLDERS",
    "QUOTED_SUGGESTION",
    "SHELL_ONLY",
    "TABLE_PLACEHOLDER",
    "CatalogAnswerInvalid",
    "CatalogDenied",
    "CatalogNameUnknown",
    "CatalogUnavailable",
    "CheckpointUnreadable",
    "ClusterFailed",
    "CommandCall",
    "CommandHint",
    "CommandLine",
    "CommitCorrupt",
    "ConflictLost",
    "CredentialsMissing",
    "DataUnreadable",
    "DeltacliError",
    "DoubleQuoted",
    "DurationArgument",
    "ExitCode",
    "FileMissing",
    "HintSyntax",
    "LazyText",
    "LogIncomplete",
    "MemoryExhausted",
    "NoAtomicCreate",
    "NoSpace",
    "NotATable",
    "OutcomeUnknown",
    "PaimonTable",
    "ParameterHint",
    "PartlyDone",
    "PathExternal",
    "PermissionRefused",
    "ProtocolUnsupported",
    "PythonSyntax",
    "Refusal",
    "Refused",
    "ShellSyntax",
    "StorageFailed",
    "Unreadable",
    "UsageError",
    "VersionAbsent",
    "command",
    "fill_table",
    "format_command",
    "format_sql_name",
    "get_command_option",
    "get_hint_syntax",
    "get_method_name",
    "install_command",
    "is_command",
    "is_complete_command",
    "is_shared",
    "nearest_directory",
    "nearest_name",
    "nearest_path",
    "nearest_type",
    "paimon_command",
    "parameter",
    "quote_identifier",
    "quote_table",
    "quote_word",
    "suggest_parameters",
    "use_hint_syntax",
]
