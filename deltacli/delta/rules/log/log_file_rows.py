"""The rows of the rules about the files of the log; their checks are in `log_files` and `log_times`."""

from __future__ import annotations

from deltacli.delta.rules.framework.base import Area, Fix, Level, Severity

AREA = Area("log_files")

NOT_A_TABLE = AREA.rule(
    "log.not-a-table",
    Severity.ERROR,
    Level.LOG,
    "The directory has no log, or a log without a commit and without a complete checkpoint.",
    seed="000: File Types",
    spec="File Types",
    fix=Fix(
        broken="no version can be rebuilt",
        repair="restore _delta_log from a backup, or pass the directory that contains it",
        loss="every version, unless a backup has them",
    ),
    example="an empty _delta_log",
)

GAP = AREA.rule(
    "log.gap",
    Severity.ERROR,
    Level.LOG,
    "Commits are missing in between, so the newest version cannot be rebuilt, or (a warning) older ones cannot.",
    seed="000: Delta Table Specification",
    spec="Delta Table Specification",
    fix=Fix(
        broken="versions must be contiguous; the changes of the missing commits are unknown",
        repair="restore the missing commits from a backup",
        loss="every version that needs them; readers of the newest may fail",
    ),
    example="00000000000000000001.json, 00000000000000000003.json, and no checkpoint from 2 on",
)

START_MISSING = AREA.rule(
    "log.start-missing",
    Severity.ERROR,
    Level.LOG,
    "The log has neither commit 0 nor a complete checkpoint to start from.",
    seed="000: Checkpoints",
    spec="Checkpoints; Metadata Cleanup",
    fix=Fix(
        broken="commits hold only changes; without a starting point no version can be rebuilt",
        repair="restore the older commits, or a checkpoint, from a backup",
        loss="every version, unless a backup has them",
    ),
    example="a log that begins with 00000000000000000007.json and has no checkpoint",
)

CHECKPOINT_COMMIT_MISSING = AREA.rule(
    "log.checkpoint-commit-missing",
    Severity.WARNING,
    Level.LOG,
    "A complete checkpoint has no commit of its own version.",
    spec="Metadata Cleanup, step 2",
    fix=Fix(
        broken="the time and the provenance of the version are lost; Delta-Spark needs a commit at or after it",
        repair="restore the commit from a backup; if the checkpoint is the newest version, a further commit helps",
        loss="the history of that version",
    ),
    example="00000000000000000010.checkpoint.parquet without 00000000000000000010.json",
)

NAME_NOT_PADDED = AREA.rule(
    "log.name-not-padded",
    Severity.ERROR,
    Level.LOG,
    "A version in a file name does not have exactly 20 digits.",
    seed="000: Delta Log Entries",
    spec="Delta Log Entries",
    fix=Fix(
        broken="some engines read the file as that version, others ignore it",
        repair="find out which engine wrote it; rename or delete it manually",
        loss="the changes of that file, if it is deleted and some version needs it",
    ),
    example="_delta_log/12.json",
)

NAME_UNKNOWN = AREA.rule(
    "log.name-unknown",
    Severity.INFO,
    Level.LOG,
    "A file of the log has a name that the protocol does not define.",
    spec="Protocol Evolution",
    fix=Fix(
        broken="nothing: readers ignore it",
        repair="delete it if it has no known purpose",
        loss="nothing from the table",
    ),
    example="_delta_log/notes.txt",
)

TEMP_LEFTOVER = AREA.rule(
    "log.temp-leftover",
    Severity.INFO,
    Level.LOG,
    "A temporary file, or a checksum file of Hadoop, has been in the log for more than a day.",
    spec="Delta-Spark: names of temporary files; Hadoop: checksum files",
    fix=Fix(
        broken="nothing: readers ignore it; a writer was interrupted, or a file system left its checksum",
        repair="delete it when no writer is running",
        loss="nothing from the table",
    ),
    example="_delta_log/.00000000000000000003.json.9c1f….tmp",
)

SUBDIR_UNKNOWN = AREA.rule(
    "log.subdir-unknown",
    Severity.INFO,
    Level.LOG,
    "The log has a directory that the protocol does not define.",
    spec="File Types",
    fix=Fix(broken="nothing: readers ignore it", repair="no repair needed", loss="nothing"),
    example="_delta_log/backup/",
)

VERSION_TOO_LARGE = AREA.rule(
    "log.version-too-large",
    Severity.ERROR,
    Level.LOG,
    "A file name has an unreachable version: 2^63 - 1 or above, or far beyond all others.",
    spec="Delta Log Entries",
    fix=Fix(
        broken="engines treat the file as the newest version, or fail to parse its number; nothing can be committed",
        repair="find out who wrote it and move it out of the log manually",
        loss="the changes of that file, if they were intended",
    ),
    example="_delta_log/99999999999999999999.json",
)

