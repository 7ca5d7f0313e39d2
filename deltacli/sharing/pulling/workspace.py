"""The hidden directory of pulls inside a target: unfinished downloads, and what is being pulled.

Several pulls may use it at once: each holds a shared lock on it, and the last one removes it. Readers and writers of
tables skip it, because its name begins with a dot.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from uuid import uuid4

from deltacli.sharing.client.faults import PullRefused
from deltacli.sharing.pulling.local_actions import PullSource
from deltacli.storage.disk_faults import writing_faults
from deltacli.typing import Json

NAME = ".deltacli-pull"
_MARKER, _LOCK = "pull.json", "lock"
_MOST_MARKER_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What an unfinished pull was pulling."""

    source: PullSource
    version: int


class Workspace:
    """The open workspace of one pull."""

    def __init__(self, directory: str, lock: int) -> None:
        self.directory, self._lock = directory, lock

    @property
    def place(self) -> str:
        """The path of the workspace."""
        return f"{self.directory}/{NAME}"

    def mark(self, source: PullSource, version: int) -> None:
        """Record what is being pulled. Raises PullRefused where another pull is pulling another table."""
        content = {
            "endpoint": source.endpoint,
            "table": source.table,
            "tableId": source.table_id,
            "version": version,
        }
        draft, marker = f"{self.place}/{uuid4().hex}", f"{self.place}/{_MARKER}"
        with writing_faults(marker, _MARKER):
            with open(draft, "x", encoding="utf-8") as file:
                json.dump(content, file)
            with suppress(OSError):  # it exists, or the file system has no hard links
                os.link(draft, marker)
            found = read_unfinished(self.directory)
            if found is not None and found.source != source:
                os.unlink(draft)
                raise unfinished_other(self.directory, found)
            os.replace(draft, marker)

    def close(self, *, is_done: bool) -> None:
        """Release the workspace; remove it after a finished pull, if no other pull uses it."""
        try:
            if is_done:
                with suppress(OSError):
                    fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(self.place, ignore_errors=True)
        finally:
            os.close(self._lock)


@contextmanager
def open_workspace(directory: str) -> Iterator[Workspace]:
    """Make the workspace of a target, and remove it when the block ends without an error. Raises StorageFailed."""
    with writing_faults(f"{directory}/{NAME}", NAME):
        workspace = Workspace(directory, _locked(directory))
    is_done = False
    try:
        yield workspace
        is_done = True
    finally:
        workspace.close(is_done=is_done)


def _locked(directory: str) -> int:
    """Return the descriptor of a lock file that is still there after it was locked. Raises OSError."""
    while True:
        os.makedirs(f"{directory}/{NAME}", mode=0o777, exist_ok=True)
        if not stat.S_ISDIR(os.lstat(f"{directory}/{NAME}").st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), f"{directory}/{NAME}")
        place = f"{directory}/{NAME}/{_LOCK}"
        try:
            descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except FileNotFoundError:
            continue  # another pull has just removed the workspace
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            if os.path.samestat(os.fstat(descriptor), os.lstat(place)):
                return descriptor
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def read_unfinished(directory: str) -> Unfinished | None:
    """Return what an unfinished pull of a target was pulling; None where there is none."""
    try:
        with open(f"{directory}/{NAME}/{_MARKER}", "rb") as file:
            found: dict[str, Json] = json.loads(file.read(_MOST_MARKER_BYTES))
        source = PullSource(str(found["endpoint"]), str(found["table"]), str(found["tableId"]))
        return Unfinished(source, int(found["version"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def unfinished_other(directory: str, found: Unfinished) -> PullRefused:
    """Return the refusal of a target where another table is being pulled."""
    return PullRefused(
        f"{directory} has an unfinished pull of another table",
        facts={"table": found.source.table, "endpoint": found.source.endpoint, "tableId": found.source.table_id},
        hint="pull into another directory, or delete this one",
    )
