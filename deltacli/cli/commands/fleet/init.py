"""`deltacli fleet init`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from deltacli.cli.invocation import invocation
from deltacli.cli.options.fleet import FLEET_FILE, FleetFileArgument, fleet_command
from deltacli.cli.options.run import Run
from deltacli.cli.options.targets import require_directory, require_target
from deltacli.cli.terminal.output import open_sink
from deltacli.cli.terminal.shell import again_with
from deltacli.errors import NotATable, PartlyDone, Refused, StorageFailed

EXIT_CODES = (0, 2, 3, 4, 5, 7, 70)


def init(
    run: Run,
    directory: Annotated[str, typer.Argument(metavar="DIR", help="Directory or URI with the tables.")],
    file: FleetFileArgument = FLEET_FILE,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing policy file.")] = False,
) -> None:
    """Write a policy file for the tables at and below a directory.

    \b
    The file has comments. Its policy writes checkpoints, validates, and sets
    thresholds. The steps that delete files are there as comments. An existing file
    is refused (exit 4) without --force. Directories that cannot be searched are
    reported, and the exit code is 5; the file is written all the same.

    \b
    Examples:
      deltacli fleet init ./lake
      deltacli fleet init s3://lake/silver silver.toml
    """
    from deltacli.cli.options.rows import settle_limit
    from deltacli.cli.render.fleet.init import init_result
    from deltacli.fleet.planning.discovery import discover
    from deltacli.fleet.policy_file.model import Entry, Group, Policy
    from deltacli.fleet.policy_file.starting import starting_policy

    require_target(file, "FILE")
    require_directory(file)
    if not force and os.path.lexists(file):
        raise _exists(file)
    group = Group("tables", Policy("standard", {}), (), (Entry(_whole(directory), 0),), (), (), 0)
    found = discover([group], run.open_other, run.engine, progress=run.progress)
    names = [table.name for table in found.tables]
    if not names:
        raise found.failures[0].fault if found.failures else NotATable("no Delta table found at or below it")
    text = starting_policy(directory, file, names).encode()
    if force:
        with open_sink(file) as sink:
            sink.write(text)
    else:
        _create(file, text)
    result = init_result(file, directory, names, found.others, found.failures)
    result.most = settle_limit(run, None)
    run.write(result)
    run.say_next(fleet_command("plan", file), also_in_pipe=True)
    if found.failures:
        raise typer.Exit(PartlyDone.exit_code)


def _whole(directory: str) -> str:
    is_uri = "://" in directory or directory.startswith("file:")
    return directory.rstrip("/") if is_uri else os.path.abspath(os.path.expanduser(directory))


def _create(file: str, text: bytes) -> None:
    """Create a file, whole or not at all, that must not exist, not even since it was looked for."""
    from deltacli.storage import Existed, LocalStorage, Unknown

    directory, name = os.path.split(os.path.abspath(file))
    match LocalStorage(directory).put_if_absent(name, text):
        case Existed():
            raise _exists(file)
        case Unknown(cause):
            raise StorageFailed(f"{file} may not have been written", facts={"why": cause})


def _exists(file: str) -> Refused:
    hint = again_with(invocation.arguments, "--force")
    return Refused(f"{file} exists already; nothing was changed", code="fleet.exists", hint=hint)
