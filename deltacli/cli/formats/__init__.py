"""The formats of stdout: one row and one function each.

A format writes any result (`deltacli.cli.results.Result`) to a stream. It handles streams, not tables; a result has a
document, lines, rows and sections, and does not handle streams. To add a format, write a module with a function
write_NAME(sink, result, terminal) and add a row to `FORMATS`; options, completions and manual pages are derived from
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from deltacli.cli.terminal.term import Cleaning

if TYPE_CHECKING:
    from deltacli.cli.results import Result
    from deltacli.cli.terminal.term import Terminal

    Write = Callable[[BinaryIO, Result, Terminal], None]


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
    module: str
    content: Content = Content.ANY
    errors_are_json: bool = False
    is_streamed: bool = False
    is_paged: bool = False
    cleaning: Cleaning = Cleaning.JSON
    endings: tuple[str, ...] = ()

    @property
    def is_for_eyes(self) -> bool:
        """True for the text format, the only one that is followed by the next command."""
        return self is TABLE

    def write(self, sink: BinaryIO, result: Result, terminal: Terminal) -> None:
        """Write a result."""
        write: Write = getattr(import_module(self.module), f"write_{self.name}")
        write(sink, result, terminal)


TABLE = Format("table", "deltacli.cli.formats.direct", is_paged=True, cleaning=Cleaning.NONE)
JSON = Format("json", "deltacli.cli.formats.direct", errors_are_json=True, is_paged=True, endings=(".json",))
NDJSON = Format(
    "ndjson", "deltacli.cli.formats.direct", errors_are_json=True, is_streamed=True, endings=(".ndjson", ".jsonl")
)
CSV = Format("csv", "deltacli.cli.formats.csv", cleaning=Cleaning.TEXT, endings=(".csv",))
MARKDOWN = Format(
    "markdown", "deltacli.cli.formats.markdown", is_paged=True, cleaning=Cleaning.NONE, endings=(".md", ".markdown")
)
PARQUET = Format("parquet", "deltacli.cli.formats.direct", Content.ROWS, endings=(".parquet",))

FORMATS: Mapping[str, Format] = {
    row.name: row
    for row in (
        TABLE,
        JSON,
        NDJSON,
        CSV,
        MARKDOWN,
        Format("sarif", "deltacli.cli.formats.sarif", Content.FINDINGS, endings=(".sarif",)),
        Format("junit", "deltacli.cli.formats.junit", Content.FINDINGS),
        Format("github", "deltacli.cli.formats.github", Content.FINDINGS),
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
