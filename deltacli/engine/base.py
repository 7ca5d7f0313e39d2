"""The interface of engines, which run tasks in this process or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from deltacli.core.typing import ArrowSchema, RecordBatch
    from deltacli.work.table_stores import TableStores
    from deltacli.work.task import Piece, Result, Task


NOTHING_SHARED: Mapping[str, Any] = MappingProxyType({})  # Any: values of each operation
GROUPS = "groups"
"""The shared value that tells a task of `merge_groups` the number of groups."""
GROUP_BYTES = 64 << 20
"""About the bytes of a group: Arrow needs several times as much to compare it."""


class GroupReading(NamedTuple):
    """The rows of one table that `merge_groups` reads and distributes to groups.

    Attributes:
        task: Yields batches of rows, each with the number of its group. It finds the number of groups in the shared
            value `GROUPS`.
        pieces: The pieces of the task; each has a `weight`.
        stores: The stores of the table.
        shared: Values that all pieces share.
    """

    task: Task[Any, Iterator[tuple[int, RecordBatch]]]  # Any: a piece with `weight`
    pieces: Iterable[Any]
    stores: TableStores
    shared: Mapping[str, Any]  # Any: values of each operation


def is_never_cancelled() -> bool:
    """Return False: nobody cancels the run."""
    return False


class Engine(Protocol):
    """Runs pieces of work, several at a time.

    There are two kinds of work. `run` and `stream` call any function, a closure too, always in this process.
    `run_tasks` and `merge_groups` run tasks (`deltacli.work.task`), which can be sent to other processes: an engine may
    run them on a cluster.
    """

    @property
    def may_repeat(self) -> bool:
        """True where tasks run in other processes, perhaps more than once for a piece.

        Then a second attempt finds missing what a first one has deleted, and hashes differ that Python seeds per
        process.
        """

    def run(
        self, work: Callable[[Piece], Result], pieces: Iterable[Piece], *, at_once: int | None = None
    ) -> Iterator[Result]:
        """Yield the result of every piece, in the order of the pieces.

        Few pieces are in flight at a time, so results can be large. The first piece that raises ends the run with its
        error. A caller that stops early stops the pieces that have not begun.

        Args:
            work: A function, called in several threads.
            pieces: Its arguments, which are taken as they are needed.
            at_once: The useful number of concurrent pieces, for pieces that wait for a store instead of computing. The
                default suits computing.
        """

    def stream(self, work: Callable[[Piece], Iterator[Result]], pieces: Iterable[Piece]) -> Iterator[Result]:
        """Yield what the pieces yield, a few pieces at once and a few results ahead.

        The order depends only on the pieces. The first error ends the stream. A caller that stops early closes the
        started pieces.
        """

    def run_tasks(
        self,
        task: Task[Piece, Result],
        pieces: Iterable[Piece],
        stores: TableStores,
        *,
        shared: Mapping[str, Any] = NOTHING_SHARED,  # Any: values of each operation
        weigh: Callable[[Piece], int] | None = None,
        at_once: int | None = None,
        is_cancelled: Callable[[], bool] = is_never_cancelled,
    ) -> Iterator[Result]:
        """Yield the result of every piece, in the order of the pieces, wherever the pieces ran.

        Every piece runs at least once, perhaps several times at the same time; one result of each is returned. The
        first piece that raises, in this order, ends the run with its error. A caller that stops early cancels the
        others.

        Args:
            task: A function or an object that can be pickled.
            pieces: What it is called with; each can be pickled.
            stores: The stores of the table, which the task finds in its context.
            shared: Values that the task finds in its context. They reach each process once.
            weigh: Returns the relative cost of a piece. By default all pieces cost the same.
            at_once: As for `run`.
            is_cancelled: Called from other threads. Once it returns True, tasks may end early, or the run ends with
                `concurrent.futures.CancelledError`, after which no task runs any more.
        """

    def merge_groups(
        self,
        readings: Sequence[GroupReading],
        merge: Callable[[Sequence[Sequence[RecordBatch]]], Result],
        schema: ArrowSchema,
        size_bytes: int,
        temp_dir: str | None = None,
    ) -> Iterator[Result]:
        """Read rows, bring those of each group together, and yield what `merge` makes of each group.

        With two readings (two versions of a table) and two groups, `merge` is called twice:

            merge([batches of group 0 of the first reading, batches of group 0 of the second reading])
            merge([batches of group 1 of the first reading, batches of group 1 of the second reading])

        Groups come in no order, and those without rows may be left out.

        Args:
            readings: What is read.
            merge: Gets the batches of one group, a list per reading. It can be pickled.
            schema: The schema of all batches.
            size_bytes: About the bytes of all batches; the engine chooses the number of groups by it.
            temp_dir: Where batches are kept in a file if they do not fit in memory. A cluster keeps them itself.

        Raises:
            StorageFailed: If a temporary file cannot be written; and what the tasks raise.
            NoSpace: If there is no room for it.
        """

    def abandon(self) -> None:
        """Ask for the end of what still runs in other processes, without waiting for it.

        It is called when this process is about to end, also from a signal handler, and takes two seconds at the most.
        """

    def close(self) -> None:
        """Release what the engine holds. It runs nothing afterwards."""
