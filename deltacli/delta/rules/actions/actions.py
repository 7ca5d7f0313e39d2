"""Rules about the fields of actions and what actions do to each other.

The rows stand with their checks: commits as a whole in `commit_contents`, single file actions in `file_fields`, file
actions against each other and against the state before in `file_changes`, applications and domains in `transactions`.
"""

from __future__ import annotations

from deltacli.delta.rules.actions import file_changes, file_fields, transactions
from deltacli.delta.rules.actions.commit_contents import AREA

__all__ = ["AREA", "file_changes", "file_fields", "transactions"]
