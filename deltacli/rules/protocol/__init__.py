"""Rules about protocols, table features, metadata and table properties."""
