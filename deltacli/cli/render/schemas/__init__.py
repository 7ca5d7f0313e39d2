"""Schemas as results: drawn, compared, converted."""
