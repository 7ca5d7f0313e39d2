"""`deltacli share init|check` and `share key rotate`: the configuration of the server, and its signing key."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.command_classes import SharedOptionsCommand
from deltacli.cli.exit_codes import exit_codes
from deltacli.cli.invocation import Exit, invocation
from deltacli.cli.options.share import ConfigurationOption, read_shares
from deltacli.cli.options.tables import DryRunOption, YesOption
from deltacli.cli.options.values import make_choice_parser
from deltacli.cli.running.context import CommandContext
from deltacli.cli.running.row_notes import choose_row_limit
from deltacli.cli.running.starting_file import (
    choose_schema_path,
    find_tables,
    get_schema_comment,
    make_share_init_result,
    require_new_file,
    whole,
    write_new_file,
    write_schema,
)
from deltacli.core.errors import EXIT_FINDINGS, PartlyDone, UsageError, quote_word
from deltacli.core.times import format_duration, parse_duration

if TYPE_CHECKING:
    from deltacli.sharing.configuration.settings import Configuration
    from deltacli.sharing.signing.keys import ServerKeys

app = typer.Typer(add_completion=False)

_EXISTS = "share.target-exists"


@app.command(
    "init",
    cls=SharedOptionsCommand,
    epilog=exit_codes(
        unreadable=True,
        refused="the file exists; --force replaces it",
        partly="the file is written; a directory could not be read",
        storage=True,
    ),
)
def share_init(
    context: typer.Context,
    directories: Annotated[
        list[str], typer.Argument(metavar="DIRECTORY...", help="Tables, or directories of tables: paths or URIs.")
    ],
    *,
    config: ConfigurationOption = "shares.yaml",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing configuration.")] = False,
) -> None:
    """Write the configuration of a server that shares the tables at and below directories.

    \b
    The file has comments. Each directory becomes a share, each directory of tables
    in it a schema. The newest version of the tables is shared, with recipients
    only. Editors check the keys by the JSON Schema that is written beside it. An
    existing file is refused (exit 4) without --force. Directories that cannot be
    searched are reported, and the exit code is 5; the file is written all the same.

    \b
    Examples:
      deltacli share init ./lake
      deltacli share init s3://lake/silver -c silver.yaml
    """
    from deltacli.sharing.configuration.file_schema import shares_schema
    from deltacli.sharing.configuration.starting import named_tables, starting_configuration

    run: CommandContext = context.obj
    require_new_file(config, "--config", force=force, code=_EXISTS)
    found = {directory: find_tables(run, directory) for directory in dict.fromkeys(directories)}
    tables = named_tables([(whole(name), [table.name for table in one.tables]) for name, one in found.items()])
    keys = shares_schema()
    schema = choose_schema_path(config, keys)
    write_new_file(
        config, starting_configuration(config, tables, get_schema_comment(schema)).encode(), force=force, code=_EXISTS
    )
    schema = write_schema(run, config, schema, keys)
    failures = [failure for one in found.values() for failure in one.failures]
    result = make_share_init_result(config, tables, sum(len(one.others) for one in found.values()), failures, schema)
    result.most = choose_row_limit(run, None)
    run.write(result)
    run.suggest_command(f"deltacli share recipient add NAME --grant {quote_word(tables[0].share)}", also_in_pipe=True)
    if failures:
        raise Exit(PartlyDone.exit_code)


class CheckLevel(StrEnum):
    LOG = "log"
    STORAGE = "storage"


@app.command(
    "check",
    cls=SharedOptionsCommand,
    epilog=exit_codes(findings="recipients cannot read something that is shared", storage=True),
)
def share_check(
    context: typer.Context,
    *,
    config: ConfigurationOption = "shares.yaml",
    level: Annotated[
        CheckLevel,
        typer.Option(
            "--level",
            metavar="log|storage",
            parser=make_choice_parser(CheckLevel),
            help="What to check: the logs; also whether the files of the newest version exist.  [default: storage]",
        ),
    ] = CheckLevel.STORAGE,
) -> None:
    """Check a sharing configuration by opening every shared table.

    \b
    Reports locations that cannot be read, files that are missing, links, or of
    another size than in the log, versions that startVersion and historyShared
    promise and the log no longer has, the features of each table, and which
    clients can read it: python (delta-sharing 1.4), spark, duckdb, node and
    power-bi. Also reports grants of what is not shared, recipients without a valid
    token, and settings that the server does not start with. Files are not opened,
    and --level log leaves them out. Exits with 1 if recipients cannot read
    something that is shared; warnings do not count.

    \b
    Examples:
      deltacli share check
      deltacli share check --config shares.yaml --json
      deltacli share check --level log
      deltacli share check -c shares.yaml --format csv --output tables.csv
    """
    from deltacli.cli.render.sharing import configuration_check_result
    from deltacli.sharing.configuration.recipients import read_recipients
    from deltacli.sharing.configuration.share_check import check_configuration

    run: CommandContext = context.obj
    configuration = read_shares(config, lists_wildcards=True)
    file = configuration.recipients_file
    recipients = read_recipients(file) if file is not None and file.exists() else None
    has_files = level is CheckLevel.STORAGE
    report = check_configuration(configuration, recipients, run.clock(), has_files=has_files, progress=run.progress)
    run.write(configuration_check_result(report))
    problems = sorted(report.all_problems, key=lambda problem: not problem.is_error)
    run.suggest_command(f"deltacli help {problems[0].code}" if problems else "deltacli share serve")
    if report.has_errors:
        raise Exit(EXIT_FINDINGS)


@app.command("rotate", cls=SharedOptionsCommand, epilog=exit_codes(refused=True, storage=True))
def share_key_rotate(
    context: typer.Context,
    *,
    overlap: Annotated[
        str | None,
        typer.Option(
            "--overlap",
            metavar="DURATION",
            help="How long old keys are accepted; 0s ends them. As long as tokens and URLs are valid by default.",
        ),
    ] = None,
    config: ConfigurationOption = "shares.yaml",
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
    from deltacli.cli.running.consent import confirm_change
    from deltacli.sharing.configuration.secrets import locked
    from deltacli.sharing.signing.keys import ServerKeys

    run: CommandContext = context.obj
    configuration = read_shares(config)
    file, now_ms = _key_file_of(configuration), run.clock()
    lifetimes = (
        configuration.settings.page_token_lifetime_seconds,
        configuration.settings.refresh_token_lifetime_seconds,
        configuration.settings.url_lifetime_seconds,
    )
    longest_ms = max(lifetimes) * 1_000
    overlap_ms = longest_ms if overlap is None else parse_duration(overlap, "--overlap")

    def show(keys: ServerKeys, *, is_planned: bool) -> None:
        run.write(keys_result(file, keys, now_ms, dry_run=is_planned))

    planned = ServerKeys.read(file).rotated(now_ms=now_ms, overlap_ms=overlap_ms)
    ending = f"accept the old keys for {format_duration(overlap_ms)}" if overlap_ms else "refuse the old keys at once"
    what = f"add a key to {file} and {ending}"
    if not confirm_change(run, what, lambda: show(planned, is_planned=True), dry_run=dry_run, yes=yes):
        return
    invocation.writes(str(file))
    with locked(file):
        ServerKeys.read(file)
        keys = ServerKeys.rotate(file, now_ms=now_ms, overlap_ms=overlap_ms)
    show(keys, is_planned=False)
    if overlap_ms < longest_ms:
        run.note("note: recipients have to repeat queries whose page tokens and URLs were signed with the old keys")


def _key_file_of(configuration: Configuration) -> Path:
    file = configuration.settings.key_file
    if file is None:
        raise UsageError(
            f"{configuration.path} names no key file, so the server makes a new key at each start",
            code="share.keys",
            facts={"missing": "keyFile: keys.json"},
            hint=f"deltacli share serve --config {quote_word(str(configuration.path))}",
        )
    return file
