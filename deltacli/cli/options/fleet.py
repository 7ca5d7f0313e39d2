"""Arguments and options of the commands of `fleet`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from deltacli.cli.options.values import make_text_parser, parse_whole_number
from deltacli.core.errors import command

FLEET_FILE = "fleet.toml"

FleetFileArgument = Annotated[str, typer.Argument(metavar="FILE", help=f"Policy file.  [default: {FLEET_FILE}]")]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="GROUP",
        parser=make_text_parser("--only"),
        help="Only the tables of this group. Repeatable.",
    ),
]
StateOption = Annotated[
    str | None,
    typer.Option(
        "--state",
        metavar="DIR",
        help="Directory of the journal and the leases.  [default: state of the policy file, else fleet-state]",
    ),
]
FleetLimitOption = Annotated[
    int | None,
    typer.Option(
        "--limit",
        metavar="N",
        parser=parse_whole_number,
        help="Rows of the table shown, the worst first; 0 shows all.  [default: 20 on a terminal, else 0]",
    ),
]


def fleet_command(name: str, file: str, state: str | None = None, only: Sequence[str] = ()) -> str:
    """Return a command of `fleet` for the same policy file, state directory and groups, to suggest it.

    Args:
        name: The command, such as `run`.
        file: The policy file.
        state: The value of `--state`.
        only: The values of `--only`.
    """
    options = {"state": state, "only": only}
    used_options = {key: value for key, value in options.items() if value}
    arguments = [] if file == FLEET_FILE else [file]
    return command(f"fleet {name}", *arguments, table=None, **used_options)
