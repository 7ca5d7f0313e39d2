"""What every rule is based on: the catalogue, the rows, and the views that checks look at.

Start with `base.py`. `views.py` has the views of the log, and `repairs.py` says what a finding
means for the table.
"""
