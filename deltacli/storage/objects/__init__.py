"""The parts of the cloud stores that S3, Google Cloud Storage and Azure have in common.

`calls.py` defines `ObjectCalls`, the requests that each cloud implements. `store.py` builds the storage interface
on these requests. Creating an object is the critical one: the request carries a condition and is sent once. If its
response is lost, the caller reads the object back (`conditional.py`).
"""
