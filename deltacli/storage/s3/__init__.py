"""Amazon S3 and compatible stores, with botocore.

Start with `store.py`, which opens a store. `errors.py` decides for each error of botocore whether the request may have
been executed.
"""
