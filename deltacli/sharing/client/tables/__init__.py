"""Shared tables as stores: a log that is made here, data files behind URLs."""
