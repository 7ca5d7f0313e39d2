"""Arguments and options of `fleet`."""

from __future__ import annotations

from typing import Annotated

import typer

FLEET_FILE = "fleet.toml"

FleetFileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="Policy file.  [default: fleet.toml]", show_default=False)
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="GROUP", help="Only the tables of this group. Repeatable.", show_default=False),
]
DetailsOption = Annotated[
    bool,
    typer.Option("--details", help="Plan destructive steps exactly, as vacuum and log expire do with --dry-run."),
]
SavePlansOption = Annotated[
    str | None,
    typer.Option(
        "--save-plans",
        metavar="DIR",
        help="Also save these plans in a directory, for vacuum --apply.",
        show_default=False,
    ),
]
