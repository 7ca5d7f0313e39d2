"""Rewriting the live files of a table by the task that all rewrites use, and committing the result."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from deltacli import open_table
from deltacli.api.table import Table
from deltacli.changing.commit import Committed, commit
from deltacli.delta.log.commit_content import CommitRequest, body_lines
from deltacli.storage import Storage
from deltacli.table.version import Snapshot
from deltacli.work.rewrite.pieces import SPEC, RewritePiece, RewriteSpec, Rewritten
from deltacli.work.rewrite.rewriting import RewriteFiles
from deltacli.work.rows.data_files import DataFile
from deltacli.work.table_stores import TableStores
from deltacli.work.task import TaskContext
from tests.support.actions import Action

TARGET = 128 << 20


def live_adds(snapshot: Snapshot) -> list[Action]:
    """The live files of a version."""
    return [add for batch in snapshot.files() for add in batch.to_pylist(maps_as_pydicts="strict")]


def source_of(add: Action) -> DataFile:
    """A live file as it goes to the task."""
    ids, version = add.get("baseRowId"), add.get("defaultRowCommitVersion")
    return DataFile(add["path"], add["size"], vector=add["deletionVector"], base_row_id=ids, row_commit_version=version)


def pieces(adds: Sequence[Action], *, directory: str = "") -> Iterator[RewritePiece]:
    """A piece for each partition, as its values are spelled."""
    groups: dict[str, list[Action]] = {}
    for add in adds:
        groups.setdefault(repr(sorted((add["partitionValues"] or {}).items())), []).append(add)
    for number, group in enumerate(groups.values()):
        sources = tuple(map(source_of, group))
        yield RewritePiece(number, sources, group[0]["partitionValues"] or {}, directory)


def run(storage: Storage, spec: RewriteSpec, piece: RewritePiece) -> Rewritten:
    """Rewrite a piece as another process would. Everything that is sent is pickled."""
    sent = pickle.loads(pickle.dumps((RewriteFiles(), piece, spec)))
    result: Rewritten = sent[0](sent[1], TaskContext(TableStores(storage), {SPEC: sent[2]}))
    return result


def rewrite(table: Table, **settings: Any) -> list[Rewritten]:  # Any: settings of the spec
    """Rewrite all live files of a table and commit."""
    snapshot = table.snapshot()
    spec = RewriteSpec.make(snapshot.config, target_bytes=settings.pop("target_bytes", TARGET))
    spec = replace(spec, **settings)
    adds = live_adds(snapshot)
    storage = snapshot.table.writable()
    found = [(piece, run(storage, spec, piece)) for piece in pieces(adds)]
    done = commit(snapshot.table, lambda _: _request(adds, found, snapshot.table.clock()))
    assert isinstance(done, Committed)
    return [result for _, result in found]


def _request(adds: Sequence[Action], found: Sequence[tuple[RewritePiece, Rewritten]], now_ms: int) -> CommitRequest:
    used = {path for _, result in found for path in result.used}
    lines: list[Action] = [
        {
            "remove": {
                "path": add["path"],
                "deletionTimestamp": now_ms,
                "dataChange": False,
                "extendedFileMetadata": True,
                "partitionValues": add["partitionValues"],
                "size": add["size"],
                **({"deletionVector": _vector(add)} if add["deletionVector"] else {}),
            }
        }
        for add in adds
        if add["path"] in used
    ]
    for piece, result in found:
        lines += [
            {
                "add": {
                    "path": file.path,
                    "partitionValues": dict(piece.partition_values),
                    "size": file.size_bytes,
                    "modificationTime": file.modification_ms,
                    "dataChange": False,
                    "stats": file.stats,
                }
            }
            for file in result.files
        ]
    rows = sum(file.rows for _, result in found for file in result.files)
    return CommitRequest("OPTIMIZE", body=lambda slot: body_lines(lines, slot), new_rows=rows)


def _vector(add: Action) -> Action:
    return {name: value for name, value in add["deletionVector"].items() if value is not None}


def rewrite_at(root: Path, **settings: Any) -> list[Rewritten]:
    """Rewrite all live files of the table at a path and commit."""
    return rewrite(open_table(str(root)), **settings)
