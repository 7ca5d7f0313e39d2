"""Runs pieces of work: in threads of this process, or in executors of a cluster."""
