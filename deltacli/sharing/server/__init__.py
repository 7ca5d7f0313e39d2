"""The server of Delta Sharing: an ASGI application on Starlette, and uvicorn to run it.

Start with `application.py`, which has the routes. Before a request gets there it passes
`connections.py` (size, time, TLS) and `guard.py` (token, grants, limits). No other package imports
Starlette or uvicorn.
"""
