"""What the `init` commands share: the tables at and below directories, and a file that nothing replaces unasked."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from deltacli.cli.command_tree import path_of
from deltacli.cli.invocation import invocation
from deltacli.cli.terminal.output import open_sink, require_directory, require_target
from deltacli.cli.terminal.shell import again_with
from deltacli.core.errors import NotATable, Refused, StorageFailed
from deltacli.core.hints import command

if TYPE_CHECKING:
    from deltacli.cli.options.run import Run
    from deltacli.fleet.planning.discovery import Discovery


def find_tables(run: Run, directory: str) -> Discovery:
    """Return the tables at and below a directory or URI, and what could not be searched. Raises NotATable for none."""
    from deltacli.fleet.planning.discovery import discover
    from deltacli.fleet.policy_file.model import Entry, Group, Policy

    group = Group("tables", Policy("standard", {}), (), (Entry(whole(directory), 0),), (), (), 0)
    found = discover([group], run.open_other, run.engine, progress=run.progress)
    if not found.tables:
        if found.failures:
            raise found.failures[0].fault
        fault = NotATable("no Delta table found at or below it")
        fault.table = directory
        raise fault
    return found


def whole(directory: str) -> str:
    """Return a URI without a slash at the end, or an absolute path."""
    is_uri = "://" in directory or directory.startswith("file:")
    return directory.rstrip("/") if is_uri else os.path.abspath(os.path.expanduser(directory))


def require_new(file: str, name: str, *, force: bool, code: str) -> None:
    """Raise UsageError where a file cannot be written, and Refused where it exists, unless it is to be replaced."""
    require_target(file, name)
    require_directory(file)
    if not force and os.path.lexists(file):
        raise _exists(file, code)


def write_new(file: str, text: bytes, *, force: bool, code: str) -> None:
    """Write a file, whole or not at all. Without `force` it must not exist, not even since it was looked for."""
    from deltacli.storage import Existed, LocalStorage, Unknown

    if force:
        with open_sink(file) as sink:
            sink.write(text)
        return
    directory, name = os.path.split(os.path.abspath(file))
    match LocalStorage(directory).put_if_absent(name, text):
        case Existed():
            raise _exists(file, code)
        case Unknown(cause):
            raise StorageFailed(f"{file} may not have been written", facts={"why": cause})


def _exists(file: str, code: str) -> Refused:
    group = path_of(invocation.arguments)[0]
    hint = command(f"{group} check", file) if group == "fleet" else command(f"{group} check", config=file)
    replacing = {"to replace it": again_with(invocation.arguments, "--force")}
    return Refused(f"{file} exists already; nothing was changed", code=code, facts=replacing, hint=hint)
