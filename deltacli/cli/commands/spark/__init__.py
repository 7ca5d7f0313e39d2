"""Commands for running deltacli on a Spark cluster."""
