"""Whether files written under an older schema stay live: what a schema may do depends on it."""

from __future__ import annotations

from deltacli.delta.rules.framework.views import CommitView, LiveFile

_REPLACING = ("CREATE", "REPLACE", "RESTORE", "CLONE", "TRUNCATE", "CONVERT")
"""How the operations begin that leave no file, or bring the state of another version or table with its schema."""


def replaces_all_files(commit: CommitView) -> bool:
    """True if no file from before the commit stays live after it, or if its operation says that it replaces the table.
    True as well where the log that would tell is gone: nothing can be held against such a commit.
    """
    count = commit.live_count_before
    return count is None or _says_so(commit) or _removes_all(commit, count)


def _says_so(commit: CommitView) -> bool:
    info = commit.commit_info or {}
    operation, parameters = info.get("operation"), info.get("operationParameters")
    if isinstance(operation, str) and operation.upper().startswith(_REPLACING):
        return True
    if not isinstance(parameters, dict) or str(parameters.get("mode")).lower() != "overwrite":
        return False
    return parameters.get("predicate") in (None, "", "[]") and len(commit.removes) > 0


def _removes_all(commit: CommitView, count: int) -> bool:
    if len(commit.removes) < count:
        return False
    gone: set[tuple[str, str]] = set()
    for placed in commit.removes:
        path = placed.action.get("path")
        live: tuple[LiveFile, ...] = tuple(commit.live_before(path) or ()) if isinstance(path, str) else ()
        gone.update((file.path, file.dv_id) for file in live)
    return len(gone) >= count
