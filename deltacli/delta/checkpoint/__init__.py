"""Checkpoints: hint, layouts, contents, row groups and pages. Spec: Checkpoints; Last Checkpoint File; V2 Spec."""
