"""Secrets that a test can search for in whatever a run leaves."""

KEY_ID, SECRET, TOKEN, PASSWORD = (
    "AKIAMARKEDKEY0000001",
    "marked+secret/Key==0002",
    "marked/token+0003==",
    "marked-pass:word",
)
MARKED = (KEY_ID, SECRET, TOKEN, PASSWORD)
