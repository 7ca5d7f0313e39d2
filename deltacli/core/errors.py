"""The exceptions of deltacli and its exit codes.

All exceptions are in one tree. Its branches correspond to exit codes:

    DeltacliError                 exit   meaning
    ├── UsageError                   2   the command line is wrong: option, column, value, scheme, missing extra
    │   └── PaimonTable                  a Paimon table where a Delta table is needed
    ├── Unreadable                   3   path, table or version absent, log incomplete or corrupt, protocol unsupported
    │   ├── CatalogNameUnknown           a catalog has no such catalog, schema or table
    │   ├── NotATable                    the path is missing, a file, or a directory without a usable log
    │   ├── LogIncomplete                a commit is missing, or the log does not begin with version 0 or a checkpoint
    │   ├── CommitCorrupt                a commit file cannot be parsed
    │   ├── CheckpointUnreadable         a checkpoint, part or sidecar cannot be opened or lacks a required action
    │   ├── DataUnreadable               a data file or deletion vector is damaged or differs from its action in the log
    │   │   └── CatalogAnswerInvalid         a response of a catalog violates the catalog's API
    │   ├── VersionAbsent                the version was never written, or can no longer be reconstructed
    │   └── ProtocolUnsupported          the table requires a reader feature that deltacli does not support
    ├── Refused                      4   a guard stopped the operation, nothing was changed
    │   ├── NoAtomicCreate               the store has no atomic create, so concurrent writers would overwrite commits
    │   └── PathExternal                 a file is outside the table directory and outside all allowed prefixes
    ├── PartlyDone                   5   part of the work is done; running the command again continues
    ├── ConflictLost                 6   other writers won every retry
    ├── StorageFailed                7   network, permission, credentials, throttling, no space
    │   ├── CatalogUnavailable           a catalog cannot be reached, or fails
    │   ├── FileMissing                  a referenced file is missing
    │   ├── PermissionRefused            access is denied
    │   │   └── CatalogDenied                a catalog denies access, or returns no credentials
    │   ├── CredentialsMissing           no credentials are configured for the store
    │   └── NoSpace                      the disk, or the quota, is full
    ├── ClusterFailed                7   a Spark cluster cannot be reached, or a job failed on the cluster
    ├── MemoryExhausted              7   an allocation of memory failed
    └── OutcomeUnknown               8   a commit was sent, and whether it succeeded could not be determined

A message names the subject, the value that was found and the value that was expected. A hint is a command that the user
can paste. Code that raises errors usually builds hints, too, so this module also exports the functions of `hints`.
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
        meaning: The meaning for all commands. The help of a command may describe its own case in more detail.
        advice: Advice for errors without a hint.
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
"""Number -> exit code. A process that is ended by signal N has the exit code 128+N, which is not listed."""

NOTHING_CHANGED = "nothing was changed: "
"""The preamble of errors after which the table is certainly unchanged."""

CONTINUE = "run the same command to continue"
"""The hint of an error after part of the work has been done."""


class DeltacliError(Exception):
    """The base class of all errors: a message, details, and a suggested command.

    Attributes:
        exit_code: The exit code of the command line. All classes of a branch of the tree have the same.
        code: A stable identifier of the error, such as `log.gap`. If a rule of `validate` finds the same problem, the
            code is the id of the rule.
        preamble: The begin of the message, such as `NOTHING_CHANGED`; empty for most errors.
        reason: The message without the preamble.
        facts: Names of details -> values. The command line shows one per line, in this order.
        hint: Advice for the user, usually a command. None if there is no advice.
        table: The name of the table. If the code that raises the error does not know it, the operation sets it.
        wrong_word: The misspelled word of the user; None if there is no suggestion.
        suggestion: The word that the user probably meant; None if there is no suggestion.
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
        """Create an error. `message` becomes the attribute `reason`; the other parameters have names of attributes."""
        super().__init__(preamble + message)
        self.preamble = preamble
        self.reason = message
        self.code = code or type(self).code
        self.facts: dict[str, str] = dict(facts or {})
        self.hint = hint or None  # `command` returns an empty text if the Python API has no such method
        self.table = table
        self.wrong_word: str | None = None
        self.suggestion: str | None = None

    @property
    def message(self) -> str:
        """The message without the name of the table."""
        return self.preamble + self.reason

    @message.setter
    def message(self, message: str) -> None:
        self.preamble = ""
        self.reason = message

    @property
    def message_without_outcome(self) -> str:
        """The message without `NOTHING_CHANGED`, for use in the message of another error."""
        return self.reason if self.preamble == NOTHING_CHANGED else self.message

    def suggest(self, wrong_word: str, suggestion: str | None, *, is_quoted: bool = False) -> Self:
        """Append a suggestion to the message: `; did you mean delta.appendOnly?`

        Args:
            wrong_word: The misspelled word of the user.
            suggestion: The word that the user probably meant. None leaves the error unchanged.
            is_quoted: Whether to put the suggestion in quotes, for messages that quote the misspelled word.

        Returns:
            The error itself: `raise UsageError(...).suggest(...)`.
        """
        if suggestion is not None:
            shown_suggestion = repr(suggestion) if is_quoted else suggestion
            self.reason += f"; did you mean {shown_suggestion}?"
        return self.set_suggestion(wrong_word, suggestion)

    def suggest_as_fact(self, wrong_word: str, suggestion: str | None) -> Self:
        """Add the suggestion to the facts instead of the message. See `suggest`."""
        if suggestion is not None:
            self.facts.setdefault("did you mean", suggestion)
        return self.set_suggestion(wrong_word, suggestion)

    def set_suggestion(self, wrong_word: str, suggestion: str | None) -> Self:
        """Set `wrong_word` and `suggestion`, from which a hint with the corrected call is built. Return the error.

        Message and facts remain unchanged: they already contain the suggestion.
        """
        if suggestion is not None:
            self.wrong_word = wrong_word
            self.suggestion = suggestion
        return self

    def __str__(self) -> str:
        """Return the name of the table and the message, in the form in which the command line shows them."""
        # Usage errors are about the command line, not the table. Other messages may already begin with the table.
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
    """A catalog contains no catalog, schema or table of this name."""

    code = "catalog.not-found"


