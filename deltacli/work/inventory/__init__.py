"""Inventories: listings that a store made."""
