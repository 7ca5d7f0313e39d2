"""What the server signs: page, refresh and query tokens, URLs of its own files, and URLs of stores.

`keys` has the secret of the server, `tokens` and `local` what only the server checks, `s3`, `gcs` and `azure` what the
stores check, and `choose` which of them a location gets.
"""
