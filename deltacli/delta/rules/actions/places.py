"""Where a file action stands and what its file is called, for findings about it."""

from __future__ import annotations

from deltacli.delta.log.log_path import Place
from deltacli.delta.rules.framework.views import CommitView, LocatedAction


def name_of(placed: LocatedAction) -> str:
    """Return the path of a file action, for a message."""
    path = placed.action.get("path")
    return path if isinstance(path, str) and path else "the file"


def place_of(view: CommitView, placed: LocatedAction) -> Place:
    """Return the line and the path of a file action, for a finding."""
    path = placed.action.get("path")
    return view.place(placed.line, path if isinstance(path, str) else None)
