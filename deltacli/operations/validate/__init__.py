"""`validate`: read a table once and check it against the rules of the catalogue.

Replay stops at the first error; this walk continues, and therefore reads the log itself. Start with
`validate.py`, then `inspect_log.py`: versions in ascending order, and at each version that has a
checkpoint or a checksum, the comparison with it. `inspect_files.py` reads footers and rows at the
levels that need them. Rules are in `deltacli.rules`.
"""
