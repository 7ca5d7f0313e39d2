"""The log: names of its files, which of them rebuild a version, their actions, and action reconciliation."""
