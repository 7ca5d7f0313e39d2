"""Rules about type widening. Entries are in `widening_entries`, their changes over versions in `widening_history`, and
what data files still need of them in `widening_files`.
"""

from __future__ import annotations

from deltacli.delta.rules.widening import files as widening_files
from deltacli.delta.rules.widening import history as widening_history
from deltacli.delta.rules.widening.entries import AREA

__all__ = ["AREA", "widening_files", "widening_history"]