class NotATable(Unreadable):
    """The path does not exist, is a file, or is a directory without a usable `_delta_log`.

    Attributes:
        below: The path of the first table in a subdirectory, relative to this path; None if there is no such table.
    """

    code = "log.not-a-table"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        facts: Mapping[str, str] | None = None,
        hint: str | None = None,
        below: str | None = None,
    ) -> None:
        """Create an error. The parameters have the names of the attributes."""
        super().__init__(message, code=code, facts=facts, hint=hint)
        self.below = below


class LogIncomplete(Unreadable):
    """A commit that is required to reconstruct the version does not exist."""

    code = "log.gap"


class CommitCorrupt(Unreadable):
    """A commit file cannot be parsed.

    Attributes:
        file: The name of the file, if it is known.
    """

    code = "commit.bad-json"

    def __init__(self, message: str, *, file: str | None = None, **details: Any) -> None:  # Any: see DeltacliError
        super().__init__(message, **details)
        self.file = file


class CheckpointUnreadable(Unreadable):
    """A checkpoint, part or sidecar cannot be opened, or lacks an action that the protocol requires."""

    code = "checkpoint.unreadable"


class DataUnreadable(Unreadable):
    """A data file or deletion vector is missing, damaged, or differs from its action in the log."""

    code = "data.not-parquet"


class CatalogAnswerInvalid(DataUnreadable):
    """A catalog sent a response that violates its API or is too large, or rejected a request as invalid."""

    code = "catalog.answer"


class VersionAbsent(Unreadable):
    """A version never existed, or can no longer be reconstructed.

    Attributes:
        wanted: The version that the user requested; None if the user requested a timestamp or another version.
        wanted_ms: The requested timestamp in epoch milliseconds, if it is before the first version.
        nearest: The newest version that can be reconstructed; None if it is not known.
    """

    code = "table.version-absent"
    wanted: int | None = None
    wanted_ms: int | None = None
    nearest: int | None = None


class ProtocolUnsupported(Unreadable):
    """The table requires a reader version or reader feature that deltacli does not support.

    Attributes:
        version: The version of the table that requires this protocol.
        needs: The message without the version.
        actions: Pairs of a kind and an action: the protocol, metadata and domain metadata of the version. Empty if no
            version was reconstructed.
    """

    code = "protocol.unsupported-reader"
    version: int = 0
    needs: str = ""
    actions: Sequence[tuple[str, dict[str, Json]]] = ()


