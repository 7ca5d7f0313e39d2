"""Fuzzing deltacli: a module per target below `targets`, an engine of byte mutations, and a mode guided by coverage."""
