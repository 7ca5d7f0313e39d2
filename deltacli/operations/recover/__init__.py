"""Files of a table that are missing: what a version needs, where else a file is, and putting it back.

Start with `undelete.py`. A file is put back only with a proof that it belongs there
(`deltacli.changing.proofs`).
"""
