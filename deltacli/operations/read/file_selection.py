"""Selection of the data files that `validate` opens: all, a sample, or those that a condition selects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from deltacli.delta.log.table_configuration import TableConfiguration
from deltacli.delta.rules.framework.file_views import LiveAdds

if TYPE_CHECKING:
    from deltacli.delta.predicate import Predicate


@dataclass
class FileSelection:
    """`share`: the share of files to check, 1 for all, at least one file; the choice depends only on paths and `salt`.
    `predicate`: only files that may contain matching rows, by their partition values and statistics.
    """

    share: float = 1.0
    salt: str = ""
    predicate: Predicate | None = None

    @property
    def limits(self) -> bool:
        """Return True unless all files are checked."""
        return self.share < 1 or self.predicate is not None

    def of(self, live: LiveAdds, config: TableConfiguration) -> LiveAdds:
        """Return the live files to check."""
        if not self.limits or not live.adds.num_rows:
            return live
        rows = list(range(live.adds.num_rows))
        if self.predicate is not None:
            from deltacli.delta.predicate.prune import prune_files

            kept = prune_files(live.adds, self.predicate, config).kept.to_pylist()
            rows = [row for row in rows if kept[row]]
        if self.share < 1:
            paths = live.adds.column("path").to_pylist()
            rows = [rows[place] for place in self.sample([paths[row] for row in rows])]
        return live.take(rows)

    def sample(self, paths: Sequence[str]) -> list[int]:
        """Return the indices of the sampled paths, ascending."""
        by_chance = sorted(range(len(paths)), key=lambda place: self._digest(paths[place]))
        return sorted(by_chance[: ceil(len(paths) * self.share)])

    def _digest(self, path: str) -> bytes:
        from hashlib import blake2b

        return blake2b(f"{self.salt}\0{path}".encode("utf-8", "surrogateescape"), digest_size=8).digest()
