"""An engine that treats tasks as a cluster does: everything is pickled, runs twice, and out of order."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from deltacli.core.errors import DeltacliError
from deltacli.engine.base import NOTHING_SHARED, is_never_cancelled
from deltacli.engine.embedded import EmbeddedEngine
from deltacli.work.table_stores import TableStores
from deltacli.work.task import Piece, Result, Task, TaskContext

_WINDOW = 64


@dataclass
class Shipped:
    """What was sent: the name of each task, with its number of pieces and the largest pickled piece and result."""

    pieces: dict[str, int] = field(default_factory=dict)
    piece_bytes: dict[str, int] = field(default_factory=dict)
    result_bytes: dict[str, int] = field(default_factory=dict)

    def note(self, name: str, piece: bytes, result: bytes) -> None:
        self.pieces[name] = self.pieces.get(name, 0) + 1
        self.piece_bytes[name] = max(self.piece_bytes.get(name, 0), len(piece))
        self.result_bytes[name] = max(self.result_bytes.get(name, 0), len(result))


class ShippingEngine(EmbeddedEngine):
    """Runs each piece twice, in a random order within a window, from pickles, and compares the two results.

    Tasks whose results may differ between attempts, such as the name of a file they write, are in `varying`; the
    second attempt is the one that counts.
    """

    may_repeat = True

    def __init__(self, *, seed: int = 0, varying: tuple[str, ...] = ()) -> None:
        super().__init__(1)
        self.shipped = Shipped()
        self._order = random.Random(seed)
        self._varying = varying

    def run_tasks(
        self,
        task: Task[Piece, Result],
        pieces: Iterable[Piece],
        stores: TableStores,
        *,
        shared: Mapping[str, Any] = NOTHING_SHARED,  # Any: values of each operation
        weigh: Callable[[Piece], int] | None = None,  # noqa: ARG002
        at_once: int | None = None,  # noqa: ARG002
        is_cancelled: Callable[[], bool] = is_never_cancelled,  # noqa: ARG002
    ) -> Iterator[Result]:
        sent = pickle.dumps(task)
        values = pickle.dumps(dict(shared))
        name = getattr(task, "__name__", type(task).__name__)
        remaining = iter(pieces)
        while window := [pickle.dumps(piece) for piece in islice(remaining, _WINDOW)]:
            results = [b""] * len(window)
            for number in self._order.sample(range(len(window)), len(window)):
                first, results[number] = (self._attempt(sent, window[number], values, stores) for _ in range(2))
                if name not in self._varying:
                    assert _same(first, results[number]), f"{name} is not repeatable"
                self.shipped.note(name, window[number], results[number])
            for answer in map(pickle.loads, results):
                if isinstance(answer, DeltacliError):
                    raise answer
                yield answer

    @staticmethod
    def _attempt(sent: bytes, piece: bytes, values: bytes, stores: TableStores) -> bytes:
        context = TaskContext(stores, pickle.loads(values))
        try:
            return pickle.dumps(pickle.loads(sent)(pickle.loads(piece), context))
        except DeltacliError as fault:
            return pickle.dumps(fault.with_traceback(None))


def _same(first: bytes, second: bytes) -> bool:
    """Return whether two pickled results are equal: as bytes, or as values."""
    if first == second:
        return True
    one, other = pickle.loads(first), pickle.loads(second)
    return repr(one) == repr(other) if isinstance(one, DeltacliError) else bool(one == other)
