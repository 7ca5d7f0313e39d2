"""Open a table, rebuild a version, travel in time: the way from a path to the state of a table.

Start with `rebuild.py`, which every command goes through, and follow its four steps: `find_log.py`,
`replay.py`, the checkpoint, `version.py`. The words of this package:

    log listing            the files of `_delta_log` with a version in their names (`find_log.ListedLog`)
    hint                   `_last_checkpoint`: where a listing may begin, never an authority
    log segment            the checkpoint and the commits that a version is rebuilt from
    replay                 reconciling commits, newest first (`replay.ReplayedCommits`)
    decided file           a file that a newer commit adds or removes: older actions for it are dropped
    snapshot               the state of a table at one version (`version.Snapshot`)
    file actions           adds and removes; after reconciliation live files and tombstones
    logical file           a data file with its deletion vector; its key is path and id of the vector
    narrow columns         path, vector id, size and row count of file actions, without statistics
    piece                  a row group of a checkpoint, the unit of reading it
    enablement             the version from which on in-commit timestamps count
    version from checksum  the summary of a version, read from its `.crc` file instead of a replay

What is built on a snapshot: rows (`scan.py`), needed and missing files (`needed_files.py`), the history of
files over all commits (`file_history.py`), files that engines read differently (`ambiguous_files.py`), the
walk over the directory of the table (`walk.py`), constraints on rows (`constraints.py`). Tables at and
below a path are found by `discover.py`. `handle.py` is what every operation gets: store, engine, clock and
progress. Nothing here changes a table.
"""
