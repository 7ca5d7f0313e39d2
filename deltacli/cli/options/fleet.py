"""Arguments and options of `fleet`."""

from __future__ import annotations

from typing import Annotated

import typer

FLEET_FILE = "fleet.toml"

FleetFileArgument = Annotated[str, typer.Argument(metavar="FILE", help="Policy file.")]
