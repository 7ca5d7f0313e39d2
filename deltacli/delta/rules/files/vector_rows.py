"""The rows of the rules about deletion vectors."""

from __future__ import annotations

from deltacli.delta.rules.framework.base import Area, Fix, Level, Severity

AREA = Area("deletion_vectors")

_SCHEMA = "Deletion Vector Descriptor Schema"
_STORAGE = "Deletion Vector File Storage Format"
_FORMAT = "Deletion Vector Format"
_VECTORS = "Deletion Vectors"
_REWRITE = "rewrite the file without its vector, or restore an older version"
_UNREADABLE = "the file cannot be read, or its deleted rows come back"
_RESTORE = "restore the file of the vector from a backup, or restore the previous version of the table"
_DELETIONS = "the deletions"
_RECOMMIT = "commit the same add again with a correct descriptor, and remove the old one"

BAD_DESCRIPTOR = AREA.rule(
    "dv.bad-descriptor",
    Severity.ERROR,
    Level.LOG,
    "A deletion vector descriptor lacks a field, has a negative number, or has an unknown storage type.",
    spec=_SCHEMA,
    fix=Fix(
        broken="no reader finds the vector, so the file cannot be read",
        repair=_REWRITE,
        loss="the deletions of the vector",
    ),
    example='"deletionVector":{"storageType":"x","pathOrInlineDv":"…","sizeInBytes":34,"cardinality":1}',
)
BAD_Z85 = AREA.rule(
    "dv.bad-z85",
    Severity.ERROR,
    Level.LOG,
    "The z85 text of a deletion vector descriptor cannot be decoded.",
    spec=_SCHEMA,
    fix=Fix(
        broken="no reader finds the vector, so the file cannot be read",
        repair=_REWRITE,
        loss="the deletions of the vector",
    ),
    example='"deletionVector":{"storageType":"u","pathOrInlineDv":"tooshort",…}',
)
INLINE_WITH_OFFSET = AREA.rule(
    "dv.inline-with-offset",
    Severity.ERROR,
    Level.LOG,
    "An inline deletion vector has an offset.",
    spec=_SCHEMA,
    fix=Fix(broken="some readers refuse the descriptor", repair=_RECOMMIT, loss="nothing"),
    example='"deletionVector":{"storageType":"i","offset":1,…}',
)
ABSOLUTE_NOT_ABSOLUTE = AREA.rule(
    "dv.absolute-not-absolute",
    Severity.ERROR,
    Level.LOG,
    "A deletion vector of storage type p has a path that is not absolute.",
    spec=_SCHEMA,
    fix=Fix(broken="readers look for the file in different places", repair=_RECOMMIT, loss="nothing"),
    example='"deletionVector":{"storageType":"p","pathOrInlineDv":"dv/deletion_vector_1.bin",…}',
)
OFFSET_ZERO = AREA.rule(
    "dv.offset-zero-vs-null",
    Severity.WARNING,
    Level.LOG,
    "A deletion vector in a file has offset 0 or no offset, but the first byte of such a file is its version.",
    spec=_STORAGE,
    fix=Fix(
        broken="readers start at different bytes, and offsets 0 and null give one vector two ids",
        repair=_RECOMMIT,
        loss="nothing",
    ),
    example='"deletionVector":{"storageType":"u","offset":0,…}',
)
EMPTY = AREA.rule(
    "dv.empty",
    Severity.WARNING,
    Level.LOG,
    "A deletion vector deletes no row.",
    spec=_VECTORS,
    fix=Fix(
        broken="nothing, but readers open a file without need",
        repair="commit the add without the vector",
        loss="nothing",
    ),
    example='"deletionVector":{…,"cardinality":0}',
)
NUM_RECORDS_MISSING = AREA.rule(
    "dv.num-records-missing",
    Severity.ERROR,
    Level.LOG,
    "The statistics of a file with a deletion vector have no numRecords.",
    spec="Writer Requirements for Deletion Vectors",
    fix=Fix(
        broken="the remaining rows cannot be counted",
        repair="commit the same add again with numRecords from the file's footer",
        loss="nothing",
    ),
    example='{"add":{…,"deletionVector":{…}}} without stats',
)
FEATURE_MISSING = AREA.rule(
    "dv.feature-missing",
    Severity.ERROR,
    Level.LOG,
    "A file has a deletion vector, but the protocol does not support them.",
    spec=_VECTORS,
    fix=Fix(
        broken="readers that trust the protocol show the deleted rows again",
        repair="commit a protocol that supports deletionVectors",
        loss="nothing",
    ),
    example='"deletionVector":{…} under {"protocol":{"minReaderVersion":1,"minWriterVersion":2}}',
)
WRITTEN_WHILE_DISABLED = AREA.rule(
    "dv.written-while-disabled",
    Severity.WARNING,
    Level.LOG,
    "A commit writes a new deletion vector while delta.enableDeletionVectors is not true.",
    spec="Writer Requirements for Deletion Vectors",
    fix=Fix(broken="nothing: readers apply the vector", repair="no repair needed", loss="nothing"),
    example='a new "deletionVector":{…} in a table without delta.enableDeletionVectors',
)
ICEBERG_CONFLICT = AREA.rule(
    "dv.iceberg-conflict",
    Severity.ERROR,
    Level.LOG,
    "A file has a deletion vector while icebergCompatV1 or V2 is on.",
    spec="Writer Requirements for IcebergCompatV1 and V2",
    fix=Fix(
        broken="Iceberg readers show the deleted rows",
        repair="rewrite the files that have vectors (REORG … APPLY (PURGE))",
        loss="nothing",
    ),
    example='"deletionVector":{…} under delta.enableIcebergCompatV2=true',
)
ALL_ROWS = AREA.rule(
    "dv.all-rows",
    Severity.INFO,
    Level.LOG,
    "A deletion vector deletes every row of its file.",
    spec=_VECTORS,
    fix=Fix(
        broken="nothing, but readers open a file that has no rows left",
        repair="commit a remove of the file",
        loss="nothing",
    ),
    example='"deletionVector":{…,"cardinality":10},"stats":"{\\"numRecords\\":10}"',
)
ABSOLUTE_IN_ROOT = AREA.rule(
    "dv.absolute-in-root",
    Severity.WARNING,
    Level.LOG,
    "An absolute path of a deletion vector points into the table. The vacuum of Delta-Spark does not protect it.",
    spec="Delta-Spark: VacuumCommand",
    fix=Fix(
        broken="a vacuum may delete the vector, and moving the table breaks the path",
        repair="commit the same add again with storage type u, and remove the old one",
        loss="nothing",
    ),
    example='"deletionVector":{"storageType":"p","pathOrInlineDv":"s3://bucket/table/deletion_vector_1.bin",…}',
)
HIDDEN_PREFIX = AREA.rule(
    "dv.random-prefix-dir",
    Severity.INFO,
    Level.LOG,
    "The directory of a deletion vector has a hidden name.",
    spec=_SCHEMA,
    fix=Fix(broken="tools that skip hidden names miss the vector", repair=_RECOMMIT, loss="nothing"),
    example='"deletionVector":{"storageType":"u","pathOrInlineDv":"_ab^-aqEH.-t@S}K{vb[*k^",…}',
)
FILE_MISSING = AREA.rule(
    "dv.file-missing",
    Severity.ERROR,
    Level.LISTING,
    "The file of a deletion vector does not exist.",
    spec=_VECTORS,
    fix=Fix(
        broken="the data file cannot be read, or its deleted rows come back",
        repair="restore the file from a backup; or commit the add without the vector",
        loss="the deletions",
    ),
    example='"deletionVector":{"storageType":"u",…} and no deletion_vector_….bin',
)
ORPHAN = AREA.rule(
    "dv.orphan",
    Severity.INFO,
    Level.LISTING,
    "A file of deletion vectors is not named by any file of the log.",
    spec="Deletion Vector Files",
    fix=Fix(broken="nothing, but it takes space", repair="vacuum", loss="nothing"),
    example="deletion_vector_61d16c75-6994-46b7-a15b-8b538852e50e.bin, which no action names",
)
FILE_TOO_SHORT = AREA.rule(
    "dv.file-too-short",
    Severity.ERROR,
    Level.FOOTERS,
    "The file of a deletion vector ends before the vector does.",
    spec=_STORAGE,
    fix=Fix(broken=_UNREADABLE, repair=_RESTORE, loss=_DELETIONS),
    example='"offset":1,"sizeInBytes":40 and a file of 30 bytes',
)
FILE_VERSION = AREA.rule(
    "dv.file-version",
    Severity.ERROR,
    Level.FOOTERS,
    "A file of deletion vectors is notgin with version 1.",
    spec=_STORAGE,
    fix=Fix(broken=_UNREADABLE, repair=_RESTORE, loss=_DELETIONS),
    example="a deletion_vector_….bin whose first byte is 2",
)
SIZE_MISMATCH = AREA.rule(
    "dv.size-mismatch",
    Severity.ERROR,
    Level.FOOTERS,
    "The size of a deletion vector, in its file or in its text, differs from its descriptor.",
    spec=_STORAGE,
    fix=Fix(broken=_UNREADABLE, repair=_RESTORE, loss=_DELETIONS),
    example='"sizeInBytes":40 and the size 34 before the vector in the file',
)
CRC_MISMATCH = AREA.rule(
    "dv.crc-mismatch",
    Severity.ERROR,
    Level.FOOTERS,
    "The checksum of a deletion vector does not match its bytes.",
    spec=_STORAGE,
    fix=Fix(broken=_UNREADABLE, repair=_RESTORE, loss=_DELETIONS),
    example="a vector with one bit flipped",
)
MAGIC = AREA.rule(
    "dv.magic",
    Severity.ERROR,
    Level.FOOTERS,
    "A deletion vector is notgin with the number 1681511377. The number 1681511376, which Delta-Spark reads, is a "
    "warning.",
    spec=_FORMAT,
    fix=Fix(broken=_UNREADABLE, repair=_REWRITE, loss=_DELETIONS),
    example="a vector whose first four bytes are zero",
)
BITMAP_CORRUPT = AREA.rule(
    "dv.bitmap-corrupt",
    Severity.ERROR,
    Level.FOOTERS,
    "A deletion vector is not a Roaring bitmap of 63-bit row numbers in ascending order.",
    spec=_FORMAT,
    fix=Fix(broken=_UNREADABLE, repair=_REWRITE, loss=_DELETIONS),
    example="a vector of two bitmaps, the second of which has the lower key",
)
CARDINALITY_MISMATCH = AREA.rule(
    "dv.cardinality-mismatch",
    Severity.ERROR,
    Level.FOOTERS,
    "The number of rows that a deletion vector deletes differs from its descriptor.",
    spec=_SCHEMA,
    fix=Fix(broken="readers refuse the file, or count its rows wrongly", repair=_RECOMMIT, loss="nothing"),
    example='"cardinality":6 and a vector of five rows',
)
ROW_OUT_OF_RANGE = AREA.rule(
    "dv.row-out-of-range",
    Severity.ERROR,
    Level.FOOTERS,
    "A deletion vector deletes a row that is not in its file.",
    spec=_VECTORS,
    fix=Fix(
        broken="the vector may belong to another file, so the wrong rows may be deleted and deleted rows may reappear",
        repair=_REWRITE,
        loss=_DELETIONS,
    ),
    example="a vector with row 12, of a file of ten rows",
)
