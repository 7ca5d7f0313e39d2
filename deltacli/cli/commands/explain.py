"""`deltacli explain TABLE`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltacli.cli.options.common_options import TableArgument
from deltacli.cli.options.run import Run
from deltacli.cli.options.table_formats import Handle, ask
from deltacli.core.hints import is_shared, quoted, quoted_table
from deltacli.operations.explain.request import ChangeKind, ExplainRequest

if TYPE_CHECKING:
    from deltacli.operations.explain.explain import Explanation

EXIT_CODES = (0, 2, 3, 4, 7, 70)


def explain(run: Run, table: TableArgument, *, request: ExplainRequest) -> None:
    """Show which clients read and write a table, and what stops the others.

    \b
    For each client: whether it reads the newest version and appends to it, the
    feature or property that stops it, since which version the table has that,
    and the way out with its cost. Facts about clients are measured with their
    packages or documented, each with its day; what is neither is unknown. With
    --if, the same after a change that is only supposed; a feature that is added
    counts as used. Of a Paimon table: its traits, and the schema since which it
    has them; --if works on Delta tables. Nothing is changed.

    \b
    Examples:
      deltacli explain ./tbl
      deltacli explain ./tbl --client trino=480 --client duckdb
      deltacli explain ./tbl --if add=deletionVectors
      deltacli explain ./tbl --if 'widen=trip:decimal(20,0)' --format markdown
      deltacli explain ./paimon_tbl --client pypaimon
      deltacli explain ./tbl --json
    """
    from deltacli.cli.render.versions.explain import explain_result

    def show(opened: Handle) -> None:
        found = opened.explain(request)
        run.write(explain_result(found))
        if found.gap is not None:
            raise found.gap
        if run.is_on_screen and found.paimon_traits is None and not is_shared(table):
            run.say_next(_next(found, quoted_table(table)))

    ask(run, table, show)


def _next(found: Explanation, name: str) -> str:
    """Return the command that plans the first supposed change, else the one that shows the features."""
    if not found.supposed:
        return f"deltacli features {name}"
    kind, subject, data_type = found.supposed[0]
    if kind is ChangeKind.WIDEN:
        return f"deltacli widen-type {name} {quoted(subject)} {quoted(data_type)} --dry-run"
    return f"deltacli features {name} {kind} {quoted(subject)} --dry-run"
