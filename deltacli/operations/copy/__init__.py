"""`copy`: a proven copy of a table elsewhere, made once, or a replica that is brought up to date.

Start with `plan.py`, which only reads; `execute.py` copies the data first and then the log in its
order.
"""
