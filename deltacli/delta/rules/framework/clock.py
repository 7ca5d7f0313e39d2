"""How far clocks and file times may be apart before a rule says so."""

from __future__ import annotations

DAY_MS = 86_400_000

SKEW_MS = 5 * 60_000
"""Two clocks that are set right differ by less: the store's, a writer's, ours."""
