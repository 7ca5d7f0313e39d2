"""Handle the terminal, the standard streams and signals.

`stderr.py` writes messages, and `progress.py` shows the progress of the running operation below them.
`capabilities.py` detects the width and colours of stdout, and `pager.py` shows long results in a pager.
`signals.py` ends the run on Ctrl-C. `suggested_commands.py` formats commands that messages suggest, and
`typed_secrets.py` masks the secrets in them.
"""
