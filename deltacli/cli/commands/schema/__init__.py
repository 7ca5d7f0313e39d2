"""The commands of the group `schema`, which show, compare and convert schemas of both formats."""
