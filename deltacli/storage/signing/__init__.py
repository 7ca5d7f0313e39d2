"""Keys for presigned URLs, and credentials that are limited to one directory.

A Delta Sharing server gives its recipients either presigned URLs of single files (`s3.py`, `gcs.py`, `azure.py` find
the keys; `deltacli.sharing.signing` computes the signatures) or temporary credentials for the directory of a table
(`s3_sessions.py`, `gcs_tokens.py`, `azure_sas.py`).
"""
