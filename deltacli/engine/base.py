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
"""The shared value that tells a task of `regroup` the number of groups."""
GROUP_BYTES = 64 << 20
"""About the bytes of a group: Arrow needs several times as much to compare it."""


class Reading(NamedTuple):
    """What `regroup` distributes: the rows of pieces of a table. The task yields batches with the group of each."""

    task: Task[Any, Iterator[tuple[int, RecordBatch]]]  # Any: a piece with `weight`
    pieces: Iterable[Any]
    stores: TableStores
    shared: Mapping[str, Any]  # Any: values of each operation


def never() -> bool:
    return False


class Engine(Protocol):
    """Runs pieces of work, several at a time.

    `run` and `stream` always run in this process, and accept any function. `spread` is the verb of distribution: it
    runs tasks (`deltacli.work.task`) in this process or on a cluster.
    """

    @property
    def may_repeat(self) -> bool:
        """True where tasks run in other processes, perhaps more than once for a piece: what a first attempt deleted, a
        second one finds missing, and hashes that Python seeds per process differ.
        """

    def run(
        self, work: Callable[[Piece], Result], pieces: Iterable[Piece], *, at_once: int | None = None
    ) -> Iterator[Result]:
        """Yield the result of every piece, in the order of the pieces.

        Few are in flight at a time, so results can be large. The first piece that raises ends the run with its error; a
        caller that stops early stops the pieces that have not begun. `at_once` is the useful number of concurrent
        pieces, for pieces that wait for a store instead of computing; the default suits computing.
        """

    def stream(self, work: Callable[[Piece], Iterator[Result]], pieces: Iterable[Piece]) -> Iterator[Result]:
        """Yield what the pieces yield, a few pieces at once and a few results ahead.

        The order depends only on the pieces. The first error ends the stream; a caller that stops early closes the
        started pieces.
        """

    def spread(
        self,
        task: Task[Piece, Result],
        pieces: Iterable[Piece],
        stores: TableStores,
        *,
        shared: Mapping[str, Any] = NOTHING_SHARED,  # Any: values of each operation
        weigh: Callable[[Piece], int] | None = None,
        at_once: int | None = None,
        is_cancelled: Callable[[], bool] = never,
    ) -> Iterator[Result]:
        """Yield the result of every piece, in the order of the pieces, wherever the pieces ran.

        Every piece runs at least once, perhaps several times at the same time; one result of each is returned. The
        first piece that raises, in this order, ends the run with its error. A caller that stops early cancels the
        others. `shared` values reach each process once; a task finds them, and the `stores`, in its context. `weigh`
        returns the relative cost of a piece (default: all cost the same); `at_once` is as in `run`.

        `is_cancelled` is called from other threads. Once it returns True, tasks may end early, or the run ends with
        `concurrent.futures.CancelledError`, after which no task runs any more.
        """

    def regroup(
        self,
        readings: Sequence[Reading],
        merge: Callable[[Sequence[Sequence[RecordBatch]]], Result],
        schema: ArrowSchema,
        size_bytes: int,
        temp_dir: str | None = None,
    ) -> Iterator[Result]:
        """Yield what `merge` makes of each group: of its batches, in `schema`, of each reading. Groups are in no order,
        and those without rows may be left out.

        `size_bytes` is about what all batches have; the engine chooses the number of groups by it. Batches that do not
        fit in memory are kept in a file in `temp_dir`, or by the cluster. Raises what the tasks raise, StorageFailed
        and NoSpace.
        """

    def abandon(self) -> None:
        """Ask for the end of what still runs in other processes, without waiting for it: this process is about to end.

        Can be called from a signal handler. It takes two seconds at the most.
        """

    def close(self) -> None:
        """Release what the engine holds. It runs nothing afterwards."""
