"""List, classify and delete the files below a table.

Start with `classifying.py`, the task of vacuum that lists a directory. `deleting.py` deletes a batch
of files within the time that `permits.py` allows.
"""
