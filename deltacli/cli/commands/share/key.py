"""`deltacli share key rotate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from deltacli.cli.options.declared import SHARES, ConfigurationOption, DryRunOption, YesOption, read_shares
from deltacli.cli.running.changing import confirmed
from deltacli.cli.running.run import Run
from deltacli.cli.terminal.shell import quoted
from deltacli.core.errors import UsageError
from deltacli.core.request_fields import Option
from deltacli.core.units import format_duration, parse_duration

if TYPE_CHECKING:
    from deltacli.sharing.configuration.shares_yaml import Configuration, Settings
    from deltacli.sharing.signing.keys import ServerKeys

EXIT_CODES = (0, 2, 4, 7, 70)

OverlapOption = Annotated[
    str | None,
    Option(
        "How long old keys are accepted; 0s ends them. As long as tokens and URLs are valid by default.", "DURATION"
    ),
]


def share_key_rotate(
    run: Run,
    overlap: OverlapOption = None,
    config: ConfigurationOption = SHARES,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Replace the key that signs page tokens and file URLs.

    \b
    A running server notices the new key in the key file within 10 seconds, and
    signs with it after a minute. What was signed before stays valid for the overlap.
    If somebody may know the key, rotate it with --overlap 0s: the old keys are
    refused within 10 seconds, and clients repeat their queries. Tokens of
    recipients stay valid.

    \b
    Examples:
      deltacli share key rotate --yes
      deltacli share key rotate --overlap 0s --dry-run
    """
    from deltacli.cli.render.sharing import keys_result
    from deltacli.sharing.configuration.secrets import locked
    from deltacli.sharing.signing.keys import ServerKeys

    configuration = read_shares(config)
    file, now_ms = _key_file_of(configuration), run.clock()
    longest_ms = _longest_ms(configuration.settings)
    overlap_ms = longest_ms if overlap is None else parse_duration(overlap, "--overlap")

    def show(keys: ServerKeys, *, is_planned: bool) -> None:
        run.write(keys_result(file, keys, now_ms, dry_run=is_planned))

    planned = ServerKeys.read(file).rotated(now_ms=now_ms, overlap_ms=overlap_ms)
    ending = f"accept the old keys for {format_duration(overlap_ms)}" if overlap_ms else "refuse the old keys at once"
    what = f"add a key to {file} and {ending}"
    if not confirmed(run, what, lambda: show(planned, is_planned=True), dry_run=dry_run, yes=yes):
        return
    with locked(file):
        ServerKeys.read(file)
        keys = ServerKeys.rotate(file, now_ms=now_ms, overlap_ms=overlap_ms)
    show(keys, is_planned=False)
    if overlap_ms < longest_ms:
        run.note("note: recipients have to repeat queries whose page tokens and URLs were signed with the old keys")


def _key_file_of(configuration: Configuration) -> Path:
    """Return the key file. Raises UsageError where the configuration names none."""
    file = configuration.settings.key_file
    if file is None:
        raise UsageError(
            f"{configuration.path} names no key file, so the server makes a new key at each start",
            code="share.keys",
            facts={"missing": "keyFile: keys.json"},
            hint=f"deltacli share serve --config {quoted(str(configuration.path))}",
        )
    return file


def _longest_ms(settings: Settings) -> int:
    """Return how long a page token, a refresh token or a URL is valid at most."""
    lifetimes = (
        settings.page_token_lifetime_seconds,
        settings.refresh_token_lifetime_seconds,
        settings.url_lifetime_seconds,
    )
    return max(lifetimes) * 1_000
