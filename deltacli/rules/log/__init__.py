"""Rules about the files of the log and their history.

Most ids begin with `amt`, `catalog`, `commit`, `compaction`, `crc`, `hint`, `history`, `ict` or `log`.
"""
