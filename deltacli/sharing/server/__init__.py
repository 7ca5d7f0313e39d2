"""The server of Delta Sharing: an ASGI application on Starlette, and uvicorn to run it."""
