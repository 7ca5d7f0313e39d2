"""Rules about how the paths of files are written.

Spec: Add File and Remove File (RFC 2396); Data Files. Single paths are checked here, several paths against each other
in `path_collisions`.
"""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.arrow import compute as pc
from deltacli.delta.log.place import Place
from deltacli.delta.rules.framework.base import Finding
from deltacli.delta.rules.framework.views import CommitView, FilesView
from deltacli.delta.rules.paths import path_collisions
from deltacli.delta.rules.paths.spelling import (
    ABSOLUTE,
    ABSOLUTE_INSIDE_ROOT,
    AREA,
    BAD_ENCODING,
    ESCAPES_ROOT,
    HIDDEN_LOCATION,
    NOT_ENCODED,
    NOT_NORMALISED,
    RESERVED_NAME,
    Fault,
    faults_of_path,
    suspicious,
)

__all__ = ["AREA", "path_collisions"]


@AREA.check(
    FilesView,
    BAD_ENCODING,
    NOT_ENCODED,
    ESCAPES_ROOT,
    NOT_NORMALISED,
    ABSOLUTE,
    ABSOLUTE_INSIDE_ROOT,
    HIDDEN_LOCATION,
    RESERVED_NAME,
)
def paths_of_adds(view: FilesView) -> Iterator[Finding]:
    """Only paths that are not plain are checked one by one."""
    paths = view.adds.column("path")
    for row in view.rows(suspicious(paths)):
        for fault in faults_of_path(paths[row].as_py(), view.uri):
            yield _finding(fault, view.place(row))


@AREA.check(CommitView, BAD_ENCODING, NOT_ENCODED, ESCAPES_ROOT, NOT_NORMALISED)
def paths_of_removes_and_change_files(view: CommitView) -> Iterator[Finding]:
    """A remove repeats the path of an add. Only a remove without a live add of that path is checked."""
    placed = [action for action in (*view.removes, *view.of_kind("cdc")) if isinstance(action.action.get("path"), str)]
    if not placed:
        return
    import pyarrow as pa

    try:
        paths = pa.array([action.action["path"] for action in placed], pa.string())
    except UnicodeEncodeError:
        return
    for row in pc.indices_nonzero(suspicious(paths)).to_pylist():
        path, kind = placed[row].action["path"], placed[row].kind
        if kind == "remove" and any(file.path == path for file in view.live_before(path) or ()):
            continue
        for fault in faults_of_path(path, ""):
            if fault.rule in (BAD_ENCODING, NOT_ENCODED, ESCAPES_ROOT, NOT_NORMALISED):
                yield _finding(fault, view.place(placed[row].line, path))


def _finding(fault: Fault, place: Place) -> Finding:
    return fault.rule.at(place, fault.message, seen=fault.seen, expected=fault.expected, severity=fault.severity)
