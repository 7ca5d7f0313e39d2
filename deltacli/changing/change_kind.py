"""The kinds of effects that a change has on a table. Which checks are needed follows from them."""

from __future__ import annotations

from enum import Flag, auto


class ChangeKind(Flag):
    """The effects of a change on a table. A change may have several.

    Attributes:
        CHANGE_METADATA: Commits a version without files: columns, properties, features.
        ADD_FILES: Writes data files, and commits the version that names them.
        REUSE_FILES: Commits a version that names files that exist already, as `restore` does.
        DELETE_FILES: Deletes data files for good.
        RECOVER_FILES: Puts files back in their places. It makes no version of its own.
        DERIVE_LOG_FILES: Writes files of the log that follow from commits: checkpoints, compactions, checksums.
        EXPIRE_LOG_FILES: Deletes files of the log for good.
    """

    CHANGE_METADATA = auto()
    ADD_FILES = auto()
    REUSE_FILES = auto()
    DELETE_FILES = auto()
    RECOVER_FILES = auto()
    DERIVE_LOG_FILES = auto()
    EXPIRE_LOG_FILES = auto()


COMMITS_VERSION = ChangeKind.CHANGE_METADATA | ChangeKind.ADD_FILES | ChangeKind.REUSE_FILES
"""The kinds that end with a commit of their own."""
