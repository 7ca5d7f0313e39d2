"""Rules about partition values and partition directories."""
