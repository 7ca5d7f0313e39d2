"""What lies in and around a table: listings, links, other tables."""
