"""Rules that compare the paths of several files: two spellings of one file, two contents under one path.

Spec: Add File and Remove File; Action Reconciliation; Data Files.
"""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.arrow import compute as pc
from deltacli.core.typing import ArrowArray
from deltacli.delta.encoding.many_keys import rows_that_may_repeat
from deltacli.delta.log.log_path import Place
from deltacli.delta.paths import canonical, canonical_column, decode
from deltacli.rules.framework.base import Area, Finding, Level
from deltacli.rules.framework.view_lookups import place_of
from deltacli.rules.framework.views import CommitView, LiveFile, StateView, StorageView, TouchedFile

AREA = Area("paths", spec="Data Files")

DOUBLE_ENCODED = AREA.warning(
    "path.double-encoded",
    "A path names no file when decoded once, but names a file when decoded twice or not at all.",
    spec="Add File and Remove File",
    broken="readers that decode once, as required, do not find the file; vacuum treats it as unused",
    repair="commit a remove of this path, and the add again with the right one, both with dataChange=false",
    loss="nothing, as long as no vacuum runs before",
    example='{"add":{"path":"city=New%2520York/part-0.parquet",…}} with the file in "city=New York"',
    level=Level.STORAGE,
)
SAME_FILE_TWO_SPELLINGS = AREA.error(
    "path.same-file-two-spellings",
    "One file is named by two spellings of its path.",
    spec="Action Reconciliation",
    broken="engines that compare paths as text see two files: its rows count twice, or it is not removed",
    repair="commit a remove of one spelling, then the add of the other",
    example='{"add":{"path":"a%2Db.parquet",…}} after {"add":{"path":"a-b.parquet",…}}',
)
CASE_COLLISION = AREA.warning(
    "path.case-collision",
    "The paths of two live files differ only in case.",
    broken="on a case-insensitive file system, one of the files overwrites the other when the table is copied",
    repair="rewrite one of the files with an engine",
    example='"P=1/part-0.parquet" next to "p=1/part-0.parquet"',
)
SHARED_WITH_CDC = AREA.info(
    "path.shared-with-cdc",
    "A commit adds a file and also names it as a change data file.",
    spec="Add CDC File",
    broken="the rows are both data and changes; unless the file has _change_type, readers of changes fail",
    repair="no repair needed; writers should write separate change data files",
    example='{"add":{"path":"part-0.parquet",…}} and {"cdc":{"path":"part-0.parquet",…}} in one commit',
)
NOT_UNIQUE_OVER_HISTORY = AREA.warning(
    "path.not-unique-over-history",
    "A path is used again with another size or time: the file was overwritten in place.",
    broken="older versions that use the path read the wrong rows, or fail",
    repair="no repair needed; each file must have a new name",
    loss="the rows of the earlier file at that path",
    example='{"add":{"path":"part-0.parquet","size":20,…}} after {"remove":{"path":"part-0.parquet","size":10,…}}',
)


@AREA.check(CommitView, SAME_FILE_TWO_SPELLINGS, NOT_UNIQUE_OVER_HISTORY)
def files_against_those_before(view: CommitView) -> Iterator[Finding]:
    """Compare each file of a commit with the previous file at its path."""
    for file in view.removed:
        yield from _spelled_otherwise(view, file)
    for file in view.added:
        if file.live:
            yield from _spelled_otherwise(view, file)
            yield from _overwritten(view, file, file.live[0])
        else:
            yield from _reused(view, file)


def _spelled_otherwise(view: CommitView, file: TouchedFile) -> Iterator[Finding]:
    path = file.placed.action["path"]
    for live in file.live or ():
        if live.path != path:
            yield _two_spellings(view.place(file.placed.line, path), live.path, path)
            return


def _two_spellings(place: Place, first: str, second: str) -> Finding:
    message = f"{second} is another spelling of {first}, a live file"
    return SAME_FILE_TWO_SPELLINGS.at(place, message, seen=second, expected=first)


def _overwritten(view: CommitView, file: TouchedFile, live: LiveFile) -> Iterator[Finding]:
    """Check that an add of a live path describes the same file as the previous add."""
    add = file.placed.action
    # With a new vector, some writers renew the time.
    names = ("size", "modificationTime") if file.dv_id == live.dv_id else ("size",)
    for name in names:
        before, now = live.add.get(name), add.get(name)
        if type(before) is int and type(now) is int and before != now:
            yield NOT_UNIQUE_OVER_HISTORY.at(
                view.place(file.placed.line, live.path),
                f"{live.path} is live with {name} {before}, but added again with {now}, so it was overwritten",
                seen=now,
                expected=before,
            )
            return


