"""Write the results of commands to stdout or to a file, in the format of `--format`.

A command returns a `Result` (`results.py`). It can be converted to a JSON document, lines of NDJSON, rows, and labelled
sections of text. A `Format` (`formats.py`) is a function that writes any result to a stream:

    table                  text for people     text_tables.py, sections.py, surface.py
    json, ndjson           documents.py
    csv, markdown          csv_rows.py, markdown.py
    sarif, junit, github   findings of `validate` for code scanning and CI servers
    parquet                rows of a table
    --template             template.py

`columns.py` declares the columns of rows for all formats. `destination.py` opens the stream.
"""
