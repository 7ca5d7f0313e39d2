"""Which files of a log a backup copies, and in which order: all but those that interrupted writers left over."""

from __future__ import annotations

from deltacli.delta.log.log_path import HINT_NAME, LogFileKind, parse_log_path

_LEFT_OVER = (".tmp", ".probe")


def is_left_over(name: str) -> bool:
    """Return True for a temporary file, which is no part of the log."""
    return name.startswith(".") and name.endswith(_LEFT_OVER)


def copying_order(name: str) -> tuple[int, int, int, str]:
    """Return the sort key of the order in which a log grew, so that every prefix of a copy is a valid log.

    Sidecars come before checkpoints, the commit of a version before its other files, and the hint last.
    """
    path = parse_log_path(name)
    match path.kind:
        case LogFileKind.COMMIT:
            return (1, path.version, 0, name)
        case LogFileKind.CHECKSUM:
            return (1, path.version, 1, name)
        case LogFileKind.COMPACTED_COMMIT:
            return (1, path.last_version, 2, name)
        case LogFileKind.CLASSIC_CHECKPOINT | LogFileKind.MULTI_PART_CHECKPOINT | LogFileKind.UUID_CHECKPOINT:
            return (1, path.version, 3, name)
    return (2 if name == HINT_NAME else 0, 0, 0, name)
