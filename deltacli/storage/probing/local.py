"""A local directory as a store to probe: the user of the process, and what modes and access control lists allow."""

from __future__ import annotations

import grp
import os
import pwd
import stat
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from deltacli.core.errors import FileMissing, NoAtomicCreate, PermissionRefused, StorageFailed
from deltacli.storage.local import LocalStorage
from deltacli.storage.outcomes import Created, Deletion, Existed
from deltacli.storage.probing.interface import Identity, Permission, PermissionState, ProbeAnswer, Reply

_NAMES = {
    "list": "read and search the directories",
    "read": "read the files",
    "create": "write and search _delta_log",
    "replace": "write and search _delta_log",
    "delete": "write and search the directories of the files",
}
_ACCESS = "system.posix_acl_access"
_TAGS = {1: "user", 2: "user", 4: "group", 8: "group", 16: "mask", 32: "other"}
_LOG = "_delta_log"


class ProbedDirectory:
    """Files below a local directory."""

    kind = "local"
    endpoint = ""
    permission_names = _NAMES

    def __init__(self, storage: LocalStorage) -> None:
        self._storage = storage

    def identity(self) -> Identity:
        """Return the effective user and its groups, and the owner, the mode and the list of the directory."""
        user = os.geteuid()
        groups = sorted({os.getegid(), *os.getgroups()})
        details = {"uid": str(user), "groups": ", ".join(f"{_group(group)} ({group})" for group in groups[:8])}
        for name, location in (("table", self._storage.root), (_LOG, f"{self._storage.root}/{_LOG}")):
            if (message := _described(location)) is not None:
                details[name] = message
        return Identity(_user(user), "user of this process", details, {})

    def permissions(self) -> dict[str, Permission]:
        """Return what the system says about writing. A server of a network file system may refuse all the same."""
        log = f"{self._storage.root}/{_LOG}"
        directory = log if os.path.isdir(log) else self._storage.root
        writing = _permit(directory)
        roots = [self._storage.root, *([log] if directory == log else [])]
        deleting = next(
            (permit for permit in map(_permit, roots) if permit.state is not PermissionState.YES), _permit(directory)
        )
        return {"create": writing, "replace": writing, "delete": deleting}

    def create(self, name: str, data: bytes) -> ProbeAnswer:
        try:
            outcome = self._storage.put_if_absent(name, data)
        except PermissionRefused as error:
            return ProbeAnswer(Reply.DENIED, error.message)
        except NoAtomicCreate as error:
            return ProbeAnswer(Reply.UNSUPPORTED, error.message)
        if isinstance(outcome, Created):
            return ProbeAnswer(Reply.DONE)
        return ProbeAnswer(Reply.REFUSED) if isinstance(outcome, Existed) else ProbeAnswer(Reply.UNKNOWN, outcome.cause)

    def tag(self, name: str) -> str:  # noqa: ARG002  (of the interface)
        return ""

    def replace(self, name: str, data: bytes, tag: str | None) -> ProbeAnswer:
        if tag is not None:
            return ProbeAnswer(Reply.UNSUPPORTED, "file systems have no conditional replacement")
        try:
            self._storage.put(name, data)
        except PermissionRefused as error:
            return ProbeAnswer(Reply.DENIED, error.message)
        return ProbeAnswer(Reply.DONE)

    def read(self, name: str, first: int | None = None, last: int | None = None, tag: str = "") -> ProbeAnswer:
        if tag:
            return ProbeAnswer(Reply.UNSUPPORTED, "file systems have no conditional reads")
        try:
            if first is None or last is None:
                return ProbeAnswer(Reply.DONE, "", self._storage.read(name))
            return ProbeAnswer(Reply.DONE, "", self._storage.read_range(name, first, last - first + 1), first)
        except FileMissing as error:
            return ProbeAnswer(Reply.ABSENT, error.message)
        except PermissionRefused as error:
            return ProbeAnswer(Reply.DENIED, error.message)
        except StorageFailed as error:
            return ProbeAnswer(Reply.FAILED, error.message)

    def modified_ms(self, name: str) -> int:
        return self._storage.stat(name).modified_ms

    def names(self, prefix: str, start: str = "") -> list[str]:
        names = (file.name for file in self._storage.list_from("", start or prefix))
        return [name for name in names if name.startswith(prefix)]

    def delete(self, names: Sequence[str]) -> list[tuple[str, Deletion]]:
        return list(self._storage.delete_many(names))

    def has_refused_bulk_deletion(self, name: str) -> bool:  # noqa: ARG002  (of the interface)
        return False


def _permit(directory: str) -> Permission:
    if _is_read_only(directory):
        return Permission(PermissionState.NO, f"{directory} is on a file system that is mounted read-only")
    if not os.access(directory, os.W_OK | os.X_OK, effective_ids=True):
        return Permission(PermissionState.NO, f"the mode or the access control list of {directory} does not allow it")
    status = os.stat(directory)
    if status.st_mode & stat.S_ISVTX and os.geteuid() not in (0, status.st_uid):
        return Permission(
            PermissionState.YES, f"the mode of {directory} allows it; its sticky bit limits deletion to own files"
        )
    return Permission(PermissionState.YES, f"the mode or the access control list of {directory} allows it")


def _is_read_only(location: str) -> bool:
    try:
        return bool(os.statvfs(location).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _described(location: str) -> str | None:
    """Return mode, owner and list of a file; None where it cannot be looked at."""
    try:
        status = os.stat(location)
    except OSError:
        return None
    text = f"{stat.filemode(status.st_mode)} {_user(status.st_uid)}:{_group(status.st_gid)}"
    entries = _access_list(location)
    return f"{text}, access control list {','.join(entries)}" if entries else text


def _access_list(location: str) -> list[str]:
    """Return the entries of a POSIX access control list; empty where there is none."""
    try:
        access_list = os.getxattr(location, _ACCESS)
    except OSError:
        return []
    entries = []
    for tag, rights, number in struct.iter_unpack("<HHI", access_list[4 : 4 + (len(access_list) - 4) // 8 * 8]):
        letters = "".join(letter if rights & bit else "-" for letter, bit in zip("rwx", (4, 2, 1), strict=True))
        named = {2: _user, 8: _group}.get(tag, lambda _: "")(number)
        entries.append(f"{_TAGS.get(tag, str(tag))}:{named}:{letters}")
    return entries


def _name_of(look_up: Callable[[int], Sequence[Any]], number: int) -> str:
    try:
        return str(look_up(number)[0])
    except KeyError:
        return str(number)


_user = partial(_name_of, pwd.getpwuid)
_group = partial(_name_of, grp.getgrgid)
