"""`deltacli share token create|list|revoke|rotate`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import invocation
from deltacli.cli.options.share import (
    ConfigurationOption,
    ExpiresOption,
    ListedRecipientArgument,
    NewProfileOption,
    RecipientArgument,
    parse_lifetime,
    read_shares,
    require_recipients_file,
)
from deltacli.cli.options.tables import DryRunOption, YesOption
from deltacli.cli.output.destination import require_file_outside_tables, require_parent_directory
from deltacli.cli.running.consent import confirm_change
from deltacli.cli.running.context import CommandContext
from deltacli.core.errors import UsageError, quote_word
from deltacli.core.times import format_duration, parse_duration
from deltacli.core.units import plural

if TYPE_CHECKING:
    from deltacli.sharing.configuration.recipients import CreatedToken, Recipient, Recipients
    from deltacli.sharing.configuration.settings import Configuration

    TokenCreation = Callable[[Recipients], tuple[Recipients, CreatedToken]]

app = typer.Typer(add_completion=False)


@app.command("create", cls=SharedOptionsCommand, epilog=exit_codes(refused=True, storage=True))
def share_token_create(
    context: typer.Context,
    recipient: RecipientArgument,
    *,
    expires: ExpiresOption = "90d",
    profile: NewProfileOption = None,
    config: ConfigurationOption = "shares.yaml",
) -> None:
    """Create a token for a recipient, and show it once.

    \b
    Only the SHA-256 of the token is stored, so it cannot be shown again. With
    --profile it is written to a profile file, as clients need it, and not shown.
    A recipient may have several valid tokens. Send profiles over a channel that
    only the recipient reads.

    \b
    Examples:
      deltacli share token create acme --profile acme.share
      deltacli share token create acme --expires 12h
    """
    from deltacli.sharing.configuration.recipients import add_token

    run: CommandContext = context.obj
    configuration = read_shares(config)
    now_ms = run.clock()
    expires_ms = parse_lifetime(expires, now_ms)

    def create(recipients: Recipients) -> tuple[Recipients, CreatedToken]:
        return add_token(recipients, recipient, now_ms, expires_ms=expires_ms)

    _create_token(run, configuration, recipient, "create", profile, create)


@app.command("list", cls=SharedOptionsCommand, epilog=exit_codes(refused=True, storage=True))
def share_token_list(
    context: typer.Context,
    recipient: ListedRecipientArgument = None,
    *,
    config: ConfigurationOption = "shares.yaml",
) -> None:
    """List tokens by their ids, with their state and expiry.

    \b
    Examples:
      deltacli share token list
      deltacli share token list acme --format csv
    """
    from deltacli.sharing.configuration.recipients import find_recipient, read_recipients

    run: CommandContext = context.obj
    file = require_recipients_file(read_shares(config))
    recipients = read_recipients(file)
    listed_recipients = recipients.items
    if recipient is not None:
        listed_recipients = (find_recipient(recipients, recipient),)
    _write_tokens(run, file, listed_recipients, "list")


@app.command("revoke", cls=SharedOptionsCommand, epilog=exit_codes(refused=True, storage=True))
def share_token_revoke(
    context: typer.Context,
    recipient: RecipientArgument,
    tokens: Annotated[
        list[str] | None, typer.Argument(metavar="TOKEN...", help="Ids of tokens, from share token list.")
    ] = None,
    *,
    all_tokens: Annotated[bool, typer.Option("--all", help="Revoke all tokens of the recipient.")] = False,
    config: ConfigurationOption = "shares.yaml",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Revoke tokens of a recipient.

    \b
    A running server refuses them within a second, and its own URLs of files that
    were requested with them. Other tokens of the recipient, and the URLs of their
    requests, stay valid. URLs of a cloud store are valid until they expire.

    \b
    Examples:
      deltacli share token revoke acme t1a2b3c4d --yes
      deltacli share token revoke acme --all --dry-run
    """
    from deltacli.sharing.configuration.recipients import (
        Recipients,
        change_recipients,
        find_recipient,
        read_recipients,
        revoke_tokens,
    )

    run: CommandContext = context.obj
    if bool(tokens) == all_tokens:
        raise UsageError("name the ids of tokens, or --all", hint=f"deltacli share token list {recipient}")
    file = require_recipients_file(read_shares(config))
    current = find_recipient(read_recipients(file), recipient)
    token_ids = tuple(tokens or ())

    def revoke(recipients: Recipients) -> Recipients:
        return revoke_tokens(recipients, recipient, token_ids)

    remaining_tokens = revoke(Recipients((current,))).items[0].tokens
    revoked_tokens = tuple(token for token in current.tokens if token not in remaining_tokens)
    # The result lists the revoked tokens only.
    revoked = replace(current, tokens=revoked_tokens)

    def show_plan() -> None:
        _write_tokens(run, file, [revoked], "revoke", dry_run=True)

    question = f"revoke {plural(len(revoked_tokens), 'token')} of {current.name}"
    if not confirm_change(run, question, show_plan, dry_run=dry_run, yes=yes):
        return
    invocation.record_output(str(file))
    change_recipients(file, revoke)
    _write_tokens(run, file, [revoked], "revoke", dry_run=False)


