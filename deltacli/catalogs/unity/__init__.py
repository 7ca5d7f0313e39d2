"""Unity Catalog: its addresses, its interface over HTTP, and tables opened by their names."""
