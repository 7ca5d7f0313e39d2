"""Rules about SQL that a table keeps: in `expression_texts` whether it can work at all, in `identity_columns` about
columns that count, in `generated_partitions` about partition values that an expression makes, in `expression_rows`
whether rows satisfy it.
"""

from __future__ import annotations

from deltacli.delta.rules.expressions import generated_partitions, identity_columns, identity_values
from deltacli.delta.rules.expressions import rows as expression_rows
from deltacli.delta.rules.expressions.texts import AREA

__all__ = ["AREA", "expression_rows", "generated_partitions", "identity_columns", "identity_values"]
