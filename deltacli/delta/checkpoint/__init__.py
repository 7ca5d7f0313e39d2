"""Checkpoints: layouts, contents, row groups and pages. Spec: Checkpoints; V2 Spec."""
