"""`deltacli reach TABLE`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.cli.options.common_options import TableArgument
from deltacli.cli.options.run import Run
from deltacli.core.hints import is_shared, quoted_table
from deltacli.core.units import duration
from deltacli.operations.reach.request import ReachRequest

if TYPE_CHECKING:
    from deltacli.operations.reach.table_reach import TableReach

EXIT_CODES = (0, 2, 3, 7, 70)


def reach(run: Run, table: TableArgument, *, request: ReachRequest) -> None:
    """Show which versions can be read, by what, and until when.

    \b
    For each range of versions: whether the log can be replayed, and whether data
    files, deletion vectors and recorded change data are there; when the next
    log expire or vacuum may take them, by the retentions of the table; and
    whether Delta-Spark reads versions of that age. Files are looked for, not read.
    With --retention, also what a log expire and a vacuum with this retention
    would free, and the versions that it would cost. Nothing is changed.

    \b
    Examples:
      deltacli reach ./tbl
      deltacli reach ./tbl --retention 7d  # what would it free and cost?
      deltacli reach ./tbl --format markdown  # for a pull request
      deltacli reach ./tbl --json
    """
    from deltacli.cli.render.versions.reach import reach_result
    from deltacli.operations.reach.table_reach import find_reach

    found = find_reach(run.open_table(table), request)
    run.write(reach_result(found))
    if run.is_on_screen and not is_shared(table):
        run.say_next(_next(found, request, quoted_table(table)))


def _next(found: TableReach, request: ReachRequest, name: str) -> str:
    """Return the command that shows what is missing, what would be deleted, or who made the versions."""
    if found.newest_version not in found.readable:
        return f"deltacli validate {name} --level storage"
    if request.retention_ms is not None:
        return f"deltacli vacuum {name} --retention {duration(request.retention_ms)} --dry-run"
    return f"deltacli vacuum {name} --dry-run" if found.next and found.next.lost else f"deltacli history {name}"