STAGED_WITHOUT_FEATURE = AREA.rule(
    "log.staged-without-feature",
    Severity.WARNING,
    Level.LOG,
    "There are staged commits, but no catalog manages the table.",
    spec="Catalog-managed tables",
    fix=Fix(
        broken="they will never be published; their changes are in no version",
        repair="delete them after checking that no catalog manages the table",
        loss="changes that were never ratified",
    ),
    example="_delta_log/_staged_commits/00000000000000000004.1b1c….json in a table without catalogManaged",
)

STAGED_STALE = AREA.rule(
    "log.staged-stale",
    Severity.INFO,
    Level.LOG,
    "A staged commit is not newer than the oldest checkpoint.",
    spec="Metadata Cleanup, step 3",
    fix=Fix(broken="nothing: it only takes space", repair="delete it", loss="nothing"),
    example="_delta_log/_staged_commits/00000000000000000002.1b1c….json below the checkpoint of version 10",
)

STAGED_NAME = AREA.rule(
    "log.staged-name",
    Severity.WARNING,
    Level.LOG,
    "The name of a staged commit is not 20 digits, a UUID and `.json`.",
    spec="Delta Log Entries",
    fix=Fix(
        broken="neither the catalog nor a reader finds it",
        repair="delete it once the catalog has no commit of that name",
        loss="changes that were never ratified",
    ),
    example="_delta_log/_staged_commits/4.json",
)

MTIME_ORDER = AREA.rule(
    "log.mtime-order",
    Severity.WARNING,
    Level.LOG,
    "Commit files are not newer than the previous ones, although their times are the times of the versions.",
    spec="In-Commit Timestamps",
    fix=Fix(
        broken="time travel by timestamp works on adjusted times",
        repair="past versions cannot be repaired; set delta.enableInCommitTimestamps for future ones",
        loss="the true times of these versions",
    ),
    example="the file of version 4 is older than that of version 3",
)

MTIME_FUTURE = AREA.rule(
    "log.mtime-future",
    Severity.WARNING,
    Level.LISTING,
    "A commit file or a data file was last modified in the future.",
    spec="Delta-Spark: VACUUM compares file times with the clock",
    fix=Fix(
        broken="ages are wrong: time travel misses the version, and vacuum keeps the file too long",
        repair="correct the clocks; the times of files become valid as time passes",
        loss="nothing",
    ),
    example="a file of tomorrow",
)

MTIME_VS_COMMITINFO = AREA.rule(
    "log.mtime-vs-commitinfo",
    Severity.INFO,
    Level.LOG,
    "The time of a commit file and the timestamp in its commitInfo differ by more than a day.",
    spec="Commit Provenance Information",
    fix=Fix(
        broken="the log was copied, so time travel by timestamp uses the times of the copy",
        repair="set delta.enableInCommitTimestamps; preserve file times when copying tables",
        loss="the true times of these versions, for engines that use file times",
    ),
    example='a file of 2026-01-10 that holds {"commitInfo":{"timestamp":1600000000000}}',
)

CLEANUP_OVERDUE = AREA.rule(
    "log.cleanup-overdue",
    Severity.INFO,
    Level.LOG,
    "Commits older than the log retention, which a checkpoint replaces, still exist.",
    spec="Metadata Cleanup",
    fix=Fix(
        broken="nothing: listings are longer than necessary",
        repair="write a checkpoint with log cleanup",
        loss="time travel to the versions that are cleaned up",
    ),
    example="a commit of last year below a checkpoint of last year, with a retention of 30 days",
)

NO_CHECKPOINT_LONG = AREA.rule(
    "log.no-checkpoint-long",
    Severity.WARNING,
    Level.LOG,
    "Many commits were made since the last complete checkpoint.",
    seed="000: Checkpoints",
    spec="Checkpoints",
    fix=Fix(
        broken="every reader reads all of these commits",
        repair="write a checkpoint",
        loss="nothing",
    ),
    example="150 commits and no checkpoint",
)

NESTED_TABLE = AREA.rule(
    "log.nested-table",
    Severity.WARNING,
    Level.LISTING,
    "A directory below the table has its own table.",
    spec="Data Files",
    fix=Fix(
        broken="a vacuum of the outer table treats the inner table's files as unreferenced",
        repair="move the inner table out of the outer one; do not run vacuum before",
        loss="the inner table's rows, after a vacuum",
    ),
    example="events/archive/_delta_log inside events/",
)