@app.command("rotate", cls=SharedOptionsCommand, epilog=exit_codes(refused=True, storage=True))
def share_token_rotate(
    context: typer.Context,
    recipient: RecipientArgument,
    *,
    overlap: Annotated[
        str,
        typer.Option(
            "--overlap", metavar="DURATION", help="How long the old tokens stay valid; 0s revokes them.  [default: 24h]"
        ),
    ] = "24h",
    expires: ExpiresOption = "90d",
    profile: NewProfileOption = None,
    config: ConfigurationOption = "shares.yaml",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Replace the tokens of a recipient by a new one.

    \b
    The old tokens expire after the overlap, or before if they would anyway; with
    --overlap 0s they are revoked at once. The new token is shown once, or written
    to a profile file.

    \b
    Examples:
      deltacli share token rotate acme --profile new.share --yes
      deltacli share token rotate acme --overlap 0s --yes
    """
    from deltacli.sharing.configuration.recipients import Recipients, find_recipient, read_recipients, rotate_tokens

    run: CommandContext = context.obj
    configuration = read_shares(config)
    file = require_recipients_file(configuration)
    now_ms = run.clock()
    overlap_ms = parse_duration(overlap, "--overlap")
    expires_ms = parse_lifetime(expires, now_ms)
    current = find_recipient(read_recipients(file), recipient)

    def rotate(recipients: Recipients) -> tuple[Recipients, CreatedToken]:
        return rotate_tokens(recipients, recipient, now_ms, expires_ms=expires_ms, overlap_ms=overlap_ms)

    # The plan lists the old tokens only: the new token of this rehearsal is not the one that will be created.
    planned, rehearsed_token = rotate(Recipients((current,)))
    planned_recipient = planned.items[0].without_tokens([rehearsed_token.record.token_id])

    def show_plan() -> None:
        _write_tokens(run, file, [planned_recipient], "rotate", dry_run=True)

    tokens = plural(len(current.tokens), "token")
    question = f"revoke {tokens} of {current.name}"
    if overlap_ms:
        question = f"expire {tokens} of {current.name} after {format_duration(overlap_ms)}"
    if confirm_change(run, question, show_plan, dry_run=dry_run, yes=yes):
        _create_token(run, configuration, recipient, "rotate", profile, rotate)


def _create_token(
    run: CommandContext,
    configuration: Configuration,
    recipient: str,
    action: str,
    profile: str | None,
    creation: TokenCreation,
) -> None:
    """Create a token, store its digest, and show the token or write it to a profile file.

    Args:
        run: The run of the command.
        configuration: The configuration of the server.
        recipient: The name of the recipient.
        action: The name of the change in the result: `create` or `rotate`.
        profile: The profile file. None: the token is shown.
        creation: Returns all recipients after the change, and the new token.

    Raises:
        UsageError: If the profile file may not be written.
        StorageFailed: If a file cannot be written.
    """
    from deltacli.cli.render.sharing import tokens_result
    from deltacli.sharing.configuration.recipients import change_recipients

    file = require_recipients_file(configuration)
    created_tokens: list[CreatedToken] = []

    def create_and_write_profile(recipients: Recipients) -> Recipients:
        changed_recipients, token = creation(recipients)
        # The profile is written before the digest is stored. An error leaves no token that nobody has.
        if profile is not None:
            _write_profile(profile, configuration, token)
        created_tokens.append(token)
        return changed_recipients

    try:
        invocation.record_output(str(file))
        recipients = change_recipients(file, create_and_write_profile)
    except BaseException:
        if profile is not None and created_tokens:
            # The digest was not stored, so the token in the profile is not valid.
            with suppress(OSError):
                Path(profile).unlink()
        raise

    changed_recipient = recipients.find(recipient)
    assert changed_recipient is not None
    result = tokens_result(
        file, [changed_recipient], run.clock(), action=action, created=created_tokens[-1], profile=profile
    )
    run.write(result)
    if profile is None:
        run.note("note: the token is shown only now; the file of recipients has its SHA-256")
        return
    if configuration.settings.public_url is None:
        run.note(
            f"note: the endpoint is {configuration.settings.base_url}; publicUrl in {configuration.path} changes it"
        )
    run.suggest_command(f"deltacli share profile check {quote_word(profile)}")


def _write_profile(profile: str, configuration: Configuration, token: CreatedToken) -> None:
    """Write a profile file with a new token. Raises UsageError if the file may not be written."""
    from deltacli.sharing.configuration.secrets import write_profile

    if profile == "-":
        raise UsageError(
            "--profile - is not a file; without --profile the token is written to stdout",
            hint="deltacli share token create RECIPIENT",
        )
    require_file_outside_tables(profile, "--profile")
    require_parent_directory(profile)
    invocation.record_output(profile)
    write_profile(Path(profile), configuration.settings.base_url, token.text, token.record.expires_ms)


def _write_tokens(
    run: CommandContext, file: Path, recipients: Sequence[Recipient], action: str, *, dry_run: bool | None = None
) -> None:
    from deltacli.cli.render.sharing import tokens_result

    run.write(tokens_result(file, recipients, run.clock(), action=action, dry_run=dry_run))
