"""The care of many tables by a policy file: `deltacli fleet`."""
