"""Paimon tables."""
