"""The errors of the client and of pulls: what a server refused, failed to answer, or answered against the protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping

from deltacli.core.errors import DataUnreadable, PermissionRefused, Refused, StorageFailed, Unreadable, UsageError
from deltacli.core.hints import install_command

DIFFERS = "share.file-differs"
ASK_PROVIDER = "ask the provider of the share to validate the table at level storage"


class PullRefused(Refused):
    """The target is not a copy of this table at this or an earlier version. Nothing was changed."""

    code = "share.pull-target"


def other_size(name: str, declared: int | None, found: int | str) -> DataUnreadable:
    """Return the error for a file whose size is not the declared one."""
    return DataUnreadable(
        "a shared file has another size than the server declared",
        code=DIFFERS,
        facts={"file": name, "declared": f"{declared} bytes", "found": f"{found} bytes"},
        hint=ASK_PROVIDER,
    )


def invalid_file(name: str, why: str, facts: Mapping[str, str] | None = None) -> DataUnreadable:
    """Return the error for a file whose content is not that of the shared table."""
    return DataUnreadable(f"{name} was downloaded, but {why}", code=DIFFERS, facts={"file": name, **(facts or {})})


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_LONGEST_TEXT = 500


class ShareAbsent(Unreadable):
    """The share, schema or table does not exist, or is not shared with this recipient."""

    code = "share.not-found"


class RequestRefused(Unreadable):
    """The server rejected a request that a repetition cannot change. `error_code` is the server's own."""

    code = "share.request"
    status = 400
    error_code = ""


class AnswerInvalid(Unreadable):
    """The server answered against the protocol, or more than the client accepts."""

    code = "share.answer"


class AnswerBroken(StorageFailed):
    """An answer ended before it was complete."""

    code = "share.answer-cut"


class ServerUnavailable(StorageFailed):
    """The server cannot be reached, or fails."""

    code = "share.unavailable"


class AccessRefused(PermissionRefused):
    """The server does not accept the credentials of the profile."""

    code = "share.access"


class UrlRefused(Refused):
    """A URL that a server sent leads where the client does not go."""

    code = "share.url-refused"


class FilesMovedOn(Unreadable):
    """The files of the version are not shared any more: the table was changed while it was read."""

    code = "share.moved-on"


def clean(text: object) -> str:
    """Return a text of a server as one line of printable characters, shortened."""
    line = " ".join(_CONTROL.sub(" ", str(text)).split())
    return line if len(line) <= _LONGEST_TEXT else f"{line[:_LONGEST_TEXT]}…"


def invalid(what: str, facts: Mapping[str, object] | None = None) -> AnswerInvalid:
    """Return the error for an answer that breaks the protocol."""
    shown = {name: clean(value) for name, value in (facts or {}).items()}
    return AnswerInvalid(f"invalid answer of the sharing server: {what}", facts=shown)


def unframed(message: str) -> AnswerBroken:
    """Return the error for a body without a length and chunks whose content does not show that it is complete."""
    facts = {"expected": "Content-Length, Transfer-Encoding: chunked, or a body whose end is known by its content"}
    return AnswerBroken(message, facts=facts)


def too_much(what: str, limit: str) -> AnswerInvalid:
    """Return the error for an answer above a limit of the client."""
    return AnswerInvalid(f"{what} exceeds the limit of {limit}", code="share.limit")


def missing_extra() -> UsageError:
    """Return the error for an installation without the library that connects to servers."""
    return UsageError(
        "reading shares requires urllib3, which is not installed",
        code="usage.missing-extra",
        hint=install_command("share-client"),
    )


def read_only(address: str) -> UsageError:
    """Return the error for a command that writes."""
    return UsageError(
        "a shared table is read-only: this command changes tables",
        code="share.read-only",
        facts={"table": address},
        hint="ask the provider of the share, or run the command on a table of your own",
    )
