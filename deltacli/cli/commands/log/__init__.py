"""The commands of the group `log`, which care for `_delta_log` itself: one file per command."""
