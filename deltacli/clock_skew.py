"""How far clocks may be apart before a time counts as wrong: the tolerances of rules and of guards."""

from __future__ import annotations

CLOCK_SKEW_MS = 5 * 60_000
"Correctly set clocks (of the store, of a writer, of this machine) differ by less."

WRITER_SKEW_MS = 60 * 60_000
"Allowed for times that writers put into actions, since their clocks are often not synchronized."
