"""Allowed differences between clocks and file times before a rule reports them."""

from __future__ import annotations

DAY_MS = 86_400_000

SKEW_MS = 5 * 60_000
"Correctly set clocks (of the store, of a writer, of this machine) differ by less."
