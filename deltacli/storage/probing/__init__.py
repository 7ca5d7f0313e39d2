"""Single requests to a store whose answers show what it guarantees and what its caller may do.

Start with `subject.py`. Requests go around retries and guards, which would hide what the store
does.
"""
