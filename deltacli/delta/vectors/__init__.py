"""Deletion vectors: descriptors and bitmaps."""
