"""Single requests to a store whose answers show what it guarantees and what its caller may do."""
