"""The commands of `deltacli fleet`, one module each."""
