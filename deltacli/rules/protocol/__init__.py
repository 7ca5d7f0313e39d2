"""Rules about protocols, table features, metadata, table properties, clustering and Iceberg compatibility."""
