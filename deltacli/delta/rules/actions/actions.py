"""Rules about the fields of actions and about conflicts between actions.

Each row is next to its checks: the actions that a commit has in `commit_contents`, those that it has twice in
`duplicate_actions`, its provenance in `commit_info`, single file actions in `file_fields`, file actions compared with
each other and with the previous state in `adds_and_removes`, applications and domains in `transactions`.
"""

from __future__ import annotations

from deltacli.delta.rules.actions import adds_and_removes, commit_info, duplicate_actions, file_fields, transactions
from deltacli.delta.rules.actions.commit_contents import AREA

__all__ = ["AREA", "adds_and_removes", "commit_info", "duplicate_actions", "file_fields", "transactions"]
