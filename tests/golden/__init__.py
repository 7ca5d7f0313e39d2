"""Golden runs: what every command that changes a table says and does, run by run, in files that a person reads in a
diff.
"""
