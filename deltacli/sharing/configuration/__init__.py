"""The configuration of a sharing server: what is shared, who may read it, and how it is served.

Start with `keys.py`, which declares every key of `shares.yaml` once; `shares_yaml.py` reads the
file into the values of `settings.py`. `recipients.py` has the file of recipients and tokens, and
`share_check.py` opens every shared table.
"""
