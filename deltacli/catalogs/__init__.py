"""Catalogs that manage tables: what a table's name means, credentials for its files, and who decides its versions."""
