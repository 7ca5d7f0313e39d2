"""Writing checkpoints, verifying them, and updating the hint."""
