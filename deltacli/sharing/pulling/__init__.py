"""Pulling: verified local copies of shared tables that later pulls continue."""
