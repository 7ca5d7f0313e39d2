"""The kinds of effects that a change has on a table. They decide which checks the change needs."""

from __future__ import annotations

from enum import Flag, auto


class ChangeKind(Flag):
    """The effects of a change on a table. A change may have several.

    Attributes:
        CHANGE_METADATA: Commits a version that changes columns, properties or features.
        ADD_FILES: Writes data files, and commits a version that adds them.
        REUSE_FILES: Commits a version that adds existing data files again, as `restore` does.
        DELETE_FILES: Deletes data files permanently.
        RECOVER_FILES: Restores lost data files or log files from another place, without committing a version.
        DERIVE_LOG_FILES: Writes log files that are derived from commits: checkpoints, log compactions, checksum files.
        EXPIRE_LOG_FILES: Deletes log files permanently.
    """

    CHANGE_METADATA = auto()
    ADD_FILES = auto()
    REUSE_FILES = auto()
    DELETE_FILES = auto()
    RECOVER_FILES = auto()
    DERIVE_LOG_FILES = auto()
    EXPIRE_LOG_FILES = auto()


COMMITS_VERSION = ChangeKind.CHANGE_METADATA | ChangeKind.ADD_FILES | ChangeKind.REUSE_FILES
"""The kinds that commit a version."""
