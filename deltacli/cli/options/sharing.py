"""Arguments and options of `share`: the configuration of the server, recipients, tokens, grants."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from deltacli.cli.options.common_options import argument
from deltacli.core.errors import UsageError
from deltacli.core.hints import adding
from deltacli.core.request_fields import Option
from deltacli.core.units import parse_duration

if TYPE_CHECKING:
    from deltacli.sharing.configuration.settings import Configuration

SHARES = "shares.yaml"

ConfigurationOption = Annotated[
    str, Option("Configuration of the server.", "FILE", spelled="-c --config", shows_default=True)
]
RecipientArgument = Annotated[str, argument("Name of the recipient.", "RECIPIENT")]
OneRecipientArgument = Annotated[str | None, argument("List only this one.", "RECIPIENT")]
GrantsArgument = Annotated[list[str], argument("SHARE, SHARE/SCHEMA or SHARE/SCHEMA/TABLE.", "GRANT...")]
GrantsOption = Annotated[
    list[str] | None, Option("SHARE, SHARE/SCHEMA or SHARE/SCHEMA/TABLE to grant. Repeatable.", "GRANT")
]
CommentOption = Annotated[str | None, Option("Remark that is listed with it.", "TEXT")]
TokensArgument = Annotated[list[str] | None, argument("Ids of tokens, from share token list.", "TOKEN...")]
AllTokensOption = Annotated[bool, Option("Revoke all tokens of the recipient.", spelled="--all")]
ExpiresOption = Annotated[
    str, Option("How long the token is valid, such as 30d or 12h.", "DURATION|never", shows_default=True)
]
OverlapOption = Annotated[
    str, Option("How long the old tokens stay valid; 0s revokes them.", "DURATION", shows_default=True)
]
ProfileOption = Annotated[
    str | None, Option("Write the token to this new profile file, which only you can read, and not to stdout.", "FILE")
]
ProfileArgument = Annotated[str, argument("Profile file.", "FILE")]

DEFAULT_LIFETIME = "90d"
DEFAULT_OVERLAP = "24h"


def read_shares(config: str, *, lists_wildcards: bool = False) -> Configuration:
    """Return the configuration of the server. Without `lists_wildcards` no store is opened. Raises UsageError."""
    from deltacli.sharing.configuration.shares_yaml import read_configuration
    from deltacli.storage import open_storage

    return read_configuration(config, open_store=open_storage if lists_wildcards else None)


def recipients_file_of(configuration: Configuration) -> Path:
    """Return the file of recipients. Raises UsageError where the configuration names none."""
    if configuration.recipients_file is None:
        raise UsageError(
            f"{configuration.path} names no file of recipients",
            code="share.recipients",
            facts={"missing": "recipients: recipients.json"},
            hint=f"add this line to {configuration.path}",
        )
    return configuration.recipients_file


def parse_lifetime(text: str, now_ms: int) -> int | None:
    """Return when a token of this lifetime expires; None for `never`. Raises UsageError."""
    if text == "never":
        return None
    lifetime_ms = parse_duration(text, "--expires")
    if lifetime_ms <= 0:
        raise UsageError(
            f"--expires {text} is not a lifetime",
            facts={"expected": "90d, 12h, or never"},
            hint=adding("--expires 90d"),
        )
    return now_ms + lifetime_ms
