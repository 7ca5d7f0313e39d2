"""What clients do with each table of `tables`: whether they read its rows, and whether they append to it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from deltacli import Table, open_table
from deltacli.core.errors import DeltacliError
from deltacli.rules.framework.base import Severity
from tests.support.row_counts import Rows, count_rows
from tools.clients.asking import Question, ask, served
from tools.clients.probe import NOT_CONVERTED

OF_SHARES = "delta-sharing"
"""The client that reads tables from a server, and writes none."""
DEPENDS = "depends on the data: "
"""How the reason begins where a client does right with some rows of a table, and wrong with others."""
_EXACT_FLOATS = 2**53
_Verdict = tuple[bool | None, str | None]


class Access(NamedTuple):
    """Whether a client read a table and appended to it, and why not; None where that could not be judged."""

    reads: bool | None
    writes: bool | None
    why_not_read: str | None = None
    why_not_written: str | None = None


def measure(python: Path, client: str, tables: Sequence[Path], work: Path) -> tuple[str, list[Access]]:
    """Return the version of a client, and what it does with tables. One that writes changes them; `work` is empty."""
    contents = [rows_of(path) for path in tables]
    places = [work / f"{number}.arrow" for number in range(len(tables))]
    opened: AbstractContextManager[Sequence[Path | str]]
    opened = served(tables, work) if client == OF_SHARES else nullcontext(tables)
    with opened as addresses:
        asked = zip(addresses, places, contents, strict=True)
        questions = [Question(address, to, like=_types(ours, to)) for address, to, ours in asked]
        version, refusals = ask(python, client, questions)
    read = [
        (None, refusal) if ours is None else _compared(ours, to, refusal, client)
        for ours, to, refusal in zip(contents, places, refusals, strict=True)
    ]
    written: list[_Verdict] = [(None, None)] * len(tables)
    if client != OF_SHARES:
        written = _written(python, client, tables, contents, work)
    return version, [
        Access(reads, writes, why_not, why_not_written)
        for (reads, why_not), (writes, why_not_written) in zip(read, written, strict=True)
    ]


class Content(NamedTuple):
    """The columns and the rows of a table."""

    schema: Any  # Any: pyarrow has no types
    rows: Rows
    batches: list[Any]

    @property
    def names(self) -> list[str]:
        return list(self.schema.names)


def open_at(path: Path) -> Table:
    """Open a table, whose files may be beside it."""
    return open_table(path, allow_external=[path.parent.as_uri()])


def rows_of(path: Path) -> Content | None:
    """Return what deltacli reads in the newest version; None where it reads nothing."""
    try:
        scan = open_at(path).snapshot().scan()
        schema, batches = scan.schema, list(scan)
    except DeltacliError:
        return None
    return Content(schema, count_rows(batches, schema.names), batches)


def _types(ours: Content | None, place: Path) -> Path:
    """Write the types of a table's columns beside `place`, and return where."""
    like = place.with_suffix(".types")
    schema = pa.schema([]) if ours is None else ours.schema
    with pa.OSFile(str(like), "wb") as sink, pa.ipc.new_file(sink, schema):
        return like


def _compared(ours: Content, place: Path, refusal: str | None, client: str) -> _Verdict:
    if refusal is not None:
        return None if refusal.startswith(NOT_CONVERTED) else False, refusal
    with pa.memory_map(str(place)) as source:
        theirs = pa.ipc.open_file(source).read_all()
        if set(ours.names) != set(theirs.schema.names):
            return False, "other columns"
        same = comparable(ours.rows, client) == comparable(count_rows([theirs], ours.names), client)
    if not same and client == OF_SHARES and _is_inexact(ours.rows):
        return None, "integers that pandas has as floats"
    if same and not ours.rows:
        return None, "no rows, which show no wrong value"
    return same, None if same else "other values"


def comparable(rows: Rows, client: str) -> Rows:
    """Return rows without what the types of a client cannot express: chdb has text for binary values, and neither
    null arrays nor null maps and structs; pandas has NaN for null.
    """
    if client not in _WITHOUT:
        return rows
    found: Rows = Rows()
    for row, count in rows.items():
        found[tuple(map(_WITHOUT[client], row))] += count
    return found


def _is_inexact(rows: Rows) -> bool:
    """Return whether a column has a null and an integer with more digits than a float: pandas rounds these."""
    columns = [list(_leaves(column)) for column in zip(*rows, strict=True)]
    return any(
        None in leaves and any(type(one) is int and abs(one) > _EXACT_FLOATS for one in leaves) for leaves in columns
    )


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, tuple):
        for one in value:
            yield from _leaves(one)
    else:
        yield value


