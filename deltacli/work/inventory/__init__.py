"""Inventories: listings made by a store."""
