"""`deltacli log compact TABLE`."""

from __future__ import annotations

from operator import itemgetter
from typing import Annotated

import typer

from deltacli.cli.options import OutputFormat, Run, TableArgument
from deltacli.cli.render.json import envelope, write_document, write_lines
from deltacli.cli.render.state import Section, write_sections
from deltacli.quantities import format_count, format_size, plural

EXIT_CODES = (0, 2, 3, 4, 7, 70)


def compact(
    run: Run,
    table: TableArgument,
    first: Annotated[int, typer.Option("--from", metavar="X", help="The first commit.", show_default=False)],
    last: Annotated[int, typer.Option("--to", metavar="Y", help="The last commit.", show_default=False)],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be written, and write nothing.")] = False,
) -> None:
    """Write a log compaction: commits X to Y in one file.

    \b
    Readers that know compactions read it in the place of its commits. Every
    remove and every removed domain is kept, whatever its age, so that it is
    right beside any checkpoint. It is read back and compared with the commits.
    An existing file is never replaced.

    \b
    Examples:
      deltacli log compact ./tbl --from 11 --to 40
      deltacli log compact ./tbl --from 11 --to 40 --dry-run
    """
    from deltacli.operations.compact_log import compact_log
    from deltacli.operations.table import Table

    opened = Table(run.open(table), clock=run.clock, progress=run.progress)
    found = compact_log(opened, first, last, dry_run=dry_run)
    with run.sink() as sink:
        match run.format:
            case OutputFormat.JSON:
                document = envelope("deltacli.log-compact", opened.uri, complete=True) | found.as_json()
                write_document(sink, document, indent=run.terminal.is_terminal)
            case OutputFormat.NDJSON:
                write_lines(sink, [{"table": opened.uri, **found.as_json()}], kind="log-compact")
            case OutputFormat.CSV:
                from deltacli.cli.render.columns import Column, write_csv

                columns = [Column(name, itemgetter(name)) for name in ("path", "sizeBytes")]
                write_csv(sink, columns, [found.as_json()])
            case OutputFormat.TABLE:
                outcome = "would be written" if found.dry_run else "was there already" if found.skipped else "written"
                commits = plural(last - first + 1, "commit")
                actions = ", ".join(f"{format_count(count)} {kind}" for kind, count in sorted(found.actions.items()))
                sections = [
                    Section("table", [opened.uri]),
                    Section("compaction", [f"{found.path}, {outcome}"]),
                    Section("stands for", [f"{commits}, {format_size(found.commit_bytes)}"]),
                    Section("size", [format_size(found.size_bytes)]),
                    Section("actions", [actions]),
                ]
                write_sections(sink, run.terminal, sections)
