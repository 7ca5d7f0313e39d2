"""What a change does to a table, which decides what has to be looked at again before it, and when."""

from __future__ import annotations

from enum import Flag, auto


class Act(Flag):
    """A way to change a table. A change may have several."""

    COMMIT = auto()
    """A version without files: columns, properties, features."""
    ADD = auto()
    """New data files and the version that names them."""
    NAME = auto()
    """A version that names files that are there already, as of a restore."""
    DELETE = auto()
    """Data files are deleted for good."""
    PUT = auto()
    """Files are put back in their places, without a version of our own."""
    DERIVE = auto()
    """Files of the log that follow from commits: checkpoints, compactions, checksums."""
    EXPIRE = auto()
    """Files of the log are deleted for good."""
