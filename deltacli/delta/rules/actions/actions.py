"""Rules about the fields of actions and about conflicts between actions.

Each row is next to its checks: whole commits in `commit_contents`, single file actions in `file_fields`, file actions
compared with each other and with the previous state in `file_changes`, applications and domains in `transactions`.
"""

from __future__ import annotations

from deltacli.delta.rules.actions import file_changes, file_fields, transactions
from deltacli.delta.rules.actions.commit_contents import AREA

__all__ = ["AREA", "file_changes", "file_fields", "transactions"]
