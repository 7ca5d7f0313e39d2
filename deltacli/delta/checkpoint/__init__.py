"""Checkpoints: the hint that names the last one, and the columns they hold. Spec: Checkpoints; Last Checkpoint File."""
