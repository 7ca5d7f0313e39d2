"""`deltacli catalog`: tables of Unity Catalog."""
