"""Doing what is due: the journal, the leases, the steps and the run."""