def _reused(view: CommitView, file: TouchedFile) -> Iterator[Finding]:
    """Check that an add of a removed path describes the same file."""
    removed = view.tombstone_of((file.path, file.dv_id or "")) or view.tombstone_of((file.path, ""))
    if removed is None:
        return
    path, before, now = file.placed.action["path"], removed.get("size"), file.placed.action.get("size")
    if type(before) is int and type(now) is int and before != now:
        yield NOT_UNIQUE_OVER_HISTORY.at(
            view.place(file.placed.line, path),
            f"{path} was removed with size {before} but is added again with size {now}, so its name was reused",
            seen=now,
            expected=before,
        )


@AREA.check(CommitView, SHARED_WITH_CDC)
def files_that_are_data_and_changes(view: CommitView) -> Iterator[Finding]:
    """Report adds whose file is a change data file of the same commit."""
    changes = {
        canonical(path): placed.line
        for placed in view.of_kind("cdc")
        if isinstance(path := placed.action.get("path"), str)
    }
    for placed in view.adds if changes else ():
        path = placed.action.get("path")
        if isinstance(path, str) and (line := changes.get(canonical(path))) is not None:
            message = f"{path} is added and is also a change data file of the same commit (line {line})"
            yield SHARED_WITH_CDC.at(view.place(placed.line, path), message, expected="a separate change data file")


@AREA.check(StateView, SAME_FILE_TWO_SPELLINGS)
def relative_and_absolute_spellings(view: StateView) -> Iterator[Finding]:
    """Report a relative and an absolute path to the same file of the table, which replay treats as two files."""
    import pyarrow as pa

    if not view.uri or not view.live.num_rows:
        return
    keys = view.live.column("key")
    prefix = f"{canonical(view.uri).rstrip('/')}/".encode("utf-8", "surrogateescape")
    inside = pc.indices_nonzero(pc.starts_with(keys, prefix))
    if not len(inside):
        return
    relative = pc.binary_slice(pc.take(keys, inside), len(prefix)).combine_chunks()
    named = pa.chunked_array(
        [pc.filter(chunk, pc.is_in(chunk, value_set=relative)) for chunk in keys.chunks], pa.binary()
    )
    paths = view.live.column("path")
    for row in pc.filter(inside, pc.is_in(relative, value_set=named.combine_chunks())).to_pylist():
        path = paths[row].as_py()
        name = keys[row].as_py()[len(prefix) :].decode("utf-8", "replace")
        yield _two_spellings(view.place(path), name, path)


@AREA.check(StateView, CASE_COLLISION)
def paths_that_differ_in_case(view: StateView) -> Iterator[Finding]:
    """Report live paths that are equal except for case, each such group once."""
    keys = view.live.column("key")
    suspects = rows_that_may_repeat(map(_folded, keys.chunks))
    groups: dict[bytes, dict[bytes, int]] = {}
    for row in pc.indices_nonzero(suspects).to_pylist():
        key = keys[row].as_py()
        groups.setdefault(_folded_key(key), {}).setdefault(key, row)
    paths = view.live.column("path")
    for by_key in groups.values():
        if len(by_key) > 1:
            first, second, *_ = (paths[row].as_py() for row in by_key.values())
            message = f"the path differs from {first} only in case"
            yield CASE_COLLISION.at(
                view.place(second), message, seen=second, expected="names that differ by more than case"
            )


def _folded(keys: ArrowArray) -> ArrowArray:
    """Return keys in lower case, as bytes."""
    import pyarrow as pa

    try:
        return pc.cast(pc.utf8_lower(pc.cast(keys, pa.string())), pa.binary())
    except pa.ArrowInvalid:
        return pa.array([_folded_key(key) for key in keys.to_pylist()], pa.binary())


def _folded_key(key: bytes) -> bytes:
    return key.decode("utf-8", "surrogateescape").lower().encode("utf-8", "surrogateescape")


@AREA.check(StorageView, DOUBLE_ENCODED)
def paths_encoded_twice(view: StorageView) -> Iterator[Finding]:
    """Report live files that do not exist under their decoded path, but exist under another reading of it."""
    paths = view.live_adds.column("path").combine_chunks()
    rows = pc.indices_nonzero(pc.match_substring_regex(paths, "%"))
    names = canonical_column(pc.take(paths, rows)).to_pylist()
    for row, data in zip(rows.to_pylist(), names, strict=True):
        name = data.decode("utf-8", "surrogateescape")
        if name in view.files or name.startswith("/") or ":" in name:
            continue
        path = paths[row].as_py()
        other_path = next((other for other in (decode(name), path) if other != name and other in view.files), None)
        if other_path is not None:
            reading = "as it stands" if other_path == path else "decoded twice"
            yield DOUBLE_ENCODED.at(
                place_of(view.live_adds.slice(row, 1).to_pylist()[0]),
                f"there is no file {name}, but there is one at the path {path} {reading}",
                seen=name,
                expected=other_path,
            )
