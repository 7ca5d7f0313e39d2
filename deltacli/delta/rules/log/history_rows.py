"""The rows of the rules about a table's history; their checks are in `history`."""

from __future__ import annotations

from deltacli.delta.rules.framework.base import Area, Fix, Level, Severity

AREA = Area("history")

OPERATION_MISSING = AREA.rule(
    "history.operation-missing",
    Severity.INFO,
    Level.LOG,
    "A commitInfo has no operation.",
    seed="000: Commit Provenance Information",
    spec="Commit Provenance Information",
    fix=Fix(broken="nothing: the history does not show what the commit did", repair="no repair needed", loss="nothing"),
    example='{"commitInfo":{"timestamp":1768003200000}}',
)

VACUUM_START_WITHOUT_END = AREA.rule(
    "history.vacuum-start-without-end",
    Severity.WARNING,
    Level.LOG,
    "A vacuum has started but not ended.",
    spec="Delta-Spark: VACUUM START, VACUUM END",
    fix=Fix(
        broken="the vacuum was interrupted: some of the files it should delete are deleted, others not",
        repair="run the vacuum again",
        loss="only what the vacuum was meant to delete",
    ),
    example='{"commitInfo":{"operation":"VACUUM START",…}} as the newest commit',
)

VACUUM_SHORT_RETENTION = AREA.rule(
    "history.vacuum-short-retention",
    Severity.WARNING,
    Level.LOG,
    "A vacuum used a retention below the table's, or had the retention check disabled.",
    spec="Delta-Spark: VACUUM START, specifiedRetentionMillis and retentionCheckEnabled",
    fix=Fix(
        broken="running readers and writers may have lost files; time travel reaches less far than it should",
        repair="past versions cannot be repaired; compare the files with the log (deltacli validate --level storage)",
        loss="files that were still in use, if there were any",
    ),
    example='{"operation":"VACUUM START","operationParameters":{"specifiedRetentionMillis":0,…}}',
)

TIME_TRAVEL_BROKEN = AREA.rule(
    "history.time-travel-broken",
    Severity.WARNING,
    Level.LISTING,
    "The log can rebuild a version whose files are missing.",
    seed="000: Overview",
    spec="Overview",
    fix=Fix(
        broken="readers open the version and fail on its files",
        repair="cannot be repaired without a backup of the files; use equal retentions for log and files",
        loss="time travel to that version and older ones",
    ),
    example="a vacuum after 7 days, and a log of 30 days",
)

RESTORE_RISK = AREA.rule(
    "history.restore-risk",
    Severity.INFO,
    Level.LISTING,
    "Some versions are no longer readable. This is the oldest version with complete log and files.",
    spec="Delta-Spark: RESTORE",
    fix=Fix(
        broken="nothing: a restore to an older version fails",
        repair="no repair needed; longer retentions keep more versions",
        loss="nothing more",
    ),
    example="commits 0 to 9 are gone: version 10 is the oldest",
)

WRITER_MIX = AREA.rule(
    "history.writer-mix",
    Severity.INFO,
    Level.LOG,
    "Several engines, or several versions of an engine, have written to the table.",
    spec="Commit Provenance Information",
    fix=Fix(
        broken="nothing: engines differ in what they write and enforce",
        repair="no repair needed; check this first when commits contradict each other",
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
        broken="possibly nothing: if its writer did not check for conflicts, it ignored the commits in between",
        repair="check the changes of the versions in between",
        loss="changes of the versions in between, if they were ignored",
    ),
    example='{"commitInfo":{"readVersion":3,"isBlindAppend":false,…}} in version 50',
)
