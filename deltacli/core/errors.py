# DeltacliError                 exit   what it says
# ├── UsageError                   2   the command line is wrong: option, column, value, scheme, missing extra
# │   └── PaimonTable                  a Paimon table where a Delta table is needed
# ├── Unreadable                   3   path, table or version absent, log incomplete or corrupt, reader feature unknown
# │   ├── NotATable                    nothing there, a file, or a directory without a usable log
# │   ├── LogIncomplete                a gap, or a log without its beginning
# │   ├── CommitCorrupt                a commit file that cannot be parsed: file, line, byte
# │   ├── CheckpointUnreadable         a checkpoint, part or sidecar that cannot be opened or lacks what it must hold
# │   ├── DataUnreadable               a data file or deletion vector that is not what the log says
# │   ├── VersionAbsent                never written, or no longer reconstructable
# │   └── ProtocolUnsupported          the table asks for a reader that deltacli is not
# ├── Refused                      4   a guard stopped it, nothing changed
# │   ├── NoAtomicCreate               the store cannot create a file for one of many writers: it is read-only
# │   └── PathExternal                 a file outside the table, below no prefix that was allowed
# ├── PartlyDone                   5   run again
# ├── ConflictLost                 6   other writers won every retry
# ├── StorageFailed                7   network, permission, credentials, throttling, no space
# │   ├── FileMissing                  a referenced file is missing
# │   ├── PermissionRefused            access denied
# │   ├── CredentialsMissing           nothing to ask for access with
# │   └── NoSpace                      the disk, or the quota, is full
# ├── ClusterFailed                7   a cluster that cannot be reached, or a job that failed there
# ├── MemoryExhausted              7   memory, or the address space that a limit allows, is used up
# └── OutcomeUnknown               8   a commit was sent and its fate could not be read back
"""One tree of errors: the class is the fault, the branch is the exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from deltacli.core.hints import command
from deltacli.core.typing import Json

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
    operation if the code that raised the error does not know it. The message is `reason`, behind what is `said_first`:
    NOTHING_CHANGED, what failed for this reason, or nothing.
    """

    exit_code = EXIT_BUG
    code = "bug"

    def __init__(
        self,
        message: str,
        *,
        said_first: str = "",
        code: str | None = None,
        facts: Mapping[str, str] | None = None,
        hint: str | None = None,
        table: str | None = None,
    ) -> None:
        super().__init__(said_first + message)
        self.said_first, self.reason = said_first, message
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
        """What failed, as one line."""
        return self.said_first + self.reason

    @message.setter
    def message(self, message: str) -> None:
        self.said_first, self.reason = "", message

    def asking(self, written: str, near: str | None, question: str = "; did you mean {}?") -> Self:
        """Return the error with a question for what was probably meant instead of a word; None: nothing."""
        if near is not None:
            self.written, self.near = written, near
            self.reason += question.format(near)
        return self

    def meaning(self, written: str, near: str | None) -> Self:
        """Return the error with a fact about what was probably meant instead of a word; None: nothing."""
        if near is not None:
            self.facts.setdefault("did you mean", near)
        return self.asking(written, near, "")

    @property
    def without_outcome(self) -> str:
        """The message, without what it says of the table."""
        return self.reason if self.said_first == NOTHING_CHANGED else self.message

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


QUOTED = "; did you mean {!r}?"
"""The question about a word that an error has in quotes."""


class PaimonTable(UsageError):
    """A command for Delta tables was given a Paimon table."""

    code = "table.format"


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
    facts: Mapping[str, str] = MappingProxyType({})

    def as_json(self, *parts: str) -> dict[str, Json]:
        """Return it as in a document that also has these parts: `override`, `wayOut`, `files`."""
        every = {"override": self.override, "wayOut": self.hint or "", "files": list(self.files)}
        return {"code": self.code, "message": self.message, **{part: every[part] for part in parts}}


NOTHING_CHANGED = "nothing was changed: "


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
        said_first: str = NOTHING_CHANGED,
    ) -> Refused:
        """Return the error for the refusals of a plan: the first one is the message, the codes of the others a fact.
        Facts and hint are those of the first one, where no others are given.
        """
        first, *others = refusals
        also = {"also": ", ".join(one.code for one in others)} if others else {}
        found = cls(
            first.message,
            said_first=said_first,
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
        found = cls(cause.without_outcome, code=cause.code, facts=facts, hint=cause.hint, table=cause.table)
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
        raise not_text(text, f"{name} holds a NUL character")
    require_bytes_or_text(text, name)


def require_bytes_or_text(text: str, name: str) -> None:
    """Raise UsageError for half a surrogate pair, unless it is a byte that is not UTF-8."""
    if not text.isascii():
        try:
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise not_text(text, f"{name} is not text: it holds half a character") from None


def not_text(text: str, message: str) -> UsageError:
    """Return the error for a text that cannot be stored."""
    return UsageError(message, code=NOT_UNICODE, facts={"found": ascii(text)[:_SHOWN], "expected": "a text in UTF-8"})
