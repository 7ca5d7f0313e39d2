"""Tasks: pieces of work that run in a thread of this process or on an executor of a cluster, in the same way.

A task is a function at the top of a module, or a frozen dataclass with `__call__`. It gets a piece and a `TaskContext`,
and returns a result:

    def count_rows(piece: FilePiece, context: TaskContext) -> int: ...

Its fields, its pieces and its results are small values that can be pickled. It may run more than once for a piece, and
in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

from deltacli.core.lock_free_property import cached_property
from deltacli.storage import Storage
from deltacli.work.table_files import TableFiles
from deltacli.work.table_stores import TableStores

Piece = TypeVar("Piece")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False, repr=False)
class TaskContext:
    """The surroundings of a task in the process where it runs.

    Attributes:
        stores: The open stores of the table.
        values: Values that all pieces of a run share, by name.
        is_cancelled: Returns True once nobody waits for the result any more. A task that takes long may end with any
            error then.
    """

    stores: TableStores
    values: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))  # Any: values of each operation
    is_cancelled: Callable[[], bool] = lambda: False

    @property
    def storage(self) -> Storage:
        """The store of the table."""
        return self.stores.storage

    @cached_property
    def attempt(self) -> str:
        """The id of this attempt, of 32 hexadecimal digits.

        It is part of the names of the files that a task writes: two attempts may write the same piece at the same time.
        """
        return self.stores.machine.new_hex()

    @cached_property
    def files(self) -> TableFiles:
        """The finder of the files that the log names, shared by the pieces of this context."""
        return self.stores.files()

    def shared(self, name: str) -> Any:  # Any: a value of the operation
        """Return a value that all pieces of the run share."""
        return self.values[name]


Task = Callable[[Piece, TaskContext], Result]
"""A task. It can have attributes by which an engine chooses how to run it:

* `quick_seconds`: The task is mostly Python, so that threads would only wait for the interpreter. The embedded engine
  uses one thread as long as a piece takes at most that long per unit of its weight.
* `small_results`: The embedded engine has more pieces in flight than threads.
* `unit_seconds`: The usual time per unit of weight. A cluster engine divides short work into fewer parts.
* `is_light`: See `light`.
"""


def light(task: Callable[[Piece, TaskContext], Result]) -> Callable[[Piece, TaskContext], Result]:
    """Mark a task that reads only some kilobytes per piece: a cluster engine runs a few pieces of it on the driver."""
    task.is_light = True  # type: ignore[attr-defined]
    return task
