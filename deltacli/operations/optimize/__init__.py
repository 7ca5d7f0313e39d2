"""Compact the data files of a table, sort or cluster rows, and purge deleted rows and dropped columns.

Start with `plan.py`, which packs files into bins. `execute.py` sends the bins to
`deltacli.work.rewrite` and commits group by group; each commit follows the one before without
reading the table again.
"""
