"""The rows of the rules about in-commit timestamps, catalogs and manifests; their checks are in `commit_times`."""

from __future__ import annotations

from deltacli.delta.rules.framework.base import Area, Fix, Level, Severity

AREA = Area("commit_times")

MISSING = AREA.rule(
    "ict.missing",
    Severity.ERROR,
    Level.LOG,
    "In-commit timestamps are on, but a commit has none.",
    spec="In-Commit Timestamps",
    fix=Fix(
        broken="the version has no time: time travel by timestamp fails or is wrong",
        repair="past versions cannot be repaired; find the writer that does not support the feature",
        loss="the true time of that version",
    ),
    example='{"commitInfo":{"operation":"WRITE"}} with delta.enableInCommitTimestamps=true',
)

NOT_FIRST = AREA.rule(
    "ict.not-first",
    Severity.ERROR,
    Level.LOG,
    "In-commit timestamps are on, but commitInfo is not the first action of a commit.",
    spec="In-Commit Timestamps",
    fix=Fix(
        broken="readers may read only the first line and find no time",
        repair="past versions cannot be repaired; find the writer that orders actions differently",
        loss="nothing",
    ),
    example='{"add":{…}} before {"commitInfo":{"inCommitTimestamp":…}}',
)

NOT_MONOTONE = AREA.rule(
    "ict.not-monotone",
    Severity.ERROR,
    Level.LOG,
    "An in-commit timestamp is not later than that of the previous version.",
    spec="In-Commit Timestamps",
    fix=Fix(
        broken="time travel by timestamp searches a sorted list and finds the wrong version",
        repair="past versions cannot be repaired; check the clocks of the writers",
        loss="nothing",
    ),
    example="inCommitTimestamp 1000 in version 4, 1000 in version 5",
)

ENABLEMENT_PROPERTIES = AREA.rule(
    "ict.enablement-properties",
    Severity.ERROR,
    Level.LOG,
    "The properties that record when in-commit timestamps were enabled are incomplete, missing or wrong.",
    spec="In-Commit Timestamps",
    fix=Fix(
        broken="readers do not know which versions use file times; Delta-Spark fails if one of the two is missing",
        repair="set both delta.inCommitTimestampEnablement… properties to the first such version and its time",
        loss="nothing",
    ),
    example="delta.inCommitTimestampEnablementVersion=3 without delta.inCommitTimestampEnablementTimestamp",
)

ENABLE_BEFORE_MTIME = AREA.rule(
    "ict.enable-before-mtime",
    Severity.WARNING,
    Level.LOG,
    "The commit that enables in-commit timestamps has one that is not later than the file of the previous version.",
    spec="In-Commit Timestamps, writer requirement 5",
    fix=Fix(
        broken="times of versions decrease there: time travel by timestamp may find the wrong version",
        repair="past versions cannot be repaired",
        loss="nothing",
    ),
    example="inCommitTimestamp 11:59 in version 3, and a file of 12:00 for version 2",
)

FUTURE = AREA.rule(
    "ict.future",
    Severity.WARNING,
    Level.LOG,
    "An in-commit timestamp is in the future. It is an error if no later one fits 64 bits in microseconds.",
    spec="In-Commit Timestamps",
    fix=Fix(
        broken=(
            "later commits must use even later timestamps; time travel to now misses the version; if no later "
            "timestamp fits, nothing can be committed and change data feeds fail"
        ),
        repair=(
            "check the clock of the writer; the fault disappears as time passes. If no later timestamp fits, restore "
            "the log from a backup"
        ),
        loss="nothing; after a restore, the changes of that version and of later ones",
    ),
    example="an inCommitTimestamp of tomorrow",
)

WITHOUT_FEATURE = AREA.rule(
    "ict.without-feature",
    Severity.ERROR,
    Level.LOG,
    "In-commit timestamps are enabled in a table that does not support them.",
    spec="In-Commit Timestamps",
    fix=Fix(
        broken="writers need not write them, so versions have no in-commit timestamp",
        repair="add the feature inCommitTimestamp to the protocol, or unset the property",
        loss="the true times of versions that have one, if the property is unset",
    ),
    example='{"minReaderVersion":1,"minWriterVersion":2} with delta.enableInCommitTimestamps=true',
)

UNPUBLISHED_POSSIBLE = AREA.rule(
    "catalog.unpublished-possible",
    Severity.INFO,
    Level.LOG,
    "A catalog manages the table, so versions may exist that are not in the log yet.",
    spec="Catalog-managed tables",
    fix=Fix(broken="nothing: only published versions were checked", repair="no repair needed", loss="nothing"),
    example='"writerFeatures":["catalogManaged",…]',
)

TXNID_MISSING = AREA.rule(
    "catalog.txnid-missing",
    Severity.ERROR,
    Level.LOG,
    "A catalog manages the table, but a commit has no commitInfo.txnId.",
    spec="Writer Requirements for Catalog-managed tables",
    fix=Fix(
        broken="a writer that loses the response cannot determine whether the commit is its own",
        repair="past versions cannot be repaired; find the writer that does not support the feature",
        loss="nothing",
    ),
    example='{"commitInfo":{"inCommitTimestamp":…}} with the feature catalogManaged',
)

CATALOG_ICT_MISSING = AREA.rule(
    "catalog.ict-missing",
    Severity.ERROR,
    Level.LOG,
    "A catalog manages the table, but in-commit timestamps are not on.",
    spec="Catalog-managed tables",
    fix=Fix(
        broken="files are published late, so versions have no reliable time",
        repair="turn in-commit timestamps on through the catalog",
        loss="the true times of versions until then",
    ),
    example='"writerFeatures":["catalogManaged"] without delta.enableInCommitTimestamps=true',
)

PUBLISH_ORDER = AREA.rule(
    "catalog.publish-order",
    Severity.ERROR,
    Level.LOG,
    "A catalog manages the table, and a version is published although an earlier one is not.",
    spec="Publishing Commits",
    fix=Fix(
        broken="the newest version cannot be rebuilt from the log",
        repair="let the catalog publish the missing version, or restore it from a backup",
        loss="the changes of the missing version, if the catalog no longer has it",
    ),
    example="00000000000000000007.json, 00000000000000000009.json",
)

READABLE_PARTIALLY = AREA.rule(
    "amt.readable-partially",
    Severity.WARNING,
    Level.LOG,
    "The table keeps its state in manifests (adaptiveMetadata). Only its log was checked.",
    spec="RFC: Iceberg v4 metadata",
    fix=Fix(
        broken="nothing known: files named by manifests were not checked",
        repair="check the table with an engine that supports the feature",
        loss="nothing",
    ),
    example='"readerFeatures":["adaptiveMetadata-preview",…]',
)
