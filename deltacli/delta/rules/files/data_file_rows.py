"""The rows of the rules about what data files are; their checks are in `data_files` and the modules it names."""

from __future__ import annotations

from deltacli.delta.rules.framework.base import Area, Fix, Level, Severity

AREA = Area("data_files")

_RESTORE = "restore the object from a backup or an older version of it; else commit a remove of the file"
_REWRITE = "rewrite the file with an engine"

NOT_PARQUET = AREA.rule(
    "data.not-parquet",
    Severity.ERROR,
    Level.FOOTERS,
    "A data file is not a Parquet file, or cannot be read to its end.",
    seed="000: Data Files",
    spec="Format Specification",
    fix=Fix(
        broken="readers of the newest version fail at this file",
        repair=_RESTORE,
        loss="the rows of the file, if there is no backup",
    ),
    example="a file of 1,000 zeros, named part-00001.parquet",
)
ROW_COUNT_ZERO = AREA.rule(
    "data.row-count-zero",
    Severity.INFO,
    Level.FOOTERS,
    "A live file has no rows.",
    spec="Data Files",
    fix=Fix(
        broken="nothing: it costs an opening",
        repair="compact the table with an engine (OPTIMIZE)",
        loss="nothing",
    ),
    example="a Parquet file of 0 rows, added by a writer that had none for a partition",
)
CODEC_UNSUPPORTED = AREA.rule(
    "data.codec-unsupported",
    Severity.WARNING,
    Level.FOOTERS,
    "A data file is compressed with a codec that readers need not know.",
    spec="Table Properties",
    fix=Fix(
        broken="readers without the codec fail at the file",
        repair=_REWRITE,
        loss="nothing",
    ),
    example="a column chunk with the codec BROTLI",
)
TYPE_MISMATCH = AREA.rule(
    "data.type-mismatch",
    Severity.ERROR,
    Level.FOOTERS,
    "A column of a data file has a type that is not a form of the column's type in the table.",
    seed="000: Consistency Between Table Metadata and Data Files",
    spec="Delta Data Type to Parquet Type Mappings",
    fix=Fix(
        broken="readers fail at the file, or read wrong values",
        repair=_REWRITE,
        loss="nothing, if an engine can read the file",
    ),
    example="a column of BYTE_ARRAY (STRING) in a file, long in the table",
)
TYPE_WIDENING_UNRECORDED = AREA.rule(
    "data.type-widening-unrecorded",
    Severity.ERROR,
    Level.FOOTERS,
    "A column of a data file has a narrower type than the table, and no recorded type change explains it.",
    seed="004: Type Widening",
    spec="Type Widening",
    fix=Fix(
        broken="readers that do not expect the narrower type fail at the file, or read wrong values",
        repair="commit a metaData that records the change in delta.typeChanges, or rewrite the file with an engine",
        loss="nothing",
    ),
    example="a column of INT32 in a file, long in the table, without delta.typeChanges",
)
DECIMAL_MISMATCH = AREA.rule(
    "data.decimal-mismatch",
    Severity.ERROR,
    Level.FOOTERS,
    "A decimal column of a data file has digits that the table's decimal has no room for.",
    spec="Delta Data Type to Parquet Type Mappings",
    fix=Fix(
        broken="readers fail at the file, or read wrong values",
        repair=_REWRITE,
        loss="digits that the table's type does not have",
    ),
    example="DECIMAL(12,4) in a file, decimal(10,2) in the table",
)
TIMESTAMP_NOT_UTC = AREA.rule(
    "data.timestamp-not-utc",
    Severity.ERROR,
    Level.FOOTERS,
    "A timestamp column of a data file is not adjusted to UTC, or a timestamp_ntz column is.",
    spec="Primitive Types",
    fix=Fix(
        broken="readers take the values for times in another zone, or fail",
        repair=_REWRITE,
        loss="nothing, if the zone is known",
    ),
    example="TIMESTAMP(isAdjustedToUTC=false) in a file, timestamp in the table",
)
TIMESTAMP_UNIT = AREA.rule(
    "data.timestamp-unit",
    Severity.WARNING,
    Level.FOOTERS,
    "A timestamp column of a data file is not stored in microseconds.",
    spec="Delta Data Type to Parquet Type Mappings",
    fix=Fix(
        broken="some readers fail at the file; parts of microseconds are cut off",
        repair=_REWRITE,
        loss="parts of microseconds",
    ),
    example="TIMESTAMP(NANOS) in a file; INT96, where Iceberg compatibility asks for INT64",
)
COLUMN_MISSING = AREA.rule(
    "data.column-missing",
    Severity.INFO,
    Level.FOOTERS,
    "A column of the table is absent from a data file.",
    seed="000: Consistency Between Table Metadata and Data Files",
    spec="Consistency Between Table Metadata and Data Files",
    fix=Fix(
        broken="nothing: it is read as null, which a NOT NULL column must not be",
        repair=_REWRITE,
        loss="nothing",
    ),
    example="a file from before ALTER TABLE … ADD COLUMN",
)
COLUMN_UNKNOWN = AREA.rule(
    "data.column-unknown",
    Severity.INFO,
    Level.FOOTERS,
    "A data file has a column that the table does not have.",
    seed="000: Consistency Between Table Metadata and Data Files",
    spec="Consistency Between Table Metadata and Data Files",
    fix=Fix(
        broken="nothing: no reader uses it",
        repair=_REWRITE,
        loss="the values of the column",
    ),
    example="a column __index_level_0__ that a data frame brought along",
)
VOID_MATERIALISED = AREA.rule(
    "data.void-materialised",
    Severity.WARNING,
    Level.FOOTERS,
    "A column of the type void is stored in a data file.",
    spec="Primitive Types: Void Type",
    fix=Fix(
        broken="readers differ: some drop the column, some fail",
        repair=_REWRITE,
        loss="the values, which no reader uses",
    ),
    example="a column in a file, void in the table",
)
REQUIRED_MISMATCH = AREA.rule(
    "data.required-mismatch",
    Severity.WARNING,
    Level.FOOTERS,
    "A column that must not be null has nulls, as the footer of a data file counts them.",
    spec="Struct Field",
    fix=Fix(
        broken="readers that rely on it fail at the file, or read wrong values",
        repair="update the rows with an engine, or let the column be null",
        loss="nothing",
    ),
    example="null_count 3 of a column with nullable=false",
)
PARTITION_COLUMN_MISSING = AREA.rule(
    "data.partition-column-missing",
    Severity.ERROR,
    Level.FOOTERS,
    "A partition column is absent from a data file, and the table demands that files have it.",
    spec="Iceberg Compatibility V1; Iceberg Compatibility V2",
    fix=Fix(
        broken="Iceberg readers, which know no partition values of Delta, find none",
        repair=_REWRITE,
        loss="nothing",
    ),
    example="a file without the column p in a table partitioned by p, with delta.enableIcebergCompatV2",
)
NESTED_LAYOUT = AREA.rule(
    "data.nested-layout",
    Severity.INFO,
    Level.FOOTERS,
    "A list or a map of a data file has a layout of old writers.",
    spec="Delta Data Type to Parquet Type Mappings",
    fix=Fix(
        broken="nothing for readers that know the layout; without its annotation a list or a map is not known as one",
        repair=_REWRITE,
        loss="nothing",
    ),
    example="optional group a (LIST) { repeated int64 array; }",
)
CASE_MISMATCH = AREA.rule(
    "data.case-mismatch",
    Severity.WARNING,
    Level.FOOTERS,
    "A column of a data file has the name of the table's column in another case.",
    spec="Schema Serialization Format",
    fix=Fix(
        broken="readers that compare names exactly read null",
        repair=_REWRITE,
        loss="nothing",
    ),
    example="a column ID in a file, id in the table",
)
ENCRYPTED = AREA.rule(
    "data.encrypted",
    Severity.WARNING,
    Level.FOOTERS,
    "A data file is encrypted.",
    spec="Format Specification",
    fix=Fix(
        broken="readers without the keys fail at the file; nothing more is checked of it",
        repair="no repair needed, if readers have the keys; else rewrite the file with an engine that has them",
        loss="nothing",
    ),
    example="a file that ends with PARE",
)
VARIANT_SHAPE = AREA.rule(
    "data.variant-shape",
    Severity.ERROR,
    Level.FOOTERS,
    "A variant column of a data file is not a struct of metadata and value, is shredded without the feature, or "
    "contradicts itself.",
    spec="Variant Data Type; Variant Shredding",
    fix=Fix(
        broken="readers fail at the file, or lose what is shredded; nothing, if only the property is off",
        repair=_REWRITE,
        loss="nothing",
    ),
    example="a variant column with the fields metadata, value and typed_value, without variantShredding",
)
