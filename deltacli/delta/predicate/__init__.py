"""The `where` of a scan: SQL text as a predicate over batches, and what can be left unread because of it.

`parse.parse_predicate` reads a text, `prune` says which files and row groups hold no row that it keeps. What the
language is, and where it differs from Spark's, stands in `parse`.
"""

from __future__ import annotations

from deltacli.delta.predicate.parse import Predicate, parse_predicate

__all__ = ["Predicate", "parse_predicate"]
