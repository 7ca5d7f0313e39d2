"""Read the state of a Delta table: find its log, rebuild a version, and read files and rows of the version.

Start with `rebuild.py`, which every command uses. It rebuilds a version in four steps:

1. `find_log.py` lists `_delta_log`, starting at the checkpoint that `_last_checkpoint` refers to.
2. The newest usable checkpoint and the commits after it are chosen. They are called the log segment.
3. `replay.py` reconciles these commits, newest first.
4. The checkpoint is opened. The result is a `Snapshot` (`version.py`).

Terms of this package that the Delta protocol does not define:

    hint                   the file `_last_checkpoint`
    superseded             older actions for a file are superseded if a newer commit adds or removes the file
    file action            an add or a remove; after reconciliation a live file or a tombstone
    logical file           a data file together with its deletion vector
    key                    identifies a logical file: path and deletion vector id, or a hash of them
    narrow batch           path, deletion vector id, size and row count of file actions, without statistics
    piece                  a row group of a checkpoint, the unit of parallel reading
    spelling               one of several paths of the same file, such as `a.parquet` and `./a.parquet`
    version from checksum  the state of a version according to its `.crc` file, without a replay
    enablement             the version from which on in-commit timestamps are valid

A snapshot is the input of the other modules: `scan.py` reads rows, `file_actions.py` reads live
files and tombstones, `needed_files.py` and `missing_files.py` find files in storage,
`file_history.py` compares all commits with a version, `ambiguous_files.py` finds files that engines
read differently, `constraints.py` checks rows, and `walk.py` lists the table directory.

`discover.py` finds tables below a path, and `handle.py` defines the handle that all operations
receive. Nothing in this package changes a table.
"""
