"""`share test`: checks any Delta Sharing server against the text of the protocol, with read-only requests.

Start with `run.py`. `wire.py` sends requests without retries or redirects, so that the rules see
what the server does.
"""
