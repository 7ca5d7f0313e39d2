"""The rows of the catalogue about protocols and table features."""

from __future__ import annotations

from deltacli.delta.rules.framework.base import LOST_BY_DROPPING, Area, Fix, Level, Severity

AREA = Area("protocol")

_RAISE = "commit a protocol action with the versions and lists that the table needs"

MISSING = AREA.rule(
    "protocol.missing",
    Severity.ERROR,
    Level.LOG,
    "No commit of the log and no checkpoint has a protocol.",
    seed="000: Action Reconciliation",
    spec="Action Reconciliation",
    fix=Fix(
        broken="no engine opens a table without a protocol",
        repair="commit a protocol action, at least minReaderVersion 1 and minWriterVersion 2",
        loss="nothing",
    ),
    example='{"metaData":{"id":"8e1a6ad6-…"}} and no {"protocol":{…}} in any commit',
)
VERSION_OUT_OF_RANGE = AREA.rule(
    "protocol.version-out-of-range",
    Severity.ERROR,
    Level.LOG,
    "The protocol requires a reader version other than 1 to 3, or a writer version other than 1 to 7.",
    seed="000: Protocol Evolution",
    spec="Reader Version Requirements",
    fix=Fix(
        broken="the requirements of such a version are not defined, so all engines refuse the table",
        repair=_RAISE,
        loss="nothing, if the numbers are a mistake",
    ),
    example='{"protocol":{"minReaderVersion":1,"minWriterVersion":8}}',
)
READER3_NEEDS_WRITER7 = AREA.rule(
    "protocol.reader3-needs-writer7",
    Severity.ERROR,
    Level.LOG,
    "The protocol has reader version 3 with a writer version below 7.",
    spec="Table Features for New and Existing Tables",
    fix=Fix(
        broken="reader features must also be listed for writers, but below writer version 7 there is no such list",
        repair="commit a protocol with minWriterVersion 7 and writerFeatures with every feature in use",
        loss="access by writers without support for table features",
    ),
    example='{"protocol":{"minReaderVersion":3,"minWriterVersion":5,"readerFeatures":[]}}',
)
READER_FEATURES_MISSING = AREA.rule(
    "protocol.reader-features-missing",
    Severity.ERROR,
    Level.LOG,
    "The protocol has reader version 3 and no readerFeatures.",
    spec="Table Features",
    fix=Fix(broken="readers do not know which features they must support", repair=_RAISE, loss="nothing"),
    example='{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"writerFeatures":[]}}',
)
WRITER_FEATURES_MISSING = AREA.rule(
    "protocol.writer-features-missing",
    Severity.ERROR,
    Level.LOG,
    "The protocol has writer version 7 and no writerFeatures.",
    spec="Table Features",
    fix=Fix(broken="writers do not know which features they must support", repair=_RAISE, loss="nothing"),
    example='{"protocol":{"minReaderVersion":1,"minWriterVersion":7}}',
)
FEATURES_ON_LEGACY = AREA.rule(
    "protocol.features-on-legacy",
    Severity.ERROR,
    Level.LOG,
    "The protocol has readerFeatures below reader version 3, or writerFeatures below writer version 7.",
    spec="Table Features",
    fix=Fix(
        broken="engines of that version ignore the list, others refuse the table",
        repair="commit a protocol without the list, or with the versions that have one",
        loss="without the list, what the table uses of the listed features",
    ),
    example='{"protocol":{"minReaderVersion":1,"minWriterVersion":2,"writerFeatures":["appendOnly"]}}',
)
READER_ONLY_FEATURE = AREA.rule(
    "protocol.reader-only-feature",
    Severity.ERROR,
    Level.LOG,
    "A feature is in readerFeatures but not in writerFeatures.",
    spec="Supported Features",
    fix=Fix(
        broken="writers do not learn of the feature and may write data that its readers misread",
        repair="commit a protocol with the feature in both lists",
        loss="access by writers without support for the feature",
    ),
    example='"readerFeatures":["deletionVectors"],"writerFeatures":[]',
)
RW_FEATURE_NOT_IN_READER = AREA.rule(
    "protocol.rw-feature-not-in-reader",
    Severity.ERROR,
    Level.LOG,
    "A reader feature is listed only in writerFeatures.",
    spec="Supported Features",
    fix=Fix(
        broken="readers without support for the feature open the table and return wrong rows",
        repair="commit a protocol with reader version 3 and the feature in readerFeatures too",
        loss="access by readers without support for the feature",
    ),
    example='"minReaderVersion":3,"readerFeatures":[],"writerFeatures":["deletionVectors"]',
)
WRITER_FEATURE_IN_READER = AREA.rule(
    "protocol.writer-feature-in-reader",
    Severity.WARNING,
    Level.LOG,
    "A writer-only feature is in readerFeatures.",
    spec="Supported Features",
    fix=Fix(
        broken="readers that could read the table refuse it",
        repair="commit a protocol with the feature in writerFeatures only",
        loss="nothing",
    ),
    example='"readerFeatures":["appendOnly"],"writerFeatures":["appendOnly"]',
)
UNKNOWN_FEATURE = AREA.rule(
    "protocol.unknown-feature",
    Severity.WARNING,
    Level.LOG,
    "A listed feature is not recognized, so its requirements for readers and writers are not checked.",
    spec="Table Features",
    fix=Fix(
        broken="deltacli does not write to the table, and reads it only if the feature is not in readerFeatures",
        repair="use a newer deltacli; if the name is a typo, commit a protocol with the correct name",
        loss="nothing",
    ),
    example='"writerFeatures":["appendOnly","futureFeature"]',
)
PREVIEW_FEATURE = AREA.rule(
    "protocol.preview-feature",
    Severity.INFO,
    Level.LOG,
    "The protocol lists a feature under its preview name.",
    spec="Delta-Spark: names of features under development",
    fix=Fix(
        broken="engines that support only the final feature refuse the table",
        repair="let the engine that created the table upgrade the feature",
        loss="nothing",
    ),
    example='"writerFeatures":["typeWidening-preview"]',
)
DEPENDENCY = AREA.rule(
    "protocol.dependency",
    Severity.ERROR,
    Level.LOG,
    "The protocol lists a feature without another feature that it requires.",
    spec="Table Features",
    fix=Fix(
        broken="engines refuse the table, or write the feature without its requirement",
        repair="commit a protocol with both features",
        loss="access by engines without support for the other feature",
    ),
    example='"writerFeatures":["rowTracking"] without "domainMetadata"',
)
EXCLUSIVE = AREA.rule(
    "protocol.exclusive",
    Severity.ERROR,
    Level.LOG,
    "Two features that exclude each other are both supported or both active.",
    spec="Writer Requirements for IcebergCompatV1",
    fix=Fix(
        broken="each of them forbids data that the other one writes",
        repair="turn one of the two off, and drop it from the protocol if listing it is forbidden",
        loss="that feature",
    ),
    example='"writerFeatures":["icebergCompatV1","deletionVectors"]',
)
DUPLICATE_FEATURE = AREA.rule(
    "protocol.duplicate-feature",
    Severity.WARNING,
    Level.LOG,
    "A feature is listed twice, or with two spellings that differ only in case.",
    spec="Table Features",
    fix=Fix(
        broken="names are compared exactly, so every engine treats the wrong spelling as an unknown feature",
        repair="commit a protocol with each name once",
        loss="nothing",
    ),
    example='"writerFeatures":["appendOnly","appendonly"]',
)
DOWNGRADE = AREA.rule(
    "protocol.downgrade",
    Severity.ERROR,
    Level.LOG,
    "The protocol drops a feature or lowers a version while older versions that need it still exist.",
    spec="Supported Features",
    fix=Fix(
        broken="engines assume that they can read and checkpoint the older versions",
        repair="commit the former protocol again, or truncate the log to the versions since the change",
        loss="time travel to the older versions, if the log is truncated",
    ),
    example='version 4: "readerFeatures":["deletionVectors"], version 5: "minReaderVersion":1,"minWriterVersion":2',
)
LEGACY_ODDITY = AREA.rule(
    "protocol.legacy-oddity",
    Severity.INFO,
    Level.LOG,
    "The pair of versions is valid but implies fewer features than the higher number suggests.",
    seed="000: Writer Version Requirements",
    spec="Writer Version Requirements",
    fix=Fix(
        broken="column mapping needs reader version 2 and writer version 5 together",
        repair="commit a protocol with both versions, or with writer version 7 and the features in use",
        loss="access by readers of version 1, if column mapping is intended",
    ),
    example='{"protocol":{"minReaderVersion":1,"minWriterVersion":5}}',
)
STRAY_KEYS = AREA.rule(
    "protocol.stray-keys",
    Severity.WARNING,
    Level.LOG,
    "The protocol action has readerVersion or writerVersion, which are not valid keys.",
    spec="Protocol Evolution",
    fix=Fix(
        broken="engines read minReaderVersion and minWriterVersion and ignore these two",
        repair="commit a protocol action with the right keys",
        loss="nothing",
    ),
    example='{"protocol":{"readerVersion":3,"writerVersion":7}}',
)
USED_NOT_SUPPORTED = AREA.rule(
    "feature.used-not-supported",
    Severity.ERROR,
    Level.LOG,
    "The table uses a feature that its protocol does not support.",
    seed="000: Writer Version Requirements",
    spec="Supported Features",
    fix=Fix(
        broken=(
            "engines without support for the feature read and write the table without it; for generated and identity "
            "columns the metadata then has no effect, which is only a note"
        ),
        repair="commit a protocol with the feature; metadata without effect needs no repair",
        loss="access by engines without support for the feature",
    ),
    example='a column of type timestamp_ntz with {"minReaderVersion":1,"minWriterVersion":2}',
)
PROPERTY_WITHOUT_FEATURE = AREA.rule(
    "feature.property-without-feature",
    Severity.ERROR,
    Level.LOG,
    "A table property turns on a feature that the protocol does not support.",
    seed="000: Writer Version Requirements",
    spec="Active Features",
    fix=Fix(
        broken="some engines refuse the table, others treat the feature as off",
        repair="commit a protocol with the feature, or a metaData action without the property",
        loss="without the property, what it turned on",
    ),
    example='"delta.enableDeletionVectors":"true" with {"minReaderVersion":1,"minWriterVersion":2}',
)
SUPPORTED_NOT_USED = AREA.rule(
    "feature.supported-not-used",
    Severity.INFO,
    Level.LOG,
    "The protocol lists a feature that no visible version uses.",
    spec="Supported Features",
    fix=Fix(
        broken="engines without support for the feature refuse the table unnecessarily",
        repair="drop the feature with an engine that supports it (ALTER TABLE … DROP FEATURE)",
        loss=LOST_BY_DROPPING,
    ),
    example='"writerFeatures":["changeDataFeed"], but delta.enableChangeDataFeed was never true',
)
OLD_VACUUM = AREA.rule(
    "vacuumcheck.old-vacuum",
    Severity.INFO,
    Level.LOG,
    "A VACUUM ran in an engine that is older than the protocol check which the table requires.",
    spec="Vacuum Protocol Check",
    fix=Fix(
        broken="such an engine may have deleted files that are needed by features it does not support",
        repair="upgrade the engine, and check that no live file is missing: deltacli validate --level storage",
        loss="nothing",
    ),
    example='{"commitInfo":{"operation":"VACUUM START","engineInfo":"Apache-Spark/3.4.0 Delta-Lake/2.4.0"}}',
)
