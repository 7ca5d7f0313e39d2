"""Small tables with rows to optimize: every row has an id, and a partition if the table has any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deltacli.api.table import Table
from deltacli.changing.change import execute_change
from deltacli.operations.optimize.execute import Optimize, OptimizeOutcome
from deltacli.operations.optimize.plan import OptimizePlan
from deltacli.storage import ReadStorage, Storage
from tests.support.actions import Line, add, commit_info, metadata, protocol
from tests.support.builder import TableBuilder
from tests.support.committing import commits
from tests.support.faulty import Fault
from tests.support.file_racing import SCHEMA, parquet
from tests.support.in_memory import MemoryStorage
from tests.support.reading import open_at
from tests.support.small_vectors import inline

VECTORS = {"delta.enableDeletionVectors": "true"}
Actions = Sequence[tuple[str, Mapping[str, Any]]]  # Any: JSON


class Ids:
    """A table that is built file by file; `ids` counts the rows."""

    def __init__(
        self, *features: str, configuration: Mapping[str, str] | None = None, partitioned: bool = True
    ) -> None:
        names = ["deletionVectors", *features]
        readers = [name for name in names if name in ("deletionVectors", "columnMapping", "v2Checkpoint")]
        self.builder = TableBuilder().commit(
            commit_info("CREATE TABLE", inCommitTimestamp=1),
            protocol(3, 7, reader_features=readers, writer_features=names),
            metadata(
                configuration={**VECTORS, **(configuration or {})},
                partition_columns=["p"] if partitioned else [],
                schema_string=SCHEMA,
            ),
        )
        self._is_partitioned = partitioned
        self.ids = 0

    def line(self, name: str, rows: int = 3, p: str | None = "0", deleted: Sequence[int] = (), **others: Any) -> Line:
        """Write a file, and return its add."""
        data = parquet(range(self.ids, self.ids + rows))
        self.ids += rows
        self.builder.file(name.replace("%20", " "), data)
        values = {"p": p} if self._is_partitioned else {}
        vector = inline(deleted) if deleted else None
        return add(name, size=len(data), records=rows, partition_values=values, vector=vector, **others)

    def append(self, *names: str, **how: Any) -> Ids:
        """Append files in one commit."""
        self.builder.commit(commit_info("WRITE"), *(self.line(name, **how) for name in names))
        return self

    def table(self) -> Table:
        return open_at(self.builder.in_memory())


def rows_of(table: Table, version: int | None = None) -> list[tuple[Any, ...]]:
    """The rows of a version, sorted."""
    found = table.snapshot(version=version).scan().to_arrow()
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True), key=repr)


def data_files(storage: ReadStorage) -> set[str]:
    """The data files that are there, whoever needs them."""
    assert isinstance(storage, MemoryStorage)
    return {path for path in storage._files if path.endswith(".parquet")}


def last_commit(storage: Storage) -> Actions:
    return list(commits(storage))[-1]


def live_paths(table: Table) -> set[str]:
    return {path for batch in table.snapshot().files() for path in batch.column("path").to_pylist()}


def chances(calls: Sequence[str], fault: Fault) -> list[tuple[int, str]]:
    """Return the calls, by number and verb, at which a store can have this fault: a creation that raises has left
    nothing behind, and only creations are without an answer.
    """
    if fault is Fault.AFTER:
        wanted = {False}
    elif fault in (Fault.BEFORE, Fault.DUPLICATED):
        wanted = {False, True}
    else:
        wanted = {True}
    return [(at, verb) for at, verb in enumerate(calls, 1) if (verb in ("publish", "put_if_absent")) in wanted]


def execute(plan: OptimizePlan, outcome: OptimizeOutcome | None = None) -> OptimizeOutcome:
    """Carry out a plan; `outcome` has what was done, also after an error."""

    class Known(Optimize):
        def outcome(self, plan: OptimizePlan) -> OptimizeOutcome:
            return outcome or super().outcome(plan)

    return execute_change(Known(plan.request), plan.table, plan=plan)
