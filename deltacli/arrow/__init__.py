"""The short ways into pyarrow, without the start of its larger modules."""
