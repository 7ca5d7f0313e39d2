"""Tasks: pieces of work that run in a thread of this process or on an executor of a cluster, in the same way.

A task is a function at the top of a module, or a frozen dataclass with `__call__`. Its fields, its pieces and its
results are small values that can be pickled. It may run more than once for a piece, and in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from deltacli.core.lock_free_property import cached_property
from deltacli.storage import Storage
from deltacli.work.table_files import TableFiles
from deltacli.work.table_stores import TableStores

if TYPE_CHECKING:
    pass


Piece = TypeVar("Piece")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False, repr=False)
class TaskContext:
    """What a task finds where it runs: the stores of the table, values shared by all pieces, and an id of the attempt,
    which makes the names of the files it writes unique.
    """

    stores: TableStores
    values: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))  # Any: values of each operation
    is_cancelled: Callable[[], bool] = lambda: False
    """Return True once nobody waits for the result any more; a task that takes long may end with any error then."""

    @property
    def storage(self) -> Storage:
        return self.stores.storage

    @cached_property
    def attempt(self) -> str:
        """The id of the attempt, of 32 hexadecimal digits."""
        return self.stores.machine.new_hex()

    @cached_property
    def files(self) -> TableFiles:
        """The resolver of the files that the log names, shared by the pieces of this context."""
        return self.stores.files()

    def shared(self, name: str) -> Any:  # Any: a value of the operation
        return self.values[name]


def light(task: Callable[[Piece, TaskContext], Result]) -> Callable[[Piece, TaskContext], Result]:
    """Mark a task that reads only some kilobytes per piece: a cluster engine runs a few pieces of it on the driver."""
    task.is_light = True  # type: ignore[attr-defined]
    return task


Task = Callable[[Piece, TaskContext], Result]
"""A task. One that is mostly Python, so that threads only wait for the interpreter, has an attribute `quick_seconds`:
the embedded engine uses one thread as long as a piece takes at most that long per unit of its weight. One with an
attribute `unit_seconds`, the usual time per unit of its weight, is divided into fewer parts by a cluster engine where
it is short. One with `small_results` gets more pieces in flight than threads in the embedded engine.
"""
