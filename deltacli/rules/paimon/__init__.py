"""The rules of `validate` for Paimon tables, by area."""
