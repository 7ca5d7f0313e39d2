"""Rules about type widening: in `widening_entries` what entries say, in `widening_history` how they come and go, in
`widening_files` what data files still need of them.
"""

from __future__ import annotations

from deltacli.delta.rules.widening import files as widening_files
from deltacli.delta.rules.widening import history as widening_history
from deltacli.delta.rules.widening.entries import AREA

__all__ = ["AREA", "widening_files", "widening_history"]
