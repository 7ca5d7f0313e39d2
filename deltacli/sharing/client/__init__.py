"""The client of Delta Sharing: reads what others share, over HTTP, and trusts nothing that a server answers.

Start with `client.py`, the Python API. `share_storage.py` presents a shared table as a read-only
store, so that the ordinary reader of tables works on it; `transport.py` sends the requests.
"""
