"""Define the formats of `--format`.

To add a format, write a module in this package with a function that takes a stream, a result and the terminal, and add
a row to `FORMATS`. Options, completions and manual pages are derived from it.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, StrEnum
from typing import BinaryIO, NamedTuple

from deltacli.cli.output.results import Result
from deltacli.cli.terminal.capabilities import Terminal
from deltacli.cli.terminal.characters import Escaping


class Content(Enum):
    """The content that a result must have to be written in a format."""

    ANY = "any result"
    FINDINGS = "findings of validate"
    ROWS = "rows of a table"


class Format(NamedTuple):
    """A format of results.

    Attributes:
        name: The value of `--format`.
        writer: The function that writes a result, as `module:function`. It is imported when it is called: some
            formats need pyarrow, whose import is slow.
        content: The content that a result must have.
        errors_are_json: Whether notes and errors on stderr are written as JSON, too.
        is_streamed: Whether each item is written as soon as it is available.
        is_paged: Whether long results are shown in a pager.
        escaping: The way to escape control characters if stdout is a terminal.
        endings: File name extensions that select this format for `--output`.
        template: The value of `--template`; None for other formats.
    """

    name: str
    writer: str
    content: Content = Content.ANY
    errors_are_json: bool = False
    is_streamed: bool = False
    is_paged: bool = False
    escaping: Escaping = Escaping.JSON
    endings: tuple[str, ...] = ()
    template: str | None = None

    @property
    def is_for_people(self) -> bool:
        """Return True for the text that people read on a terminal."""
        return self is TABLE

    def write(self, sink: BinaryIO, result: Result, terminal: Terminal) -> None:
        """Write a result to a stream."""
        write: Callable[..., None] = pkgutil.resolve_name(self.writer)
        if self.template is None:
            write(sink, result, terminal)
        else:
            write(sink, result, terminal, self.template)


def write_table(sink: BinaryIO, result: Result, terminal: Terminal) -> None:
    """Write text for people, drawn on a terminal, not truncated in a pipe."""
    result.draw(sink, terminal)


TABLE = Format(
    name="table",
    writer="deltacli.cli.output.formats:write_table",
    is_paged=True,
    escaping=Escaping.NONE,
)
JSON = Format(
    name="json",
    writer="deltacli.cli.output.documents:write_json",
    errors_are_json=True,
    is_paged=True,
    endings=(".json",),
)
NDJSON = Format(
    name="ndjson",
    writer="deltacli.cli.output.documents:write_ndjson",
    errors_are_json=True,
    is_streamed=True,
    endings=(".ndjson", ".jsonl"),
)
CSV = Format(
    name="csv",
    writer="deltacli.cli.output.csv_rows:write_csv",
    escaping=Escaping.TEXT,
    endings=(".csv",),
)
MARKDOWN = Format(
    name="markdown",
    writer="deltacli.cli.output.markdown:write_markdown",
    is_paged=True,
    escaping=Escaping.NONE,
    endings=(".md", ".markdown"),
)
SARIF = Format(
    name="sarif",
    writer="deltacli.cli.output.sarif:write_sarif",
    content=Content.FINDINGS,
    endings=(".sarif",),
)
JUNIT = Format(
    name="junit",
    writer="deltacli.cli.output.junit:write_junit",
    content=Content.FINDINGS,
)
GITHUB = Format(
    name="github",
    writer="deltacli.cli.output.github:write_github",
    content=Content.FINDINGS,
)
PARQUET = Format(
    name="parquet",
    writer="deltacli.cli.output.parquet:write_parquet",
    content=Content.ROWS,
    endings=(".parquet",),
)
TEMPLATE = Format(
    name="template",
    writer="deltacli.cli.output.template:write_template",
    is_streamed=True,
    escaping=Escaping.NONE,
)
"""The format of `--template`. It cannot be selected by `--format`."""

FORMATS: Mapping[str, Format] = {
    row.name: row for row in (TABLE, JSON, NDJSON, CSV, MARKDOWN, SARIF, JUNIT, GITHUB, PARQUET)
}
"""Maps values of `--format` to formats, in the order of the help."""

FOREIGN_ENDINGS = (
    ".arrow",
    ".avro",
    ".feather",
    ".gz",
    ".html",
    ".orc",
    ".tsv",
    ".xls",
    ".xlsx",
    ".xml",
    ".yaml",
    ".yml",
    ".zip",
    ".zst",
)
"""File name extensions of formats that deltacli does not support. `--output` refuses them."""


def find_format_by_name(output: str) -> Format | None:
    """Return the format for the extension of a file name; None if no format has this extension."""
    name = output.lower()
    return next((row for row in FORMATS.values() if row.endings and name.endswith(row.endings)), None)


def _make_enum(name: str, values: Iterable[str]) -> type[StrEnum]:
    members = [(value.upper(), value) for value in values]
    return StrEnum(name, members)  # type: ignore[return-value]  # members that mypy cannot infer


def make_format_enum(content: Content = Content.ANY) -> type[StrEnum]:
    """Create an enum of the formats that can write some content, for the option `--format` of a command."""
    names = [row.name for row in FORMATS.values() if row.content in (Content.ANY, content)]
    return _make_enum(f"{content.name.title()}Format", names)


AnyFormat = make_format_enum()
TableFormat = _make_enum("TableFormat", [TABLE.name])
"""For commands whose result is a single text, script or path."""
EveryFormat = _make_enum("EveryFormat", FORMATS)
FindingFormat = make_format_enum(Content.FINDINGS)
RowFormat = make_format_enum(Content.ROWS)
