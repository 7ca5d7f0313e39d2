"""Paths of a log: the spellings of one file, which engine reads which, and what is in doubt.

The log names a file by a URI, percent-encoded once, relative to the table or absolute. One file has many spellings:

    spelling                 of the file `c=a b/ä.parquet` in /t     function               does it mean the file?
    as written, encoded once c=a%20b/%C3%A4.parquet                  `encode`               yes, by the protocol
    decoded once             c=a b/ä.parquet                         `decode`               its name on the store
    not normalized           ./c=a%20b//%C3%A4.parquet               `canonicalize_path`            yes
    absolute                 file:///t/c=a%20b/%C3%A4.parquet        `locate`, `resolve_file_names` yes
      with another scheme    file:/t/… and /t/…; s3a: beside s3:     `canonicalize_path`            yes
      as Hadoop prints it    file:/t/c=a%20b/ä.parquet               `spell_as_hadoop`      yes
    never encoded            c=a b/ä.parquet                         `PathKeys`             if no file has the name
    encoded twice            c=a%2520b/%25C3%25A4.parquet            `other_readings`       in doubt
    encoded as in a form     c=a+b/ä.parquet                         `common_spelling`      in doubt
    folded, or decomposed    C=A B/Ä.parquet                         `common_spelling`      in doubt

An engine that finds two spellings in one log may see one file or two:

    engine                                       a path is compared                      ./a.parquet beside a.parquet
    deltacli, Delta for Spark                    decoded and normalized                  one file
    Delta Kernel for Java                        the same, removes first in a commit     one file
    deltalake, DuckDB, polars, chDB (on Rust)    as text                                 two files
    each of them                                 absolute and relative ones differ       (two files)

Which engines refuse or misread a table because of a single path is measured: `EFFECTS` in `rules/framework/engines.py`.

What is in doubt is kept and never settled silently: a vacuum does not delete it, a rewrite leaves it alone, what would
choose a reading for other engines is refused. Ask

    `spelling`         what a path means: its name, its normal form, whether and where it is in the table
    `keys`             which files of a listing a log may need, in all readings of its paths (millions, as hashes)
    `lookalikes`       whether a file may be one that is missing under its name
    `engine_readings`  what engines read of a file that a log names by several spellings
    `hadoop`           how Hadoop prints an absolute path, which statements of Spark compare as text

`table/ambiguous_files.py` applies `engine_readings` to a version. URIs of stores are those of `deltacli.storage`: that
of a local directory is percent-encoded (`file:///a%20b`), names on object stores are plain (`s3://bucket/a b`).

Spec: Add File and Remove File (RFC 2396); Action Reconciliation; Partition Value Serialization.
"""
