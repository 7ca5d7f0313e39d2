"""The formats of stdout: one row and one function each.

A format writes any result (`deltacli.cli.results.Result`) to a stream. It handles streams, not tables; a result has a
document, lines, rows and sections, and does not handle streams. To add a format, write a module with a function
write_NAME(sink, result, terminal) and add a row to `FORMATS`; options, completions and manual pages are derived from
it. `table`, `json`, `ndjson` and `parquet` write a result as it is; their functions are here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from deltacli.cli.terminal.term import Cleaning
from deltacli.core.documents import dumps
from deltacli.core.errors import DeltacliError

if TYPE_CHECKING:
    from deltacli.cli.render.data.rows import FramedResult
    from deltacli.cli.results import EncodedItems, Result
    from deltacli.cli.terminal.term import Terminal

    Write = Callable[..., None]
    """Takes a stream, a result and a terminal, and a template where the format has one."""


class Content(Enum):
    """The content that a format needs a result to have."""

    ANY = "any result"
    FINDINGS = "findings of validate"
    ROWS = "rows of a table"


class Format(NamedTuple):
    """A row of the registry; `module` has its function. `endings`: names of files that choose this format.

    `is_streamed`: items are written as they come. `errors_are_json`: notes and errors on stderr are objects, too.
    `is_paged`: long results go through the pager.
    """

    name: str
    module: str = __name__
    content: Content = Content.ANY
    errors_are_json: bool = False
    is_streamed: bool = False
    is_paged: bool = False
    cleaning: Cleaning = Cleaning.JSON
    endings: tuple[str, ...] = ()
    template: str | None = None
    """The text of `--template`."""

    @property
    def is_for_eyes(self) -> bool:
        """True for the text format, the only one that is followed by the next command."""
        return self is TABLE

    def write(self, sink: BinaryIO, result: Result, terminal: Terminal) -> None:
        write: Write = getattr(import_module(self.module), f"write_{self.name}")
        write(sink, result, terminal, *([] if self.template is None else [self.template]))


TABLE = Format("table", is_paged=True, cleaning=Cleaning.NONE)
JSON = Format("json", errors_are_json=True, is_paged=True, endings=(".json",))
NDJSON = Format("ndjson", errors_are_json=True, is_streamed=True, endings=(".ndjson", ".jsonl"))
CSV = Format("csv", "deltacli.cli.formats.csv", cleaning=Cleaning.TEXT, endings=(".csv",))
MARKDOWN = Format(
    "markdown", "deltacli.cli.formats.csv", is_paged=True, cleaning=Cleaning.NONE, endings=(".md", ".markdown")
)
TEMPLATE = Format("template", "deltacli.cli.formats.template", is_streamed=True, cleaning=Cleaning.NONE)
"""What `--template` chooses; it has no name on the command line."""
PARQUET = Format("parquet", content=Content.ROWS, endings=(".parquet",))

FORMATS: Mapping[str, Format] = {
    row.name: row
    for row in (
        TABLE,
        JSON,
        NDJSON,
        CSV,
        MARKDOWN,
        Format("sarif", "deltacli.cli.formats.findings", Content.FINDINGS, endings=(".sarif",)),
        Format("junit", "deltacli.cli.formats.findings", Content.FINDINGS),
        Format("github", "deltacli.cli.formats.findings", Content.FINDINGS),
        PARQUET,
    )
}
"""Name on the command line -> format, in the order in which help lists them."""


FOREIGN_ENDINGS = (
    *(".arrow", ".avro", ".feather", ".gz", ".html", ".orc", ".tsv"),
    *(".xls", ".xlsx", ".xml", ".yaml", ".yml", ".zip", ".zst"),
)
"""Endings of file names that ask for what no format here is."""


def format_named(output: str) -> Format | None:
    """Return the format that the name of a file chooses; None for a name that leaves it open."""
    return next((row for row in FORMATS.values() if row.endings and output.lower().endswith(row.endings)), None)


def _enum(name: str, values: Iterable[str]) -> type[StrEnum]:
    members = [(value.upper(), value) for value in values]
    return StrEnum(name, members)  # type: ignore[return-value]  # members that mypy cannot infer


def choices(content: Content = Content.ANY) -> type[StrEnum]:
    """Return the names of the formats that can write this content, as an enum for a command's options."""
    names = [row.name for row in FORMATS.values() if row.content in (Content.ANY, content)]
    return _enum(f"{content.name.title()}Format", names)


AnyFormat = choices()
TableFormat = _enum("TableFormat", [TABLE.name])
"""Of results that are one text, script or path."""
EveryFormat = _enum("EveryFormat", FORMATS)
FindingFormat = choices(Content.FINDINGS)
RowFormat = choices(Content.ROWS)


def write_table(sink: BinaryIO, result: Result, terminal: Terminal) -> None:
    """Write text for people, drawn on a terminal, not truncated in a pipe."""
    result.draw(sink, terminal)


def write_json(sink: BinaryIO, result: Result, terminal: Terminal) -> None:
    """Write one document and a final LF, indented on a terminal; streamed items are written as they come. After a fault
    among them, the document ends with `"complete":false`.
    """
    document = result.document()
    if document.items is None:
        sink.write(dumps(document.fields, indent=terminal.is_terminal) + b"\n")
        return
    fields = {name: value for name, value in document.fields.items() if name != "complete"}
    sink.write(dumps(fields)[:-1] + b',"items":[')
    separator = b"\n"
    try:
        for block in document.items:
            sink.write(separator)
            sink.write(block.data[:-2])
            separator = b",\n"
    except DeltacliError:
        sink.write(b'\n],"complete":false}\n')
        raise
    sink.write(b"\n]," + dumps(document.after())[1:] + b"\n")


def write_ndjson(sink: BinaryIO, result: Result, _terminal: Terminal) -> None:
    """Write an item per line with its `type` as they come, then the end line, without which output is incomplete."""
    count = 0

    def emit(block: EncodedItems) -> None:
        nonlocal count
        sink.write(block.data)
        if result.is_live:
            sink.flush()
        count += block.count

    complete = result.lines(emit)
    sink.write(dumps({"type": "end", "complete": complete, "count": count}) + b"\n")


def write_parquet(sink: BinaryIO, result: FramedResult, _terminal: Terminal) -> None:
    """Write the rows of a result whose rows are Arrow columns: streamed into a file with row groups of bounded size,
    which is complete or absent.
    """
    from deltacli.work.parquet_writing import write_parquet as write_rows

    write_rows(sink, *result.frames())
