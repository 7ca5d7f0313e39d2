"""Arguments and options of `fleet`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from deltacli.cli.options.common_options import argument
from deltacli.core.hints import command
from deltacli.core.request_fields import Option

FLEET_FILE = "fleet.toml"

FleetFileArgument = Annotated[str, argument(f"Policy file.  [default: {FLEET_FILE}]", "FILE")]
DetailsOption = Annotated[bool, Option("Plan destructive steps exactly, as vacuum and log expire do with --dry-run.")]
SavePlansOption = Annotated[str | None, Option("Also save these plans in a directory, for vacuum --apply.", "DIR")]
FleetLimitOption = Annotated[
    int | None,
    Option("Rows of the table shown, the worst first; 0 shows all.  [default: 20 on a terminal, else 0]", "N"),
]
ExitCodeOption = Annotated[bool, Option("Exit with 1 if a step is due, for scripts.")]


def fleet_command(name: str, file: str, state: str | None = None, only: Sequence[str] = ()) -> str:
    """Return another command for the same policy file, state directory and groups."""
    given = {"state": state, "only": only}
    arguments = [] if file == FLEET_FILE else [file]
    return command(f"fleet {name}", *arguments, table=None, **{key: value for key, value in given.items() if value})
