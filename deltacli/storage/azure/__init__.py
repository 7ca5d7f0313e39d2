"""Azure Blob Storage, with and without hierarchical namespaces, by its REST API."""
