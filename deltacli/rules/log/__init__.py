"""Rules about the files of the log and their history.

Ids begin with `log`, `commit`, `hint`, `crc`, `ict`, `compaction` or `catalog`.
"""
