"""Arguments and options of the commands of `share`, and reading the configuration of the server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.invocation import make_pastable_path
from deltacli.core.errors import UsageError, suggest_parameters
from deltacli.core.times import parse_duration
from deltacli.storage import open_storage

if TYPE_CHECKING:
    from deltacli.sharing.configuration.settings import Configuration

SHARES = "shares.yaml"
DEFAULT_LIFETIME = "90d"
DEFAULT_OVERLAP = "24h"

SharedTableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", parser=make_pastable_path, help="Shared table: PROFILE#SHARE.SCHEMA.TABLE.")
]
SharesArgument = Annotated[
    str,
    typer.Argument(metavar="SHARES", help="Profile file: PROFILE, PROFILE#SHARE or PROFILE#SHARE.SCHEMA."),
]
ProfileArgument = Annotated[str, typer.Argument(metavar="FILE", help="Profile file.")]
RecipientArgument = Annotated[str, typer.Argument(metavar="RECIPIENT", help="Name of the recipient.")]
ListedRecipientArgument = Annotated[str | None, typer.Argument(metavar="RECIPIENT", help="List only this one.")]
GrantsArgument = Annotated[
    list[str], typer.Argument(metavar="GRANT...", help="SHARE, SHARE/SCHEMA or SHARE/SCHEMA/TABLE.")
]
ConfigurationOption = Annotated[
    str,
    typer.Option("-c", "--config", metavar="FILE", help=f"Configuration of the server.  [default: {SHARES}]"),
]
ExpiresOption = Annotated[
    str,
    typer.Option(
        "--expires",
        metavar="DURATION|never",
        help=f"How long the token is valid, such as 30d or 12h.  [default: {DEFAULT_LIFETIME}]",
    ),
]
NewProfileOption = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="FILE",
        help="Write the token to this new profile file, which only you can read, and not to stdout.",
    ),
]


def read_shares(config: str, *, lists_wildcards: bool = False) -> Configuration:
    """Read the configuration of the server.

    Args:
        config: The path of the configuration.
        lists_wildcards: Whether locations such as `lake/*` are replaced by the tables that they match. This opens
            stores.

    Raises:
        UsageError: If the configuration is invalid.
    """
    from deltacli.sharing.configuration.shares_yaml import read_configuration

    return read_configuration(config, open_store=open_storage if lists_wildcards else None)


def require_recipients_file(configuration: Configuration) -> Path:
    """Return the file of recipients. Raises UsageError if the configuration names none."""
    if configuration.recipients_file is None:
        raise UsageError(
            f"{configuration.path} names no file of recipients",
            code="share.recipients",
            facts={"missing": "recipients: recipients.json"},
            hint=f"add this line to {configuration.path}",
        )
    return configuration.recipients_file


def parse_lifetime(text: str, now_ms: int) -> int | None:
    """Return when a token expires, in epoch milliseconds. None for `never`. Raises UsageError.

    Args:
        text: The lifetime, such as `90d`.
        now_ms: The current time in epoch milliseconds.
    """
    if text == "never":
        return None
    lifetime_ms = parse_duration(text, "--expires")
    if lifetime_ms <= 0:
        raise UsageError(
            f"--expires {text} is not a lifetime",
            facts={"expected": "90d, 12h, or never"},
            hint=suggest_parameters("--expires 90d"),
        )
    return now_ms + lifetime_ms
