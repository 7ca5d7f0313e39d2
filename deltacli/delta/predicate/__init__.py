"""The `where` of a scan: SQL text as a predicate over batches, and the files that need not be read because of it.

`parse.parse_predicate` reads a text, and `prune` decides which files and row groups have no matching row. `parse`
describes the language and its differences from Spark.
"""

from __future__ import annotations

from deltacli.delta.predicate.parse import Predicate, parse_predicate

__all__ = ["Predicate", "parse_predicate"]
