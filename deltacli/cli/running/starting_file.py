"""What the `init` commands share: the tables at and below directories, and a file that nothing replaces unasked."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltacli.cli.command_tree import path_of
from deltacli.cli.invocation import invocation
from deltacli.cli.output.columns import Column, Row
from deltacli.cli.output.destination import open_destination, require_file_outside_tables, require_parent_directory
from deltacli.cli.output.sections import Section
from deltacli.cli.render.fleet.check import FleetListing, fleet_fields
from deltacli.cli.terminal.capabilities import Style
from deltacli.cli.terminal.suggested_commands import repeat_command_with
from deltacli.core.documents import dumps
from deltacli.core.errors import NotATable, Refused, StorageFailed, command
from deltacli.core.typing import JsonObject
from deltacli.core.units import plural
from deltacli.fleet.policy_file.model import Entry, Group, Policy
from deltacli.storage import Existed, LocalStorage, Unknown
from deltacli.storage.secrets import mask_secrets

if TYPE_CHECKING:
    from deltacli.cli.running.context import CommandContext
    from deltacli.fleet.planning.discovery import Discovery, Failure
    from deltacli.sharing.configuration.starting import StartedTable


def find_tables(run: CommandContext, directory: str) -> Discovery:
    """Return the tables at and below a directory or URI, and what could not be searched. Raises NotATable for none."""
    from deltacli.fleet.planning.discovery import discover
    from deltacli.table.discover import note_log_backups

    group = Group("tables", Policy("standard", {}), (), (Entry(whole(directory), 0),), (), (), 0)
    found = discover([group], run.open_other, run.engine, progress=run.progress)
    note_log_backups(run.note, found.backups)
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


def require_new_file(file: str, name: str, *, force: bool, code: str) -> None:
    """Raise UsageError where a file cannot be written, and Refused where it exists, unless it is to be replaced."""
    require_file_outside_tables(file, name)
    require_parent_directory(file)
    if not force and os.path.lexists(file):
        raise _exists(file, code)


def write_new_file(file: str, text: bytes, *, force: bool, code: str) -> None:
    """Write a file, whole or not at all. Without `force` it must not exist, not even since it was looked for."""
    if force:
        with open_destination(file) as sink:
            sink.write(text)
        return
    invocation.writes(file)
    directory, name = os.path.split(os.path.abspath(file))
    match LocalStorage(directory).put_if_absent(name, text):
        case Existed():
            raise _exists(file, code)
        case Unknown(cause):
            raise StorageFailed(f"{file} may not have been written", facts={"why": cause})


def choose_schema_path(file: str, schema: JsonObject) -> str | None:
    """Return the path of the schema of a new file, for editors; None where something else has its name."""
    path = _schema_path(file)
    try:
        is_file = stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        return path
    except OSError:
        return None
    return path if is_file and _content_of(path) == _schema_text(schema) else None


def get_schema_comment(schema: str | None) -> str | None:
    """Return the name of a schema for a comment that editors read; None without one that a line of text can hold."""
    name = "" if schema is None else os.path.basename(schema)
    return name if name and name.isprintable() else None


def write_schema(run: CommandContext, file: str, path: str | None, schema: JsonObject) -> str | None:
    """Write a schema that is not there yet, and return its path; None where something else has its name."""
    if path is not None:
        invocation.writes(path)
        directory, name = os.path.split(os.path.abspath(path))
        match LocalStorage(directory).put_if_absent(name, _schema_text(schema)):
            case Existed():
                path = choose_schema_path(file, schema)
            case Unknown(cause):
                raise StorageFailed(f"{path} may not have been written", facts={"why": cause})
    if path is None:
        run.note(f"note: {_schema_path(file)} is not the schema of this version, and is kept")
    return path


def _schema_path(file: str) -> str:
    return f"{os.path.splitext(file)[0]}.schema.json"


def _schema_text(schema: JsonObject) -> bytes:
    return dumps(schema) + b"\n"


def _content_of(path: str) -> bytes | None:
    """Return the content of a file that is no link and can be read. Nothing waits for the writer of a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as found:
        return found.read() if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def _exists(file: str, code: str) -> Refused:
    group = path_of(invocation.arguments)[0]
    hint = command(f"{group} check", file) if group == "fleet" else command(f"{group} check", config=file)
    replacing = {"to replace it": repeat_command_with(invocation.arguments, "--force")}
    return Refused(f"{file} exists already; nothing was changed", code=code, facts=replacing, hint=hint)


# -- what `fleet init` and `share init` found and wrote ----------------------------------------------------------------

_MOST_NAMED = 3


def make_fleet_init_result(
    file: str,
    directory: str,
    tables: Sequence[str],
    others: Sequence[str],
    failures: Sequence[Failure],
    schema: str | None = None,
) -> FleetListing[str]:
    """Return the tables of a new policy file, and what could not be searched. `schema` is its schema for editors."""
    items: list[JsonObject] = [{"table": mask_secrets(table)} for table in tables]
    place = mask_secrets(directory)
    said = f"a policy for {plural(len(items), 'table')} at and below {place}"
    if others:
        first = ", ".join(map(mask_secrets, others[:_MOST_NAMED])) + (", …" if len(others) > _MOST_NAMED else "")
        said += f"; {plural(len(others), 'table')} of another format left out: {first}"
    columns: list[Column[str]] = [Column("table", mask_secrets, keep_both=True)]
    return _result(
        "fleet-init", file, {"directory": place}, items, columns, tables, len(others), failures, said, schema
    )


def make_share_init_result(
    file: str, tables: Sequence[StartedTable], others: int, failures: Sequence[Failure], schema: str | None = None
) -> FleetListing[StartedTable]:
    """Return the tables of a new configuration, and what could not be searched. `schema` is its schema for editors."""
    items: list[JsonObject] = [{"table": one.full_name, "location": mask_secrets(one.location)} for one in tables]
    said = f"{plural(len({one.share for one in tables}), 'share')} of {plural(len(items), 'table')}"
    if others:
        said += f"; {plural(others, 'table')} of another format left out"
    columns: list[Column[StartedTable]] = [
        Column("table", lambda one: one.full_name, keep_both=True, priority=1),
        Column("location", lambda one: mask_secrets(one.location), keep_both=True, priority=2),
    ]
    return _result("share-init", file, {}, items, columns, tables, others, failures, said, schema)


def _result(
    kind: str,
    file: str,
    about: JsonObject,
    items: list[JsonObject],
    columns: Sequence[Column[Row]],
    rows: Sequence[Row],
    others: int,
    failures: Sequence[Failure],
    said: str,
    schema: str | None,
) -> FleetListing[Row]:
    failed = [(mask_secrets(one.name), mask_secrets(one.fault.message)) for one in failures]
    content = {
        **about,
        "problems": [{"path": name, "message": message} for name, message in failed],
        "summary": {"tables": len(items), "problems": len(failed), "otherFormats": others},
    }
    sections = [
        Section("problems", [f"{name}: {message}" for name, message in failed], Style.PROBLEM),
        Section("keys", [f"{schema}: the schema by which editors check the keys"] if schema else []),
        Section("wrote", [f"{file}: {said}"], Style.GOOD),
    ]
    return FleetListing(
        fleet_fields(kind, file, complete=not failed) | content,
        f"{kind}-table",
        items,
        columns,
        rows,
        items_name="tables",
        last_line={"type": kind, "file": file, **content},
        make_sections=lambda _: [section for section in sections if section.lines],
    )
