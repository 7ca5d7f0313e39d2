"""Rules about schemas and how they change."""
