"""Names of shares, schemas and tables. Spec: Delta Sharing, Names."""

from __future__ import annotations

LONGEST_NAME = 255
"""The number of characters that a name may have."""
