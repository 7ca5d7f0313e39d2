"""Paimon (Java) goes on with tables that deltacli has changed."""
