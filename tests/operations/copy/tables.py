"""Tables in the shapes that a log begins with, and what of a copy has to be the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from deltacli import open_table
from deltacli.api.table import Table
from deltacli.changing.change import execute_change
from deltacli.core.errors import NotATable
from deltacli.delta.data_files import vector_file
from deltacli.operations.checkpoint.checkpoint import CheckpointRequest, LayoutChoice, plan_checkpoint, write_checkpoint
from deltacli.operations.copy.execute import Copy, CopyResult
from deltacli.operations.copy.note import NOTE_PATH
from deltacli.operations.copy.request import CopyRequest
from deltacli.storage import LocalStorage, Storage
from tests.operations.recover.test_find_and_put import table_at
from tests.support.small_writer import SmallTable

Rows = Mapping[int, list[tuple[tuple[str, Any], ...]]]  # Any: values of rows


def copy(source: Path | str, target: Storage | Path, **options: Any) -> CopyResult:  # Any: fields of the request
    store = LocalStorage(str(target)) if isinstance(target, Path) else target
    return execute_change(Copy(store, CopyRequest(**options)), open_table(source))


def whole(root: Path) -> SmallTable:
    """Versions 0 to 2, with vectors."""
    return table_at(root)


def of_checkpoint(root: Path, layout: LayoutChoice = LayoutChoice.CLASSIC, **options: Any) -> SmallTable:
    """The same with a checkpoint of version 1, before which the log has expired."""
    table = table_at(root, *(("v2Checkpoint",) if layout is LayoutChoice.V2 else ()))
    request = CheckpointRequest(version=1, layout=layout, **options)
    write_checkpoint(plan_checkpoint(open_table(root), request))
    (root / "_delta_log" / f"{0:020d}.json").unlink()
    return table


def of_parts(root: Path) -> SmallTable:
    return of_checkpoint(root, LayoutChoice.MULTI_PART, parts=2)


def with_absolute_paths(source: Path) -> None:
    """Name every file and vector of a table by an absolute path, as some writers do."""
    for commit in sorted((source / "_delta_log").glob("*.json")):
        lines = []
        for line in commit.read_text().splitlines():
            action = json.loads(line)
            for file in [action[kind] for kind in ("add", "remove", "cdc") if kind in action]:
                file["path"] = f"{source.as_uri()}/{file['path']}"
                if (vector := file.get("deletionVector")) and vector["storageType"] == "u":
                    place = f"{source.as_uri()}/{vector_file(vector['pathOrInlineDv'])}"
                    vector.update(storageType="p", pathOrInlineDv=place)
            lines.append(json.dumps(action))
        commit.write_text("\n".join(lines) + "\n")


def absolute(root: Path) -> SmallTable:
    """The whole table by absolute paths, which only a copy that is no replica can have."""
    table = table_at(root)
    with_absolute_paths(root)
    return table


def of_sidecars(root: Path) -> SmallTable:
    return of_checkpoint(root, LayoutChoice.V2)


SHAPES: Mapping[str, Callable[[Path], SmallTable]] = {
    "whole": whole,
    "checkpoint": of_checkpoint,
    "parts": of_parts,
    "sidecars": of_sidecars,
}


def versions_of(root: Path) -> range:
    table = open_table(root)
    listing = table.snapshot().listing
    return range(listing.reconstructable[0], listing.newest_version + 1)


def rows_of(table: Table, versions: range) -> Rows:
    return {
        version: sorted(
            tuple(row.items()) for batch in table.snapshot(version=version).scan() for row in batch.to_pylist()
        )
        for version in versions
    }


def require_readable(target: Table, expected: Rows) -> bool:
    """Every version of a target has its rows; False where it is no table yet."""
    try:
        newest = target.snapshot().version
    except NotATable:
        return False
    first = min(expected)
    versions = range(first, min(newest, max(expected)) + 1)
    assert {version: expected[version] for version in versions} == rows_of(target, versions)
    return True


def files_of(root: Path, *, but: tuple[str, ...] = (NOTE_PATH,)) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and str(path.relative_to(root)) not in but
    }
