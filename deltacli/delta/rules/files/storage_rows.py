"""The rows of the rules about a table's files; their checks are in `storage`."""

from __future__ import annotations

from deltacli.delta.rules.framework.base import Area, Fix, Level, Severity

AREA = Area("storage")

FILE_MISSING = AREA.rule(
    "data.file-missing",
    Severity.ERROR,
    Level.LISTING,
    "A live file is missing.",
    seed="000: Add File and Remove File",
    spec="Add File and Remove File",
    fix=Fix(
        broken="readers of the newest version fail, or lose the rows of the file",
        repair="restore the object from a backup or an older version of it; else commit a remove of the file",
        loss="the rows of the file, if there is no backup",
    ),
    example="an add of part-00001.parquet, and no part-00001.parquet",
)

FILE_MISSING_TOMBSTONED = AREA.rule(
    "data.file-missing-tombstoned",
    Severity.INFO,
    Level.LISTING,
    "A removed file is gone although its retention is not over.",
    seed="000: Overview",
    spec="Overview; Add File and Remove File",
    fix=Fix(
        broken="versions that still had the file cannot be read; running readers of them fail",
        repair="none, unless a backup has the file",
        loss="time travel to these versions",
    ),
    example="a remove of yesterday, a retention of 7 days, and no such file",
)

SIZE_MISMATCH = AREA.rule(
    "data.size-mismatch",
    Severity.ERROR,
    Level.LISTING,
    "The size of a live file differs from the size in its add.",
    seed="000: Add File and Remove File",
    spec="Add File and Remove File",
    fix=Fix(
        broken="the file was overwritten or cut off; readers look for its footer in the wrong place",
        repair="restore the object; if the file is right, commit the same add with its true size",
        loss="the rows of the file, if it was cut off",
    ),
    example='{"add":{"path":"part-00001.parquet","size":1001,…}} and a file of 1000 bytes',
)

MODIFIED_AFTER_ADD = AREA.rule(
    "data.modified-after-add",
    Severity.WARNING,
    Level.LISTING,
    "A live file was modified after the commit that added it.",
    spec="Data Files",
    fix=Fix(
        broken="data files are never overwritten: statistics may be wrong, and readers may have seen two contents",
        repair="restore the older version of the object",
        loss="the rows of one of the two contents",
    ),
    example="a file of 12:00, added by a commit of 11:00",
)

ORPHAN = AREA.rule(
    "data.orphan",
    Severity.INFO,
    Level.LISTING,
    "A file that the log does not name is older than the retention of removed files.",
    seed="000: Overview",
    spec="Overview",
    fix=Fix(
        broken="nothing: it takes space; a writer failed before its commit, or the log that named it was cleaned up",
        repair="vacuum",
        loss="nothing from the table",
    ),
    example="part-00009.parquet of last month, named by no commit",
)

ORPHAN_YOUNG = AREA.rule(
    "data.orphan-young",
    Severity.INFO,
    Level.LISTING,
    "A file that the log does not name is younger than the retention of removed files.",
    seed="000: Overview",
    spec="Overview",
    fix=Fix(
        broken="nothing: a writer may be about to commit it",
        repair="no repair needed; a later vacuum deletes it if it is not committed",
        loss="nothing from the table",
    ),
    example="part-00009.parquet of today, named by no commit",
)

EXPIRED_TOMBSTONE_PRESENT = AREA.rule(
    "data.expired-tombstone-present",
    Severity.INFO,
    Level.LISTING,
    "A removed file still exists although its retention has ended.",
    seed="000: Overview",
    spec="Overview; Add File and Remove File",
    fix=Fix(
        broken="nothing: it takes space",
        repair="vacuum",
        loss="time travel to versions that still had the file",
    ),
    example="a remove of last month, a retention of 7 days, and the file",
)

SMALL_FILES = AREA.rule(
    "data.small-files",
    Severity.INFO,
    Level.LISTING,
    "Most of the live files, and at least a hundred, have less than 16 MiB.",
    spec="Delta-Spark: OPTIMIZE",
    fix=Fix(
        broken="nothing: reading needs a request and a file open for each file",
        repair="compact the table with an engine (OPTIMIZE), or partition it less finely",
        loss="nothing",
    ),
    example="5,000 files of 20 KiB",
)

UNREACHABLE = AREA.rule(
    "data.unreachable",
    Severity.WARNING,
    Level.LISTING,
    "Live files are on a store that was not checked.",
    seed="000: Add File and Remove File",
    spec="Add File and Remove File",
    fix=Fix(
        broken="nothing known: whether these files exist was not checked",
        repair="check them from a machine that can reach that store",
        loss="nothing",
    ),
    example='{"add":{"path":"s3://other-bucket/part-00001.parquet",…}}',
)

SHARED_FILE = AREA.rule(
    "data.shared-file",
    Severity.WARNING,
    Level.LOG,
    "Live files are outside the table's directory, as in a shallow clone.",
    spec="Delta-Spark: shallow clones",
    fix=Fix(
        broken="the table they belong to does not know about this one, so its vacuum may delete them",
        repair="copy the rows (a deep clone); until then vacuum the other table with a long retention",
        loss="the rows of these files, after a vacuum of the other table",
    ),
    example='{"add":{"path":"file:///lake/source/part-00001.parquet",…}}',
)
