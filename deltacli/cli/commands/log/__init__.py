"""The commands of the group `log`, which maintain `_delta_log` itself: one file per command."""
