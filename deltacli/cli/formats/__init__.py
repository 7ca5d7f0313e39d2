"""Formats of stdout that need more than their row in `deltacli.cli.results`."""
