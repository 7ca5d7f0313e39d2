"""Commands of `deltacli spark`, which prepare a Spark cluster."""
