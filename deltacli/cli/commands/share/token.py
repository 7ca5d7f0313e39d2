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
    recipients_file_of,
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

    Creation = Callable[[Recipients], tuple[Recipients, CreatedToken]]

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
    _create(
        run,
        configuration,
        recipient,
        "create",
        profile,
        lambda all_: add_token(all_, recipient, now_ms, expires_ms=expires_ms),
    )


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
    file = recipients_file_of(read_shares(config))
    known = read_recipients(file)
    _show(run, file, known.items if recipient is None else (find_recipient(known, recipient),), "list")


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
    file = recipients_file_of(read_shares(config))
    found = find_recipient(read_recipients(file), recipient)
    ids = tuple(tokens or ())

    def change(known: Recipients) -> Recipients:
        return revoke_tokens(known, recipient, ids)

    kept = change(Recipients((found,))).items[0]
    revoked = [replace(found, tokens=tuple(token for token in found.tokens if token not in kept.tokens))]
    what = f"revoke {plural(len(revoked[0].tokens), 'token')} of {found.name}"
    if confirm_change(run, what, lambda: _show(run, file, revoked, "revoke", dry_run=True), dry_run=dry_run, yes=yes):
        invocation.writes(str(file))
        change_recipients(file, change)
        _show(run, file, revoked, "revoke", dry_run=False)


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
    file = recipients_file_of(configuration)
    now_ms, overlap_ms = run.clock(), parse_duration(overlap, "--overlap")
    expires_ms = parse_lifetime(expires, now_ms)
    found = find_recipient(read_recipients(file), recipient)

    def change(known: Recipients) -> tuple[Recipients, CreatedToken]:
        return rotate_tokens(known, recipient, now_ms, expires_ms=expires_ms, overlap_ms=overlap_ms)

    planned, new = change(Recipients((found,)))
    kept = [planned.items[0].without_tokens([new.record.token_id])]
    when = f"expire {plural(len(found.tokens), 'token')} of {found.name} after {format_duration(overlap_ms)}"
    what = when if overlap_ms else f"revoke {plural(len(found.tokens), 'token')} of {found.name}"
    if confirm_change(run, what, lambda: _show(run, file, kept, "rotate", dry_run=True), dry_run=dry_run, yes=yes):
        _create(run, configuration, recipient, "rotate", profile, change)


def _create(
    run: CommandContext,
    configuration: Configuration,
    recipient: str,
    action: str,
    profile: str | None,
    creation: Creation,
) -> None:
    """Store a new token, and show it or write its profile."""
    from deltacli.cli.render.sharing import tokens_result
    from deltacli.sharing.configuration.recipients import change_recipients

    file = recipients_file_of(configuration)
    created: dict[str, CreatedToken] = {}

    def change(known: Recipients) -> Recipients:
        after, token = creation(known)
        if profile is not None:
            from deltacli.sharing.configuration.secrets import write_profile

            if profile == "-":
                raise UsageError(
                    "--profile - is not a file; without --profile the token is written to stdout",
                    hint="deltacli share token create RECIPIENT",
                )
            require_file_outside_tables(profile, "--profile")
            require_parent_directory(profile)
            invocation.writes(profile)
            write_profile(Path(profile), configuration.settings.base_url, token.text, token.record.expires_ms)
        created["token"] = token
        return after

    try:
        invocation.writes(str(file))
        after = change_recipients(file, change)
    except BaseException:
        if profile is not None and created:  # the token of the profile is not valid
            with suppress(OSError):
                Path(profile).unlink()
        raise
    found = after.find(recipient)
    assert found is not None
    run.write(tokens_result(file, [found], run.clock(), action=action, created=created["token"], profile=profile))
    if profile is None:
        run.note("note: the token is shown only now; the file of recipients has its SHA-256")
        return
    if configuration.settings.public_url is None:
        run.note(
            f"note: the endpoint is {configuration.settings.base_url}; publicUrl in {configuration.path} changes it"
        )
    run.suggest_command(f"deltacli share profile check {quote_word(profile)}")


def _show(
    run: CommandContext, file: Path, recipients: Sequence[Recipient], action: str, *, dry_run: bool | None = None
) -> None:
    from deltacli.cli.render.sharing import tokens_result

    run.write(tokens_result(file, recipients, run.clock(), action=action, dry_run=dry_run))
