"""Do what is due: the journal, the leases, the steps, and the run over all tables.

Start with `steps.py`, which has one step per operation, and `journal.py`, from which an interrupted
run continues.
"""
