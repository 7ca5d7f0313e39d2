"""Files that the `init` commands create: a policy file or a configuration, and its JSON Schema for editors."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from deltacli.cli.command_tree import get_command_path
from deltacli.cli.invocation import invocation
from deltacli.cli.output.destination import open_destination, require_file_outside_tables, require_parent_directory
from deltacli.cli.running.context import CommandContext
from deltacli.cli.terminal.suggested_commands import repeat_command_with
from deltacli.core.documents import dumps
from deltacli.core.errors import Refused, StorageFailed, command
from deltacli.core.typing import JsonObject
from deltacli.storage import Existed, LocalStorage, Unknown


@dataclass(frozen=True)
class NewFile:
    """A file that a command creates. An existing file is replaced only with `--force`.

    Attributes:
        path: The path of the file.
        option: The option or argument that names the file, for errors.
        force: Whether an existing file is replaced.
        error_code: The code of the error if the file exists.
    """

    path: str
    option: str
    force: bool
    error_code: str

    def require_writable(self) -> None:
        """Require that the file can be created, before the command does anything else.

        Raises:
            UsageError: If the file is inside a table.
            StorageFailed: If its directory does not exist.
            Refused: If the file exists and may not be replaced.
        """
        require_file_outside_tables(self.path, self.option)
        require_parent_directory(self.path)
        if not self.force and os.path.lexists(self.path):
            raise self._make_exists_error()

    def write(self, content: bytes) -> None:
        """Write the file atomically.

        Raises:
            Refused: If the file may not be replaced and exists, even if another process has created it since
                `require_writable`.
            StorageFailed: If the file cannot be written.
        """
        if self.force:
            with open_destination(self.path) as sink:
                sink.write(content)
            return
        if not _create_file(self.path, content):
            raise self._make_exists_error()

    def _make_exists_error(self) -> Refused:
        """Return the error for an existing file. The hint checks that file: `fleet check` or `share check`."""
        group = get_command_path(invocation.arguments)[0]
        if group == "fleet":
            hint = command("fleet check", self.path)
        else:
            hint = command(f"{group} check", config=self.path)
        return Refused(
            f"{self.path} exists already; nothing was changed",
            code=self.error_code,
            facts={"to replace it": repeat_command_with(invocation.arguments, "--force")},
            hint=hint,
        )


class EditorSchema:
    """The JSON Schema of a file, by which editors check and complete its keys.

    It is written next to the file, with the same name and the extension .schema.json. An existing file with this name
    is never replaced, because the user may have written it.
    """

    def __init__(self, file: str, schema: JsonObject) -> None:
        """Choose the path of the schema. Nothing is written yet.

        Args:
            file: The path of the file that the schema describes.
            schema: The schema.
        """
        self._path = f"{os.path.splitext(file)[0]}.schema.json"
        self._content = dumps(schema) + b"\n"
        self._is_available = self._can_use_path()

    @property
    def name_for_comment(self) -> str | None:
        """The file name of the schema, for the comment in the file that editors read.

        None if there will be no schema, or if its name does not fit into a line of text.
        """
        if not self._is_available:
            return None
        name = os.path.basename(self._path)
        return name if name and name.isprintable() else None

    def write(self, run: CommandContext) -> str | None:
        """Write the schema unless it exists.

        Returns:
            The path of the schema. None if another file has its name, which is noted.

        Raises:
            StorageFailed: If the schema cannot be written.
        """
        if self._is_available and not _create_file(self._path, self._content):
            # The file exists: either it did before, or another process has created it.
            self._is_available = self._can_use_path()
        if self._is_available:
            return self._path
        run.note(f"note: {self._path} is not the schema of this version, and is kept")
        return None

    def _can_use_path(self) -> bool:
        """Return whether no file has the path of the schema, or a file with the same content."""
        try:
            mode = os.lstat(self._path).st_mode
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return stat.S_ISREG(mode) and _read_regular_file(self._path) == self._content


def _create_file(path: str, content: bytes) -> bool:
    """Create a file atomically. Returns False if it exists.

    Raises:
        StorageFailed: If the file may not have been written.
    """
    invocation.record_output(path)
    directory, name = os.path.split(os.path.abspath(path))
    match LocalStorage(directory).put_if_absent(name, content):
        case Existed():
            return False
        case Unknown(cause):
            raise StorageFailed(f"{path} may not have been written", facts={"why": cause})
    return True


def _read_regular_file(path: str) -> bytes | None:
    """Return the content of a file. None for a link, a pipe or a device, and for a file that cannot be read."""
    # O_NONBLOCK: opening a pipe would wait for a process that writes to it.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read() if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
