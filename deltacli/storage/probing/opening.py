"""Finding the subject of a store, such as a local directory: the user of the process, and what the modes and lists of
its files allow.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from deltacli.core.errors import FileMissing, NoAtomicCreate, PermissionRefused, StorageFailed
from deltacli.storage.base import ReadStorage
from deltacli.storage.local import LocalStorage
from deltacli.storage.outcomes import Created, Deletion, Existed
from deltacli.storage.probing.subject import Granted, Identity, Permit, ProbedCalls, Reply, Said, Subject

if TYPE_CHECKING:
    from deltacli.storage.objects.store import ObjectStorage

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


class LocalSubject:
    """Files below a local directory."""

    kind = "local"
    endpoint = ""
    names_of_permissions = _NAMES

    def __init__(self, storage: LocalStorage) -> None:
        self._storage = storage

    def identity(self) -> Identity:
        """Return the effective user and its groups, and the owner, the mode and the list of the directory."""
        user = os.geteuid()
        groups = sorted({os.getegid(), *os.getgroups()})
        details = {"uid": str(user), "groups": ", ".join(f"{_group(group)} ({group})" for group in groups[:8])}
        for name, place in (("table", self._storage.root), (_LOG, f"{self._storage.root}/{_LOG}")):
            if (said := _described(place)) is not None:
                details[name] = said
        return Identity(_user(user), "user of this process", details, {})

    def permits(self) -> dict[str, Permit]:
        """Return what the system says about writing. A server of a network file system may refuse all the same."""
        log = f"{self._storage.root}/{_LOG}"
        directory = log if os.path.isdir(log) else self._storage.root
        writing = _permit(directory)
        roots = [self._storage.root, *([log] if directory == log else [])]
        deleting = next((found for found in map(_permit, roots) if found.state is not Granted.YES), _permit(directory))
        return {"create": writing, "replace": writing, "delete": deleting}

    def create(self, name: str, data: bytes) -> Said:
        try:
            outcome = self._storage.put_if_absent(name, data)
        except PermissionRefused as fault:
            return Said(Reply.DENIED, fault.message)
        except NoAtomicCreate as fault:
            return Said(Reply.UNSUPPORTED, fault.message)
        if isinstance(outcome, Created):
            return Said(Reply.DONE)
        return Said(Reply.REFUSED) if isinstance(outcome, Existed) else Said(Reply.UNKNOWN, outcome.cause)

    def tag(self, name: str) -> str:  # noqa: ARG002  (of the port)
        return ""

    def replace(self, name: str, data: bytes, tag: str | None) -> Said:
        if tag is not None:
            return Said(Reply.UNSUPPORTED, "file systems have no conditional replacement")
        try:
            self._storage.put(name, data)
        except PermissionRefused as fault:
            return Said(Reply.DENIED, fault.message)
        return Said(Reply.DONE)

    def read(self, name: str, first: int | None = None, last: int | None = None, tag: str = "") -> Said:
        if tag:
            return Said(Reply.UNSUPPORTED, "file systems have no conditional reads")
        try:
            if first is None or last is None:
                return Said(Reply.DONE, "", self._storage.read(name))
            return Said(Reply.DONE, "", self._storage.read_range(name, first, last - first + 1), first)
        except FileMissing as fault:
            return Said(Reply.ABSENT, fault.message)
        except PermissionRefused as fault:
            return Said(Reply.DENIED, fault.message)
        except StorageFailed as fault:
            return Said(Reply.FAILED, fault.message)

    def modified_ms(self, name: str) -> int:
        return self._storage.stat(name).modified_ms

    def names(self, prefix: str, start: str = "") -> list[str]:
        found = (file.name for file in self._storage.list_from("", start or prefix))
        return [name for name in found if name.startswith(prefix)]

    def delete(self, names: Sequence[str]) -> list[tuple[str, Deletion]]:
        return list(self._storage.delete_many(names))

    def deletes_alone(self, name: str) -> bool:  # noqa: ARG002  (of the port)
        return False


def _permit(directory: str) -> Permit:
    if _is_read_only(directory):
        return Permit(Granted.NO, f"{directory} is on a file system that is mounted read-only")
    if not os.access(directory, os.W_OK | os.X_OK, effective_ids=True):
        return Permit(Granted.NO, f"the mode or the access control list of {directory} does not allow it")
    status = os.stat(directory)
    if status.st_mode & stat.S_ISVTX and os.geteuid() not in (0, status.st_uid):
        return Permit(Granted.YES, f"the mode of {directory} allows it; its sticky bit limits deletion to own files")
    return Permit(Granted.YES, f"the mode or the access control list of {directory} allows it")


def _is_read_only(place: str) -> bool:
    try:
        return bool(os.statvfs(place).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _described(place: str) -> str | None:
    """Return mode, owner and list of a file; None where it cannot be looked at."""
    try:
        status = os.stat(place)
    except OSError:
        return None
    text = f"{stat.filemode(status.st_mode)} {_user(status.st_uid)}:{_group(status.st_gid)}"
    entries = _access_list(place)
    return f"{text}, access control list {','.join(entries)}" if entries else text


def _access_list(place: str) -> list[str]:
    """Return the entries of a POSIX access control list; empty where there is none."""
    try:
        found = os.getxattr(place, _ACCESS)
    except OSError:
        return []
    entries = []
    for tag, rights, number in struct.iter_unpack("<HHI", found[4 : 4 + (len(found) - 4) // 8 * 8]):
        letters = "".join(letter if rights & bit else "-" for letter, bit in zip("rwx", (4, 2, 1), strict=True))
        named = {2: _user, 8: _group}.get(tag, lambda _: "")(number)
        entries.append(f"{_TAGS.get(tag, str(tag))}:{named}:{letters}")
    return entries


def _name_of(look_up: Callable[[int], Sequence[Any]], number: int) -> str:
    try:
        return str(look_up(number)[0])
    except KeyError:
        return str(number)


_user, _group = partial(_name_of, pwd.getpwuid), partial(_name_of, grp.getgrgid)


def subject_of(storage: ReadStorage) -> Subject | None:
    """Return a store to probe; None for one that is read-only. Raises CredentialsMissing."""
    if isinstance(storage, LocalStorage):
        return LocalSubject(storage)
    from deltacli.storage.objects.store import ObjectStorage

    if not isinstance(storage, ObjectStorage):
        return None
    from deltacli.storage.probing.objects import ObjectSubject

    return ObjectSubject(storage, _probed(storage))


def _probed(storage: ObjectStorage) -> ProbedCalls:
    if storage.uri.startswith("s3"):
        from deltacli.storage.probing.s3 import S3Probed
        from deltacli.storage.s3.calls import S3Calls

        assert isinstance(storage.calls, S3Calls)
        return S3Probed(storage.calls)
    if storage.uri.startswith(("gs://", "gcs://")):
        from deltacli.storage.gcs.store import GcsCalls
        from deltacli.storage.probing.objects import GcsProbed

        assert isinstance(storage.calls, GcsCalls)
        return GcsProbed(storage.calls)
    from deltacli.storage.azure.store import AzureCalls
    from deltacli.storage.probing.objects import AzureProbed

    assert isinstance(storage.calls, AzureCalls)
    return AzureProbed(storage.calls)
