"""Schemas across formats: reading them at a point, comparing and converting them."""
