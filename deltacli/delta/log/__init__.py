"""The log: names of its files and its hint, which of them rebuild a version, their actions, action reconciliation."""
