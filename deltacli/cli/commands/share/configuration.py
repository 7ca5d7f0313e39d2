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
from deltacli.cli.running.init_results import CreatedFile, make_share_init_result
from deltacli.cli.running.new_file import EditorSchema, NewFile
from deltacli.cli.running.row_notes import choose_row_limit
from deltacli.cli.running.table_discovery import find_tables_below, normalize_directory
from deltacli.core.errors import EXIT_FINDINGS, PartlyDone, UsageError, quote_word
from deltacli.core.times import format_duration, parse_duration

if TYPE_CHECKING:
    from deltacli.sharing.configuration.settings import Configuration

app = typer.Typer(add_completion=False)


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
    from deltacli.sharing.configuration.file_schema import make_shares_schema
    from deltacli.sharing.configuration.starting import make_starting_configuration, name_shared_tables

    run: CommandContext = context.obj
    new_file = NewFile(config, "--config", force=force, error_code="share.target-exists")
    new_file.require_writable()

    discoveries = {directory: find_tables_below(run, directory) for directory in dict.fromkeys(directories)}
    tables_by_directory = [
        (normalize_directory(directory), [table.name for table in discovery.tables])
        for directory, discovery in discoveries.items()
    ]
    tables = name_shared_tables(tables_by_directory)

    schema = EditorSchema(config, make_shares_schema())
    new_file.write(make_starting_configuration(config, tables, schema.name_for_comment).encode())
    schema_path = schema.write(run)

    other_formats = sum(len(discovery.others) for discovery in discoveries.values())
    failures = [failure for discovery in discoveries.values() for failure in discovery.failures]
    result = make_share_init_result(CreatedFile(config, schema_path, other_formats, failures), tables)
    result.most = choose_row_limit(run, None)
    run.write(result)
    run.suggest_command(f"deltacli share recipient add NAME --grant {quote_word(tables[0].share)}", also_in_pipe=True)
    if failures:
        raise Exit(PartlyDone.exit_code)


class CheckLevel(StrEnum):
    """The parts of a shared table that `share check` reads."""

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
    recipients_file = configuration.recipients_file
    recipients = None
    if recipients_file is not None and recipients_file.exists():
        recipients = read_recipients(recipients_file)
    report = check_configuration(
        configuration, recipients, run.clock(), has_files=level is CheckLevel.STORAGE, progress=run.progress
    )
    run.write(configuration_check_result(report))

    errors_first = sorted(report.all_problems, key=lambda problem: not problem.is_error)
    if errors_first:
        run.suggest_command(f"deltacli help {errors_first[0].code}")
    else:
        run.suggest_command("deltacli share serve")
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
    key_file = _require_key_file(configuration)
    now_ms = run.clock()

    # By default old keys are accepted until everything that was signed with them has expired.
    settings = configuration.settings
    longest_lifetime_seconds = max(
        settings.page_token_lifetime_seconds,
        settings.refresh_token_lifetime_seconds,
        settings.url_lifetime_seconds,
    )
    longest_lifetime_ms = longest_lifetime_seconds * 1_000
    overlap_ms = longest_lifetime_ms if overlap is None else parse_duration(overlap, "--overlap")

    planned_keys = ServerKeys.read(key_file).rotated(now_ms=now_ms, overlap_ms=overlap_ms)
    planned_result = keys_result(key_file, planned_keys, now_ms, dry_run=True)
    ending = f"accept the old keys for {format_duration(overlap_ms)}" if overlap_ms else "refuse the old keys at once"
    question = f"add a key to {key_file} and {ending}"
    if not confirm_change(run, question, lambda: run.write(planned_result), dry_run=dry_run, yes=yes):
        return

    invocation.record_output(str(key_file))
    with locked(key_file):
        # `rotate` would create a missing file. Reading it reports the error instead.
        ServerKeys.read(key_file)
        keys = ServerKeys.rotate(key_file, now_ms=now_ms, overlap_ms=overlap_ms)
    run.write(keys_result(key_file, keys, now_ms, dry_run=False))
    if overlap_ms < longest_lifetime_ms:
        run.note("note: recipients have to repeat queries whose page tokens and URLs were signed with the old keys")


def _require_key_file(configuration: Configuration) -> Path:
    """Return the key file of a configuration. Raises UsageError if the configuration names none."""
    key_file = configuration.settings.key_file
    if key_file is None:
        raise UsageError(
            f"{configuration.path} names no key file, so the server makes a new key at each start",
            code="share.keys",
            facts={"missing": "keyFile: keys.json"},
            hint=f"deltacli share serve --config {quote_word(str(configuration.path))}",
        )
    return key_file
