"""The Python API: `Table` and what opens one, above every operation."""
