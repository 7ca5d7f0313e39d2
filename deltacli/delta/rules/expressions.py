"""Rules about SQL that a table keeps: in `expression_texts` whether it can work at all, in `identity_columns` about
columns that count, in `generated_partitions` about partition values that an expression makes.
"""

from __future__ import annotations

from deltacli.delta.rules import generated_partitions, identity_columns
from deltacli.delta.rules.expression_texts import AREA

__all__ = ["AREA", "generated_partitions", "identity_columns"]
