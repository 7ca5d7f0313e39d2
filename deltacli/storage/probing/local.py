"""Probe a local directory: the user of the process, and what file modes and access control lists allow."""

from __future__ import annotations

import grp
import os
import pwd
import stat
import struct
from collections.abc import Sequence

from deltacli.core.errors import FileMissing, NoAtomicCreate, PermissionRefused, StorageFailed
from deltacli.storage.local import LocalStorage
from deltacli.storage.outcomes import Created, Deletion, Existed
from deltacli.storage.probing.interface import Identity, Permission, PermissionState, ProbeAnswer, Reply

_PERMISSION_NAMES = {
    "list": "read and search the directories",
    "read": "read the files",
    "create": "write and search _delta_log",
    "replace": "write and search _delta_log",
    "delete": "write and search the directories of the files",
}

_LOG = "_delta_log"
_MAX_GROUPS_SHOWN = 8

# Linux stores a POSIX access control list in this extended attribute: a header of 4 bytes, then
# 8 bytes per entry (tag, permission bits, id of the user or group).
_ACL_ATTRIBUTE = "system.posix_acl_access"
_ACL_HEADER_BYTES = 4
_ACL_ENTRY = struct.Struct("<HHI")
_ACL_TAGS = {1: "user", 2: "user", 4: "group", 8: "group", 16: "mask", 32: "other"}
_ACL_NAMED_USER = 2
_ACL_NAMED_GROUP = 8
_PERMISSION_BITS = {"r": 4, "w": 2, "x": 1}


class ProbedDirectory:
    """The files below a local directory. Implements `ProbedStore`."""

    kind = "local"
    endpoint = ""
    permission_names = _PERMISSION_NAMES

    def __init__(self, storage: LocalStorage) -> None:
        self._storage = storage

    def identity(self) -> Identity:
        """Return the effective user and its groups, and the owner and mode of the table directory and the log."""
        uid = os.geteuid()
        groups = sorted({os.getegid(), *os.getgroups()})
        group_names = [f"{_get_group_name(gid)} ({gid})" for gid in groups[:_MAX_GROUPS_SHOWN]]
        details = {"uid": str(uid), "groups": ", ".join(group_names)}

        root = self._storage.root
        for label, path in (("table", root), (_LOG, f"{root}/{_LOG}")):
            description = _describe_access(path)
            if description is not None:
                details[label] = description
        return Identity(_get_user_name(uid), "user of this process", details, {})

    def permissions(self) -> dict[str, Permission]:
        """Return the permissions according to file modes. The server of a network file system may still refuse."""
        root = self._storage.root
        log = f"{root}/{_LOG}"
        has_log = os.path.isdir(log)
        write_permission = _check_directory(log if has_log else root)

        # Vacuum deletes files in the table directory and in the log, so both must be writable.
        delete_permission = write_permission
        for directory in (root, log) if has_log else (root,):
            permission = _check_directory(directory)
            if permission.state is not PermissionState.YES:
                delete_permission = permission
                break
        return {"create": write_permission, "replace": write_permission, "delete": delete_permission}

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

    def replace(self, name: str, data: bytes, tag: str | None) -> ProbeAnswer:
        if tag is not None:
            return ProbeAnswer(Reply.UNSUPPORTED, "file systems have no conditional replacement")
        try:
            self._storage.put(name, data)
        except PermissionRefused as error:
            return ProbeAnswer(Reply.DENIED, error.message)
        return ProbeAnswer(Reply.DONE)

    def read_tag(self, name: str) -> str:  # noqa: ARG002  (of the interface)
        return ""

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

    def read_modified_ms(self, name: str) -> int:
        return self._storage.stat(name).modified_ms

    def list_names(self, prefix: str, start: str = "") -> list[str]:
        names = (file.name for file in self._storage.list_from("", start or prefix))
        return [name for name in names if name.startswith(prefix)]

    def delete(self, names: Sequence[str]) -> list[tuple[str, Deletion]]:
        return list(self._storage.delete_many(names))

    def has_refused_bulk_deletion(self, name: str) -> bool:  # noqa: ARG002  (of the interface)
        return False


def _check_directory(directory: str) -> Permission:
    """Return whether this process can create and delete files in a directory."""
    if _is_mounted_read_only(directory):
        return Permission(PermissionState.NO, f"{directory} is on a file system that is mounted read-only")
    if not os.access(directory, os.W_OK | os.X_OK, effective_ids=True):
        return Permission(PermissionState.NO, f"the mode or the access control list of {directory} does not allow it")

    # In a directory with the sticky bit, such as /tmp, users can only delete their own files.
    status = os.stat(directory)
    is_sticky = status.st_mode & stat.S_ISVTX
    if is_sticky and os.geteuid() not in (0, status.st_uid):
        return Permission(
            PermissionState.YES, f"the mode of {directory} allows it; its sticky bit limits deletion to own files"
        )
    return Permission(PermissionState.YES, f"the mode or the access control list of {directory} allows it")


def _is_mounted_read_only(path: str) -> bool:
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _describe_access(path: str) -> str | None:
    """Return mode, owner and access control list of a path; None if it cannot be accessed.

    An example is `drwxr-x--- spark:etl, access control list user::rwx,group:ops:r-x`.
    """
    try:
        status = os.stat(path)
    except OSError:
        return None
    description = f"{stat.filemode(status.st_mode)} {_get_user_name(status.st_uid)}:{_get_group_name(status.st_gid)}"
    entries = _read_access_list(path)
    return f"{description}, access control list {','.join(entries)}" if entries else description


def _read_access_list(path: str) -> list[str]:
    """Return the entries of the POSIX access control list of a path, such as `user:spark:rw-`; empty without one."""
    try:
        attribute = os.getxattr(path, _ACL_ATTRIBUTE)
    except OSError:
        return []

    entries = list[str]()
    entry_count = (len(attribute) - _ACL_HEADER_BYTES) // _ACL_ENTRY.size
    for index in range(entry_count):
        tag, permissions, number = _ACL_ENTRY.unpack_from(attribute, _ACL_HEADER_BYTES + index * _ACL_ENTRY.size)
        name = ""
        if tag == _ACL_NAMED_USER:
            name = _get_user_name(number)
        elif tag == _ACL_NAMED_GROUP:
            name = _get_group_name(number)
        letters = "".join(letter if permissions & bit else "-" for letter, bit in _PERMISSION_BITS.items())
        entries.append(f"{_ACL_TAGS.get(tag, str(tag))}:{name}:{letters}")
    return entries


def _get_user_name(uid: int) -> str:
    """Return the name of a user, or the number of a user without a name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _get_group_name(gid: int) -> str:
    """Return the name of a group, or the number of a group without a name."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
