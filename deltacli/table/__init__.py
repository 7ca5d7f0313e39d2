"""Open a table, rebuild its versions, and read what all operations need: rows, files, what is around.

A version is rebuilt in five steps: `find_log.py` lists the log from the checkpoint hint on,
`deltacli.delta.log.segment` chooses a checkpoint and the commits after it, `replay.py` reads these
commits (newest first, the first action for a key decides), then the small actions of the checkpoint
are read, and `version.py` streams its file actions in columns. Start with `rebuild.py`. Nothing
here changes a table.
"""
