"""Rules about type widening: in `widening_entries` what entries say, in `widening_history` how they come and go, in
`widening_files` what data files still need of them.
"""

from __future__ import annotations

from deltacli.delta.rules import widening_files, widening_history
from deltacli.delta.rules.widening_entries import AREA

__all__ = ["AREA", "widening_files", "widening_history"]
