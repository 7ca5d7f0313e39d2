"""`deltacli share recipient add|list|remove|grant|revoke`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import invocation
from deltacli.cli.options.share import (
    ConfigurationOption,
    GrantsArgument,
    ListedRecipientArgument,
    RecipientArgument,
    read_shares,
    require_recipients_file,
)
from deltacli.cli.options.tables import DryRunOption, YesOption
from deltacli.cli.running.consent import confirm_change
from deltacli.cli.running.context import CommandContext
from deltacli.core.errors import quote_word
from deltacli.core.units import plural

if TYPE_CHECKING:
    from pathlib import Path

    from deltacli.sharing.configuration.recipients import Recipient, Recipients

    RecipientsChange = Callable[[Recipients], Recipients]

app = typer.Typer(add_completion=False)


@app.command("add", cls=SharedOptionsCommand, epilog=exit_codes(refused=True, storage=True))
def share_recipient_add(
    context: typer.Context,
    recipient: RecipientArgument,
    *,
    grant: Annotated[
        list[str] | None,
        typer.Option(
            "--grant", metavar="GRANT", help="SHARE, SHARE/SCHEMA or SHARE/SCHEMA/TABLE to grant. Repeatable."
        ),
    ] = None,
    comment: Annotated[
        str | None, typer.Option("--comment", metavar="TEXT", help="Remark that is listed with it.")
    ] = None,
    config: ConfigurationOption = "shares.yaml",
) -> None:
    """Add a recipient.

    \b
    The recipient gets the grants, and no token yet: share token create makes one.
    Recipients are kept in the file that the key recipients of the configuration
    names; it is created if it does not exist. A server that is running takes the
    change over within a second.

    \b
    Examples:
      deltacli share recipient add acme --grant sales
      deltacli share recipient add umbrella --grant sales/eu/orders
    """
    from deltacli.sharing.configuration.recipients import add_recipient, parse_grant

    run: CommandContext = context.obj
    configuration = read_shares(config, lists_wildcards=bool(grant))
    grants = [parse_grant(text, configuration.catalog) for text in grant or []]
    file = require_recipients_file(configuration)
    now_ms = run.clock()

    def add(recipients: Recipients) -> Recipients:
        return add_recipient(recipients, recipient, grants, now_ms, comment=comment)

    _change_recipient(run, file, recipient, "add", add)
    shares = configuration.catalog.shares
    if not grants and shares:
        # A token of a recipient without grants would give access to nothing.
        run.suggest_command(f"deltacli share recipient grant {quote_word(recipient)} {quote_word(shares[0].name)}")
    else:
        _suggest_token(run, recipient)


@app.command("list", cls=SharedOptionsCommand, epilog=exit_codes(refused=True, storage=True))
def share_recipient_list(
    context: typer.Context,
    recipient: ListedRecipientArgument = None,
    *,
    config: ConfigurationOption = "shares.yaml",
) -> None:
    """List recipients with their grants.

    \b
    Examples:
      deltacli share recipient list
      deltacli share recipient list acme --json
    """
    from deltacli.cli.render.sharing import recipients_result
    from deltacli.sharing.configuration.recipients import find_recipient, read_recipients

    run: CommandContext = context.obj
    file = require_recipients_file(read_shares(config))
    recipients = read_recipients(file)
    listed_recipients = recipients.items
    if recipient is not None:
        listed_recipients = (find_recipient(recipients, recipient),)
    run.write(recipients_result(file, listed_recipients, run.clock()))


@app.command("remove", cls=SharedOptionsCommand, epilog=exit_codes(refused=True, storage=True))
def share_recipient_remove(
    context: typer.Context,
    recipient: RecipientArgument,
    *,
    config: ConfigurationOption = "shares.yaml",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Remove a recipient with its tokens and grants.

    \b
    Its tokens, and URLs of files that it has received from this server, are
    refused within a second. URLs of a cloud store are valid until they expire.

    \b
    Examples:
      deltacli share recipient remove acme --dry-run
      deltacli share recipient remove acme --yes
    """
    from deltacli.cli.render.sharing import describe_recipient
    from deltacli.sharing.configuration.recipients import find_recipient, read_recipients, remove_recipient

    run: CommandContext = context.obj
    file = require_recipients_file(read_shares(config))
    removed = find_recipient(read_recipients(file), recipient)
    question = f"remove the recipient {removed.name} with {describe_recipient(removed)}"

    def show_plan() -> None:
        _write_recipients(run, file, [removed], "remove", dry_run=True)

    if not confirm_change(run, question, show_plan, dry_run=dry_run, yes=yes):
        return
    _change_file(file, lambda recipients: remove_recipient(recipients, recipient))
    _write_recipients(run, file, [removed], "remove", dry_run=False)


