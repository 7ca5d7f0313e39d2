"""What can be done to a table: one module per operation, values out, nothing printed."""
