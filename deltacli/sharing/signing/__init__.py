"""What the server signs: page, refresh and query tokens, URLs of its own files, and URLs of stores.

`keys` has the secret of the server, `tokens` what only the server checks, `v4` what S3 and GCS check, and `choose` says
which of them a location gets, and has what Azure checks.
"""
