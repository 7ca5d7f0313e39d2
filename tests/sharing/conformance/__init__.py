"""Tests of `share test`."""