class Refusal(NamedTuple):
    """A reason not to execute a plan.

    Attributes:
        code: The code of the error that is raised if the plan is executed.
        message: The message of that error.
        hint: A command or a sentence that describes an alternative.
        override: The option that overrides the guard; None if no option does.
        files: The paths of the affected files, in the form in which the log contains them.
        facts: The facts of the error.
    """

    code: str
    message: str
    hint: str | None = None
    override: str | None = None
    files: tuple[str, ...] = ()
    facts: Mapping[str, str] = {}

    def as_json(self, *fields: str) -> dict[str, Json]:
        """Return the JSON object of the refusal.

        Args:
            fields: Fields in addition to `code` and `message`: any of `override`, `wayOut` and `files`.
        """
        optional_fields = {"override": self.override, "wayOut": self.hint or "", "files": list(self.files)}
        return {"code": self.code, "message": self.message, **{field: optional_fields[field] for field in fields}}


class Refused(DeltacliError):
    """A guard stopped the operation. Nothing was changed.

    Attributes:
        override: The option that overrides the guard; None if no option does.
    """

    exit_code = EXIT_REFUSED
    code = "refused"
    override: str | None = None

    @classmethod
    def from_refusals(
        cls,
        refusals: Sequence[Refusal],
        facts: Mapping[str, str] | None = None,
        hint: str | None = None,
        *,
        preamble: str = NOTHING_CHANGED,
    ) -> Refused:
        """Return the error for the refusals of a plan.

        The error has the message and code of the first refusal. The fact `also` lists the codes of the other refusals.

        Args:
            refusals: One or more refusals, the most important one first.
            facts: Facts that replace those of the first refusal.
            hint: A hint that replaces that of the first refusal.
            preamble: The begin of the message.
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
    """The store cannot create a file atomically: two concurrent writers could both commit the same version."""

    code = "storage.no-atomic-create"


class PathExternal(Refused):
    """A file is outside the table directory, and its path begins with no prefix that the user has allowed.

    Attributes:
        prefix: The prefix to allow if the user trusts the table; None if there is no suggestion.
    """

    code = "path.external"

    def __init__(self, message: str, *, facts: Mapping[str, str] | None = None, prefix: str | None = None) -> None:
        hint = None
        # No hint for a prefix that could contain a placeholder of the hint, such as `{table}`.
        if prefix is not None and "{" not in prefix:
            hint = command("read", allow_external=[prefix])
        super().__init__(message, facts=facts, hint=hint)
        self.prefix = prefix


class PartlyDone(DeltacliError):
    """Part of the work is done. Running the command again continues.

    Attributes:
        cause_exit_code: The exit code of the error that interrupted the work. None if the work was not interrupted, but
            failed for some of the files.
    """

    exit_code = EXIT_PARTLY_DONE
    code = "partly-done"
    cause_exit_code: int | None = None

    @property
    def cause_exit(self) -> int | None:
        """The former name of `cause_exit_code`."""
        return self.cause_exit_code

    @classmethod
    def from_cause(cls, cause: DeltacliError, so_far: str) -> PartlyDone:
        """Return the error for work that was interrupted by another error.

        Args:
            cause: The other error. The result has its code, facts, hint and table, and its message without
                `NOTHING_CHANGED`.
            so_far: The work that was done before the error, such as `3 of 5 commits`.
        """
        partly_done = cls(
            cause.message_without_outcome,
            code=cause.code,
            facts={**cause.facts, "so far": so_far},
            hint=cause.hint,
            table=cause.table,
        )
        partly_done.cause_exit_code = cause.exit_code
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
    """A file does not exist, although a listing or another file references it."""

    code = "storage.file-missing"


class PermissionRefused(StorageFailed):
    """The store, or the file system, denies read or write access.

    Attributes:
        denied_path: The local path that is not accessible; None for other stores.
    """

    code = "storage.permission"
    denied_path: str | None = None


class CatalogDenied(PermissionRefused):
    """A catalog rejects the token, denies access, or returns no credentials for the location of a table."""

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

    The file that was being read is not damaged. So this is not a `StorageFailed` or `Unreadable`, and callers must not
    fall back to another file, such as an older checkpoint.
    """

    exit_code = EXIT_RESOURCES
    code = "memory.exhausted"


class OutcomeUnknown(DeltacliError):
    """A commit was sent, and reading the log could not determine whether it was written."""

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
