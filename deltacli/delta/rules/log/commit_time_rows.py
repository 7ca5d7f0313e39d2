"""The rows of the rules about in-commit timestamps, catalogs and manifests; their checks stand in `commit_times`."""

from __future__ import annotations

from deltacli.delta.rules.framework.base import Area, Fix, Level, Severity

AREA = Area("commit_times")

MISSING = AREA.rule(
    "ict.missing",
    Severity.ERROR,
    Level.LOG,
    "In-commit timestamps are on, and a commit has none.",
    spec="In-Commit Timestamps",
    fix=Fix(
        broken="the version has no time: time travel by timestamp fails or goes wrong",
        mend="none for what is past; find the writer that does not know the feature",
        loss="the true time of that version",
    ),
    example='{"commitInfo":{"operation":"WRITE"}} with delta.enableInCommitTimestamps=true',
)

NOT_FIRST = AREA.rule(
    "ict.not-first",
    Severity.ERROR,
    Level.LOG,
    "In-commit timestamps are on, and commitInfo is not the first action of a commit.",
    spec="In-Commit Timestamps",
    fix=Fix(
        broken="readers may look at the first line only, and find no time",
        mend="none for what is past; find the writer that orders actions otherwise",
        loss="nothing",
    ),
    example='{"add":{…}} before {"commitInfo":{"inCommitTimestamp":…}}',
)

NOT_MONOTONE = AREA.rule(
    "ict.not-monotone",
    Severity.ERROR,
    Level.LOG,
    "An in-commit timestamp is not later than that of the version before.",
    spec="In-Commit Timestamps",
    fix=Fix(
        broken="time travel by timestamp searches a sorted list, and finds another version",
        mend="none for what is past; check the clocks of the writers",
        loss="nothing",
    ),
    example="inCommitTimestamp 1000 in version 4, 1000 in version 5",
)

ENABLEMENT_PROPERTIES = AREA.rule(
    "ict.enablement-properties",
    Severity.ERROR,
    Level.LOG,
    "The properties that say since when in-commit timestamps count are incomplete, missing or wrong.",
    spec="In-Commit Timestamps",
    fix=Fix(
        broken="readers don't know which versions go by file times; Delta-Spark fails where one of the two is missing",
        mend="set both delta.inCommitTimestampEnablement… properties to the first such version and its time",
        loss="nothing",
    ),
    example="delta.inCommitTimestampEnablementVersion=3 without delta.inCommitTimestampEnablementTimestamp",
)

ENABLE_BEFORE_MTIME = AREA.rule(
    "ict.enable-before-mtime",
    Severity.WARNING,
    Level.LOG,
    "The commit that turns in-commit timestamps on has one that is not later than the file of the version before.",
    spec="In-Commit Timestamps, writer requirement 5",
    fix=Fix(
        broken="times of versions run backwards there: time travel by timestamp may find another version",
        mend="none for what is past",
        loss="nothing",
    ),
    example="inCommitTimestamp 11:59 in version 3, and a file of 12:00 for version 2",
)

FUTURE = AREA.rule(
    "ict.future",
    Severity.WARNING,
    Level.LOG,
    "An in-commit timestamp lies in the future; an error where no later one fits 64 bits in microseconds.",
    spec="In-Commit Timestamps",
    fix=Fix(
        broken="later commits must count on from it; time travel to now misses the version; where no later timestamp "
        "fits, nothing can be committed and change data feeds fail",
        mend="check the clock of the writer; it mends itself as time goes by. Where no later timestamp fits, restore "
        "the log from a backup",
        loss="nothing; after a restore, the changes of that version and of later ones",
    ),
    example="an inCommitTimestamp of tomorrow",
)

WITHOUT_FEATURE = AREA.rule(
    "ict.without-feature",
    Severity.ERROR,
    Level.LOG,
    "In-commit timestamps are turned on in a table that does not support them.",
    spec="In-Commit Timestamps",
    fix=Fix(
        broken="writers need not write them: versions have no time of their own",
        mend="add the feature inCommitTimestamp to the protocol, or unset the property",
        loss="nothing",
    ),
    example='{"minReaderVersion":1,"minWriterVersion":2} with delta.enableInCommitTimestamps=true',
)

UNPUBLISHED_POSSIBLE = AREA.rule(
    "catalog.unpublished-possible",
    Severity.INFO,
    Level.LOG,
    "A catalog manages the table: versions may exist that are not in the log yet.",
    spec="Catalog-managed tables",
    fix=Fix(broken="nothing: only published versions were checked", mend="none needed", loss="nothing"),
    example='"writerFeatures":["catalogManaged",…]',
)

TXNID_MISSING = AREA.rule(
    "catalog.txnid-missing",
    Severity.ERROR,
    Level.LOG,
    "A catalog manages the table, and a commit has no commitInfo.txnId.",
    spec="Writer Requirements for Catalog-managed tables",
    fix=Fix(
        broken="a writer whose answer is lost can't tell whether the commit is its own",
        mend="none for what is past; find the writer that does not know the feature",
        loss="nothing",
    ),
    example='{"commitInfo":{"inCommitTimestamp":…}} with the feature catalogManaged',
)

CATALOG_ICT_MISSING = AREA.rule(
    "catalog.ict-missing",
    Severity.ERROR,
    Level.LOG,
    "A catalog manages the table, and in-commit timestamps are not on.",
    spec="Catalog-managed tables",
    fix=Fix(
        broken="published files get their times late: versions have no true time",
        mend="turn in-commit timestamps on by way of the catalog",
        loss="the true times of versions until then",
    ),
    example='"writerFeatures":["catalogManaged"] without delta.enableInCommitTimestamps=true',
)

PUBLISH_ORDER = AREA.rule(
    "catalog.publish-order",
    Severity.ERROR,
    Level.LOG,
    "A catalog manages the table, and a version is published while one before it is not.",
    spec="Publishing Commits",
    fix=Fix(
        broken="the newest version can't be rebuilt from the log",
        mend="let the catalog publish the missing version; else restore it from a backup",
        loss="the changes of the missing version, if the catalog does not have it any more",
    ),
    example="00000000000000000007.json, 00000000000000000009.json",
)

READABLE_PARTIALLY = AREA.rule(
    "amt.readable-partially",
    Severity.WARNING,
    Level.LOG,
    "The table keeps its state in manifests (adaptiveMetadata): only its log was checked.",
    spec="RFC: Iceberg v4 metadata",
    fix=Fix(
        broken="nothing that is known: files named by manifests were not looked at",
        mend="check the table with an engine that knows the feature",
        loss="nothing",
    ),
    example='"readerFeatures":["adaptiveMetadata-preview",…]',
)
