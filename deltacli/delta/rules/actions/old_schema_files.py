"""Determine whether files written under an older schema stay live, which limits the allowed schema changes."""

from __future__ import annotations

from deltacli.delta.rules.framework.views import CommitView, LiveFile

_REPLACING = ("CREATE", "REPLACE", "RESTORE", "CLONE", "TRUNCATE", "CONVERT")
"Prefixes of operations that replace all files, or bring the state and schema of another version or table."


def replaces_all_files(commit: CommitView) -> bool:
    """Return True if no older file stays live after the commit, or if its operation replaces the table. Also return
    True if that part of the log is missing, because then the commit cannot be judged.
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
