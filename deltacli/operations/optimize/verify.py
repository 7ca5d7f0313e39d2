"""Verifying an optimization: the rows of the files that each of its commits added are those of the files it removed.

What is compared is read from the log and the files again, as any reader would read them, and beside it the values of
each stored column without the column mapping of the table: an error of the reader would not show in rows that it read
before and after. Files that are live before and after are the same bytes, so their rows cancel out: where all versions
since the plan are those of the run, the live files are compared as well, and the answer is about all rows of the table.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.core.errors import DataUnreadable, StorageFailed, command
from deltacli.core.ranges import format_ranges
from deltacli.core.typing import ArrowArray, Json, RecordBatch
from deltacli.delta.encoding.digests import MultisetDigest
from deltacli.delta.log.actions import Action
from deltacli.delta.log.file_actions import action_schemas, build_action_batch
from deltacli.delta.log.state import TableConfiguration
from deltacli.delta.schema import to_arrow
from deltacli.table.data_files import build_data_files
from deltacli.table.file_keys import KEY_BYTES, hash_file_actions
from deltacli.table.find_log import list_log
from deltacli.table.rebuild import read_snapshot
from deltacli.work.commits.reading import stream_commit
from deltacli.work.rewrite.pieces import make_full_read_spec
from deltacli.work.rewrite.sources import WANTED, RowsDigest
from deltacli.work.rewrite.stored_values import (
    NO_VALUES,
    STORED_COLUMNS,
    Leaf,
    PieceDigest,
    StoredColumns,
    digest_piece,
    find_differing_columns,
)
from deltacli.work.rows.data_files import DataFile

if TYPE_CHECKING:
    from deltacli.operations.optimize.plan import OptimizePlan
    from deltacli.table.version import Snapshot

ROWS_DIFFER = "optimize.rows-differ"
_PIECE_FILES, _PIECE_BYTES = 32, 64 << 20


class VerifiedRows(NamedTuple):
    """The rows that were compared; `is_whole` where that shows that the table has the same rows as before."""

    rows: int
    is_whole: bool

    def as_json(self) -> dict[str, Json]:
        """Return the content of `verified` in the document."""
        return {"rows": self.rows, "scope": "table" if self.is_whole else "files"}


def verify_rows(plan: OptimizePlan, versions: Sequence[int], *, files: int) -> VerifiedRows:
    """Compare the rows before and after the commits of a plan, which have so many files.

    Raises StorageFailed (`optimize.rows-differ`) where they differ, with the command that takes the commits back;
    DataUnreadable where a file cannot be read.
    """
    return _Verification(plan, versions, files).verify()


class _Files(NamedTuple):
    version: int
    kind: str
    actions: RecordBatch


class _PiecesDigest:
    """The digests of all files that a commit added, or of all that it removed."""

    def __init__(self) -> None:
        self.rows = MultisetDigest()
        self.columns: dict[Leaf, RowsDigest | None] = {}
        """The digest of each stored column; None where some values could not be expressed in its type."""

    def add(self, piece: PieceDigest) -> None:
        self.rows.add(piece.rows)
        for leaf, answer in piece.columns.items():
            so_far = self.columns.get(leaf, NO_VALUES)
            if so_far is None or answer is None:
                self.columns[leaf] = None
                continue
            total = MultisetDigest()
            total.add(so_far)
            total.add(answer)
            self.columns[leaf] = total.answer()


class _Verification:
    def __init__(self, plan: OptimizePlan, versions: Sequence[int], files: int) -> None:
        self._plan, self._versions, self._count = plan, versions, files
        self._table = plan.table
        before = plan.snapshot.version
        self._is_whole = not versions or versions[-1] - before == len(versions)
        self._left: ArrowArray | None = _live_keys(plan.snapshot) if self._is_whole and versions else None
        """The files that are live after the commits read so far."""
        self._expected = 0 if self._left is None else len(self._left)
        self._sent = deque[tuple[int, str, int]]()

    def verify(self) -> VerifiedRows:
        digests: dict[tuple[int, str], _PiecesDigest] = defaultdict(_PiecesDigest)
        table = self._table
        config = self._plan.snapshot.config
        try:
            with table.progress.step("verifying rows", unit="files", total=self._count) as step:
                for answer in table.engine.run_tasks(
                    digest_piece,
                    self._pieces(),
                    table.stores,
                    shared={WANTED: make_full_read_spec(config), STORED_COLUMNS: _stored_columns(config)},
                    weigh=_weight,
                ):
                    version, kind, count = self._sent.popleft()
                    digests[version, kind].add(answer)
                    step.advance(count)
        except DataUnreadable as fault:
            facts = fault.facts | {"committed": format_ranges(self._versions)}
            raise DataUnreadable(fault.message, code=fault.code, facts=facts, hint=self._undo) from fault
        removed = {version: digests[version, "remove"] for version in self._versions}
        added = {version: digests[version, "add"] for version in self._versions}
        self._require_same_rows(
            {version: digest.rows.answer() for version, digest in removed.items()},
            {version: digest.rows.answer() for version, digest in added.items()},
        )
        for version in self._versions:
            self._require_same_columns(version, removed[version], added[version])
        self._require_live_files()
        return VerifiedRows(sum(digest.rows.answer()[0] for digest in added.values()), self._is_whole)

    def _require_same_rows(self, removed: Mapping[int, RowsDigest], added: Mapping[int, RowsDigest]) -> None:
        wrong = [version for version in self._versions if removed[version] != added[version]]
        if wrong:
            raise self._differ(wrong, removed[wrong[0]][0], added[wrong[0]][0])

    def _require_same_columns(self, version: int, removed: _PiecesDigest, added: _PiecesDigest) -> None:
        for leaf, before, after in find_differing_columns(removed.columns, added.columns):
            raise self._differ([version], before, after, what=f"values of {'.'.join(leaf)}")

    def _pieces(self) -> Iterator[list[DataFile]]:
        for files in self._files():
            piece, size = list[DataFile](), 0
            for source in _sources(self._plan.snapshot, files):
                if piece and (len(piece) >= _PIECE_FILES or size + (source.size_bytes or 0) > _PIECE_BYTES):
                    self._sent.append((files.version, files.kind, len(piece)))
                    yield piece
                    piece, size = [], 0
                piece.append(source)
                size += source.size_bytes or 0
            if piece:
                self._sent.append((files.version, files.kind, len(piece)))
                yield piece

    def _files(self) -> Iterator[_Files]:
        """Yield the files of each commit, and follow which files are live."""
        commits = list_log(self._table.storage, start_version=self._plan.snapshot.version).commits
        schemas = action_schemas()
        for version in self._versions:
            found: dict[str, list[Action]] = {"remove": [], "add": []}
            for kind, action in stream_commit(self._table.storage, commits[version]):
                if kind in found:
                    found[kind].append(action)
            for kind, actions in found.items():
                if not actions:
                    continue
                schema = schemas.remove if kind == "remove" else schemas.add
                rows = build_action_batch(actions, schema, f"version {version}")
                self._expected += rows.num_rows if kind == "add" else -rows.num_rows
                if self._left is not None and kind == "remove":
                    self._left = pc.filter(
                        self._left, pc.invert(pc.is_in(self._left, value_set=hash_file_actions(rows)))
                    )
                elif self._left is not None:
                    self._left = pa.concat_arrays([self._left, hash_file_actions(rows)])
                yield _Files(version, kind, rows)

    def _require_live_files(self) -> None:
        """Raise StorageFailed unless the files that are live now are those before, as the commits changed them."""
        if self._left is None:
            return
        live = _live_keys(read_snapshot(self._table, version=self._versions[-1]))
        is_other = pc.any(pc.invert(pc.is_in(live, value_set=self._left))).as_py()
        if len(live) != self._expected or is_other:
            raise self._differ(list(self._versions), self._expected, len(live), what="live files")

    @property
    def _undo(self) -> str:
        return command("restore", version=self._plan.snapshot.version)

    def _differ(self, versions: list[int], expected: int, found: int, what: str = "rows") -> StorageFailed:
        table, before = self._table.uri, self._plan.snapshot.version
        has = "has" if len(versions) == 1 else "have"
        facts = {f"expected {what}": f"{expected:,}", f"{what} found": f"{found:,}"}
        if expected == found:
            facts["differs"] = "values"
        facts["committed"] = format_ranges(self._versions)
        if not self._is_whole:
            facts["note"] = f"restoring version {before} also undoes the commits of others since"
        which = f"version{'' if len(versions) == 1 else 's'} {format_ranges(versions)}"
        return StorageFailed(
            f"{table}: {which} {has} other {what} than before the optimization",
            code=ROWS_DIFFER,
            facts=facts,
            hint=self._undo,
        )


def _live_keys(snapshot: Snapshot) -> ArrowArray:
    parts = list(snapshot.file_actions.map_actions("add", hash_file_actions, fields=("path", "deletionVector")))
    return pa.concat_arrays([pa.array([], pa.binary(KEY_BYTES)), *parts])


def _sources(snapshot: Snapshot, files: _Files) -> Iterator[DataFile]:
    config, actions = snapshot.config, files.actions
    yield from build_data_files(actions, config, snapshot.schema.fields, version=files.version)


def _stored_columns(config: TableConfiguration) -> StoredColumns:
    """Return the columns that new files have whether or not a partition or a row id is stored in them, too."""
    schema = to_arrow.file_schema(config, to_arrow.stored_columns(config))
    return StoredColumns.from_schema(schema, by_id=config.mapping_mode == "id", left_out=list(config.partition_columns))


def _weight(piece: Sequence[DataFile]) -> int:
    return sum((source.size_bytes or 0) + (256 << 10) for source in piece)
