"""Checks of files hold few of them at a time, even where only some have deletion vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from deltacli.engine.embedded import EmbeddedEngine
from deltacli.operations.validate.inspect_files import FileInspector
from deltacli.work.facts.footer_and_vector_facts import ReadFootersAndVectors
from deltacli.work.facts.footer_files import ListedFile
from deltacli.work.task import TaskContext


def test_files_without_vectors_are_not_read_ahead_in_search_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []

    def views() -> Iterator[Any]:
        for number in range(1_000):
            taken.append(number)
            yield number

    def look(_: object, piece: Any, context: TaskContext) -> list[Any]:
        return []

    class Vectors:
        def pieces(self, view: int) -> list[Any]:
            return [()] if view == 0 else []

        def settle(self, _: int, parts: Iterator[Any]) -> dict[int, Any]:
            return dict(enumerate(parts))

    class Step:
        def advance(self, *_: object, **__: object) -> None: ...

    class Table:
        stores = reads_at_once = None

    inspector: Any = object.__new__(FileInspector)
    inspector._vectors, inspector.engine, inspector.table = Vectors(), EmbeddedEngine(2), Table()
    inspector._footer_pieces = lambda _: [(ListedFile("x", 1),)]
    monkeypatch.setattr(ReadFootersAndVectors, "__call__", look)

    next(inspector._footers_of(views(), Step()))

    assert len(taken) < 10
