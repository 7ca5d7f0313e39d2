"""Write results of commands to stdout or a file: results, columns, and formats.

A command returns a `Result` (`results.py`), which has a document, lines, rows and sections. A format (`formats.py`) is
a function that writes any result to a stream: text for people (`text_tables.py`, `sections.py`, drawn on a `Surface`),
JSON (`documents.py`), CSV, Markdown, Parquet, a template, and the reports of findings for other programs. Columns are
declared once as `Column` (`columns.py`), which serves all of them. `destination.py` opens the stream.
"""
