"""The two possible faults of an action's fields, as errors that name the file and the field. Spec: Actions."""

from __future__ import annotations

from deltacli.errors import CommitCorrupt
from deltacli.hints import command


def missing(what: str, source: str) -> CommitCorrupt:
    """Return the error for a missing required field: `what` is `add.size`, `source` the file."""
    return CommitCorrupt(f"{source}: {what} is missing", code="action.missing-required", hint=command("history"))


def wrong_type(what: str, actual: str, source: str) -> CommitCorrupt:
    """Return the error for a field whose value has a different type than in the protocol."""
    return CommitCorrupt(
        f"{source}: {what} has the wrong type",
        code="action.wrong-type",
        facts={"found": actual[:120]},
        hint=command("history"),
    )


def too_deep(what: str, source: str) -> CommitCorrupt:
    """Return the error for a value that was read but is nested too deeply to be written."""
    return wrong_type(what, "a value nested too deeply to be written", source)


def shown(value: object) -> str:
    """Return a value of the log for a message. `repr` is recursive and fails on deeply nested values."""
    try:
        return repr(value)
    except RecursionError:
        return "a value nested too deeply to be shown"
