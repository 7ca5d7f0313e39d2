"""Commands of `deltacli catalog`, for tables of Unity Catalog."""
