"""Rules about per-file statistics: their form, and whether footers and rows agree with them.

`evidence.py` derives what is certain about a column from footers or rows; the rules compare it with
the log.
"""
