"""Which files of the bins other writers have touched since the plan was made.

The winners that a commit has followed are not read again for the commits after it, so every path in them is remembered
when they are first read. A winner that changed protocol or metadata leads to a newer version, whose live files are
compared with those of the plan once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from deltacli.arrow import compute as pc
from deltacli.core.errors import Unreadable
from deltacli.core.typing import ArrowArray
from deltacli.delta.log.commit_content import FilesAt
from deltacli.delta.log.commit_lines import Action
from deltacli.delta.paths import canonical
from deltacli.table.keyed_files import KEY_BYTES, file_keys
from deltacli.work.rewrite.pieces import RewriteSpec

if TYPE_CHECKING:
    from deltacli.operations.optimize.open_bins import OpenBin
    from deltacli.operations.optimize.plan import OptimizePlan
    from deltacli.table.version import Snapshot


class Watch:
    """The files that were touched: by path in the commits that were read, by place in the plan in versions."""

    def __init__(self, plan: OptimizePlan) -> None:
        self._plan = plan
        self._seen = plan.snapshot
        self._paths = set[int]()
        self._is_gone: ArrowArray | None = None

    def note(self, path: str) -> None:
        """Remember a path in a commit of another writer. 64 bits of it: a collision drops a bin without need."""
        self._paths.add(hash(canonical(path)))

    def look_again(self, snapshot: Snapshot) -> bool:
        """Compare a version with the plan, unless it is the last one that was compared; return whether it was."""
        if snapshot is self._seen:
            return False
        import pyarrow as pa

        self._seen, keys = snapshot, self._plan.live.keys
        if not _fits(self._plan, snapshot):
            self._is_gone = pa.repeat(pa.scalar(True), len(keys))
            return True
        parts = list(snapshot.file_actions.map_actions("add", file_keys, fields=("path", "deletionVector")))
        live = pa.concat_arrays([pa.array([], pa.binary(KEY_BYTES)), *parts])
        self._is_gone = pc.invert(pc.is_in(keys, value_set=live))
        return True

    def is_touched(self, opened: OpenBin) -> bool:
        """Return whether another writer has removed a file of a bin, or given it another vector."""
        if self._paths and any(hash(canonical(path)) in self._paths for path in opened.paths):
            return True
        if self._is_gone is None:
            return False
        places = self._plan.selection.order.slice(opened.bin.start, opened.bin.files)
        return bool(pc.any(pc.take(self._is_gone, places)).as_py())


class WatchedFiles:
    """The files that a commit depends on; what other writers touch beside them is remembered for later commits."""

    def __init__(self, paths: Iterable[str], watch: Watch) -> None:
        self._files, self._watch = FilesAt(paths), watch

    def change(self, kind: str, action: Action) -> str | None:
        """Return how an action changes them."""
        if isinstance(path := action.get("path"), str):
            self._watch.note(path)
        return self._files.change(kind, action)


def _fits(plan: OptimizePlan, snapshot: Snapshot) -> bool:
    """Return whether files written by the plan are what a newer version would have written."""
    ours, now = plan.snapshot.config, snapshot.config
    try:
        spec = RewriteSpec.make(now, target_bytes=plan.rules.target_bytes)
    except Unreadable:
        return False
    return (
        spec.schema.equals(plan.spec.schema, check_metadata=True)
        and spec.row_columns == plan.spec.row_columns
        and now.mapping_mode == ours.mapping_mode
        and list(now.partition_columns) == list(ours.partition_columns)
    )
