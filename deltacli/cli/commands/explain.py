"""`deltacli explain TABLE`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.options.given import get_format_options
from deltacli.cli.options.tables import TableHereArgument
from deltacli.cli.options.values import make_text_parser
from deltacli.cli.render.explain import explain_result
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.problem_notes import note_staged_commits
from deltacli.cli.running.table_formats import call_with_table
from deltacli.core.errors import is_shared, quote_table, quote_word

if TYPE_CHECKING:
    from deltacli.api.paimon import Paimon
    from deltacli.api.table import Table
    from deltacli.operations.explain import Explanation

app = typer.Typer(add_completion=False)


@app.command("explain", cls=SharedOptionsCommand, epilog=exit_codes(unreadable=True, refused=True, storage=True))
def explain(
    context: typer.Context,
    table: TableHereArgument = ".",
    *,
    clients: Annotated[
        list[str] | None,
        typer.Option(
            "--client",
            metavar="NAME[=VERSION]",
            parser=make_text_parser("--client"),
            help="Client to explain, in a version or the newest known.  Repeatable.  [default: all known]",
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--if",
            metavar="CHANGE",
            parser=make_text_parser("--if"),
            help="Change to suppose: add=FEATURE, drop=FEATURE or widen=COLUMN:TYPE.  Repeatable.",
        ),
    ] = None,
) -> None:
    """Show which clients read and write a table, and what stops the others.

    \b
    For each client: whether it reads the newest version and appends to it, the
    feature or property that stops it, since which version the table has that,
    and the way out with its cost. Facts about clients are measured with their
    packages or documented, each with its day; what is neither is unknown. The
    log is checked as by validate, because its errors stop clients, too. With
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
    run: CommandContext = context.obj
    client_names = tuple(clients or ())
    hypothetical_changes = tuple(changes or ())

    def show_delta(delta_table: Table) -> None:
        note_staged_commits(run, delta_table)
        _write_explanation(run, table, delta_table.explain(clients=client_names, changes=hypothetical_changes))

    def show_paimon(paimon_table: Paimon) -> None:
        _write_explanation(run, table, paimon_table.explain(clients=client_names))

    call_with_table(
        run,
        table,
        delta=show_delta,
        paimon=show_paimon,
        options=get_format_options(context, delta=("changes",)),
    )


def _write_explanation(run: CommandContext, table: str, explanation: Explanation) -> None:
    """Write an explanation. Raises the error that made it incomplete, if there is one."""
    run.write(explain_result(explanation))
    if explanation.gap is not None:
        raise explanation.gap
    if run.is_on_screen and explanation.paimon_traits is None and not is_shared(table):
        run.suggest_command(_choose_next_command(explanation, quote_table(table)))


def _choose_next_command(explanation: Explanation, name: str) -> str:
    """Return the command that shows errors in the log, the features, or the plan of the hypothetical change.

    Args:
        explanation: What the command has shown.
        name: The table, quoted for a shell.
    """
    if explanation.warnings:
        return f"deltacli validate {name}"
    if not explanation.supposed:
        return f"deltacli features {name}"
    kind, subject, data_type = explanation.supposed[0]
    if kind == "widen":
        return f"deltacli widen-type {name} {quote_word(subject)} {quote_word(data_type)} --dry-run"
    return f"deltacli features {name} {kind} {quote_word(subject)} --dry-run"
