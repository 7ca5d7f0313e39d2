"""Amazon S3 and compatible stores, by botocore.

Start with `store.py`. `errors.py` decides for each error of botocore whether the request may have been
executed.
"""
