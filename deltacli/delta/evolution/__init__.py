"""Changes of a Delta table's schema and metadata: requests, what they make of a table, and what forbids them."""
