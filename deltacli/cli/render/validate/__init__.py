"""Findings in each format."""
