"""`fleet.toml`: groups of tables, and the policies that apply to them."""
