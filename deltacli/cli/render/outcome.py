"""One result in each format: a document, a line, rows of CSV, or sections for the eye."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from deltacli.cli.options.shared import OutputFormat, Run
from deltacli.cli.render.json import envelope, write_document, write_lines

if TYPE_CHECKING:
    from deltacli.cli.render.state import Section


def write_outcome(
    run: Run,
    kind: str,
    table: str,
    content: Mapping[str, Any],  # Any: JSON values
    sections: Callable[[], Sequence[Section]],
    *,
    rows: Iterable[Mapping[str, Any]],
    columns: Sequence[str],
) -> None:
    """Write what a command did to a table: the document `deltacli.KIND`, its line in NDJSON, `rows` of it in CSV."""
    with run.sink() as sink:
        match run.format:
            case OutputFormat.JSON:
                document = envelope(f"deltacli.{kind}", table, complete=True) | dict(content)
                write_document(sink, document, indent=run.terminal.is_terminal)
            case OutputFormat.NDJSON:
                write_lines(sink, [{"table": table, **content}], kind=kind)
            case OutputFormat.CSV:
                from deltacli.cli.render.columns import Column, write_csv

                write_csv(sink, [Column(name, itemgetter(name)) for name in columns], rows)
            case _:
                from deltacli.cli.render.state import write_sections

                write_sections(sink, run.terminal, sections())
