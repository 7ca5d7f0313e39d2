"""Changing a schema: what is asked for, and the schema that follows."""
