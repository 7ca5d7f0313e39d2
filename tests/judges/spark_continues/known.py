"""Differences between what Spark says before and after a change of deltacli that are explained.

A case is named `CHANGE/TABLE`. An entry of the page of faults is named by its letter and number.
"""

from __future__ import annotations

from tests.judges.answers import KnownDifference

KNOWN: tuple[KnownDifference, ...] = ()
