"""Facts of many tables as frames, and the care of a table from a job."""
