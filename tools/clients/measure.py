"""What clients do with each table of `tables`: whether they read its rows, and whether they append to it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from deltacli import open_table
from deltacli.errors import DeltacliError
from tests.support.row_counts import Rows, count_rows
from tools.clients.asking import Question, ask


class Access(NamedTuple):
    """Whether a client read a table and appended to it, and why not; None where that could not be judged."""

    reads: bool | None
    writes: bool | None
    why_not_read: str | None = None
    why_not_written: str | None = None


def measure(python: Path, client: str, tables: Sequence[Path], work: Path) -> tuple[str, list[Access]]:
    """Return the version of a client, and what it does with tables. The tables are written to; `work` is empty."""
    places = [work / f"{number}.arrow" for number in range(len(tables))]
    version, refusals = ask(python, client, [Question(path, to=to) for path, to in zip(tables, places, strict=True)])
    read = [
        (None, refusal) if (ours := rows_of(path)) is None else _compared(ours, to, refusal, client)
        for path, to, refusal in zip(tables, places, refusals, strict=True)
    ]
    written = _written(python, client, tables, work)
    return version, [
        Access(reads, writes, why_not, why_not_written)
        for (reads, why_not), (writes, why_not_written) in zip(read, written, strict=True)
    ]


class Content(NamedTuple):
    """The columns and the rows of a table."""

    names: list[str]
    rows: Rows
    batches: list[Any]  # Any: pyarrow has no types


def rows_of(path: Path) -> Content | None:
    """Return what deltacli reads in the newest version; None where it reads nothing."""
    try:
        scan = open_table(path).snapshot().scan()
        names, batches = list(scan.schema.names), list(scan)
    except DeltacliError:
        return None
    return Content(names, count_rows(batches, names), batches)


def _compared(ours: Content, place: Path, refusal: str | None, client: str) -> tuple[bool, str | None]:
    if refusal is not None:
        return False, refusal
    with pa.memory_map(str(place)) as source:
        theirs = pa.ipc.open_file(source).read_all()
        if set(ours.names) != set(theirs.schema.names):
            return False, "other columns"
        same = comparable(ours.rows, client) == comparable(count_rows([theirs], ours.names), client)
    return same, None if same else "other values"


def comparable(rows: Rows, client: str) -> Rows:
    """Return rows without what the types of a client cannot express: chdb has text for binary values, and neither
    null arrays nor null maps and structs.
    """
    if client != "chdb":
        return rows
    found: Rows = Rows()
    for row, count in rows.items():
        found[tuple(_without_nulls(value) for value in row)] += count
    return found


def _without_nulls(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, tuple):
        inner = tuple(_without_nulls(one) for one in value if one != "list")
        return None if all(one is None for one in inner) else inner
    return value


def _written(python: Path, client: str, tables: Sequence[Path], work: Path) -> list[tuple[bool | None, str | None]]:
    """Return for each table whether a row that was appended is in it, and why not."""
    before = [rows_of(path) for path in tables]
    asked, questions = [], []
    for number, (path, content) in enumerate(zip(tables, before, strict=True)):
        if content is None or not content.rows:
            continue
        row = pa.Table.from_batches([one for one in content.batches if one.num_rows][:1]).slice(0, 1)
        place = work / f"{number}.rows.arrow"
        with pa.OSFile(str(place), "wb") as sink, pa.ipc.new_file(sink, row.schema) as writer:
            writer.write_table(row)
        asked.append((number, count_rows([row], content.names)))
        questions.append(Question(path, append=place))
    found: list[tuple[bool | None, str | None]] = [(None, None)] * len(tables)
    _, refusals = ask(python, client, questions)
    for (number, added), refusal in zip(asked, refusals, strict=True):
        old, new = before[number], rows_of(tables[number])
        assert old is not None
        same = new is not None and new.rows == old.rows + added
        found[number] = same and refusal is None, refusal or (None if same else "another row")
    return found
