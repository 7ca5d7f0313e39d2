"""Commands of `deltacli fleet`, which maintain many tables by a policy file."""
