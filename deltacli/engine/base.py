"""The engine port."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")


class Engine(Protocol):
    """Runs pieces of work, several at a time."""

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
