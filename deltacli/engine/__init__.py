"""Who runs the pieces of work: threads of this process, or executors of a cluster."""
