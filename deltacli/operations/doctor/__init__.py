"""Diagnosis of the store of a table: who may do what there, and what the store guarantees."""
