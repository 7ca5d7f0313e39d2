"""The rows of the rules about a table's history; their checks stand in `history`."""

from __future__ import annotations

from deltacli.delta.rules.framework.base import Area, Fix, Level, Severity

AREA = Area("history")

OPERATION_MISSING = AREA.rule(
    "history.operation-missing",
    Severity.INFO,
    Level.LOG,
    "A commitInfo names no operation.",
    seed="000: Commit Provenance Information",
    spec="Commit Provenance Information",
    fix=Fix(broken="nothing: the history does not say what the commit did", mend="none needed", loss="nothing"),
    example='{"commitInfo":{"timestamp":1768003200000}}',
)

VACUUM_START_WITHOUT_END = AREA.rule(
    "history.vacuum-start-without-end",
    Severity.WARNING,
    Level.LOG,
    "A vacuum has begun and not ended.",
    spec="Delta-Spark: VACUUM START, VACUUM END",
    fix=Fix(
        broken="the vacuum was broken off: some of the files it meant to delete are gone, others not",
        mend="run the vacuum again",
        loss="nothing more than the vacuum meant to delete",
    ),
    example='{"commitInfo":{"operation":"VACUUM START",…}} as the newest commit',
)

VACUUM_SHORT_RETENTION = AREA.rule(
    "history.vacuum-short-retention",
    Severity.WARNING,
    Level.LOG,
    "A vacuum went below the table's retention, or had the check of the retention turned off.",
    spec="Delta-Spark: VACUUM START, specifiedRetentionMillis and retentionCheckEnabled",
    fix=Fix(
        broken="running readers and writers may have lost files; time travel reaches less far than it should",
        mend="none for what is past; compare the files with the log (deltacli validate --level storage)",
        loss="files that were still in use, if there were any",
    ),
    example='{"operation":"VACUUM START","operationParameters":{"specifiedRetentionMillis":0,…}}',
)

TIME_TRAVEL_BROKEN = AREA.rule(
    "history.time-travel-broken",
    Severity.WARNING,
    Level.LISTING,
    "The log rebuilds a version whose files are gone.",
    seed="000: Overview",
    spec="Overview",
    fix=Fix(
        broken="readers open the version and fail on its files",
        mend="none, unless a backup has the files; keep log and files equally long",
        loss="time travel to that version and older ones",
    ),
    example="a vacuum after 7 days, and a log of 30 days",
)

RESTORE_RISK = AREA.rule(
    "history.restore-risk",
    Severity.INFO,
    Level.LISTING,
    "Not every version can be read any more; this is the oldest that can, log and files.",
    spec="Delta-Spark: RESTORE",
    fix=Fix(
        broken="nothing: a restore to an older version fails",
        mend="none needed; longer retentions keep more versions",
        loss="nothing more",
    ),
    example="commits 0 to 9 are gone: version 10 is the oldest",
)

WRITER_MIX = AREA.rule(
    "history.writer-mix",
    Severity.INFO,
    Level.LOG,
    "Several engines, or several versions of one, have written to the table.",
    spec="Commit Provenance Information",
    fix=Fix(
        broken="nothing: engines differ in what they write and heed",
        mend="none needed; look here first when commits contradict each other",
        loss="nothing",
    ),
    example='"engineInfo":"Apache-Spark/3.5.3 …" and "engineInfo":"delta-rs:py-1.6.6"',
)

CONCURRENT_VERSION_HOLE = AREA.rule(
    "history.concurrent-version-hole",
    Severity.WARNING,
    Level.LOG,
    "A commit that depends on what it read was prepared many versions earlier.",
    spec="Delta-Spark: commitInfo.readVersion and isBlindAppend",
    fix=Fix(
        broken="perhaps nothing: if its writer did not check what had come since, it overlooked those commits",
        mend="check what the versions between changed",
        loss="changes of the versions between, if they were overlooked",
    ),
    example='{"commitInfo":{"readVersion":3,"isBlindAppend":false,…}} in version 50',
)
