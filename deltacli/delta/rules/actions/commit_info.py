"""Rules about the commitInfo of a commit, its provenance. Spec: Commit Provenance Information."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.delta.log.commit_lines import json_type
from deltacli.delta.rules.framework.base import Area, Finding, Severity
from deltacli.delta.rules.framework.views import CommitView

AREA = Area("actions")

INFO_MISSING = AREA.info(
    "commitinfo.missing",
    "A commit has no commitInfo.",
    spec="Commit Provenance Information",
    broken="the history does not show who wrote the version, when, and how",
    repair="no repair needed; writers should add commitInfo",
    example='00000000000000000003.json with only {"add":{…}}',
)
INFO_SEVERAL = AREA.warning(
    "commitinfo.several",
    "A commit has more than one commitInfo.",
    spec="Action Reconciliation",
    broken="engines differ in which one they show",
    repair="no repair needed; the commit is left unchanged",
    example='two lines {"commitInfo":{…}} in one commit',
)
INFO_NOT_OBJECT = AREA.warning(
    "commitinfo.not-object",
    "A commitInfo is not an object.",
    spec="Commit Provenance Information",
    broken="engines that expect fields fail on the commit or show none of its information",
    repair="no repair needed; the commit is left unchanged",
    example='{"commitInfo":"WRITE"}',
)


@AREA.check(CommitView, INFO_MISSING, INFO_SEVERAL, INFO_NOT_OBJECT)
def provenance(view: CommitView) -> Iterator[Finding]:
    """Check that each commit has one commitInfo, which is an object. `ict.missing` covers in-commit timestamps."""
    found = view.of_kind("commitInfo")
    if not found and view.is_readable and not view.after.has_ict:
        tracks_rows = "rowTracking" in view.after.features and view.after.is_on("delta.enableRowTracking")
        message = "the commit has no commitInfo, so its author, time and operation are unknown"
        if tracks_rows:
            message = "the commit has no commitInfo, so it is unknown whether it preserved the row ids of moved rows"
        severity = Severity.WARNING if tracks_rows else None
        yield INFO_MISSING.at(view.place(), message, expected="one commitInfo", severity=severity)
    if len(found) > 1:
        lines = ", ".join(str(placed.line) for placed in found[:5])
        message = f"the commit has {len(found)} commitInfo actions (lines {lines})"
        yield INFO_SEVERAL.at(view.place(found[1].line), message, seen=len(found), expected="at most 1")
    for placed in found:
        if "" in placed.action:  # how the line reader represents a value that is not an object
            seen = placed.action[""]
            yield INFO_NOT_OBJECT.at(
                view.place(placed.line),
                f"commitInfo is {_named(seen)}, expected an object",
                seen=_named(seen),
                expected="an object",
            )


def _named(value: object) -> str:
    return "an object with an empty key" if isinstance(value, dict) else json_type(value)
