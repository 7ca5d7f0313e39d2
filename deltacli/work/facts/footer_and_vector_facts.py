"""Read the facts about footers and those about deletion vectors with one task, so that one run has both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from deltacli.work.facts.footer_files import FooterPiece, FooterRead, ReadFooters
from deltacli.work.facts.vector_facts import ReadVectors, VectorPiece, VectorRead
from deltacli.work.task import TaskContext


@dataclass(frozen=True, slots=True)
class ReadFootersAndVectors:
    """Reads the footers, or the vectors, of a piece for their facts."""

    quick_seconds: ClassVar[float] = ReadFooters.quick_seconds

    def __call__(self, piece: FooterPiece | VectorPiece, context: TaskContext) -> list[FooterRead] | list[VectorRead]:
        if isinstance(piece, VectorPiece):
            return ReadVectors(keeps_rows=False)(piece, context)
        return ReadFooters()(piece, context)


def count_facts(piece: FooterPiece | VectorPiece) -> int:
    """Return the number of footers or vectors."""
    return len(piece.vectors) if isinstance(piece, VectorPiece) else len(piece)
