"""Write checkpoints, prove them before they are published, verify existing ones, and update the hint.

Start with `checkpoint.py`. A checkpoint is written to a draft, read back, and compared with a
checksum of each column, so that the errors of a failing disk are not published. The top-level file
is published last, then `_last_checkpoint`, which never moves backwards.
"""
