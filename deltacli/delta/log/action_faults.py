"""The two faults an action's fields can have, as errors that name the file and the field. Spec: Actions."""

from __future__ import annotations

from deltacli.errors import CommitCorrupt

_HINT = "deltacli history {table}"


def missing(what: str, source: str) -> CommitCorrupt:
    """The error for a field that every such action must have: `what` is `add.size`, `source` the file."""
    return CommitCorrupt(f"{source}: {what} is missing", code="action.missing-required", hint=_HINT)


def wrong_type(what: str, found: str, source: str) -> CommitCorrupt:
    """The error for a field whose value is of another type than the protocol says."""
    return CommitCorrupt(
        f"{source}: {what} has the wrong type", code="action.wrong-type", facts={"found": found[:120]}, hint=_HINT
    )


def too_deep(what: str, source: str) -> CommitCorrupt:
    """The error for a value that is read, and nested too deeply to be written again."""
    return wrong_type(what, "a value nested too deeply to be written", source)


def shown(value: object) -> str:
    """A value of the log for a message. A repr calls itself for each level of it."""
    try:
        return repr(value)
    except RecursionError:
        return "a value nested too deeply to be shown"