@app.command("grant", cls=SharedOptionsCommand, epilog=exit_codes(refused=True, storage=True))
def share_recipient_grant(
    context: typer.Context,
    recipient: RecipientArgument,
    grants: GrantsArgument,
    *,
    config: ConfigurationOption = "shares.yaml",
) -> None:
    """Grant shares, schemas or tables to a recipient.

    \b
    A grant of a share or schema includes the tables that are added to it later.
    The names must exist in the configuration.

    \b
    Examples:
      deltacli share recipient grant acme sales
      deltacli share recipient grant acme sales/eu/orders sales/us
    """
    from deltacli.sharing.configuration.recipients import grant_to, parse_grant

    run: CommandContext = context.obj
    configuration = read_shares(config, lists_wildcards=True)
    new_grants = [parse_grant(text, configuration.catalog) for text in grants]
    file = require_recipients_file(configuration)

    def add_grants(recipients: Recipients) -> Recipients:
        return grant_to(recipients, recipient, new_grants)

    changed_recipient = _change_recipient(run, file, recipient, "grant", add_grants)
    if not changed_recipient.tokens:
        _suggest_token(run, recipient)


@app.command("revoke", cls=SharedOptionsCommand, epilog=exit_codes(refused=True, storage=True))
def share_recipient_revoke(
    context: typer.Context,
    recipient: RecipientArgument,
    grants: GrantsArgument,
    *,
    config: ConfigurationOption = "shares.yaml",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Revoke grants of a recipient.

    \b
    A grant is revoked as it was given: to take one table out of a granted schema,
    revoke the schema and grant its other tables. Within a second the recipient can
    no longer read the tables, nor their files by URLs of this server. URLs of a
    cloud store are valid until they expire.

    \b
    Examples:
      deltacli share recipient revoke acme sales/eu --dry-run
      deltacli share recipient revoke acme sales --yes
    """
    from deltacli.sharing.configuration.recipients import (
        Recipients,
        find_recipient,
        parse_old_grant,
        read_recipients,
        revoke_from,
    )

    run: CommandContext = context.obj
    file = require_recipients_file(read_shares(config))
    current = find_recipient(read_recipients(file), recipient)
    revoked_grants = [parse_old_grant(text, current) for text in grants]

    def revoke(recipients: Recipients) -> Recipients:
        return revoke_from(recipients, recipient, revoked_grants)

    planned = revoke(Recipients((current,)))

    def show_plan() -> None:
        _write_recipients(run, file, planned.items, "revoke", dry_run=True)

    question = f"revoke {plural(len(revoked_grants), 'grant')} of the recipient {current.name}"
    if confirm_change(run, question, show_plan, dry_run=dry_run, yes=yes):
        _change_recipient(run, file, recipient, "revoke", revoke, dry_run=False)


def _change_recipient(
    run: CommandContext,
    file: Path,
    recipient: str,
    action: str,
    change: RecipientsChange,
    *,
    dry_run: bool | None = None,
) -> Recipient:
    """Change a recipient in the file of recipients, and write the result.

    Args:
        run: The run of the command.
        file: The file of recipients. The action `add` creates it if it does not exist.
        recipient: The name of the recipient.
        action: The name of the change in the result, such as `grant`.
        change: Returns all recipients after the change.
        dry_run: The value of `dryRun` in the document. None: the document has no such field.

    Returns:
        The recipient after the change.
    """
    changed_recipient = _change_file(file, change, may_create=action == "add").find(recipient)
    assert changed_recipient is not None
    _write_recipients(run, file, [changed_recipient], action, dry_run=dry_run)
    return changed_recipient


def _change_file(file: Path, change: RecipientsChange, *, may_create: bool = False) -> Recipients:
    from deltacli.sharing.configuration.recipients import change_recipients

    invocation.record_output(str(file))
    return change_recipients(file, change, may_create=may_create)


def _write_recipients(
    run: CommandContext, file: Path, recipients: Sequence[Recipient], action: str, *, dry_run: bool | None
) -> None:
    from deltacli.cli.render.sharing import recipients_result

    run.write(recipients_result(file, recipients, run.clock(), action=action, dry_run=dry_run))


def _suggest_token(run: CommandContext, recipient: str) -> None:
    profile = quote_word(f"{recipient}.share")
    run.suggest_command(f"deltacli share token create {quote_word(recipient)} --profile {profile}")