def _without_nan(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(map(_without_nan, value))
    return None if value == "nan" else value


def _without_nulls(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, tuple):
        inner = tuple(_without_nulls(one) for one in value if one != "list")
        return None if all(one is None for one in inner) else inner
    return value


_WITHOUT: Mapping[str, Callable[[object], object]] = {"chdb": _without_nulls, OF_SHARES: _without_nan}


def _written(
    python: Path, client: str, tables: Sequence[Path], before: Sequence[Content | None], work: Path
) -> list[_Verdict]:
    """Return for each table whether the client appends its rows, and why not.

    One row of each data file is appended, each to a copy of the table as it was `before`: an append that leaves a
    damaged table says nothing about the next one.
    """
    appends = [
        append
        for number, (path, content) in enumerate(zip(tables, before, strict=True))
        for append in _prepare_appends(number, path, content, work)
    ]
    questions = [Question(append.copy, append=append.file) for append in appends]
    _, refusals = ask(python, client, questions)

    outcomes: list[list[tuple[str, str | None]]] = [[] for _ in tables]
    for append, refusal in zip(appends, refusals, strict=True):
        content = before[append.table]
        assert content is not None
        outcomes[append.table].append((append.values, refusal or find_write_fault(append, content)))
    return [summarize(found) for found in outcomes]


class Append(NamedTuple):
    """A row to append: the number of its table, a copy of this table, an Arrow file with the row, and the row itself.

    `values` are its values in words. `version` is that of the table before.
    """

    table: int
    copy: Path
    file: Path
    row: Rows
    values: str
    version: int


def _prepare_appends(number: int, path: Path, content: Content | None, work: Path) -> Iterator[Append]:
    """Write the first row of each data file of a table into an Arrow file, and yield it with a copy of the table."""
    batches = [] if content is None else [batch for batch in content.batches if batch.num_rows]
    for place, batch in enumerate(batches):
        assert content is not None
        row = pa.Table.from_batches([batch]).slice(0, 1)
        file = work / f"{number}-{place}.rows.arrow"
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, row.schema) as writer:
            writer.write_table(row)
        # Beside the table, as files outside of it may be read there.
        copy = shutil.copytree(path, path.with_name(f"{path.name}-append-{place}"))
        version = open_at(copy).snapshot().version
        yield Append(number, copy, file, count_rows([row], content.names), repr(row.to_pylist()[0]), version)


def find_write_fault(append: Append, before: Content) -> str | None:
    """Return what is wrong with a table after a row was appended to what was in it before; None if nothing is.

    Our own reader is lenient: it finds a file whose path is spelled otherwise, and takes an empty text for null. Other
    engines are not. So what the client wrote has to be right by the protocol, too.
    """
    content = rows_of(append.copy)
    if content is None or content.rows != before.rows + append.row:
        return "other rows"
    return next(_find_odd_adds(append.copy, since=append.version), None)


def _find_odd_adds(path: Path, *, since: int) -> Iterator[str]:
    """Yield what engines do not agree on in the files that were added after version `since`.

    Their paths have to name them after one decoding, as the protocol defines it, and `validate` must not warn of their
    paths and partition values.
    """
    for version in range(since + 1, open_at(path).snapshot().version + 1):
        lines = (path / "_delta_log" / f"{version:020}.json").read_text("utf-8").splitlines()
        for add in (json.loads(line)["add"] for line in lines if '"add"' in line):
            if not (path / unquote(add["path"])).is_file():
                yield f"the log names a file that is not there: {add['path']}"
    found = open_at(path).validate(level="log", select=["partition.*", "path.*"]).findings
    for finding in found:
        is_new = finding.place.version is not None and finding.place.version > since
        if is_new and finding.severity is not Severity.INFO:
            yield f"{finding.rule.id}: {finding.seen}"


def summarize(outcomes: Sequence[tuple[str, str | None]]) -> _Verdict:
    """Return whether all rows were appended rightly, and why not.

    Where some were and others were not, it depends on the data.
    """
    faults = [(values, fault) for values, fault in outcomes if fault is not None]
    if not faults:
        return (True, None) if outcomes else (None, None)
    values, fault = faults[0]
    why = f"{values}: {fault}"
    if len(faults) < len(outcomes):
        return None, f"{DEPENDS}{why}"
    return False, why
